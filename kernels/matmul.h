/* matmul.h: the dense products, C (+)= op(A) op(B) (+ bias), with OpenBLAS and oneDNN behind it.
 * The one kernel with an object: it is opened from the list of all shapes that will be run, so that
 * running allocates nothing and every engine may prepare each. Row-major, leading dimensions as
 * tight as the shape says. fp32 sums. One thread runs it at a time; inside, the OpenMP pool of the
 * process. */
#pragma once

#include "data/base/dtype.h"
#include "data/base/err.h"

enum matmul_engine { MATMUL_AUTO, MATMUL_OPENBLAS, MATMUL_ONEDNN };

enum matmul_form {
    MATMUL_NN, // C(m,n) = A(m,k) B(k,n)      forward: y = x W
    MATMUL_NT, // C(m,n) = A(m,k) B(n,k)'     dx = dy W'; logits = x wte'
    MATMUL_TN, // C(m,n) = A(k,m)' B(k,n)     dW (+)= x' dy
};

struct matmul_shape {
    enum matmul_form form;
    size_t     m, n, k;
    enum dtype ab_dt;      // of A, B and bias: DT_F32 or DT_BF16
    enum dtype c_dt;       // of C: DT_F32, or DT_BF16 where ab_dt is
    int        bias;       // 1: C = op(A) op(B) + bias; bias (n) of ab_dt, added before rounding
    int        accumulate; // 1: C += (c_dt DT_F32 and no bias then)
    int        pack_b;     // 1: B serves many runs: it comes through matmul_pack where that helps
};

struct matmul {
    size_t scratch_bytes; // 64-byte aligned, that the largest of the shapes needs in matmul_run
    /* For the run's row: "onednn 2.6.3 avx512_core_bf16" or "openblas 0.3.21 Haswell". */
    char   describe[96];
    /* The rest is private (matmul_engine.h). */
    const struct matmul_ops *ops;
    void                    *own; // what the engine keeps
    int     threads; // already the calling thread's OpenMP setting when the engine is called
    size_t  n_ids, n_shapes;
    size_t *unique;              // (n_ids) the shape of each id
    struct matmul_shape *shapes; // (n_shapes) all different
};

/* Open `n_shapes` products (shapes copied; index in this list = id for matmul_run; equal ones are
 * shared inside). AUTO: oneDNN where the CPU has AVX-512, and for bf16 where it multiplies bf16
 * faster than fp32, else OpenBLAS. -ENOTSUP: the engine does not run one of them here. */
int matmul_open(struct matmul **out, enum matmul_engine engine, const struct matmul_shape *shapes,
                size_t n_shapes, int threads, struct err *err);
void matmul_close(struct matmul *mm);

/* Of a product with pack_b: bytes of B's other form (a multiple of 64); 0 where there is none, or
 * the shape does not ask. */
size_t matmul_packed(const struct matmul *mm, size_t id);
/* Make it, in 64-byte aligned memory that does not overlap b: oneDNN's own layout, or bf16 widened
 * once for OpenBLAS. */
void matmul_pack(const struct matmul *mm, size_t id, void *packed, const void *b);

/* Run product `id`; b is what matmul_pack made where matmul_packed is not 0. bias NULL where the
 * shape has none. c must not overlap a, b. */
void matmul_run(const struct matmul *mm, size_t id, void *c, const void *a, const void *b,
                const void *bias, void *scratch);

/* OpenBLAS chooses its kernels by the processor's name as it is loaded; where the name is newer
 * than the library, kernels without AVX2, several times as slow (docs/lab/performance.md). Which
 * core its variable OPENBLAS_CORETYPE should name instead of `chosen` (NULL: what it has
 * chosen); NULL where that has AVX2, or the CPU has not. */
const char *matmul_better_core(const char *chosen);
int matmul_has(enum matmul_engine e); // 0: siTrain was built without it
const char *matmul_engine_name(size_t e); // NULL behind the last
