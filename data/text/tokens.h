/* tokens.h: files of token ids, read in place with pread. It reads llm.c's files for GPT-2
 * (header of 256 int32: 20240520, 1, n; then uint16) and for Llama 3 (20240801, 7, n; then
 * uint32). It also reads files without a header, as nanoGPT's (uint16 or uint32). It writes
 * llm.c's two formats: uint16 if all ids fit, or else uint32.
 *
 * Each MiB of a file has a CRC32C, which is kept in run.db. It is computed at first use. Later
 * reads are checked if the caller passes the sums in. */
#pragma once

#include "data/file/append.h"
#include "data/base/watch.h"

/* How to read a data file (--data-format). TOKENS_AUTO recognizes llm.c's files by their header,
 * and texts. Ids without a header need a name that ends in .bin: they are uint16, or uint32 if
 * the vocabulary has more than 65,536. With TOKENS_TEXT, what looks like JSON is a text. */
enum tokens_format { TOKENS_AUTO, TOKENS_TEXT, TOKENS_U16, TOKENS_U32 };
const char *tokens_format_name(size_t format); // auto, text, u16, u32; NULL past the last
int         tokens_named(const char *path);    // whether the name ends in .bin

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

/* Row `row` of the rows of seq tokens that follow one another from the file's beginning, into
 * x[0..seq), and the targets, each the token behind, into y[0..seq). */
int tokens_row(struct tokens *t, uint64_t row, size_t seq, size_t vocab, int32_t *x, int32_t *y,
               struct err *err);
