/* matmul_engine.h: the engines of matmul.h: one table of functions for each library. Private to
 * matmul*.c and their test. tests/matmul_skeleton.c is a template of an engine. */
#pragma once

#include "kernels/product/matmul.h"

/* `shape` is an index into mm->shapes. Only open allocates. */
struct matmul_ops {
    int (*open)(struct matmul *mm, struct err *err);
    void (*run)(const struct matmul *mm, size_t shape, void *c, const void *a, const void *b,
                const void *bias, void *scratch);
    /* matmul_begin and matmul_join. Both NULL: matmul_joins is false. */
    void (*begin)(const struct matmul *mm, size_t shape, void *scratch);
    void (*join)(const struct matmul *mm, size_t shape, void *c, const void *a, const void *b,
                 const void *bias, void *scratch);
    size_t (*packed)(const struct matmul *mm, size_t shape); // bytes of B packed, for a product
                                                             // with pack_b
    void (*pack)(const struct matmul *mm, size_t shape, void *packed, const void *b);
    int (*tiled)(const struct matmul *mm, size_t shape); // for a shape with tiled_a; NULL: never
    void (*close)(struct matmul *mm); // also called after a failed open; NULL: nothing to close
};

/* Without oneDNN in the build, this symbol is undefined (weak). */
extern const struct matmul_ops matmul_onednn __attribute__((weak));
extern const struct matmul_ops matmul_openblas, matmul_sitrain;

/* matmul_open with any engine. */
int matmul_open_engine(struct matmul **out, const struct matmul_ops *ops,
                       const struct matmul_shape *shapes, size_t n_shapes, int threads,
                       struct err *err);
