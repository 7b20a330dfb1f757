/* heap.h: a priority queue: the smallest key comes out first. A key holds the order in its upper
 * bits and a payload in its lower bits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef unsigned __int128 heap_key;

struct heap { heap_key *key; size_t n, cap; }; // the caller makes room

static inline void heap_push(struct heap *h, heap_key key)
{
    size_t i = h->n++;

    for (; i > 0 && h->key[(i - 1) / 2] > key; i = (i - 1) / 2)
        h->key[i] = h->key[(i - 1) / 2];
    h->key[i] = key;
}

static inline heap_key heap_pop(struct heap *h) // the heap must not be empty
{
    heap_key top = h->key[0], last = h->key[--h->n];
    size_t   i = 0, child;

    for (; (child = 2 * i + 1) < h->n; i = child) {
        child += child + 1 < h->n && h->key[child + 1] < h->key[child];
        if (h->key[child] >= last)
            break;
        h->key[i] = h->key[child];
    }
    h->key[i] = last;
    return top;
}
