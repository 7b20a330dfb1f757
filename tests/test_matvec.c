/* test_matvec.c: against double precision on odd sizes, and each row the same bits with others
 * beside it and on any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "kernels/product/matvec.h"
#include "kernels/rng.h"

enum { M = 7 };

static void *random_array(size_t n, enum dtype dt, uint64_t seed)
{
    float *f = malloc(n * sizeof *f);
    void  *out = malloc(n * dtype_bytes(dt));

    rng_normal(f, n, 1.0f, seed, 0, 0);
    for (size_t i = 0; i < n; i++)
        dtype_put(out, dt, i, f[i]);
    free(f);
    return out;
}

enum kind { FORWARD, LINEAR, UNBIASED, LOGITS, KINDS };

static void multiply(enum kind kind, float *c, const struct matvec *p)
{
    if (kind == LOGITS)
        matvec_logits(c, p);
    else if (kind == FORWARD)
        matvec_forward(c, DT_F32, p);
    else
        matvec_linear(c, DT_F32, p);
}

/* FORWARD: c = a b + bias, else c = a b', with LINEAR + bias. */
static void check(enum kind kind, enum dtype dt, size_t n, size_t k)
{
    void *a = random_array(M * k, dt, 1), *b = random_array(n * k, dt, 2),
         *bias = random_array(n, dt, 3);
    float *c = malloc(M * n * sizeof *c), *one = malloc(n * sizeof *one),
          *scratch = malloc(matvec_scratch(M, n, k) * sizeof *c);
    int           biased = kind < UNBIASED;
    struct matvec p = { .m = M, .n = n, .k = k, .dt = dt, .a = a, .b = b,
                        .bias = biased ? bias : NULL, .scratch = scratch };

    omp_set_num_threads(3);
    multiply(kind, c, &p);
    for (size_t r = 0; r < M; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = biased ? (double)dtype_get(bias, dt, j) : 0;

            for (size_t i = 0; i < k; i++)
                sum += (double)dtype_get(a, dt, r * k + i) *
                       (double)dtype_get(b, dt, kind == FORWARD ? i * n + j : j * k + i);
            assert_true(fabs(sum - (double)c[r * n + j]) < 1e-5 * sqrt((double)k) * 4);
        }
    omp_set_num_threads(1);
    p.m = 1;
    for (size_t r = 0; r < M; r++) {
        p.a = dtype_at(a, dt, r * k);
        multiply(kind, one, &p);
        assert_memory_equal(one, c + r * n, n * sizeof *one);
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(one);
    free(scratch);
}

static void test_sizes(void **state)
{
    (void)state;
    for (enum kind kind = FORWARD; kind < KINDS; kind++)
        for (int dt = DT_F32; dt <= DT_BF16; dt++) {
            check(kind, (enum dtype)dt, 1, 1);
            check(kind, (enum dtype)dt, 3, 17);
            check(kind, (enum dtype)dt, 48, 16);
            check(kind, (enum dtype)dt, 61, 101);
            check(kind, (enum dtype)dt, 193, 64);
        }
}

/* A result in bf16 is the fp32 one, rounded. */
static void test_rounding(void **state)
{
    void *a = random_array(40, DT_BF16, 1), *b = random_array(40 * 33, DT_BF16, 2),
         *bias = random_array(33, DT_BF16, 3);
    float   c[33], scratch[33 + 40];
    bf16    h[33];
    struct matvec p = { .m = 1, .n = 33, .k = 40, .dt = DT_BF16, .a = a, .b = b, .bias = bias,
                        .scratch = scratch };

    (void)state;
    matvec_forward(c, DT_F32, &p);
    matvec_forward(h, DT_BF16, &p);
    for (size_t j = 0; j < 33; j++)
        assert_int_equal(h[j], bf16_from_f32(c[j]));
    matvec_linear(c, DT_F32, &p);
    matvec_linear(h, DT_BF16, &p);
    for (size_t j = 0; j < 33; j++)
        assert_int_equal(h[j], bf16_from_f32(c[j]));
    free(a);
    free(b);
    free(bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes),
                                        cmocka_unit_test(test_rounding) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
