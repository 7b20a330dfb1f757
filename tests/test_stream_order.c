/* test_stream_order.c: what does not wait for what in the stream over devices: updates not for the
 * norm where they may speculate, nor for a commit A that is on its way. */
#include "tests/csd_hold.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Waits until an update of the step runs, though its norm is not known; after a clipped step none
 * does. */
static void updated_before_norm(struct stream *s, uint64_t step)
{
    uint64_t ns = 0;

    while (step < 2 && ns == 0)
        ns = meter_total(s->meter, step, PHASE_UPDATE);
    assert_true(step < 2 || meter_total(s->meter, step, PHASE_UPDATE) == 0);
}

static int count_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    *(long *)ctx = atol(v[0]);
    return 0;
}

/* Step 0 is not clipped: what was done ahead stands. Step 1 is: it is done again, beside the table.
 * Step 2 waits for its norm. */
static void updates_do_not_wait(void **state)
{
    (void)state;
    const struct variant v[] = {
        { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring" },
        { RUN_BASE, 1, 1 << 20, 2, 1, .disk = "sync", .compress = 0.05, .feedback = STREAMED },
    };

    for (size_t i = 0; i < 4; i++) {
        struct toy     t;
        struct stream *s;
        long           again[3];

        variant_make(&t, &v[i / 2], i % 2 ? SPECULATE_FEW : SPECULATE);
        s = toy_open(&t);
        toy_before_norm = updated_before_norm;
        for (uint64_t step = 0; step < 3; step++)
            toy_train(&t, s, step);
        toy_before_norm = NULL;
        toy_close(&t, s);
        for (int step = 0; step < 3; step++) {
            char sql[96];

            variant_traffic(&t, (uint64_t)step);
            snprintf(sql, sizeof sql,
                     "SELECT count(*) FROM traffic WHERE phase = 'redo' AND step = %d", step);
            must(&t, runlog_query(t.cfg.log, sql, count_row, &again[step], &t.err));
        }
        assert_true(again[0] == 0 && again[1] > 0 && again[2] == 0);
        toy_remove(&t);
    }
}

/* A commit A that is on its way keeps no update waiting, few as the spare slots are, and the bits
 * are the same. */
static void updates_do_not_wait_for_commit_a(void **state)
{
    (void)state;
    const struct variant v[] = {
        { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring" },
        { RUN_SU, 1, 128 << 10, 2, 1, .disk = "sync" },
        { RUN_BASE, 1, 1 << 20, 2, 1, .disk = "sync", .compress = 0.05, .feedback = STREAMED },
    };

    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct trained want = variant_run(&v[i]);
        struct toy     t;
        struct stream *s;

        variant_make(&t, &v[i], WAIT);
        t.cfg.csd = &csd_hold;
        s = toy_open(&t);
        for (uint64_t step = 0; step < STEPS; step++) {
            if (step == 1)
                must(&t, stream_drain(s, &t.err)); // its own A alone is to wait
            csd_hold_set(step == 1 ? 1u << CSD_FLUSH : 0);
            assert_true(toy_train(&t, s, step) == want.loss[step]);
            for (int ms = 0; step == 1 && meter_total(s->meter, step, PHASE_UPDATE) == 0;
                 ms++) {
                assert_true(ms < 20000);
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
            }
        }
        toy_close(&t, s);
        assert_int_equal(toy_sum(&t), want.params);
        toy_remove(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_do_not_wait),
        cmocka_unit_test(updates_do_not_wait_for_commit_a),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
