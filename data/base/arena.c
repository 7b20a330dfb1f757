/* arena.c: maps an arena and cuts it into pieces. */
#include "data/base/arena.h"

#include "data/base/round.h"

#include <assert.h>
#include <sys/mman.h>

void *arena_take(struct arena *a, size_t bytes)
{
    void *piece = a->base ? a->base + a->used : NULL;

    a->used += round_up(bytes, a->align ? a->align : ARENA_LINE);
    assert(!a->base || a->used <= a->bytes);
    return piece;
}

int arena_map(struct arena *a, const char *what, struct err *err)
{
    assert(!a->base);
    if (a->used == 0)
        return 0;
    void *base = mmap(NULL, a->used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return err_set(err, -ENOMEM, "out of memory: %s need %zu MiB", what, (a->used >> 20) + 1);
    madvise(base, a->used, MADV_HUGEPAGE); // advice only: small pages work as well
    a->base  = base;
    a->bytes = a->used;
    a->used  = 0;
    return 0;
}

void arena_give_back(void *at, size_t bytes)
{
    const uintptr_t page = ARENA_IO;
    uintptr_t       from = ((uintptr_t)at + page - 1) / page * page,
              to = ((uintptr_t)at + bytes) / page * page;

    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

void arena_free(struct arena *a)
{
    if (a->base)
        munmap(a->base, a->bytes);
    *a = (struct arena){ .align = a->align };
}
