/* matmul_no_onednn.c: stands in for matmul_onednn.c where siTrain is built without oneDNN: it says
 * so. */
#include "kernels/matmul_engine.h"

#include <errno.h>
#include <stdio.h>

static int absent_open(struct matmul_impl **out, const struct matmul_shape *shapes, size_t n_shapes,
                       int threads, char *why, size_t why_size)
{
    (void)shapes, (void)n_shapes, (void)threads;
    *out = NULL;
    snprintf(why, why_size, "this siTrain was built without onednn; openblas runs all products");
    return -ENOTSUP;
}

static void absent_close(struct matmul_impl *impl)
{
    (void)impl;
}

const struct matmul_ops matmul_onednn = { .name = "onednn",
                                          .open = absent_open,
                                          .close = absent_close };
