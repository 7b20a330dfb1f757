/* arena.h: buffers that live and die together, cut out of one mapping.
 *
 * One function says what the buffers are, by arena_take, and is called twice: the first time, the
 * arena being in its zero state, only their bytes are counted and the pointers are NULL; after
 * arena_map the same calls give the pieces. So a size can be asked for without allocating
 * anything, and what is counted and what is cut cannot differ.
 *
 *     struct arena a = { .align = ARENA_IO };
 *     lay_buffers(&a, b);
 *     rc = arena_map(&a, "the buffers of devices", err);
 *     if (!rc)
 *         lay_buffers(&a, b);
 *     ..
 *     arena_free(&a);
 */
#pragma once

#include "data/base/err.h"

/* What pieces are aligned to: a line of the cache, or what devices and registered buffers want. */
enum { ARENA_LINE = 64, ARENA_IO = 4096 };

struct arena {
    size_t align; // of every piece; 0 is ARENA_LINE
    size_t used;  // bytes counted, or handed out, so far
    char  *base;  // NULL until it is mapped
    size_t bytes; // of the mapping
};

/* The next piece; NULL while the bytes are only counted. What is mapped is zero. */
void *arena_take(struct arena *a, size_t bytes);

/* Map what was counted, in huge pages where the kernel likes; pieces are then taken from the
 * beginning. Without any bytes nothing is mapped, and the pieces are NULL. -ENOMEM and "out of
 * memory: WHAT need N MiB": `what` is a plural. */
int  arena_map(struct arena *a, const char *what, struct err *err);
/* What stands there is not needed any more: whole pages of it take no memory until they are touched
 * again. */
void arena_give_back(void *at, size_t bytes);
void arena_free(struct arena *a); // what was never mapped, too; counting can begin again
