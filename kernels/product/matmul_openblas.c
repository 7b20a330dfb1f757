/* matmul_openblas.c: runs the products with OpenBLAS's sgemm. There is no bf16 product, so bf16
 * operands are widened into scratch, panel by panel; scratch stays small even for an operand as
 * large as the vocabulary. Panels have a fixed size, and sums over k go panel by panel in order,
 * into C itself or an fp32 panel of it. With the same number of threads, the bits are always the
 * same. */
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/product/matmul_engine.h"
#include "kernels/simd.h"

#include <cblas.h>
#include <strings.h>

enum { PANEL = 2048 }; // most rows and columns of a widened panel: 16 MiB each

// Bytes of widened panels of A, B and, if C is bf16, C.
static size_t shape_scratch(const struct matmul_shape *s)
{
    size_t m = size_min(s->m, PANEL), n = size_min(s->n, PANEL), k = size_min(s->k, PANEL);

    if (s->ab_dt == DT_F32)
        return 0;
    return 4 * (m * k + (s->pack_b ? 0 : k * n) + (s->c_dt == DT_BF16 ? m * n : 0));
}

const char *matmul_better_core(const char *chosen)
{
    static const char *const with_avx2[] = {"Haswell", "Zen", "Excavator", "SkylakeX",
                                            "Cooperlake", "SapphireRapids"};

    if (!simd_avx2())
        return NULL;
    if (!chosen)
        chosen = openblas_get_corename();
    for (size_t i = 0; i < sizeof with_avx2 / sizeof *with_avx2; i++)
        if (!strcasecmp(chosen, with_avx2[i]))
            return NULL;
    return simd_avx512() ? "SkylakeX" : "Haswell";
}

static int blas_open(struct matmul *mm, struct err *err)
{
    // the full text ("OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...") is too long for a row
    char version[32] = "?";

    (void)err;
    for (size_t i = 0; i < mm->n_shapes; i++)
        mm->scratch_bytes = size_max(mm->scratch_bytes, shape_scratch(&mm->shapes[i]));
    openblas_set_num_threads(mm->threads);
    sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    snprintf(mm->describe, sizeof mm->describe, "openblas %s %s", version, openblas_get_corename());
    return 0;
}

// Widens x (rows, cols), with rows ld elements apart, into out without gaps.
static void widen(float *out, const bf16 *x, size_t ld, size_t rows, size_t cols)
{
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[i * cols + j] = bf16_to_f32(x[i * ld + j]);
}

static void narrow(bf16 *out, size_t ld, const float *x, size_t rows, size_t cols)
{
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[i * ld + j] = bf16_from_f32(x[i * cols + j]);
}

// Sets each row of c to bias[first..first + cols).
static void fill_bias(float *c, size_t ld, const void *bias, enum dtype dt, size_t first,
                      size_t rows, size_t cols)
{
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            c[i * ld + j] = dtype_get(bias, dt, first + j);
}

struct operand { const float *p; size_t ld; }; // ld: elements from one row to the next

// Computes c (m, n), with rows ldc apart, = op(a) op(b) + beta c, with the sizes of s.
static void gemm(const struct matmul_shape *s, struct operand a, struct operand b, float beta,
                 float *c, size_t ldc)
{
    cblas_sgemm(CblasRowMajor, s->form == MATMUL_TN ? CblasTrans : CblasNoTrans,
                s->form == MATMUL_NT ? CblasTrans : CblasNoTrans, (blasint)s->m, (blasint)s->n,
                (blasint)s->k, 1.0f, a.p, (blasint)a.ld, b.p, (blasint)b.ld, beta, c, (blasint)ldc);
}

// Where B's columns j0.. and rows k0.. begin, and the distance of its rows (NT: columns).
static size_t b_offset(const struct matmul_shape *s, size_t j0, size_t k0)
{
    return s->form == MATMUL_NT ? j0 * s->k + k0 : k0 * s->n + j0;
}

static size_t b_stride(const struct matmul_shape *s) { return s->form == MATMUL_NT ? s->k : s->n; }

