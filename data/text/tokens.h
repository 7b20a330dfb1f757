/* tokens.h: files of token ids, read in place with pread. It reads llm.c's files for GPT-2
 * (header of 256 int32: 20240520, 1, n; then uint16) and for Llama 3 (20240801, 7, n; then
 * uint32). It also reads files without a header, as nanoGPT's (uint16 or uint32). It writes
 * llm.c's two formats: uint16 if all ids fit, or else uint32.
 *
 * Each MiB of a file has a CRC32C, which is kept in run.db. It is computed at first use. Later
 * reads are checked if the caller passes the sums in. */
#pragma once

#include "data/base/append.h"
#include "data/base/watch.h"

/* How to read a data file (--data-format). TOKENS_AUTO recognizes llm.c's files by their header,
 * and texts. Ids without a header need a name that ends in .bin: they are uint16, or uint32 if
 * the vocabulary has more than 65,536. With TOKENS_TEXT, what looks like JSON is a text. */
enum tokens_format { TOKENS_AUTO, TOKENS_TEXT, TOKENS_U16, TOKENS_U32 };
const char *tokens_format_name(size_t format); // auto, text, u16, u32; NULL past the last

/* Finds the kind of a data file. *width gets the bytes of an id, or 0 for a text, rows of JSON, or
 * a packed file, which tokenise_files looks into. The whole file is read, in pieces. Any other
 * format is refused by its name (file_kind.h). Ids wider than the width chosen for them are
 * refused, too. */
int tokens_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                  const struct watch *watch, struct err *err);

/* An open token file. Callers read only path and count; the rest is private to tokens.c. */
struct tokens {
    char          *path;
    uint64_t       count;    // number of ids
    int            fd;
    uint64_t       size;     // bytes of the file
    uint64_t       data_off; // offset of id 0
    unsigned       width;    // bytes of an id
    struct mib    *mibs;     // expected checksums of each MiB; NULL: unchecked
    unsigned char *mib;      // buffer of one MiB
    uint64_t       held;     // offset of the checked bytes in the buffer
    size_t         held_bytes;
};

/* Returns whether tokens_writer_commit wrote the file that begins with these bytes. llm.c's own
 * files have nothing behind the count. */
int tokens_ours(const void *head, size_t n);

/* Opens a file of ids. `width` is the bytes of an id (2 or 4) if no header gives it. If the size
 * disagrees with the header, the file is refused with both numbers. Caller closes *out. */
int  tokens_open(struct tokens **out, const char *path, unsigned width, struct err *err);
void tokens_close(struct tokens *t);

/* Checksums of the file, one per MiB; tokens_sums returns their number. tokens_hash reads the
 * whole file and fills sums[0..tokens_sums(t)). tokens_expect passes recorded checksums in,
 * which are copied. From then on, tokens_read checks the data of each read: a whole MiB when it
 * is first touched, later the 64 KiB around. tokens_verify checks MiB i. */
size_t tokens_sums(const struct tokens *t);
int    tokens_hash(struct tokens *t, uint32_t *sums, const struct watch *watch, struct err *err);
int    tokens_expect(struct tokens *t, const uint32_t *sums, size_t n, struct err *err);
int    tokens_verify(struct tokens *t, size_t i, struct err *err);

/* Reads ids[0..n) from position `first`. An id >= vocab (at most INT32_MAX) is refused with file
 * and position. Reading past the end is an error. */
int tokens_read(struct tokens *t, uint64_t first, size_t n, size_t vocab, int32_t *ids,
                struct err *err);

/* Writes a llm.c file under a temporary name in the same folder, and renames it on commit. Ids
 * are uint16 for a vocabulary of at most 65,536, or uint32 for a larger one (at most INT32_MAX).
 * After tokens_writer_open, the caller calls append_close(&w->ids), which removes a file that
 * was not committed. append_close accepts the zero state. */
struct tokens_writer {
    struct append             ids;
    uint64_t                  count;
    uint32_t                  sum; // CRC32C of the ids as they are stored
    size_t                    vocab;
    const struct llmc_format *format;
    uint64_t                  saves;
};
int tokens_writer_open(struct tokens_writer *w, const char *path, size_t vocab, struct err *err);
/* Appends n ids. An id that is not below the vocabulary is refused. */
int tokens_writer_add(struct tokens_writer *w, const int32_t *ids, size_t n, struct err *err);
/* Makes all ids durable. */
int tokens_writer_flush(struct tokens_writer *w, struct err *err);
/* Completes the file: fsync, rename, fsync of the folder. */
int tokens_writer_commit(struct tokens_writer *w, struct err *err);

/* An unfinished file may be gone on with after a kill. tokens_writer_save makes all ids durable,
 * and then the caller's state next to them, state[0..TOKENS_STATE). tokens_writer_find opens a file
 * that a dead process of this user left for `path`, if `fits` accepts its last state; it returns 1,
 * or 0 if there is none. tokens_writer_cut then takes the ids behind the first `count` away;
 * -EBADMSG without a sentence: these have another checksum than `sum`.
 * tokens_writer_keep closes the unfinished file and leaves it where it is.
 * tokens_writer_finish completes a file of a dead process whose `count` ids, of this checksum, were
 * all flushed, whatever its header says; it returns 1, or 0 if there is none. */
enum { TOKENS_STATE = 256 };
int  tokens_writer_save(struct tokens_writer *w, const void *state, struct err *err);
int  tokens_writer_find(struct tokens_writer *w, const char *path, size_t vocab,
                        int (*fits)(void *ctx, const void *state), void *ctx, struct err *err);
int  tokens_writer_cut(struct tokens_writer *w, uint64_t count, uint32_t sum, struct err *err);
void tokens_writer_keep(struct tokens_writer *w);
int  tokens_writer_finish(const char *path, size_t vocab, uint64_t count, uint32_t sum,
                          struct err *err);
/* Whether the file has `bytes` of ids behind its header, of this checksum. */
int  tokens_ids_are(int fd, uint64_t bytes, uint32_t sum);

/* Row `row` of the rows of seq tokens that follow one another from the file's beginning, into
 * x[0..seq), and the targets, each the token behind, into y[0..seq). */
int tokens_row(struct tokens *t, uint64_t row, size_t seq, size_t vocab, int32_t *x, int32_t *y,
               struct err *err);
