/* pool.h: memory that is only freed all at once: of a parsed template, and of one rendering.
 * Private to data/jinja. */
#pragma once

#include <stddef.h>

struct pool_chunk;

/* Begins as { .limit = bytes }. */
struct pool {
    struct pool_chunk *chunks;
    size_t             used, room; // of the newest chunk
    size_t             all, limit; // bytes taken in all, and the most
};

/* Zeroed and aligned for anything; NULL where the limit or the memory is reached. */
void *pool_take(struct pool *p, size_t bytes);
/* The same bytes in `bytes` new ones; `old` is not used any more. NULL: old stays. */
void *pool_grow(struct pool *p, const void *old, size_t old_bytes, size_t bytes);
void  pool_free(struct pool *p);
