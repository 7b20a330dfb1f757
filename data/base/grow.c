/* grow.c: allocates more room for an array, which is rarely needed. */
#include "data/base/grow.h"

enum { LEAST_BYTES = 16 }; // first size: there may be many small arrays

int grow_more(void *array, size_t *cap, size_t need, size_t size, const char *what, struct err *err)
{
    size_t more = *cap ? *cap : LEAST_BYTES / size + 1, bytes;
    void  *old;

    while (more < need)
        more *= 2;
    memcpy(&old, array, sizeof old);
    void *fresh = __builtin_mul_overflow(more, size, &bytes) ? NULL : realloc(old, bytes);
    if (!fresh)
        return err_set(err, -ENOMEM, "no memory for %zu %s", more, what);
    memcpy(array, &fresh, sizeof fresh);
    *cap = more;
    return 0;
}

int grow_add(void *array, size_t *n, size_t *cap, const void *from, size_t more, size_t size,
             const char *what, struct err *err)
{
    int   rc = grow(array, cap, *n + more, size, what, err);
    char *at;

    if (rc || more == 0)
        return rc;
    memcpy(&at, array, sizeof at);
    memcpy(at + *n * size, from, more * size);
    *n += more;
    return 0;
}
