/* test_schedule.c: rates at the corners of warm-up and horizon, against values worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "model/schedule.h"

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-15 + 1e-12 * fabs(b);
}

static void test_warmup(void **state)
{
    struct schedule s = { SCHEDULE_COSINE, 1e-3, 1e-4, 4, 12, 0 };

    (void)state;
    assert_true(near(schedule_lr(&s, 0), 0.25e-3)); // (s + 1) / warmup
    assert_true(near(schedule_lr(&s, 3), 1e-3));
    assert_true(near(schedule_lr(&s, 4), 1e-3)); // f = 0
    s.warmup = 0;
    assert_true(near(schedule_lr(&s, 0), 1e-3));
}

static void test_decay(void **state)
{
    struct schedule s = { SCHEDULE_COSINE, 1e-3, 1e-4, 4, 12, 0 };

    (void)state;
    assert_true(near(schedule_lr(&s, 8), 0.55e-3)); // halfway
    assert_true(near(schedule_lr(&s, 6), 1e-4 + 9e-4 * (1 + sqrt(0.5)) / 2));
    assert_true(near(schedule_lr(&s, 12), 1e-4));
    assert_true(near(schedule_lr(&s, 1000), 1e-4)); // stays at the end
    s.kind = SCHEDULE_LINEAR;
    assert_true(near(schedule_lr(&s, 6), 1e-4 + 9e-4 * 0.75));
    assert_true(near(schedule_lr(&s, 12), 1e-4));
    s.kind = SCHEDULE_CONSTANT;
    assert_true(near(schedule_lr(&s, 1), 0.5e-3)); // warm-up all the same
    assert_true(near(schedule_lr(&s, 100), 1e-3));
}

/* wsd: the rates that transformers' get_wsd_schedule gives for 3 steps of warm-up, 5 stable ones
 * and a linear decay of 4 to a tenth, from 1. (Its warm-up begins at 0, one step earlier.) */
static void test_stable(void **state)
{
    static const double theirs[] = { 1, 1, 1, 1, 1, 1, 0.775, 0.55, 0.325, 0.1, 0.1 };
    struct schedule     s = { SCHEDULE_WSD, 1e-3, 1e-4, 3, 12, 4 };

    (void)state;
    assert_true(near(schedule_lr(&s, 1), 2e-3 / 3));
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        assert_true(near(schedule_lr(&s, 3 + i), 1e-3 * theirs[i]));
    for (uint64_t longer = 13; longer < 40; longer++) { // extended: the same up to the new decay
        struct schedule t = { SCHEDULE_WSD, 1e-3, 1e-4, 3, longer, 4 };

        for (uint64_t step = 0; step <= 8; step++)
            assert_true(schedule_lr(&s, step) == schedule_lr(&t, step));
    }
    s.decay = 12; // no room for all of it: from the warm-up on
    assert_true(near(schedule_lr(&s, 3), 1e-3) && near(schedule_lr(&s, 12), 1e-4));
}

/* A horizon inside the warm-up: max(1, horizon - warmup) steps of decay. */
static void test_short_horizon(void **state)
{
    struct schedule s = { SCHEDULE_LINEAR, 1.0, 0.0, 10, 5, 0 };

    (void)state;
    assert_true(near(schedule_lr(&s, 9), 1.0));
    assert_true(near(schedule_lr(&s, 10), 1.0));
    assert_true(near(schedule_lr(&s, 11), 0.0));
}

static void test_clip(void **state)
{
    (void)state;
    assert_true(schedule_clip(0, 1e9) == 1.0);
    assert_true(schedule_clip(1.0, 0.5) == 1.0);
    assert_true(near(schedule_clip(1.0, 4.0), 1.0 / (4.0 + 1e-6)));
    assert_true(schedule_clip(1.0, 1.0) < 1.0); // by the 1e-6, as PyTorch
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(schedule_name(SCHEDULE_COSINE), "cosine");
    assert_string_equal(schedule_name(SCHEDULE_LINEAR), "linear");
    assert_string_equal(schedule_name(SCHEDULE_CONSTANT), "constant");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup),        cmocka_unit_test(test_decay),
        cmocka_unit_test(test_short_horizon), cmocka_unit_test(test_clip),
        cmocka_unit_test(test_stable),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
