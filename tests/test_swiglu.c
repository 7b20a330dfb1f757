/* SwiGLU, GeGLU and their gradients against double, on odd sizes, gate and up apart and side by
 * side; at the far ends; the same bits for any number of threads, and from backward as from
 * forward. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/rows/swiglu.h"
#include "tests/ref.h"

#include <omp.h>
#include <stdlib.h>

/* One case: in, where gate and up stand, and what comes out of two runs, on 1 and on 3 threads. All
 * of dtype `dt` but dout. In d, what is between rows has a pattern that nobody may touch. */
struct glu_case {
    size_t     n, F, stride, bytes, rows; // bytes of n dense rows; of strided ones, both of them
    enum dtype dt;
    void      *in, *out[2], *d[2];
    float     *dout;
    struct swiglu s;
};

static void case_init(struct glu_case *c, int halves, float reach, uint64_t *seed)
{
    size_t e = dtype_bytes(c->dt), F = c->F, strided = c->n * c->stride;

    c->bytes = c->n * F * e;
    c->rows = (halves ? strided : 2 * strided) * e;
    c->in = guard_alloc(c->rows);
    c->dout = guard_alloc(c->n * F * 4);
    ref_fill(c->dout, c->n * F, -1.0f, 1.0f, seed);
    for (size_t i = 0; i < c->rows / e; i++) {
        float x;

        ref_fill(&x, 1, -reach, reach, seed);
        dtype_put(c->in, c->dt, i, x);
    }
    for (int k = 0; k < 2; k++) {
        c->out[k] = guard_alloc(c->bytes);
        c->d[k] = guard_alloc(c->rows);
        memset(c->d[k], 0x5a, c->rows);
    }
    c->s = (struct swiglu){ .n = c->n, .F = F, .stride = c->stride, .dt = c->dt, .gate = c->in,
                            .up = dtype_at(c->in, c->dt, halves ? F : strided) };
}

static void case_release(struct glu_case *c)
{
    guard_free(c->in);
    guard_free(c->dout);
    for (int k = 0; k < 2; k++) {
        guard_free(c->out[k]);
        guard_free(c->d[k]);
    }
}

static void backward(const struct glu_case *c, int k, size_t up)
{
    swiglu_backward(&(struct swiglu_backward){ .s = &c->s, .dout = c->dout, .out = c->out[k],
                                               .dgate = c->d[k],
                                               .dup = dtype_at(c->d[k], c->dt, up) });
}

/* Against double: out, dgate and dup of every element, and that the gaps are as they were. */
static void compare(const struct glu_case *c, size_t up)
{
    size_t  n = c->n * c->F, e = dtype_bytes(c->dt);
    int     gelu = c->s.form == GLU_GELU;
    float  *got = malloc(3 * n * 4);
    double *want = malloc(3 * n * sizeof *want);
    unsigned char *seen = calloc(c->rows / e, 1);

    for (size_t i = 0; i < n; i++) {
        size_t at = i / c->F * c->stride + i % c->F;
        double g = (double)dtype_get(c->in, c->dt, at), d = (double)c->dout[i];
        double u = (double)dtype_get(c->in, c->dt, up + at);

        got[i] = dtype_get(c->out[0], c->dt, i);
        got[n + i] = dtype_get(c->d[0], c->dt, at);
        got[2 * n + i] = dtype_get(c->d[0], c->dt, up + at);
        want[i] = (gelu ? ref_gelu(g) : ref_silu(g)) * u;
        want[n + i] = d * u * (gelu ? ref_gelu_grad(g) : ref_silu_grad(g));
        want[2 * n + i] = d * (gelu ? ref_gelu(g) : ref_silu(g));
        seen[at] = seen[up + at] = 1;
    }
    assert_true(ref_excess(got, want, 3 * n, 1e-6, c->dt == DT_F32 ? 1e-6 : 1.0 / 256) <= 1.0);
    for (size_t i = 0; i < c->rows; i++)
        assert_true(seen[i / e] || ((unsigned char *)c->d[0])[i] == 0x5a);
    free(got);
    free(want);
    free(seen);
}

static void check_form(enum glu_form form, enum dtype dt, size_t n, size_t F, size_t gap,
                       int halves, float reach, uint64_t *seed)
{
    struct glu_case c = { .n = n, .F = F, .stride = (halves ? 2 * F : F) + gap, .dt = dt };
    size_t          up = halves ? F : n * c.stride;

    case_init(&c, halves, reach, seed);
    c.s.form = form;
    for (int k = 0; k < 2; k++) {
        void *forward = guard_alloc(c.bytes);

        omp_set_num_threads(k ? 3 : 1);
        swiglu_forward(forward, &c.s);
        backward(&c, k, up);
        assert_memory_equal(forward, c.out[k], c.bytes);
        guard_free(forward);
    }
    assert_memory_equal(c.out[0], c.out[1], c.bytes);
    assert_memory_equal(c.d[0], c.d[1], c.rows);
    compare(&c, up);
    case_release(&c);
}

static void check(enum dtype dt, size_t n, size_t F, size_t gap, int halves, float reach,
                  uint64_t *seed)
{
    check_form(GLU_SILU, dt, n, F, gap, halves, reach, seed);
    check_form(GLU_GELU, dt, n, F, gap, halves, reach, seed);
}

static void test_against_double(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++)
        for (int halves = 0; halves < 2; halves++) {
            for (size_t F = 1; F < 70; F++)
                check((enum dtype)dt, 70 - F, F, F % 3, halves, 6.0f, &seed);
            check((enum dtype)dt, 13, 3077, 0, halves, 0.01f, &seed);
            check((enum dtype)dt, 3, 4096 + 65, 5, halves, 20.0f, &seed);
        }
}

/* Where the exponential leaves the numbers, the unit is 0 or the product, its slope 0 or 1. */
static void test_far(void **state)
{
    static const float gate[] = { -1e30f, -1e12f, -100.0f, 0.0f, 100.0f, 1e12f, 1e30f };
    static const float up[] = { 3, 3, 3, 3, 3, 3, 3 }, dout[] = { 2, 2, 2, 2, 2, 2, 2 };
    float              out[7], dgate[7], dup[7];
    struct swiglu      s = { .n = 1, .F = 7, .stride = 7, .dt = DT_F32, .gate = gate, .up = up };

    (void)state;
    for (s.form = GLU_SILU; s.form <= GLU_GELU; s.form++) {
        swiglu_backward(&(struct swiglu_backward){ .s = &s, .dout = dout, .out = out,
                                                   .dgate = dgate, .dup = dup });
        for (int i = 0; i < 7; i++) {
            assert_true(out[i] == (i < 4 ? 0.0f : 3.0f * gate[i]));
            assert_true(dup[i] == (i < 4 ? 0.0f : 2.0f * gate[i]));
            assert_true(dgate[i] == (i < 3 ? 0.0f : i == 3 ? 3.0f : 6.0f));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_far),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
