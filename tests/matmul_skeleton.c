/* matmul_skeleton.c: shows what a product engine needs; copy it to begin a new one. It works: plain
 * loops compute every shape, and tests/test_matmul.c tests it like the others. No option offers it.
 *
 * To make an engine of it: copy this file to kernels/product/ under its name, and fill in the hooks
 * below. Declare its table in kernels/product/matmul_engine.h. Give it a value of enum
 * matmul_engine and a name (kernels/product/matmul.h, matmul_engine_name), and open it in
 * matmul_open (kernels/product/matmul.c). Link its library in the Makefile; if it is missing,
 * matmul_has (kernels/product/matmul.c) must say so. Let tests/test_matmul.c run all its forms and
 * formats, in odd sizes against doubles, and its bits in a second object. Add a row for each of its
 * formats to bench/bench_products.c. OPT_BLAS_ROW (run/folder/machine_rows.h) says when it is
 * chosen. */
#include "kernels/product/matmul_engine.h"

#include "data/base/round.h"

/* Required. Prepares all products that will ever run, mm->shapes. These are valid, all different,
 * and stay as long as mm. The engine's own data (a library's handles, what it has prepared for each
 * product) are allocated into mm->own; here there are none. Set scratch_bytes to what the largest
 * run needs (here nothing): run must allocate nothing. describe goes into the run's row: the
 * library's version, and whatever else the bits depend on. OpenMP's setting is mm->threads already,
 * now and in each run.
 *
 * -ENOTSUP with a sentence says that this CPU or library does not run one of the shapes: --blas
 * auto then takes another engine. Other errors end the program. */
static int skeleton_open(struct matmul *mm, struct err *err)
{
    (void)err;
    mm->scratch_bytes = 0;
    snprintf(mm->describe, sizeof mm->describe, "skeleton");
    return 0;
}

/* Not required. Frees what open allocated: all of it, or what there was when it failed. */
static void skeleton_close(struct matmul *mm) { (void)mm; }

/* Not required, but both or none. If a product's pack_b says that B serves many runs: returns the
 * bytes of B's packed form, a multiple of 64, or 0 if B is best as it is. Here it is widened to
 * fp32. */
static size_t skeleton_packed(const struct matmul *mm, size_t shape)
{
    const struct matmul_shape *s = &mm->shapes[shape];

    return s->ab_dt == DT_BF16 ? round_up(s->k * s->n * sizeof(float), 64) : 0;
}

/* Not required. Makes the packed form. run then gets it as b. */
static void skeleton_pack(const struct matmul *mm, size_t shape, void *packed, const void *b)
{
    const struct matmul_shape *s = &mm->shapes[shape];

    for (size_t i = 0; i < s->k * s->n; i++)
        ((float *)packed)[i] = dtype_get(b, DT_BF16, i);
}

/* Not required, but both or none, and not here: begin and join run a product inside the caller's
 * parallel region (matmul_joins in kernels/product/matmul.h). */

/* Required. C = op(A) op(B) + bias, or C += op(A) op(B), with sums in fp32 that are rounded to c_dt
 * once. The same operands must give the same bits in every run and every process. */
static void skeleton_run(const struct matmul *mm, size_t shape, void *c, const void *a,
                         const void *b, const void *bias, void *scratch)
{
    struct matmul_shape s = mm->shapes[shape];
    enum dtype          b_dt = s.pack_b ? DT_F32 : s.ab_dt;
    size_t a_row = s.form == MATMUL_TN ? 1 : s.k, a_col = s.form == MATMUL_TN ? s.m : 1;
    size_t b_row = s.form == MATMUL_NT ? 1 : s.n, b_col = s.form == MATMUL_NT ? s.k : 1;

    (void)scratch;
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < s.m; i++)
        for (size_t j = 0; j < s.n; j++) {
            float sum = bias ? dtype_get(bias, s.ab_dt, j) : 0.0f;

            if (s.accumulate)
                sum = dtype_get(c, s.c_dt, i * s.n + j);
            for (size_t p = 0; p < s.k; p++)
                sum += dtype_get(a, s.ab_dt, i * a_row + p * a_col) *
                       dtype_get(b, b_dt, p * b_row + j * b_col);
            dtype_put(c, s.c_dt, i * s.n + j, sum);
        }
}

const struct matmul_ops matmul_skeleton = {
    .open = skeleton_open, .run = skeleton_run, .packed = skeleton_packed, .pack = skeleton_pack,
    .close = skeleton_close,
};
