/* bytes.h: bytes that grow. There is no way on without memory: then the program ends. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *at;
    size_t         n, room;
};

void *must_alloc(void *p, size_t n); // as realloc
void *must_copy(const void *p, size_t n);
void  bytes_resize(struct bytes *b, size_t n);
void  bytes_put(struct bytes *b, const void *data, size_t n, uint64_t off); // longer, if need be
struct bytes bytes_copy(const struct bytes *b);
