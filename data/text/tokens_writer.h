/* tokens_writer.h: a new file of token ids, in llm.c's format. */
#pragma once

#include "data/file/append.h"

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
/* Completes the file: fsync, rename, fsync of the folder. After a failure the file stays
 * unfinished, and its header may have lost its state (below): save it again, or close it. */
int tokens_writer_commit(struct tokens_writer *w, struct err *err);

/* An unfinished file may be gone on with after a kill. tokens_writer_save makes all ids durable,
 * and then the caller's state next to them, state[0..TOKENS_STATE). tokens_writer_find opens a file
 * that a dead process of this user left for `path`, if `fits` accepts its last state; it returns 1,
 * or 0 if there is none. tokens_writer_cut then takes the ids behind the first `count` away; it
 * returns -EBADMSG without a sentence if the file is shorter, or if the ids that stay have another
 * checksum than `sum`.
 * tokens_writer_again copies the ids of the complete file at `path` to a new unfinished one, if
 * they are as many and have this checksum; it returns 1, or 0.
 * tokens_writer_keep closes the file, and leaves an unfinished one where it is.
 * tokens_writer_finish completes a file of a dead process whose `count` ids, of this checksum, were
 * all flushed, whatever its header says; it returns 1, or 0 if there is none. After a failure the
 * file stays. */
enum { TOKENS_STATE = 256 };
int  tokens_writer_save(struct tokens_writer *w, const void *state, struct err *err);
int  tokens_writer_find(struct tokens_writer *w, const char *path, size_t vocab,
                        int (*fits)(void *ctx, const void *state), void *ctx, struct err *err);
int  tokens_writer_cut(struct tokens_writer *w, uint64_t count, uint32_t sum, struct err *err);
int  tokens_writer_again(struct tokens_writer *w, const char *path, size_t vocab, uint64_t count,
                         uint32_t sum, struct err *err);
void tokens_writer_keep(struct tokens_writer *w);
int  tokens_writer_finish(const char *path, size_t vocab, uint64_t count, uint32_t sum,
                          struct err *err);
/* Returns 1 if the file has `bytes` of ids behind its header, of this checksum; 0, or -errno. */
int  tokens_ids_are(int fd, uint64_t bytes, uint32_t sum);
