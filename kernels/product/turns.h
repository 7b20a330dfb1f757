/* turns.h: who computes which task of a product. Each thread has its own list of tasks. When its
 * list is empty, it takes tasks from the ends of other lists: threads that share a core are far
 * slower than others. Private to kernels/product. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A thread's list: the tasks that are left, the first one << 32 | one past the last. */
struct turns { _Alignas(64) _Atomic uint64_t left; };

/* Divides the tasks between n lists, in their order. */
static inline void turns_set(struct turns *list, size_t tasks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        atomic_store(&list[i].left, (uint64_t)(tasks * i / n) << 32 | tasks * (i + 1) / n);
}

static inline size_t turns_left(struct turns *t)
{
    uint64_t left = atomic_load_explicit(&t->left, memory_order_relaxed);
    size_t   from = left >> 32, to = (uint32_t)left;

    return from < to ? to - from : 0;
}

/* Takes the first or the last task of a list. Returns 0 if none is left. */
static inline int turns_pop(struct turns *t, int last, size_t *task)
{
    uint64_t left = atomic_load(&t->left), rest;

    do {
        size_t from = left >> 32, to = (uint32_t)left;

        if (from >= to)
            return 0;
        *task = last ? to - 1 : from;
        rest = last ? left - 1 : left + ((uint64_t)1 << 32);
    } while (!atomic_compare_exchange_weak(&t->left, &left, rest));
    return 1;
}

/* Takes a task for thread `me` of n: from list *from and, once that is empty, from the longest one.
 * At first, *from is the thread's own. Returns 0 if no list has a task left. */
static inline int turns_take(struct turns *list, size_t n, size_t me, size_t *from, size_t *task)
{
    while (!turns_pop(&list[*from], *from != me, task)) {
        for (size_t t = 0; t < n; t++)
            if (turns_left(&list[t]) > turns_left(&list[*from]))
                *from = t;
        if (turns_left(&list[*from]) == 0)
            return 0;
    }
    return 1;
}
