/* columns.h: some columns of a matrix of rows without gaps, as those of one tensor among several
 * that form one product. */
#pragma once

#include "data/base/dtype.h"

/* n rows of `width` columns, in a matrix with `stride` columns. x: the first of them. */
struct columns {
    size_t     n, width, stride;
    enum dtype dt; // DT_F32 or DT_BF16
    void      *x;
};

/* out (n, width) of the same dtype = the columns. Parallel. */
void columns_take(void *out, const struct columns *of);

/* The columns += y (n, width), summed in fp32, and rounded once. Parallel. */
void columns_add(const struct columns *of, const float *y);
