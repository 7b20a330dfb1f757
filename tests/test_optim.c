/* Every optimizer gives, bit for bit, what its written sequence gives in volatile scalars; it
 * follows the textbook in double; and subnormals are gone from results while the caller's MXCSR is
 * as it was. What would become too large stays what it was, wherever an update is cut; and bounds
 * that say nothing can are right. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/opt/opt_row.h"
#include "kernels/update/bounds.h"
#include "kernels/update/optim.h"
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>
#include <xmmintrin.h>

enum { FLUSH = 0x8040 }; // FTZ | DAZ

/* One element; volatile makes every operation round to float, whatever the compiler would like. */
static void scalar_update(float *w, float *m, float *v, float g0, float wd,
                          const struct optim_step *s)
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

static void textbook_step(struct model *x, enum optim_kind kind, double g, double lr, double wd,
                          int t)
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

/* A gradient of 1e-30: its square's share of v is subnormal, so v must be zero and eps alone
 * divides. */
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

/* A float of any size up to 10^most, of either sign. */
static float wild(uint64_t *seed, int most)
{
    float x = (float)(ref_random(seed) % 2000) / 1000.0f - 1.0f;

    return x * powf(10.0f, (float)(ref_random(seed) % (unsigned)(most + 20)) - 20.0f);
}

static int goes_too_far(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(x[i]) < OPTIM_BOUND))
            return 1;
    return 0;
}

/* n elements, many of which go too far, updated in two parts: the oracle decides for each. */
static void check_kept(enum optim_kind kind, size_t n, float decay, uint64_t *seed)
{
    enum { MOST = 1500 };
    static float      a[4][MOST], want[3][MOST];
    struct optim_step s;
    struct overflow kept = {0}, more = {0};
    struct bounds      r = {0};
    size_t            cut = ref_random(seed) % (n + 1), stayed = 0, first = 0;
    unsigned          csr = _mm_getcsr();

    optim_scalars(&s, kind, 0.1, 0.9, 0.999, 1e-8, 0.37, 2);
    _mm_setcsr(csr | FLUSH);
    for (size_t i = 0; i < n; i++) {
        float to[3];
        int   rare = ref_random(seed) % 100 == 0;

        for (int j = 0; j < 4; j++)
            a[j][i] = wild(seed, rare ? 38 : 5);
        a[2][i] = fabsf(a[2][i]);
        if (kind == OPTIM_ADAGRAD)
            a[1][i] = fabsf(a[1][i]);
        for (int j = 0; j < 3; j++)
            to[j] = a[j][i];
        scalar_update(&to[0], &to[1], &to[2], a[3][i], decay, &s);
        if (goes_too_far(to, optim_moments(kind) + 1)) {
            first = stayed++ ? first : i;
            for (int j = 0; j < 3; j++)
                to[j] = a[j][i];
        }
        for (int j = 0; j < 3; j++)
            want[j][i] = to[j];
    }
    _mm_setcsr(csr);
    overflow_add(&kept,
                 bounds_update(a[0], a[1], optim_moments(kind) == 2 ? a[2] : NULL, a[3], cut,
                               decay, &s, &r),
                 0);
    more = bounds_update(a[0] + cut, a[1] + cut, optim_moments(kind) == 2 ? a[2] + cut : NULL,
                         a[3] + cut, n - cut, decay, &s, &r);
    overflow_add(&kept, more, cut);
    for (size_t j = 0; j < (size_t)optim_moments(kind) + 1; j++)
        assert_memory_equal(a[j], want[j], n * sizeof(float));
    assert_int_equal(kept.n, stayed);
    assert_true(!stayed || kept.first == first);
    assert_true(stayed || overflow_find(a[0], n).n == 0);
}

static void test_kept(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++)
        for (size_t n = 1; n < 1500; n = n * 3 / 2 + 1) {
            check_kept((enum optim_kind)kind, n, 0.1f, &seed);
            check_kept((enum optim_kind)kind, n, 1e30f, &seed);
        }
}

/* Numbers of all sizes: where calm is said, nothing comes near the bound or out of *r. */
static void check_calm(enum optim_kind kind, uint64_t *seed, unsigned *calm)
{
    enum { N = 64 };
    float             x[4][N], most[4] = {0}, wd = fabsf(wild(seed, 20));
    struct optim_step s;
    struct bounds      r;

    optim_scalars(&s, kind, (double)fabsf(wild(seed, 20)), 0.9, 0.999,
                  pow(10, -(double)(ref_random(seed) % 50)), (double)fabsf(wild(seed, 2)),
                  1 + ref_random(seed) % 3);
    for (int j = 0; j < 4; j++)
        for (int i = 0, scale = (int)(ref_random(seed) % 38); i < N; i++) {
            x[j][i] = wild(seed, scale);
            if (j == 2 || (j == 1 && kind == OPTIM_ADAGRAD))
                x[j][i] = fabsf(x[j][i]);
            most[j] = fmaxf(most[j], fabsf(x[j][i]));
        }
    r = (struct bounds){(double)most[0], (double)most[1], (double)most[2], 0};
    for (int i = 0; i < N && optim_moments(kind) == 2; i++)
        r.ratio = fmax(r.ratio, fabs((double)x[1][i]) / (sqrt((double)x[2][i]) + BOUNDS_ROOT));
    if (!bounds_advance(&r, &s, (double)wd, (double)most[3]))
        return;
    ++*calm;
    optim_update(x[0], x[1], optim_moments(kind) == 2 ? x[2] : NULL, x[3], N, wd, &s);
    for (int i = 0; i < N; i++) {
        assert_true((double)fabsf(x[0][i]) <= r.w && (double)fabsf(x[1][i]) <= r.m);
        if (optim_moments(kind) == 2)
            assert_true((double)x[2][i] <= r.v &&
                        fabs((double)x[1][i]) <= r.ratio * (sqrt((double)x[2][i]) + BOUNDS_ROOT));
    }
    assert_true(r.w < (double)OPTIM_BOUND && r.m < (double)OPTIM_BOUND &&
                r.v < (double)OPTIM_BOUND);
}

static void test_calm(void **state)
{
    uint64_t     seed = 4;
    struct bounds unknown = BOUNDS_UNKNOWN;

    (void)state;
    for (int kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++) {
        unsigned          calm = 0;
        struct optim_step s;
        struct bounds      r = {5, 0, 0, 0};

        for (int i = 0; i < 4000; i++)
            check_calm((enum optim_kind)kind, &seed, &calm);
        assert_in_range(calm, 400, 3600);
        for (uint64_t t = 1; t < 10000; t++) { // what trains as usual is not looked at again
            optim_scalars(&s, (enum optim_kind)kind, 1e-3, 0.9, 0.999, 1e-8, 1, t);
            assert_true(bounds_advance(&r, &s, 0.1, 10));
        }
        assert_false(bounds_advance(&unknown, &s, 0.1, 10));
        assert_false(bounds_advance(&r, &s, 0.1, INFINITY));
        assert_false(bounds_advance(&r, &s, 0.1, NAN));
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int k = OPTIM_ADAMW; k <= OPTIM_ADAGRAD; k++) {
        const char *name = optim_name((enum optim_kind)k);

        assert_int_equal(opt_words_find(optim_name, name, strlen(name)), k);
    }
    assert_int_equal(opt_words_find(optim_name, "lion", 4), -1);
    assert_int_equal(optim_moments(OPTIM_ADAM), 2);
    assert_int_equal(optim_moments(OPTIM_ADAGRAD), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_parity),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_calm),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
