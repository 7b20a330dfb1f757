/* test_fault.c: every request of a device that can fail does, once, at every place; devices and
 * folders disappear; gradients become infinite. Each time: a sentence that says where, no hang, no
 * thread and no descriptor left, and the run goes on from there, bit for bit, when the cause is
 * gone. `test_fault all` (make prove-faults) takes every place; without it, some. */
#include "tests/disk_fault.h"
#include "tests/fault/trial.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- requests of a device ---- */

static const struct plan device_plans[] = {
    { .name = "base", .mode = RUN_BASE, .disk = "fault" },
    { .name = "su", .mode = RUN_SU, .disk = "fault" },
    { .name = "su+o", .mode = RUN_SUO, .disk = "fault" },
    { .name = "su+o, pieces", .mode = RUN_SUO, .disk = "fault", .pieces = 10 },
    { .name = "su+o, compressed, feedback", .mode = RUN_SUO, .disk = "fault",
      .compress = 0.05, .feedback = 1 },
    { .name = "su, compressed, feedback in RAM", .mode = RUN_SU, .disk = "fault",
      .compress = 0.05, .feedback = 1, .in_ram = 1 },
    { .name = "base, speculate", .mode = RUN_BASE, .disk = "fault", .speculate = 1 },
    { .name = "su+o, compressed, feedback, speculate", .mode = RUN_SUO, .disk = "fault",
      .compress = 0.05, .feedback = 1, .speculate = 1 },
};
enum { DEVICE_PLANS = sizeof device_plans / sizeof *device_plans };

static const struct disk_fault_plan no_fault = { .inner = &disk_sync };

/* The sentence of a failed request says which device, where, and for which block. */
static void names_the_place(const struct trial *t, const char *plan, uint64_t k, int made)
{
    const char *s = t->err.text;
    int         flush = strstr(s, ": flush") != NULL,
        super = strstr(s, "of 4096 bytes at offset 0") != NULL;

    if (!strstr(s, "device 0 (") || !strstr(s, "/dev0/states)") ||
        (!flush && !strstr(s, " at offset ")) ||
        (!flush && !super && !strstr(s, "(block ") && !strstr(s, "(activations, ")) ||
        (made && !flush && !super && !strstr(s, "step ")))
        fail_msg("%s, request %llu: %s", plan, (unsigned long long)k, s);
}

/* Fail request k of a run's life from its creation; 0 when there are fewer. */
static int request_fails(const struct plan *p, const struct trial *want, uint64_t k, int status,
                         uint64_t timeout_ns)
{
    struct disk_fault_plan plan = { .inner = &disk_sync, .nth = k, .nth_status = status };
    struct trial             t;
    int                    made, rc, met;

    trial_watch();
    trial_begin(&t, p);
    t.cfg.io_timeout_ns = timeout_ns;
    disk_fault_set(&plan);
    rc = trial_live(&t, &made);
    met = disk_fault_count() > 0;
    disk_fault_set(&no_fault);
    t.cfg.io_timeout_ns = 0;
    if (met) {
        trial_is_sentence(&t, rc, p->name, k);
        assert_int_equal(rc, status ? status : -ETIMEDOUT);
        assert_true(status || strstr(t.err.text, "no answer for"));
        names_the_place(&t, p->name, k, made);
        if (!made)
            trial_nothing_left(&t);
    }
    trial_live_on(&t, made, met ? want : NULL, p->name, k);
    return met;
}

static void each_request_fails(const struct plan *p)
{
    struct trial want;
    uint64_t     k = 1, n = 0;

    disk_fault_set(&no_fault);
    want = trial_whole(p);
    for (; request_fails(p, &want, k, k % 2 ? -EIO : -ENOSPC, 0); n++)
        k += trial_all ? 1 : 11;
    print_message("%s: %llu of %llu requests failed, one at a time\n", p->name,
                  (unsigned long long)n, (unsigned long long)k);
    assert_true(n > 5);
}

static void requests_fail_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < DEVICE_PLANS; i++)
        each_request_fails(&device_plans[i]);
}

