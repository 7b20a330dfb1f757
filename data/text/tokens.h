/* tokens.h: files of token ids, read in place with pread: llm.c's for GPT-2 (header of 256 int32:
 * 20240520, 1, n; then uint16) and for Llama 3 (20240801, 7, n; then uint32), and files without a
 * header, as nanoGPT's (plain uint16, or uint32). Writes llm.c's two: the narrower one where all
 * ids fit. Each MiB of file has a CRC32C: taken at first use, checked at every later read if the
 * caller hands the sums in (they are kept in run.db). */
#pragma once

#include "data/base/append.h"
#include "data/base/watch.h"

/* How a file of data is to be taken (--data-format). As it looks: llm.c's tokens by their header;
 * a text; ids without a header only where the name ends in .bin, which are uint16, or uint32 where
 * the vocabulary has more than 65,536. TOKENS_TEXT: also a text that looks like JSON. */
enum tokens_format { TOKENS_AUTO, TOKENS_TEXT, TOKENS_U16, TOKENS_U32 };
const char *tokens_format_name(size_t format); // auto, text, u16, u32; NULL past the last

/* What such a file is: *width gets the bytes of an id, 0 for a text (the whole file is looked at,
 * in pieces). Anything else is refused by its name (file_kind.h), and so are ids that are wider
 * than they would be read. */
int tokens_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                  const struct watch *watch, struct err *err);

/* An open token file. Others may read path and count; the rest is tokens.c's. */
struct tokens {
    char          *path;
    uint64_t       count;    // of ids
    int            fd;
    uint64_t       size;     // bytes of the file
    uint64_t       data_off; // of id 0
    unsigned       width;    // bytes of an id
    struct mib    *mibs;     // what is expected of each MiB; NULL: unchecked
    unsigned char *mib;      // buffer of one
    uint64_t       held;     // what of the file is in it, as expected
    size_t         held_bytes;
};

/* Whether a file that begins with these bytes was written by tokens_writer_commit: llm.c's own have
 * nothing behind the count. */
int tokens_ours(const void *head, size_t n);

/* Opens a file of ids; width: of one, in bytes, where no header says it (2 or 4). A size that
 * disagrees with the header is refused with both numbers. */
int  tokens_open(struct tokens **out, const char *path, unsigned width, struct err *err);
void tokens_close(struct tokens *t);

/* Checksums of the file per MiB: tokens_hash fills sums[0..tokens_sums(t)) by reading everything
 * once; tokens_expect hands in the recorded ones (copied): from then on all that tokens_read gives
 * was compared after it was read, each time anew: a MiB whole when it is first touched, then the
 * 64 KiB around. tokens_verify compares MiB i. */
size_t tokens_sums(const struct tokens *t);
int    tokens_hash(struct tokens *t, uint32_t *sums, const struct watch *watch, struct err *err);
int    tokens_expect(struct tokens *t, const uint32_t *sums, size_t n, struct err *err);
int    tokens_verify(struct tokens *t, size_t i, struct err *err);

/* ids[0..n) from position `first`; an id >= vocab (at most INT32_MAX) is refused, naming file and
 * position. Past the end is an error. */
int tokens_read(struct tokens *t, uint64_t first, size_t n, size_t vocab, int32_t *ids,
                struct err *err);

/* Write a llm.c file under a temporary name in the same folder, renamed on commit: of uint16 ids
 * for a vocabulary of up to 65,536, of uint32 for a larger one (at most INT32_MAX). Who has opened
 * it calls append_close(&w->ids), which removes what was not committed, and accepts the zero
 * state. */
struct tokens_writer {
    struct append             ids;
    uint64_t                  count;
    size_t                    vocab;
    const struct llmc_format *format;
};
int tokens_writer_open(struct tokens_writer *w, const char *path, size_t vocab, struct err *err);
/* An id that is not below the vocabulary is refused. */
int tokens_writer_add(struct tokens_writer *w, const int32_t *ids, size_t n, struct err *err);
/* fsync, rename, fsync of the folder. */
int tokens_writer_commit(struct tokens_writer *w, struct err *err);

/* The rows of a training step: micro-batch a (0..accum) of step s, into x[rows*seq] and targets
 * y[rows*seq]. Sequential: rows one after the other from ((s*accum + a)*batch)*seq, wrapping to 0
 * when the next row does not fit. Shuffled: rows of `seq` tokens at multiples of seq; each epoch a
 * permutation by (seed, epoch) of all floor((count-1)/seq) rows. */
struct tokens_order { int shuffled; uint64_t seed; size_t batch, seq, grad_accum; };
/* Which of `rows` rows is the number-th of a training. */
uint64_t tokens_row(const struct tokens_order *o, uint64_t rows, uint64_t number);
int tokens_batch(struct tokens *t, const struct tokens_order *o, uint64_t step, size_t accum,
                 size_t vocab, int32_t *x, int32_t *y, struct err *err);
