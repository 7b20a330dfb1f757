/* chat_held.h: a row of conversations that is kept until its block is encoded (chat_files.c), and
 * the bounds on the memory that encoding takes. A huge row is refused as it is read, or encoded
 * alone, so that --host-mem holds with any number of threads. */
#pragma once

#include "chat/encode.h"

/* Of a preference, the second of two is of the rejected answer, and same: both have the same
 * tokens. bytes: about how large the row is. tokens: of all of it; ids has those that are kept. */
struct chat_held {
    struct chat_row row;
    size_t          bytes, tokens[2];
    struct chat_ids ids[2];
    int             same, rc; // rc, err: of encoding
    struct err      err;
};

/* row: bytes that a row may have in its file. large: rows of more bytes are encoded one at a time.
 * memory: bytes for a template; the second is a large row's. */
struct chat_bounds { size_t row, large, memory[2]; };

/* The bytes that a row may have if the process is to fit into host_mem (0: any). */
size_t chat_row_most(uint64_t host_mem);
/* What may be used from now on, while `threads` threads encode rows. */
void   chat_bounds_find(struct chat_bounds *b, uint64_t host_mem, int threads);

/* Copies a row, whose JSON is the reader's no longer. */
int  chat_held_set(struct chat_held *h, const struct chat_row *row, struct err *err);
/* A hash of the row's text: of two rows that differ in nothing but their layout in the file, and in
 * keys that are not read, it is the same. */
uint64_t chat_held_hash(const struct chat_held *h);
/* Encodes it, and keeps `most` ids of a long answer. Several threads may do so at once, each with a
 * tokenizer of its own. */
void chat_held_encode(struct chat_held *h, const struct chat_encoding *how,
                      const struct chat_bounds *bounds, size_t most);
/* Afterwards another row may be set; memory for ids is used again. */
void chat_held_clear(struct chat_held *h);
