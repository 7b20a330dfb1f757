/* grow.h: arrays that grow as they are filled. */
#pragma once

#include "data/base/err.h"

int grow_more(void *array, size_t *cap, size_t need, size_t size, const char *what,
              struct err *err);

/* Makes room for `need` elements of `size` bytes in *array, which has room for *cap. If that is
 * too little, the array moves and *cap at least doubles. Returns 0, or -ENOMEM with "no memory
 * for N WHAT"; the array is then unchanged. `array` is the address of the caller's pointer; the
 * caller frees the array. */
static inline int grow(void *array, size_t *cap, size_t need, size_t size, const char *what,
                       struct err *err)
{
    return need <= *cap ? 0 : grow_more(array, cap, need, size, what, err);
}

/* Appends the `more` elements at `from` to the *n elements of the array, and adds `more` to *n.
 * Fails as grow does. */
int grow_add(void *array, size_t *n, size_t *cap, const void *from, size_t more, size_t size,
             const char *what, struct err *err);