/* The same of drives beside cards. */
static void requests_beside_cards_fail(void **state)
{
    (void)state;
    const struct plan plans[] = {
        { .name = "su+o, cards", .mode = RUN_SUO, .disk = "fault", .cards = 1 },
        { .name = "su, compressed, cards", .mode = RUN_SU, .disk = "fault", .compress = 0.05,
          .feedback = 1, .cards = 1 },
    };

    each_request_fails(&plans[0]);
    each_request_fails(&plans[1]);
}

static void requests_never_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < DEVICE_PLANS; i++) {
        struct trial want;
        uint64_t   k = 1 + i, n = 0;

        disk_fault_set(&no_fault);
        want = trial_whole(&device_plans[i]);
        for (; request_fails(&device_plans[i], &want, k, 0, 100000000); n++)
            k += trial_all ? 3 : 41;
        print_message("%s: %llu of %llu requests never ended, one at a time\n",
                      device_plans[i].name, (unsigned long long)n, (unsigned long long)k);
        assert_true(n > 2);
    }
}

/* Neither modelled links, a hundred times slower than the limit, nor requests that take long one
 * after the other are silence. */
static void slow_is_not_silent(void **state)
{
    (void)state;
    const struct plan      *p = &device_plans[2];
    struct disk_fault_plan  late = { .inner = &disk_sync, .delay_ns = 30000000 };
    const uint64_t            bw = 1000000;
    struct trial              want, t;

    disk_fault_set(&no_fault);
    want = trial_whole(p);
    for (int links = 0; links < 2; links++) {
        disk_fault_set(links ? &no_fault : &late);
        trial_watch();
        trial_begin(&t, p);
        if (trial_make(&t))
            fail_msg("%s", t.err.text);
        t.cfg.io_timeout_ns = 400000000;
        // a step moves about half a megabyte each way
        if (links)
            t.cfg.links = (struct topology_config){ .read_bw = { &bw, 1 }, .write_bw = { &bw, 1 } };
        trial_goes_on(&t, &want, "slow", (uint64_t)links);
        trial_nothing_runs("slow");
        trial_end(&t);
    }
}

/* ---- devices that disappear ---- */

static const struct plan on_sync = { .name = "su+o on sync", .mode = RUN_SUO, .disk = "sync",
                                     .compress = 0.05, .feedback = 1 };

enum harm { MOVED, REPLACED, CUT, DATABASE_MOVED, FOLDER_MOVED };

/* path, or what is at it, goes; and comes back. */
static void harm_do(enum harm h, const char *path, const char *aside)
{
    if (h == CUT) {
        files_copy(path, aside);
        assert_int_equal(truncate(path, 8192), 0);
        return;
    }
    assert_int_equal(rename(path, aside), 0);
    if (h == REPLACED)
        files_copy(aside, path);
}

static void harm_undo(const char *path, const char *aside)
{
    unlink(path);
    assert_int_equal(rename(aside, path), 0);
}

/* While a run is at work what it writes to goes away: no commit says that it went well, and when it
 * is back the run goes on. */
static void devices_disappear(void **state)
{
    (void)state;
    static const struct { enum harm harm; const char *what, *says; int rc_again;
    } ways[] = {
        { MOVED, "dev0/states", "is gone", -ENOENT },
        { REPLACED, "dev0/states", "is another file", 0 },
        { CUT, "dev0/states", "dev0/states", -EINVAL },
        { DATABASE_MOVED, "run.db", "run.db was removed, renamed or replaced", -ENOENT },
        { FOLDER_MOVED, "dev0", "is gone", -ENOENT },
    };
    struct trial want = trial_whole(&on_sync);

    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct trial     t;
        struct stream *s;
        char           path[4200], aside[4200];
        int            rc;

        trial_watch();
        trial_begin(&t, &on_sync);
        snprintf(path, sizeof path, "%s/%s", t.dir, ways[w].what);
        snprintf(aside, sizeof aside, "%s/aside", t.dir);
        assert_int_equal(trial_make(&t), 0);
        s = trial_open(&t);
        assert_int_equal(toy_step(&t.cfg, s, 0, 0, 0, &t.loss[0], &t.err), 0);
        assert_int_equal(stream_drain(s, &t.err), 0);
        harm_do(ways[w].harm, path, aside);
        rc = toy_step(&t.cfg, s, 1, 0, 0, &t.loss[1], &t.err);
        if (!rc)
            rc = stream_drain(s, &t.err);
        trial_is_sentence(&t, rc, ways[w].what, w);
        if (!strstr(t.err.text, ways[w].says))
            fail_msg("%s: %s", ways[w].what, t.err.text);
        trial_close(&t, s);
        if (ways[w].rc_again) { // it is not there, and that is said again
            assert_int_equal(trial_train(&t), ways[w].rc_again);
            assert_non_null(strstr(t.err.text, path));
        }
        harm_undo(path, aside);
        trial_goes_on(&t, &want, ways[w].what, w);
        trial_nothing_runs(t.err.text);
        trial_end(&t);
    }
}

