/* matmul_engine.h: what stands behind matmul.h: one table of functions for each library. Private to
 * matmul*.c and their test; kernels/matmul_skeleton.c is a template of an engine. */
#pragma once

#include "kernels/matmul.h"

/* `shape` is a place in mm->shapes. Nothing but open allocates. */
struct matmul_ops {
    int (*open)(struct matmul *mm, struct err *err);
    void (*run)(const struct matmul *mm, size_t shape, void *c, const void *a, const void *b,
                const void *bias, void *scratch);
    size_t (*packed)(const struct matmul *mm, size_t shape); // of a product with pack_b
    void (*pack)(const struct matmul *mm, size_t shape, void *packed, const void *b);
    void (*close)(struct matmul *mm); // also of what open did not finish; NULL: nothing to close
};

/* Where siTrain is built without oneDNN nothing has this name. */
extern const struct matmul_ops matmul_onednn __attribute__((weak));
extern const struct matmul_ops matmul_openblas;
extern const struct matmul_ops matmul_skeleton; // offered by no option

/* matmul_open with an engine of one's own. */
int matmul_open_engine(struct matmul **out, const struct matmul_ops *ops,
                       const struct matmul_shape *shapes, size_t n_shapes, int threads,
                       struct err *err);
