/* grow.h: arrays that grow as they are filled. */
#pragma once

#include "data/base/err.h"

int grow_more(void *array, size_t *cap, size_t need, size_t size, const char *what,
              struct err *err);

/* Room for `need` elements of `size` bytes in *array, for which there is room for *cap: it moves
 * and at least doubles where that is too little. 0, or -ENOMEM and "no memory for N WHAT", with the
 * array as it was. */
static inline int grow(void *array, size_t *cap, size_t need, size_t size, const char *what,
                       struct err *err)
{
    return need <= *cap ? 0 : grow_more(array, cap, need, size, what, err);
}

/* Appends `more` elements, which begin at `from`, to the *n of the array. *n grows by as many. It
 * fails as grow does. */
int grow_add(void *array, size_t *n, size_t *cap, const void *from, size_t more, size_t size,
             const char *what, struct err *err);
