/* bytes.c: see the header. */
#include "tests/crash/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must_alloc(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p) {
        perror("tests/crash: memory");
        abort();
    }
    return p;
}

void *must_copy(const void *p, size_t n)
{
    void *copy = must_alloc(NULL, n);

    return n > 0 ? memcpy(copy, p, n) : copy;
}

/* New bytes are zero. */
void bytes_resize(struct bytes *b, size_t n)
{
    if (n > b->room) {
        b->room = n > 2 * b->room ? n : 2 * b->room;
        b->at = must_alloc(b->at, b->room);
    }
    if (n > b->n)
        memset(b->at + b->n, 0, n - b->n);
    b->n = n;
}

void bytes_put(struct bytes *b, const void *data, size_t n, uint64_t off)
{
    if (off + n > b->n)
        bytes_resize(b, off + n);
    memcpy(b->at + off, data, n);
}

struct bytes bytes_copy(const struct bytes *b)
{
    struct bytes c = { 0 };

    if (b->n > 0)
        bytes_put(&c, b->at, b->n, 0);
    return c;
}
