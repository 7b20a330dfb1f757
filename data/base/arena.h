/* arena.h: buffers that live and die together, cut out of one mapping.
 *
 * One function of the caller describes the buffers by calls of arena_take. It is called twice.
 * While the arena is in its zero state, the calls only count bytes and return NULL. After
 * arena_map, the same calls return the pieces. So a size can be computed without an allocation,
 * and the count cannot differ from the layout.
 *
 *     struct arena a = { .align = ARENA_IO };
 *     lay_buffers(&a, b);
 *     rc = arena_map(&a, "the buffers of devices", err);
 *     if (!rc)
 *         lay_buffers(&a, b);
 *     ..
 *     arena_free(&a); */
#pragma once

#include "data/base/err.h"

/* Alignment of the pieces, in bytes: a cache line, or a page as direct I/O and registered
 * buffers need. */
enum { ARENA_LINE = 64, ARENA_IO = 4096 };

struct arena {
    size_t align; // of every piece; 0 is ARENA_LINE
    size_t used;  // bytes counted, or handed out, so far
    char  *base;  // NULL until it is mapped
    size_t bytes; // of the mapping
};

/* Returns the next piece of `bytes` bytes, or NULL while the bytes are only counted. A new
 * mapping is zero-filled. */
void *arena_take(struct arena *a, size_t bytes);

/* Maps the counted bytes and asks for huge pages. arena_take then starts from the beginning. If
 * no bytes were counted, nothing is mapped and the pieces are NULL. On failure returns -ENOMEM
 * and writes "out of memory: WHAT need N MiB"; `what` is a plural. */
int  arena_map(struct arena *a, const char *what, struct err *err);
/* Gives the whole pages in at[0..bytes) back to the kernel. Their contents are lost. They take
 * no memory until they are touched again. */
void arena_give_back(void *at, size_t bytes);
/* Unmaps the buffers. Accepts an arena that was never mapped. Counting can begin again. */
void arena_free(struct arena *a);
