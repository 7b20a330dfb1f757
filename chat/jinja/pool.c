/* pool.c: chunks of malloc, each twice as large as the one before, up to a mebibyte. */
#include "chat/jinja/pool.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 4096, MOST = 1 << 20 };

struct pool_chunk {
    struct pool_chunk *next;
    alignas(max_align_t) char bytes[];
};

void *pool_take(struct pool *p, size_t bytes)
{
    size_t align = alignof(max_align_t), least = bytes ? bytes : 1;

    if (least > p->limit || p->limit - least < p->all)
        return NULL;
    least = (least + align - 1) / align * align;
    if (!p->chunks || p->room - p->used < least) {
        size_t             room = p->room ? p->room * 2 : FIRST;
        struct pool_chunk *c;

        room = room > MOST ? MOST : room;
        room = room < least ? least : room;
        if (!(c = calloc(1, sizeof *c + room)))
            return NULL;
        c->next = p->chunks;
        p->chunks = c;
        p->room = room;
        p->used = 0;
    }
    void *at = p->chunks->bytes + p->used;

    p->used += least;
    p->all += least;
    return at;
}

void *pool_grow(struct pool *p, const void *old, size_t old_bytes, size_t bytes)
{
    void *at = pool_take(p, bytes);

    if (at && old_bytes)
        memcpy(at, old, old_bytes);
    return at;
}

void pool_free(struct pool *p)
{
    for (struct pool_chunk *c = p->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *p = (struct pool){ .limit = p->limit };
}
