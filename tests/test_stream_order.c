/* test_stream_order.c: what does not wait for what in the stream over devices: updates not for the
 * norm where they may speculate, nor for a commit A that is on its way; the next forward not for
 * moments. */
#include "offload/layout/store.h"
#include "tests/csd_hold.h"
#include "tests/disk_fault.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
                assert_true(ms < 60000);
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
            }
        }
        toy_close(&t, s);
        assert_int_equal(toy_sum(&t), want.params);
        toy_remove(&t);
    }
}

/* ---- parameters first ---- */

/* Writes of block 0's moments: how many came, and what becomes of them, as disk_fault_plan.hold
 * says. */
static struct store moments_of;
static int          moments_came, moments_fate;

static int moments_hold(const struct disk_req *r)
{
    for (size_t i = 0; i < moments_of.block_sub[1] && r->op == DISK_WRITE; i++) {
        const struct store_class *c = &moments_of.classes[moments_of.subs[i].class_];
        uint64_t                  at = r->off - c->off, end = c->slots * c->slot_bytes;

        if (r->off < c->off || at >= end || at % c->slot_bytes != 4 * c->n_pad)
            continue;
        __atomic_add_fetch(&moments_came, 1, __ATOMIC_SEQ_CST);
        return __atomic_load_n(&moments_fate, __ATOMIC_SEQ_CST);
    }
    return 0;
}

/* To the end, from the last commit. */
static void train_on(struct toy *t, const struct trained *want)
{
    struct stream *s;
    uint64_t       step, applied;

    t->cfg.csd = &csd_emu;
    must(t, run_position(&t->cfg, &step, &applied, &t->err));
    assert_true(step <= 1 && applied <= 1);
    for (s = toy_open(t); step < STEPS; step++)
        assert_true(toy_train(t, s, step) == want->loss[step]);
    toy_close(t, s);
    assert_int_equal(toy_sum(t), want->params);
}

/* Every update that run.db tells of has a span for its parameters, in which its writing began. */
static void spans_check(struct toy *t)
{
    long updates, parts;

    must(t, runlog_query(t->cfg.log, "SELECT count(*) FROM spans WHERE phase = 'update'", count_row,
                         &updates, &t->err));
    must(t, runlog_query(t->cfg.log,
                         "SELECT count(*) FROM spans p JOIN spans w USING (step, block, device)"
                         " WHERE p.phase = 'update_params' AND w.phase = 'update_write'"
                         " AND p.start_ns = w.start_ns AND p.end_ns < w.end_ns",
                         count_row, &parts, &t->err));
    assert_true(updates > 0 && parts == updates);
}

/* A forward is through while not one moment of block 0 is written; what it read is right. Where
 * they then cannot be written the stream ends with the sentence, and the run goes on from its last
 * commit, to the same bits. */
static void forward_does_not_wait_for_moments(void **state)
{
    (void)state;
    const struct variant v[] = {
        { RUN_SUO, 2, 1 << 20, 2, 2, .disk = "sync" },
        { RUN_SUO, 1, 2 << 20, 3, 1, .disk = "sync", .compress = 0.05, .feedback = IN_RAM },
        { RUN_BASE, 2, 1 << 20, 2, 2, .disk = "sync", .fp32 = 1, .optim = OPTIM_SGD },
    };
    const struct disk_fault_plan plan = { .inner = &disk_sync, .hold = moments_hold };

    for (size_t i = 0; i < 2 * SPECULATIONS * (sizeof v / sizeof *v); i++) {
        const struct variant *of = &v[i / (2 * SPECULATIONS)];
        struct trained        want = variant_run(of);
        const void           *wire[TOY_BLOCKS];
        double                loss;
        struct toy            t;
        struct stream        *s;
        int                   fails = i % 2;

        variant_make(&t, of, i / 2 % SPECULATIONS);
        must(&t, store_init(&moments_of, &t.cfg, &t.err));
        moments_came = 0;
        moments_fate = 1;
        disk_fault_set(&plan);
        t.cfg.csd = disk_fault_csd(&csd_emu);
        s = toy_open(&t);
        assert_true(toy_train(&t, s, 0) == want.loss[0]);
        alarm(60); // what waits for the moments waits for ever
        must(&t, toy_forward(&t.cfg, s, 1, wire, &loss, &t.err));
        alarm(0);
        assert_true(loss == want.loss[1]);
        assert_true(__atomic_load_n(&moments_came, __ATOMIC_SEQ_CST) > 0);
        __atomic_store_n(&moments_fate, fails ? -EIO : 0, __ATOMIC_SEQ_CST);
        assert_int_equal(stream_drain(s, &t.err), fails ? -EIO : 0);
        assert_true(!fails || (strstr(t.err.text, "write of") &&
                               strstr(t.err.text, "(block 0, step 1)")));
        stream_close(s);
        train_on(&t, &want);
        spans_check(&t);
        store_release(&moments_of);
        toy_remove(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_do_not_wait),
        cmocka_unit_test(updates_do_not_wait_for_commit_a),
        cmocka_unit_test(forward_does_not_wait_for_moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