/* Computes one panel of C, rows i0.. and columns j0.., of a product with bf16 operands. B is
 * widened already if it was packed. k goes panel by panel, in order. */
static void run_panel(const struct matmul_shape *s, size_t i0, size_t j0, void *c, const bf16 *a,
                      const void *b, const void *bias, float *scratch)
{
    struct matmul_shape part = *s;
    size_t m = part.m = size_min(s->m - i0, PANEL), n = part.n = size_min(s->n - j0, PANEL),
           kp = size_min(s->k, PANEL), ldc = s->n;
    float *wa = scratch, *wb = wa + m * kp, *wc = (float *)c + i0 * s->n + j0;

    if (s->c_dt == DT_BF16) {
        wc  = wb + (s->pack_b ? 0 : kp * n);
        ldc = n;
    }
    if (bias)
        fill_bias(wc, ldc, bias, s->ab_dt, j0, m, n);
    for (size_t k0 = 0; k0 < s->k; k0 += PANEL) {
        size_t         k = part.k = size_min(s->k - k0, PANEL);
        struct operand left = { wa, s->form == MATMUL_TN ? m : k };
        struct operand right = { wb, s->form == MATMUL_NT ? k : n };

        if (s->form == MATMUL_TN)
            widen(wa, a + k0 * s->m + i0, s->m, k, m);
        else
            widen(wa, a + i0 * s->k + k0, s->k, m, k);
        if (s->pack_b)
            right = (struct operand){ (const float *)b + b_offset(s, j0, k0), b_stride(s) };
        else
            widen(wb, (const bf16 *)b + b_offset(s, j0, k0), b_stride(s),
                  s->form == MATMUL_NT ? n : k, s->form == MATMUL_NT ? k : n);
        gemm(&part, left, right, bias || s->accumulate || k0 ? 1.0f : 0.0f, wc, ldc);
    }
    if (s->c_dt == DT_BF16)
        narrow((bf16 *)c + i0 * s->n + j0, s->n, wc, m, n);
}

/* Whether C is zeroed here and then added to. This is for gradients of parameters, in which C is
 * large and rows are few: OpenBLAS's own way with beta 0 takes longer (50257 x 768 x 64 on two
 * cores: 70-75 ms, not 53-61). */
static int zeroes_first(const struct matmul_shape *s)
{
    return s->form == MATMUL_TN && s->c_dt == DT_F32 && !s->bias && !s->accumulate;
}

static void blas_run(const struct matmul *mm, size_t shape, void *c, const void *a,
                     const void *b, const void *bias, void *scratch)
{
    struct matmul_shape s = mm->shapes[shape];

    if (zeroes_first(&s)) {
        floats_zero(c, s.m * s.n);
        s.accumulate = 1;
    }
    if (s.ab_dt == DT_F32) {
        if (bias)
            fill_bias(c, s.n, bias, DT_F32, 0, s.m, s.n);
        gemm(&s, (struct operand){ a, s.form == MATMUL_TN ? s.m : s.k },
             (struct operand){ b, b_stride(&s) }, bias || s.accumulate ? 1.0f : 0.0f, c, s.n);
        return;
    }
    for (size_t j0 = 0; j0 < s.n; j0 += PANEL)
        for (size_t i0 = 0; i0 < s.m; i0 += PANEL)
            run_panel(&s, i0, j0, c, a, b, bias, scratch);
}

static size_t blas_packed(const struct matmul *mm, size_t shape)
{
    const struct matmul_shape *s = &mm->shapes[shape];

    return s->ab_dt == DT_BF16 ? (s->k * s->n * sizeof(float) + 63) / 64 * 64 : 0;
}

static void blas_pack(const struct matmul *mm, size_t shape, void *packed, const void *b)
{
    const struct matmul_shape *s = &mm->shapes[shape];

    widen(packed, b, b_stride(s), s->form == MATMUL_NT ? s->n : s->k, b_stride(s));
}

const struct matmul_ops matmul_openblas = {
    .open = blas_open, .run = blas_run, .packed = blas_packed, .pack = blas_pack,
};
