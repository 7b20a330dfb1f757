/* test_preferences.c: the losses of pairs of answers at values worked out by hand, and their slopes
 * against differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "model/layer/pairs.h"

static int near(double a, double b, double most) { return fabs(a - b) <= most * (1 + fabs(b)); }

static double loss_of(struct pairs_options o, double chosen, double rejected)
{
    double slope[2];

    return pairs_loss(&o, &(struct pair){ { chosen, rejected }, { 4, 5 } }, slope);
}

static void test_values(void **state)
{
    struct pairs_options o = { PAIRS_SIGMOID, 0.5, 0 }, smooth = { PAIRS_SIGMOID, 0.5, 0.2 },
                         robust = { PAIRS_ROBUST, 0.5, 0.2 }, ipo = { PAIRS_IPO, 0.5, 0 };
    double right = log1p(exp(-1)), wrong = log1p(exp(1)); // of -log s(1), and -log s(-1)

    (void)state;
    assert_true(near(loss_of(o, 0, 0), log(2), 1e-15));
    assert_true(near(loss_of(o, 3, 1), right, 1e-15)); // beta d = 1
    assert_true(near(loss_of(o, 1, 3), wrong, 1e-15));
    assert_true(near(loss_of(smooth, 3, 1), 0.8 * right + 0.2 * wrong, 1e-15));
    assert_true(near(loss_of(robust, 3, 1), (0.8 * right - 0.2 * wrong) / 0.6, 1e-15));
    assert_true(near(loss_of(ipo, 4, 10), 4, 1e-15)); // (1 - 2 - 1)^2
    assert_true(near(loss_of(o, 4000, 0), 0, 1e-15)); // and none is infinite
    assert_true(near(loss_of(o, 0, 4000), 2000, 1e-15));
}

static void test_slopes(void **state)
{
    static const double at[][2] = { { 0, 0 }, { 3, -2 }, { -7, 5 }, { 40, 1 }, { -60, 0.5 } };
    const double        step = 1e-4;

    (void)state;
    for (int loss = PAIRS_SIGMOID; loss <= PAIRS_IPO; loss++)
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            struct pairs_options o = { (enum pairs_loss)loss, 0.3, loss == PAIRS_IPO ? 0 : 0.1 };
            struct pair          p = { { at[i][0], at[i][1] }, { 4, 5 } };
            double c = at[i][0], r = at[i][1], slope[2];

            pairs_loss(&o, &p, slope);
            assert_true(near(slope[0], (loss_of(o, c + step, r) - loss_of(o, c - step, r)) /
                                           (2 * step), 1e-6));
            assert_true(near(slope[1], (loss_of(o, c, r + step) - loss_of(o, c, r - step)) /
                                           (2 * step), 1e-6));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_slopes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
