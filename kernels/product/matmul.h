/* matmul.h: the dense products, C (+)= op(A) op(B) (+ bias), computed by OpenBLAS, oneDNN or
 * siTrain itself. It is the one kernel with an object. The object is opened with a list of all
 * shapes, so that running allocates nothing and an engine may prepare each shape. Matrices are
 * row-major and without gaps between rows. Sums are fp32. Only one thread runs a product at a
 * time; inside, the product uses the OpenMP pool of the process. The exception is matmul_join,
 * which all threads of a parallel region call. */
#pragma once

#include "data/base/dtype.h"
#include "data/base/err.h"

enum matmul_engine { MATMUL_AUTO, MATMUL_OPENBLAS, MATMUL_ONEDNN, MATMUL_SITRAIN };

enum matmul_form {
    MATMUL_NN, // C(m,n) = A(m,k) B(k,n)      forward: y = x W
    MATMUL_NT, // C(m,n) = A(m,k) B(n,k)'     dx = dy W'; logits = x wte'
    MATMUL_TN, // C(m,n) = A(k,m)' B(k,n)     dW (+)= x' dy
};

struct matmul_shape {
    enum matmul_form form;
    size_t     m, n, k;
    enum dtype ab_dt;      // dtype of A, B and bias: DT_F32 or DT_BF16
    enum dtype c_dt;       // dtype of C: DT_F32, or DT_BF16 if ab_dt is
    int        bias;       // 1: C = op(A) op(B) + bias; bias (n) of ab_dt, added before rounding
    int        accumulate; // 1: C += (needs c_dt DT_F32 and no bias)
    int        pack_b;     // 1: B serves many runs: it is packed by matmul_pack where that helps
    int        tiled_a;    // 1: A is written in tiles (kernels/tiled.h) if matmul_tiled says so
    size_t     fold;       // > 0: C has the bits of one product after the other, each over `fold`
                           // of k, a multiple of 32, whose sums are added; needs siTrain's engine
                           // and c_dt DT_F32
};

struct matmul {
    size_t scratch_bytes; // scratch of matmul_run, 64-byte aligned, for the largest shape
    /* Text for the run's database row: "openblas 0.3.21 Haswell" or "onednn 2.6.3 avx512_core_amx".
     * " + sitrain 1 amx" follows if siTrain's engine computes some of oneDNN's products. */
    char   describe[96];
    /* The members below are private (matmul_engine.h). */
    const struct matmul_ops *ops;
    void                    *own; // the engine's own state
    int     threads; // the engine's functions are called with this OpenMP setting
    size_t  n_ids, n_shapes;
    size_t *unique;              // (n_ids): the shape of each id
    struct matmul_shape *shapes; // (n_shapes): all different
};

int matmul_same_shape(const struct matmul_shape *x, const struct matmul_shape *y);

/* Opens `n_shapes` products. The shapes are copied, and equal ones are shared inside. A shape's
 * index in the list is its id for matmul_run. AUTO takes siTrain's own products if the CPU has AMX
 * and, for bf16, a product has 128 rows and there are 2 threads, or for fp32 1,024 rows and 8
 * threads; else oneDNN if the CPU has AVX-512, and for bf16 if the CPU multiplies bf16 faster than
 * fp32; otherwise OpenBLAS. Returns 0, or an error in err. -ENOTSUP: the engine does not run one of
 * the shapes here. */
int matmul_open(struct matmul **out, enum matmul_engine engine, const struct matmul_shape *shapes,
                size_t n_shapes, int threads, struct err *err);
/* The engine that `engine` stands for, with products of ab: AUTO is one of the others. */
enum matmul_engine matmul_chosen(enum matmul_engine engine, enum dtype ab);
/* True if these are siTrain's own products, for products of ab with this many rows. threads 0:
 * OpenMP's default. */
int matmul_is_own(enum matmul_engine engine, enum dtype ab, size_t rows, int threads);
void matmul_close(struct matmul *mm);

/* Bytes of B's packed form, a multiple of 64, for a product with pack_b. 0: B has no packed
 * form, or the shape has no pack_b. */
size_t matmul_packed(const struct matmul *mm, size_t id);
/* Packs B into 64-byte aligned memory that does not overlap b. The form is oneDNN's own layout,
 * siTrain's strips, or bf16 widened once for OpenBLAS. */
void matmul_pack(const struct matmul *mm, size_t id, void *packed, const void *b);

/* True if a product with tiled_a wants A in tiles: a bf16 matrix (m,k), or (k,m) for MATMUL_TN. */
int matmul_tiled(const struct matmul *mm, size_t id);

/* Runs product `id`. If matmul_packed is not 0, b is the memory that matmul_pack filled. bias is
 * NULL if the shape has none. c must not overlap a or b. */
void matmul_run(const struct matmul *mm, size_t id, void *c, const void *a, const void *b,
                const void *bias, void *scratch);

/* A product with the arguments of matmul_run. */
struct matmul_call {
    const struct matmul *mm;
    size_t id;
    void       *c;
    const void *a, *b, *bias;
    void       *scratch;
};

void matmul_call_run(const struct matmul_call *call);

/* matmul_joins: true if the engine can compute a product inside the caller's parallel region. The
 * caller runs matmul_begin before the region. Then each thread of the region calls matmul_join
 * once; some may come late. C is complete at the region's end. Until then nobody writes A, B or
 * scratch. The bits are those of matmul_run. */
int  matmul_joins(const struct matmul *mm);
void matmul_begin(const struct matmul_call *call);
void matmul_join(const struct matmul_call *call);

/* OpenBLAS chooses its kernels by the processor's name when it is loaded. If the processor is
 * newer than the library, it takes kernels without AVX2, which are several times slower
 * (docs/lab/performance.md). Returns the core that OPENBLAS_CORETYPE should name instead of
 * `chosen` (NULL: OpenBLAS's current choice). Returns NULL if that core has AVX2, or if the CPU
 * has no AVX2. */
const char *matmul_better_core(const char *chosen);
/* False if the products of an engine, as its text describes it, have the same bits for any number
 * of threads. */
int matmul_by_threads(const char *describe);
int matmul_has(enum matmul_engine e); // 0: siTrain was built without it
const char *matmul_engine_name(size_t e); // NULL past the last
