/* Rotary embeddings: frequencies, attention factors and turned rows against transformers
 * (tests/fixtures/make_rope.py); the table and the rows against double, on odd sizes, with gaps
 * between rows; backward as the transpose of forward; parts of rows, and any number of threads,
 * give the same bits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/attention/rope.h"
#include "tests/fixture.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const cases[] = {
    "default", "default_wide", "default_two", "linear", "linear_less", "llama3", "llama3_small",
    "llama3_short", "yarn", "yarn_short", "yarn_scales", "yarn_attention", "yarn_untruncated",
    "yarn_shrunk", "yarn_no_ramp", "yarn_none_fast",
};
enum { CASES = sizeof cases / sizeof *cases };

static const char *named(char out[64], const char *name, const char *array)
{
    snprintf(out, 64, "%s.%s", name, array);
    return out;
}

static struct rope rope_of(const struct fixture *f, const char *name)
{
    char   array[64];
    double d[13];

    memcpy(d, fixture_i32(f, named(array, name, "r"), 26), sizeof d);
    assert_non_null(rope_type_name((size_t)d[0]));
    assert_memory_equal(rope_type_name((size_t)d[0]), name, strcspn(name, "_"));
    return (struct rope){ .type = (enum rope_type)d[0], .D = (size_t)d[1], .theta = d[2],
                          .factor = d[3], .original = d[4], .low_freq_factor = d[5],
                          .high_freq_factor = d[6], .beta_fast = d[7], .beta_slow = d[8],
                          .attention_factor = d[9], .mscale = d[10], .mscale_all_dim = d[11],
                          .untruncated = d[12] != 0 };
}

/* transformers has frequencies in fp32: of theta to a power, whose exponent is rounded. */
static void test_frequencies(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/rope.fix");

    (void)state;
    for (size_t c = 0; c < CASES; c++) {
        char         array[64];
        struct rope  r = rope_of(f, cases[c]);
        const float *want = fixture_f32(f, named(array, cases[c], "f"), r.D / 2);
        double       factor = (double)*fixture_f32(f, named(array, cases[c], "a"), 1);

        for (size_t j = 0; j < r.D / 2; j++) {
            double got = rope_frequency(&r, j);

            if (!(fabs(got - (double)want[j]) <= 3e-6 * (double)want[j]))
                fail_msg("%s, pair %zu: %.9g, expected %.9g", cases[c], j, got, (double)want[j]);
        }
        assert_true(fabs(rope_attention_factor(&r) - factor) <= 1e-7 * factor);
    }
    assert_null(rope_type_name(ROPE_YARN + 1));
    fixture_close(f);
}

/* Rows at positions 15 to 19, 0 and 1 of 20, as transformers turns a head of q and two of k. */
static void test_as_transformers(void **state)
{
    static const char *const turned[] = { "default", "llama3_short", "yarn_short" };
    struct fixture *f = fixture_open("tests/fixtures/rope.fix");

    (void)state;
    for (size_t c = 0; c < sizeof turned / sizeof *turned; c++) {
        char        array[64];
        struct rope r = rope_of(f, turned[c]);
        size_t      n = 7 * 3 * r.D;
        float      *table = guard_alloc(20 * r.D * 4), *x = guard_alloc(n * 4);
        double     *want = malloc(n * sizeof *want);
        const float *y = fixture_f32(f, named(array, turned[c], "y"), n);

        memcpy(x, fixture_f32(f, named(array, turned[c], "x"), n), n * 4);
        for (size_t i = 0; i < n; i++)
            want[i] = (double)y[i];
        rope_table(table, &r, 20);
        rope_forward(&(struct rope_rows){ .n = 7, .H = 3, .D = r.D, .stride = 3 * r.D,
                                          .dt = DT_F32, .x = x, .table = table, .T = 20,
                                          .first = 15 });
        assert_true(ref_excess(x, want, n, 2e-5, 2e-6) <= 1.0);
        guard_free(table);
        guard_free(x);
        free(want);
    }
    fixture_close(f);
}

/* Far positions, where angles in fp32 would be off by a hundredth; as one number is rounded. */
static void test_table(void **state)
{
    enum { T = 100003, D = 6 };
    struct rope r = { .type = ROPE_YARN, .D = D, .theta = 5e5, .factor = 4, .original = 32768 };
    float      *one = guard_alloc(T * D * 4), *three = guard_alloc(T * D * 4);
    double     *want = malloc(T * D * sizeof *want), factor = 0.1 * log(4.0) + 1.0;

    (void)state;
    omp_set_num_threads(1);
    rope_table(one, &r, T);
    omp_set_num_threads(3);
    rope_table(three, &r, T);
    assert_memory_equal(one, three, T * D * 4);
    for (size_t t = 0; t < T; t++)
        for (size_t j = 0; j < D / 2; j++) {
            want[t * D + j] = factor * cos((double)t * rope_frequency(&r, j));
            want[t * D + D / 2 + j] = factor * sin((double)t * rope_frequency(&r, j));
        }
    assert_true(ref_excess(one, want, T * D, 1e-9, 0x1p-24) <= 1.0);
    guard_free(one);
    guard_free(three);
    free(want);
}

/* Rows in x, their gaps with values of their own, turned forward or back in double. */
static void turned(double *want, const float *x, const struct rope_rows *r, const struct rope *o,
                   int back)
{
    for (size_t i = 0; i < (r->n - 1) * r->stride + r->H * r->D; i++)
        want[i] = (double)x[i];
    for (size_t i = 0; i < r->n; i++)
        for (size_t h = 0; h < r->H; h++)
            ref_rope(want + i * r->stride + h * r->D, r->D, (double)((r->first + i) % r->T),
                     o->theta, back);
}

