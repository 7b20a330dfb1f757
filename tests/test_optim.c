/* Every optimizer gives, bit for bit, what its written sequence gives in volatile scalars; it follows the
 * textbook in double; and subnormals are gone from results while the caller's MXCSR is as it was. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/optim.h"
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>
#include <xmmintrin.h>

enum { FLUSH = 0x8040 }; // FTZ | DAZ

/* One element; volatile makes every operation round to float, whatever the compiler would like. */
static void scalar_update(float *w, float *m, float *v, float g0, float wd, const struct optim_step *s)
{
    volatile float g = g0 * s->grad_scale, a, b, x = *w, mi = *m, vi = *v;

    if (s->kind == OPTIM_ADAMW) {
        a = (float)(1.0 - (double)s->lr * (double)wd);
        x = x * a;
    } else {
        a = wd * x;
        g = g + a;
    }
    if (s->kind == OPTIM_SGD) {
        a = s->beta1 * mi;
        mi = a + g;
        if (s->first)
            mi = g;
        a = s->step_size * mi;
    } else if (s->kind == OPTIM_ADAGRAD) {
        a = g * g;
        mi = mi + a;
        a = sqrtf(mi);
        a = a + s->eps;
        a = g / a;
        a = s->step_size * a;
    } else {
        a = s->beta1 * mi;
        b = s->one_minus_beta1 * g;
        mi = a + b;
        a = s->beta2 * vi;
        b = s->one_minus_beta2 * g;
        b = b * g;
        vi = a + b;
        a = sqrtf(vi);
        a = a / s->bias2_sqrt;
        a = a + s->eps;
        a = mi / a;
        a = s->step_size * a;
    }
    *w = x - a;
    *m = mi;
    *v = vi;
}

static void check_bits(enum optim_kind kind, size_t n, uint64_t t, uint64_t *seed)
{
    struct optim_step s;
    float            *a[4], *r = malloc(3 * sizeof *r * n);
    unsigned          csr;

    optim_scalars(&s, kind, 3e-4, 0.9, 0.999, 1e-8, 0.37, t);
    for (int j = 0; j < 4; j++) {
        a[j] = guard_alloc(n * sizeof(float));
        ref_fill(a[j], n, j == 2 ? 0.0f : -1.0f, 1.0f, seed);
    }
    for (size_t i = 0; i < n; i++) {
        if (kind == OPTIM_ADAGRAD)
            a[1][i] = fabsf(a[1][i]);
        if (i % 5 == 0) // magnitudes of all kinds, subnormal ones among them
            a[3][i] *= powf(10.0f, -(float)(ref_random(seed) % 46));
        if (i % 7 == 0)
            a[1 + i / 7 % 2][i] *= powf(10.0f, -(float)(ref_random(seed) % 46));
        for (size_t j = 0; j < 3; j++)
            r[j * n + i] = a[j][i];
    }
    csr = _mm_getcsr();
    _mm_setcsr(csr | FLUSH);
    for (size_t i = 0; i < n; i++)
        scalar_update(&r[i], &r[n + i], &r[2 * n + i], a[3][i], 0.1f, &s);
    _mm_setcsr(csr);
    optim_update(a[0], a[1], optim_moments(kind) == 2 ? a[2] : NULL, a[3], n, 0.1f, &s);
    assert_int_equal(_mm_getcsr(), csr);
    for (size_t j = 0; j < (size_t)optim_moments(kind) + 1; j++)
        assert_memory_equal(a[j], r + j * n, n * sizeof(float));
    for (int j = 0; j < 4; j++)
        guard_free(a[j]);
    free(r);
}

static void test_bits(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++)
        for (uint64_t t = 1; t < 4; t++) {
            for (size_t n = 1; n < 70; n++)
                check_bits((enum optim_kind)kind, n, t, &seed);
            check_bits((enum optim_kind)kind, 4099, t, &seed);
        }
}

struct model { // the textbook, in double
    double w, m, v;
};

static void textbook_step(struct model *x, enum optim_kind kind, double g, double lr, double wd, int t)
{
    const double b1 = 0.9, b2 = 0.95, eps = 1e-8;

    if (kind == OPTIM_ADAMW)
        x->w -= lr * wd * x->w;
    else
        g += wd * x->w;
    if (kind == OPTIM_SGD) {
        x->m = t == 1 ? g : b1 * x->m + g;
        x->w -= lr * x->m;
    } else if (kind == OPTIM_ADAGRAD) {
        x->m += g * g;
        x->w -= lr * g / (sqrt(x->m) + eps);
    } else {
        x->m = b1 * x->m + (1 - b1) * g;
        x->v = b2 * x->v + (1 - b2) * g * g;
        x->w -= lr * (x->m / (1 - pow(b1, t))) / (sqrt(x->v / (1 - pow(b2, t))) + eps);
    }
}

static void test_parity(void **state)
{
    enum { N = 257, STEPS = 24 };
    uint64_t seed = 2;

    (void)state;
    for (int kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++) {
        float        w[N], m[N] = {0}, v[N] = {0}, g[N];
        double       want[N];
        struct model x[N] = {0};

        ref_fill(w, N, -1.0f, 1.0f, &seed);
        for (int i = 0; i < N; i++)
            x[i].w = (double)w[i];
        for (int t = 1; t <= STEPS; t++) {
            double            lr = 0.01 / t;
            struct optim_step s;

            optim_scalars(&s, (enum optim_kind)kind, lr, 0.9, 0.95, 1e-8, 0.5, (uint64_t)t);
            ref_fill(g, N, -1.0f, 1.0f, &seed);
            for (int i = 0; i < N; i++) {
                textbook_step(&x[i], (enum optim_kind)kind, 0.5 * (double)g[i], lr, 0.125, t);
                want[i] = x[i].w;
            }
            optim_update(w, m, v, g, N, 0.125f, &s);
        }
        assert_true(ref_excess(w, want, N, 1e-5, 1e-5) <= 1.0);
    }
}

/* A gradient of 1e-30: its square's share of v is subnormal, so v must be zero and eps alone divides. */
static void test_flush(void **state)
{
    float             w = 1.0f, m = 1e-40f, v = 1e-40f, g = 1e-30f;
    struct optim_step s;

    (void)state;
    optim_scalars(&s, OPTIM_ADAMW, 0.001, 0.9, 0.999, 1e-8, 1.0, 10);
    optim_update(&w, &m, &v, &g, 1, 0.0f, &s);
    assert_true(v == 0.0f);
    assert_true(m > 0.0f && m < 2e-31f);
    g = 1e-40f;
    m = v = 0.0f;
    optim_update(&w, &m, &v, &g, 1, 0.0f, &s);
    assert_true(m == 0.0f && v == 0.0f && w == 1.0f);
}

static void test_names(void **state)
{
    (void)state;
    for (int k = OPTIM_ADAMW; k <= OPTIM_ADAGRAD; k++)
        assert_int_equal(optim_parse(optim_name((enum optim_kind)k)), k);
    assert_int_equal(optim_parse("lion"), -1);
    assert_int_equal(optim_moments(OPTIM_ADAM), 2);
    assert_int_equal(optim_moments(OPTIM_ADAGRAD), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_parity),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
