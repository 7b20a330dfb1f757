/* matmul_engine.h: what stands behind matmul.h: one table of functions for each library. Private to
 * matmul*.c and their test; kernels/matmul_skeleton.c is a template of an engine.
 *
 * An engine gets a list without equal shapes; `threads` is already the calling thread's OpenMP
 * setting when it is called. Nothing but open allocates. */
#ifndef KERNELS_MATMUL_ENGINE_H
#define KERNELS_MATMUL_ENGINE_H

#include "kernels/matmul.h"

struct matmul_impl { // first member of each engine's own struct
    size_t scratch_bytes;
    char   describe[96]; // for matmul_describe
};

struct matmul_ops {
    const char *name; // what --blas takes
    int (*open)(struct matmul_impl **out, const struct matmul_shape *shapes, size_t n_shapes,
                int threads, char *why, size_t why_size);
    void (*run)(const struct matmul_impl *impl, size_t id, void *c, const void *a, const void *b,
                const void *bias, void *scratch);
    size_t (*packed)(const struct matmul_impl *impl, size_t id); // of a product with pack_b
    void (*pack)(const struct matmul_impl *impl, size_t id, void *packed, const void *b);
    void (*close)(struct matmul_impl *impl); // NULL is fine
};

extern const struct matmul_ops matmul_openblas;
extern const struct matmul_ops matmul_onednn; // without run where siTrain is built without it
extern const struct matmul_ops matmul_skeleton; // offered by no option

/* matmul_open with an engine of one's own. */
int matmul_open_engine(struct matmul **out, const struct matmul_ops *ops,
                       const struct matmul_shape *shapes, size_t n_shapes, int threads, char *why,
                       size_t why_size);

#endif
