/* Attention against the definition in double, in each form that this CPU runs: forward, gradients,
 * with dropout, one token at a time; the same bits for any number of threads and in any batch;
 * nothing outside its arrays is touched. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "kernels/attention_form.h"
#include "tests/ref.h"

struct run { // one call's arrays, of dt; and what the oracle saw and said
    enum dtype dt;
    size_t     B, T, C, H;
    void   *qkv, *out, *dout, *dqkv, *scratch;
    float  *lse;
    double *qkv64, *dout64, *out64, *dqkv64;
    const struct dropout *drop; // NULL: none
    const struct attention_form *form; // NULL: what the CPU's is
};

static const struct attention_form *const forms[] = { &attention_f32, &attention_bf16,
                                                      &attention_amx };
enum { FORMS = sizeof forms / sizeof forms[0] };

static void *fill(size_t n, enum dtype dt, float range, double **as_double, uint64_t *state)
{
    void  *p = guard_alloc(n * dtype_bytes(dt));
    float *x = malloc(n * sizeof *x);

    *as_double = malloc(n * sizeof **as_double);
    assert_true(x && *as_double);
    ref_fill(x, n, -range, range, state);
    for (size_t i = 0; i < n; i++) {
        dtype_put(p, dt, i, x[i]);
        (*as_double)[i] = (double)dtype_get(p, dt, i);
    }
    free(x);
    return p;
}

enum { MOST_THREADS = 3 }; // that the scratch is for

static void *scratch_alloc(size_t T, size_t C, size_t H, int threads)
{
    size_t bytes = attention_scratch(T, C, H, threads);
    void  *p = guard_alloc((bytes + 63) / 64 * 64);

    memset(p, 0xff, bytes); // NaNs: nothing may be read before it is written
    return p;
}

static void run_init(struct run *r, enum dtype dt, size_t B, size_t T, size_t hs, size_t H,
                     float range)
{
    uint64_t state = T * 1000 + hs;
    size_t   n = B * T * hs * H;

    *r = (struct run){ .dt = dt, .B = B, .T = T, .C = hs * H, .H = H };
    r->qkv     = fill(3 * n, dt, range, &r->qkv64, &state);
    r->dout    = fill(n, dt, 1.0f, &r->dout64, &state);
    r->out     = guard_alloc(n * dtype_bytes(dt));
    r->dqkv    = guard_alloc(3 * n * dtype_bytes(dt));
    r->lse     = guard_alloc(B * H * T * sizeof(float));
    r->out64   = malloc(n * sizeof(double));
    r->dqkv64  = malloc(3 * n * sizeof(double));
    r->scratch = scratch_alloc(T, r->C, H, MOST_THREADS);
    assert_true(r->out64 && r->dqkv64);
}

static void run_release(struct run *r)
{
    guard_free(r->qkv);
    guard_free(r->dout);
    guard_free(r->out);
    guard_free(r->dqkv);
    guard_free(r->lse);
    guard_free(r->scratch);
    free(r->qkv64);
    free(r->dout64);
    free(r->out64);
    free(r->dqkv64);
}

static void run_kernels(struct run *r)
{
    struct attention a = { .B = r->B, .T = r->T, .C = r->C, .H = r->H, .dt = r->dt, .qkv = r->qkv,
                           .out = r->out, .lse = r->lse, .drop = r->drop, .scratch = r->scratch,
                           .form = r->form };

    attention_forward(&a);
    attention_backward(r->dqkv, r->dout, &a);
}

static void run_oracle(struct run *r)
{
    size_t  n = r->T * r->C, masks = r->H * r->T;
    double *factor = r->drop ? malloc(masks * r->T * sizeof *factor) : NULL;

    for (size_t b = 0; b < r->B; b++) {
        for (size_t i = 0; factor && i < masks; i++)
            for (size_t j = 0; j < r->T; j++)
                factor[i * r->T + j] =
                    ref_dropout((double)r->drop->p, r->drop->seed, r->drop->site, b * masks + i, j);
        ref_attention(r->out64 + b * n, r->dqkv64 + 3 * b * n, r->dout64 + b * n,
                      r->qkv64 + 3 * b * n, factor, r->T, r->C, r->H);
    }
    free(factor);
}

// Every element within tol of the largest magnitude of its array.
static void check_close(const char *what, const struct run *r, const void *got, const double *want,
                        size_t n, double tol)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)dtype_get(got, r->dt, i) - want[i]) <= tol * largest))
            fail_msg("%s, B %zu T %zu C %zu H %zu: element %zu is %g, not %g", what, r->B, r->T,
                     r->C, r->H, i, (double)dtype_get(got, r->dt, i), want[i]);
}

static void check_one(const struct attention_form *form, enum dtype dt, size_t B, size_t T,
                      size_t hs, size_t H, double tol)
{
    struct run r;

    run_init(&r, dt, B, T, hs, H, 2.0f);
    r.form = form;
    run_kernels(&r);
    run_oracle(&r);
    check_close("out", &r, r.out, r.out64, r.B * r.T * r.C, tol);
    check_close("dqkv", &r, r.dqkv, r.dqkv64, 3 * r.B * r.T * r.C, tol);
    run_release(&r);
}

static void check_against_oracle(const struct attention_form *form, enum dtype dt, double tol)
{
    static const size_t lengths[] = {1, 17, 64, 65, 112, 130}, heads[] = {1, 3},
                        sizes[] = {1, 5, 33, 64, 80, 129};

    if (!form->runs(dt)) {
        print_message("this CPU does not run attention in form %s\n", form->name);
        skip();
    }
    for (size_t t = 0; t < 6; t++)
        for (size_t h = 0; h < 2; h++)
            for (size_t s = 0; s < 6; s++)
                check_one(form, dt, h ? 3 : 1, lengths[t], sizes[s], heads[h], tol);
    check_one(form, dt, 1, 600, 96, 2, tol); // several groups of query tiles
}

static void test_fp32(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_f32, DT_F32, 1e-5);
}

static void test_bf16_in_fp32(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_f32, DT_BF16, 2e-2);
}

static void test_bf16_in_bf16(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_bf16, DT_BF16, 2e-2);
}

static void test_bf16_in_amx(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_amx, DT_BF16, 2e-2);
}

// The softmax's own sums are those without dropout, to the bit.
static void check_dropout(const struct attention_form *form, enum dtype dt, size_t T)
{
    static const struct dropout drop = { .p = 0.3f, .seed = 5, .site = UINT64_C(7) << 40 };
    struct run with, without;
    double     tol = dt == DT_F32 ? 1e-5 : 2e-2;

    run_init(&with, dt, 2, T, 33, 3, 2.0f);
    run_init(&without, dt, 2, T, 33, 3, 2.0f);
    with.form = without.form = form;
    with.drop = &drop;
    run_kernels(&with);
    run_kernels(&without);
    run_oracle(&with);
    check_close("dropped out", &with, with.out, with.out64, 2 * T * with.C, tol);
    check_close("dropped dqkv", &with, with.dqkv, with.dqkv64, 6 * T * with.C, tol);
    assert_memory_equal(with.lse, without.lse, 2 * 3 * T * sizeof *with.lse);
    run_release(&with);
    run_release(&without);
}

static void test_dropout(void **unused)
{
    static const size_t lengths[] = { 1, 17, 65, 150 };

    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            for (size_t t = 0; t < 4 && forms[f]->runs(dt); t++)
                check_dropout(forms[f], dt, lengths[t]);
}

static void test_dropout_of_nothing(void **unused)
{
    static const struct dropout zero = { .p = 0.0f, .seed = 5, .site = 7 };
    struct run one, none;
    size_t     bytes = 2 * 70 * 2 * 24 * 4;

    (void)unused;
    run_init(&one, DT_F32, 2, 70, 24, 2, 2.0f);
    run_init(&none, DT_F32, 2, 70, 24, 2, 2.0f);
    one.drop = &zero;
    run_kernels(&one);
    run_kernels(&none);
    assert_memory_equal(one.out, none.out, bytes);
    assert_memory_equal(one.dqkv, none.dqkv, 3 * bytes);
    run_release(&one);
    run_release(&none);
}

static void check_threads(const struct attention_form *form, enum dtype dt)
{
    static const struct dropout drop = { .p = 0.1f, .seed = 1, .site = 2 };
    int        before = omp_get_max_threads();
    struct run one, more;
    size_t     bytes = 2 * 150 * 3 * 40 * dtype_bytes(dt);

    run_init(&one, dt, 2, 150, 40, 3, 2.0f);
    run_init(&more, dt, 2, 150, 40, 3, 2.0f);
    one.form = more.form = form;
    one.drop = more.drop = &drop;
    omp_set_num_threads(1);
    run_kernels(&one);
    omp_set_num_threads(MOST_THREADS);
    run_kernels(&more);
    omp_set_num_threads(before);
    assert_memory_equal(one.out, more.out, bytes);
    assert_memory_equal(one.dqkv, more.dqkv, 3 * bytes);
    assert_memory_equal(one.lse, more.lse, 2 * 3 * 150 * 4);
    run_release(&one);
    run_release(&more);
}

static void test_threads_do_not_matter(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            if (forms[f]->runs(dt))
                check_threads(forms[f], dt);
}

// A row's result does not depend on the rows it stands beside: row 1 of 3, and the same row alone.
static void test_batch_does_not_matter(void **unused)
{
    struct run all, one;
    size_t     bytes = 70 * 2 * 24 * 4;

    (void)unused;
    run_init(&all, DT_F32, 3, 70, 24, 2, 2.0f);
    run_init(&one, DT_F32, 1, 70, 24, 2, 2.0f);
    memcpy(one.qkv, (char *)all.qkv + 3 * bytes, 3 * bytes);
    memcpy(one.dout, (char *)all.dout + bytes, bytes);
    run_kernels(&all);
    run_kernels(&one);
    assert_memory_equal((char *)all.out + bytes, one.out, bytes);
    assert_memory_equal((char *)all.dqkv + 3 * bytes, one.dqkv, 3 * bytes);
    run_release(&all);
    run_release(&one);
}

// Scores of thousands: the softmax is all but a choice, and nothing overflows.
static void test_large_scores(void **unused)
{
    struct run r;

    (void)unused;
    run_init(&r, DT_F32, 1, 130, 64, 2, 100.0f);
    run_kernels(&r);
    run_oracle(&r);
    check_close("out", &r, r.out, r.out64, r.T * r.C, 2e-3);
    for (size_t i = 0; i < 3 * r.T * r.C; i++)
        assert_true(isfinite(((float *)r.dqkv)[i]));
    for (size_t i = 0; i < r.H * r.T; i++)
        assert_true(isfinite(r.lse[i]));
    run_release(&r);
}

// Each position decoded from a cache gives the row that forward gives, whatever stands behind it in
// the cache.
static void check_decode(enum dtype dt, size_t hs, size_t H, double tol)
{
    enum { T = 131, MAX_T = 140, B = 2 };
    size_t     C = hs * H, e = dtype_bytes(dt);
    struct run r;
    char *k = guard_alloc(B * MAX_T * C * e), *v = guard_alloc(B * MAX_T * C * e),
         *out = guard_alloc(B * C * e), *qkv = guard_alloc(B * 3 * C * e);
    struct attention_cached a = { .B = B, .max_T = MAX_T, .C = C, .H = H, .dt = dt, .qkv = qkv,
                                  .k = k, .v = v };

    run_init(&r, dt, B, T, hs, H, 2.0f);
    run_oracle(&r);
    a.scratch = r.scratch;
    memset(k, 0xff, B * MAX_T * C * e);
    memset(v, 0xff, B * MAX_T * C * e);
    for (size_t t = 0; t < T; t++) {
        for (size_t b = 0; b < B; b++) {
            char *row = (char *)r.qkv + (b * T + t) * 3 * C * e;

            memcpy(qkv + b * 3 * C * e, row, 3 * C * e);
            memcpy(k + (b * MAX_T + t) * C * e, row + C * e, C * e);
            memcpy(v + (b * MAX_T + t) * C * e, row + 2 * C * e, C * e);
        }
        a.T = t + 1;
        attention_decode(out, &a);
        for (size_t b = 0; b < B; b++)
            check_close("decode", &r, out + b * C * e, r.out64 + (b * T + t) * C, C, tol);
    }
    guard_free(k);
    guard_free(v);
    guard_free(out);
    guard_free(qkv);
    run_release(&r);
}

static void test_decode(void **unused)
{
    (void)unused;
    check_decode(DT_F32, 64, 1, 1e-5);
    check_decode(DT_F32, 33, 3, 1e-5);
    check_decode(DT_BF16, 64, 2, 2e-2);
}

/* What attention needs for itself (beside which nothing is written: the other tests have guard
 * pages behind it) grows as a row's tokens do, not as their square: at 131,072 tokens a head's
 * T x T matrix alone would be 64 GiB. */
static void test_memory_is_of_rows(void **state)
{
    (void)state;
    const size_t C = 768, H = 12;

    for (size_t T = 1024; T <= 131072; T *= 2) {
        size_t at = attention_scratch(T, C, H, 1), twice = attention_scratch(2 * T, C, H, 1);

        assert_true(twice > 0 && twice <= 2 * at);
        assert_true(twice - at <= T * 8 * (C / H) * sizeof(float)); // of one head, some floats each
    }
    print_message("32,768 tokens: %.1f MiB a thread\n",
                  (double)attention_scratch(32768, C, H, 1) / (1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),
        cmocka_unit_test(test_bf16_in_fp32),
        cmocka_unit_test(test_bf16_in_bf16),
        cmocka_unit_test(test_bf16_in_amx),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_of_nothing),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_batch_does_not_matter),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_memory_is_of_rows),
        cmocka_unit_test(test_decode),
    };

    if (omp_get_max_threads() > MOST_THREADS)
        omp_set_num_threads(MOST_THREADS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
