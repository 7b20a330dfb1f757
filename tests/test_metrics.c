/* test_metrics.c: every metric against scikit-learn and scipy (tests/fixtures/make_metrics.py):
 * ties, constant sides, empty and many classes, one and two rows; and the cases they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/task/metrics.h"
#include "tests/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct of_case { const char *name; size_t n; };

static void check(const struct fixture *f, const char *prefix, const char *name, int k, double got)
{
    char   array[64];
    double want[3];

    snprintf(array, sizeof array, "%s%s.m", prefix, name);
    memcpy(want, fixture_i32(f, array, 6), sizeof want);
    if (isnan(want[k]) ? !isnan(got) : !(fabs(got - want[k]) <= 1e-12 * fmax(fabs(want[k]), 1e-2)))
        fail_msg("%s%s, metric %d: %.17g, expected %.17g", prefix, name, k, got, want[k]);
}

static void classes_as_sklearn(void **state)
{
    static const struct of_case cases[] = {
        { "random", 301 },    { "skewed", 2000 },   { "right", 400 },  { "wrong", 400 },
        { "constant_p", 50 }, { "constant_t", 50 }, { "constant", 9 }, { "no_ones", 40 },
        { "one_right", 1 },   { "one_wrong", 1 },   { "two", 2 },      { "five", 400 },
        { "empty", 120 },     { "many", 900 },      { "far", 200 },
    };
    static const enum metric metrics[] = { METRIC_ACCURACY, METRIC_F1, METRIC_MATTHEWS };
    struct fixture *f = fixture_open("tests/fixtures/metrics.fix");

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k < 3; k++) {
            char p[64], t[64];

            snprintf(p, sizeof p, "c_%s.p", cases[c].name);
            snprintf(t, sizeof t, "c_%s.t", cases[c].name);
            check(f, "c_", cases[c].name, k,
                  metric_classes(metrics[k], fixture_i32(f, p, cases[c].n),
                                 fixture_i32(f, t, cases[c].n), cases[c].n));
        }
    fixture_close(f);
}

static void values_as_scipy(void **state)
{
    static const struct of_case cases[] = {
        { "random", 500 },    { "against", 500 },   { "ties", 60 },
        { "constant_p", 30 }, { "constant_t", 30 }, { "two", 2 },
        { "two_tied", 2 },    { "offset", 500 },    { "heavy", 5000 },
    };
    static const enum metric metrics[] = { METRIC_PEARSON, METRIC_SPEARMAN, METRIC_MSE };
    struct fixture *f = fixture_open("tests/fixtures/metrics.fix");

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k < 3; k++) {
            char    p[64], t[64];
            size_t  n = cases[c].n;
            double *scratch = k < 2 ? malloc(4 * n * sizeof *scratch) : NULL; // its own size, for
                                                                               // AddressSanitizer

            snprintf(p, sizeof p, "v_%s.p", cases[c].name);
            snprintf(t, sizeof t, "v_%s.t", cases[c].name);
            check(f, "v_", cases[c].name, k,
                  metric_values(metrics[k], fixture_f32(f, p, n), fixture_f32(f, t, n), n,
                                scratch));
            free(scratch);
        }
    fixture_close(f);
}

/* No rows, one row, a NaN, infinities (which have ranks, but no Pearson). */
static void undefined(void **state)
{
    const int32_t none[1] = { 0 };
    const float   x[] = { 1, NAN, 3 }, y[] = { 1, 2, 3 }, far[] = { -INFINITY, 0, INFINITY };
    double       *scratch = malloc(12 * sizeof *scratch);

    (void)state;
    assert_non_null(scratch);
    assert_true(isnan(metric_classes(METRIC_ACCURACY, none, none, 0)));
    assert_true(metric_classes(METRIC_F1, none, none, 0) == 0.0);
    assert_true(metric_classes(METRIC_MATTHEWS, none, none, 0) == 0.0);
    for (size_t n = 0; n < 2; n++) {
        assert_true(isnan(metric_values(METRIC_PEARSON, y, y, n, NULL)));
        assert_true(isnan(metric_values(METRIC_SPEARMAN, y, y, n, scratch)));
    }
    assert_true(isnan(metric_values(METRIC_MSE, y, y, 0, NULL)));
    assert_true(isnan(metric_values(METRIC_PEARSON, x, y, 3, NULL)));
    assert_true(isnan(metric_values(METRIC_SPEARMAN, y, x, 3, scratch)));
    assert_true(isnan(metric_values(METRIC_MSE, x, y, 3, NULL)));
    assert_true(isnan(metric_values(METRIC_PEARSON, far, y, 3, scratch)));
    assert_true(fabs(metric_values(METRIC_SPEARMAN, far, y, 3, scratch) - 1.0) < 1e-15);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_as_sklearn),
        cmocka_unit_test(values_as_scipy),
        cmocka_unit_test(undefined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
