/* product.h: one product of matmul.h by siTrain's own arithmetic (block_form.h). A task is a
 * rectangle of C, which one thread computes over the whole depth, so the result has the same bits
 * for any number of threads, any cuts and any number of rows. Operands are packed in strips
 * (strips.h): those of one operand by the thread that uses them, just before; those of the other
 * one by all threads before the first task, or by product_pack, or they are A's tiles as they came
 * (tiled_a). */
#pragma once

#include "kernels/product/matmul.h"
#include "kernels/product/strips.h"

struct product {
    struct matmul_shape      s;
    const struct block_form *form;
    int           threads;
    struct strips a, b;
    struct cuts   cuts;
    int           own_b;        // tasks pack their columns of B; 0: their rows of A
    int           ready, own_ready; // the shared operand comes packed; so do these lanes of A
    size_t        words, fold, panel, piece; // of the depth, in words
    int           one;         // a piece leaves no sums for the next one to go on with
    size_t        rows, cols;   // of a task
    size_t        tasks, parts; // all; of the same own lanes
    size_t        panels;       // of the depth
    size_t        panel_bytes, sums_at, turns_at, packing_at, done_at, own_at, // in scratch
                  scratch_bytes;
    size_t        block_at, own_bytes; // in a thread's part
};

/* Plans a product for this many threads. form and cuts NULL: the best form, with its own. s.tiled_a
 * stays where the form takes A in tiles. */
void product_plan(struct product *p, const struct matmul_shape *s, int threads,
                  const struct block_form *form, const struct cuts *cuts);

/* Bytes of all of B, packed, and packs it: for a shape with pack_b. */
size_t product_packed(const struct product *p);
void   product_pack(const struct product *p, void *packed, const void *b);

/* Computes the product by at most as many OpenMP threads as it was planned for. scratch:
 * p->scratch_bytes, 64-byte aligned. */
void product_run(const struct product *p, void *c, const void *a, const void *b, const void *bias,
                 void *scratch);

/* The same inside the caller's parallel region, as matmul_begin and matmul_join. */
void product_begin(const struct product *p, void *scratch);
void product_join(const struct product *p, void *c, const void *a, const void *b,
                  const void *bias, void *scratch);
