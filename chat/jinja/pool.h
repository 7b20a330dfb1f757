/* pool.h: memory of a template, or of a rendering, freed all at once. Private to chat/jinja. */
#pragma once

#include <stddef.h>

struct pool_chunk;

/* Initialised as { .limit = bytes }. */
struct pool {
    struct pool_chunk *chunks;
    size_t             used, room; // of the newest chunk
    size_t             all, limit; // bytes taken so far, and at most
};

/* Returns zeroed memory, aligned for any type, or NULL at the limit or without memory. */
void *pool_take(struct pool *p, size_t bytes);
/* Returns `bytes` new bytes that begin with the old ones, or NULL. `old` stays in the pool. */
void *pool_grow(struct pool *p, const void *old, size_t old_bytes, size_t bytes);
void  pool_free(struct pool *p);