/* ---- gradients that become infinite only with what is owed ---- */

/* A step whose gradients of block 1 are so large, in steps 0 and 1, that what the first does not
 * send and the second are infinite together. */
static int large_step(struct trial *t, struct stream *s, uint64_t step, struct norm_sum *norm)
{
    const void        *wire[BLOCKS];
    struct stream_step up = { .row = { .step = step } };
    float             *grad;
    int                fresh, rc = toy_forward(&t->cfg, s, step, wire, &t->loss[step], &t->err);

    *norm = (struct norm_sum){ 0 };
    for (size_t b = BLOCKS; b-- > 0 && !rc;) {
        rc = b > 0 && b < BLOCKS - 1 ? stream_acquire(s, b, &wire[b], &t->err) : 0;
        if (!rc)
            rc = stream_grad(s, b, 0, &grad, &fresh, &t->err);
        for (size_t i = 0; !rc && i < t->cfg.block_params[b]; i++)
            grad[i] = b == 1 && i % 5 == 0 && step < 2 ? 2e38f : 0.001f * (float)((i + step) % 17);
        if (b > 0)
            stream_release(s, b);
        if (b == BLOCKS - 1)
            stream_release(s, 0);
        if (!rc)
            rc = stream_send_grad(s, b, norm, &t->err);
    }
    if (rc)
        return rc;
    up.row.skipped = up.skip = norm->nonfinite;
    // clipped so far that what was owed may come: no moment becomes too large
    optim_scalars(&up.optim, t->cfg.optim, 1e-2, 0.9, 0.95, 1e-8, 1e-30, s->applied + 1);
    return stream_update(s, &up, &t->err);
}

static void residuals_overflow(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        { .name = "mem", .mode = RUN_MEM, .disk = "sync", .compress = 0.05, .feedback = 1 },
        { .name = "base", .mode = RUN_BASE, .disk = "sync", .compress = 0.05, .feedback = 1 },
        { .name = "su+o", .mode = RUN_SUO, .disk = "sync", .compress = 0.05, .feedback = 1 },
        { .name = "su+o in RAM", .mode = RUN_SUO, .disk = "sync",
          .compress = 0.05, .feedback = 1, .in_ram = 1 },
    };
    struct trial first = { 0 };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct trial         t;
        struct stream     *s;
        struct norm_sum norm;

        trial_watch();
        trial_begin(&t, &plans[i]);
        assert_int_equal(trial_make(&t), 0);
        s = trial_open(&t);
        for (uint64_t step = 0; step < STEPS; step++) {
            assert_int_equal(large_step(&t, s, step, &norm), 0);
            assert_int_equal(norm.nonfinite, step == 1);
            assert_true(step != 1 || norm.block == 1);
        }
        assert_int_equal(s->applied, STEPS - 1);
        assert_int_equal(stream_drain(s, &t.err), 0);
        trial_close(&t, s);
        assert_int_equal(trial_read(&t), 0);
        if (i == 0)
            first = t;
        assert_true(isfinite(t.loss[STEPS - 1]));
        assert_int_equal(t.params, first.params);
        assert_memory_equal(t.loss, first.loss, sizeof t.loss);
        trial_nothing_runs(plans[i].name);
        trial_end(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_fail_one_by_one),
        cmocka_unit_test(requests_beside_cards_fail),
        cmocka_unit_test(requests_never_end),
        cmocka_unit_test(slow_is_not_silent),
        cmocka_unit_test(devices_disappear),
        cmocka_unit_test(residuals_overflow),
    };

    trial_set_up(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