/* Forward and backward of one shape, each on 1 and on 3 threads; what is between rows stays. */
static void check(enum dtype dt, struct rope_rows r, uint64_t *seed)
{
    struct rope o = { .type = ROPE_DEFAULT, .D = r.D, .theta = 777.0 };
    size_t      n = (r.n - 1) * r.stride + r.H * r.D, bytes = n * dtype_bytes(dt);
    float      *table = guard_alloc(r.T * r.D * 4), *x = malloc(n * 4), *got = malloc(n * 4);
    void       *rows[2] = { guard_alloc(bytes), guard_alloc(bytes) };
    double     *want = malloc(n * sizeof *want);

    rope_table(table, &o, r.T);
    r.table = table;
    r.dt = dt;
    for (int back = 0; back < 2; back++) {
        ref_fill(x, n, -2.0f, 2.0f, seed);
        for (int k = 0; k < 2; k++) {
            omp_set_num_threads(k ? 3 : 1);
            for (size_t i = 0; i < n; i++)
                dtype_put(rows[k], dt, i, x[i]);
            r.x = rows[k];
            if (k == 0)
                for (size_t i = 0; i < n; i++)
                    x[i] = dtype_get(rows[k], dt, i);
            back ? rope_backward(&r) : rope_forward(&r);
        }
        assert_memory_equal(rows[0], rows[1], bytes);
        for (size_t i = 0; i < n; i++)
            got[i] = dtype_get(rows[0], dt, i);
        turned(want, x, &r, &o, back);
        assert_true(ref_excess(got, want, n, 1e-6, dt == DT_F32 ? 0.0 : 1.0 / 256) <= 1.0);
        for (size_t i = 0; i < n; i++)
            assert_true(i % r.stride < r.H * r.D || got[i] == x[i]);
    }
    guard_free(table);
    guard_free(rows[0]);
    guard_free(rows[1]);
    free(x);
    free(got);
    free(want);
}

static void test_against_double(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        for (size_t D = 2; D < 72; D += 2)
            check((enum dtype)dt, (struct rope_rows){ .n = 36 - D / 2, .H = D % 5 + 1, .D = D,
                                                      .stride = (D % 5 + 1) * D + D % 3,
                                                      .T = 11, .first = D }, &seed);
        check((enum dtype)dt, (struct rope_rows){ .n = 131, .H = 5, .D = 128, .stride = 7 * 128,
                                                  .T = 257, .first = 200 }, &seed);
    }
}

/* All rows of two sequences at once, and in parts, one position alone, and rows that say where they
 * stand: the same bits. With an attention factor backward multiplies by it, too: the sum of
 * forward(x) y is that of x backward(y). */
static void test_parts(void **state)
{
    enum { B = 2, T = 13, H = 3, D = 34, W = H * D, N = B * T * W };
    struct rope o = { .type = ROPE_YARN, .D = D, .theta = 1e4, .factor = 8, .original = 64 };
    float       table[T * D], x[N], y[N], all[N], part[N];
    int32_t     at[B * T];
    double      forward = 0.0, backward = 0.0;
    uint64_t    seed = 3;
    struct rope_rows r = { .n = B * T, .H = H, .D = D, .stride = W, .dt = DT_F32, .x = all,
                           .table = table, .T = T };

    (void)state;
    rope_table(table, &o, T);
    ref_fill(x, N, -1.0f, 1.0f, &seed);
    ref_fill(y, N, -1.0f, 1.0f, &seed);
    memcpy(all, x, sizeof x);
    memcpy(part, x, sizeof x);
    rope_forward(&r);
    for (size_t first = 0; first < B * T; first += 5) {
        r.n = B * T - first < 5 ? B * T - first : 5;
        r.first = first;
        r.x = part + first * W;
        rope_forward(&r);
    }
    assert_memory_equal(part, all, sizeof all);
    memcpy(part + 7 * W, x + 7 * W, W * 4);
    rope_forward(&(struct rope_rows){ .n = 1, .H = H, .D = D, .stride = W, .dt = DT_F32,
                                      .x = part + 7 * W, .table = table + 7 * D, .T = 1 });
    assert_memory_equal(part, all, sizeof all);
    for (size_t i = 0; i < B * T; i++) // the rows the other way round, each where it says
        memcpy(part + i * W, x + (B * T - 1 - i) * W, W * sizeof *x);
    for (size_t i = 0; i < B * T; i++)
        at[i] = (int32_t)((B * T - 1 - i) % T);
    rope_forward(&(struct rope_rows){ .n = B * T, .H = H, .D = D, .stride = W, .dt = DT_F32,
                                      .x = part, .table = table, .T = T, .at = at });
    for (size_t i = 0; i < B * T; i++)
        assert_memory_equal(part + i * W, all + (B * T - 1 - i) * W, W * sizeof *all);
    memcpy(part, y, sizeof y);
    rope_backward(&(struct rope_rows){ .n = B * T, .H = H, .D = D, .stride = W, .dt = DT_F32,
                                       .x = part, .table = table, .T = T });
    for (size_t i = 0; i < N; i++) {
        forward += (double)all[i] * (double)y[i];
        backward += (double)x[i] * (double)part[i];
    }
    assert_true(fabs(forward - backward) <= 1e-5 && fabs(forward) > 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies), cmocka_unit_test(test_as_transformers),
        cmocka_unit_test(test_table),       cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
