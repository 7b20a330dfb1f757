/* test_stream_fault.c: devices that do not keep what they were given, or fail here and there: each
 * is named, nothing of it gets into a gradient, and the run goes on from its last commit to the
 * same end. */
#include "offload/devices/devices.h"
#include "tests/disk_fault.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Activations that a device did not keep are named, and never get into a gradient; a device that
 * was cut is not made longer again. */
static void lost_records_are_named(void **state)
{
    (void)state;
    const struct variant   v = { RUN_SUO, 2, 1 << 20, 3, 1, .disk = "sync" };
    struct disk_fault_plan plan = {
        .inner = &disk_sync, .seed = 1, .ops = 1u << DISK_WRITE, .dropped = 1
    };
    char                   path[4096], notice[512];
    struct toy             t;
    struct store           st;
    struct stream         *s;
    double                 loss;

    variant_make(&t, &v, WAIT);
    must(&t, store_init(&st, &t.cfg, &t.err));
    assert_true(t.cfg.acts.n > t.cfg.acts.buffers);
    t.cfg.csd = disk_fault_csd(&csd_emu);
    plan.from = st.device_bytes[1];
    plan.to = UINT64_MAX;
    disk_fault_set(&plan);
    s = toy_open(&t);
    assert_int_equal(toy_step(&t.cfg, s, 0, 0, 0, &loss, &t.err), -EIO);
    assert_non_null(strstr(t.err.text, "the activations of step 1, "));
    stream_close(s);

    snprintf(path, sizeof path, "%s/dev1/states", t.dir);
    assert_int_equal(truncate(path, (off_t)st.device_bytes[1] - 1), 0);
    assert_int_not_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err), 0);
    assert_non_null(strstr(t.err.text, "bytes, this run needs"));
    store_release(&st);
    toy_remove(&t);
}

/* As far as the faults let it; 0 when the last step is committed. */
static int train_until_fault(struct toy *t, double *loss)
{
    struct stream *s = NULL;
    char           notice[512];
    uint64_t       step, applied;
    int            rc = run_train(&s, &t->cfg, notice, sizeof notice, &t->err);

    must(t, run_position(&t->cfg, &step, &applied, &t->err));
    for (; !rc && step < STEPS; ++step)
        rc = toy_step(&t->cfg, s, step, 0, 0, &loss[step], &t->err);
    if (!rc)
        rc = stream_drain(s, &t->err);
    stream_close(s);
    return rc;
}

/* Reads, writes and flushes of two devices fail here and there: each ends the stream with a
 * sentence, whatever else is in flight, and the run goes on from its last commit to the same end.
 */
static void faults_lose_nothing_of(const struct variant *of, enum speculation speculation)
{
    struct disk_fault_plan plan = { .inner = of->cards ? &disk_uring : &disk_sync, .ops = 7 };
    struct variant         mem = *of;
    struct trained         want, got;
    struct toy             t;
    int                    rc, failures = 0;

    mem.mode = RUN_MEM;
    mem.cards = 0;
    want = variant_run(&mem);
    variant_make(&t, of, speculation);
    const struct csd_ops *kind = t.cfg.csd;
    t.cfg.csd = disk_fault_csd(kind);
    do { // surely once; in the end it gets through
        plan.seed++;
        plan.eio = plan.seed >= 60 ? 0 : failures ? 0.003 : 0.03;
        disk_fault_set(&plan);
        rc = train_until_fault(&t, got.loss);
        failures += rc != 0;
        assert_true(rc == 0 || rc == -EIO);
        assert_true(rc == 0 || strstr(t.err.text, "device "));
    } while (rc);
    t.cfg.csd = kind;
    got.params = toy_sum(&t);
    print_message("%d failures\n", failures);
    assert_true(failures > 0);
    assert_memory_equal(got.loss, want.loss, sizeof got.loss);
    assert_int_equal(got.params, want.params);
    toy_remove(&t);
}

static void faults_lose_nothing(void **state)
{
    (void)state;
    const struct variant v[] = {
        { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "sync" },
        { RUN_SU, 2, 128 << 10, 2, 1, .disk = "sync", .compress = 0.05, .feedback = IN_RAM },
        { RUN_BASE, 2, 256 << 10, 3, 2, .disk = "sync", .compress = 0.05, .feedback = STREAMED },
    };

    for (size_t i = 0; i < SPECULATIONS * (sizeof v / sizeof *v); i++) {
        const struct variant *of = &v[i / SPECULATIONS];

        faults_lose_nothing_of(of, of->mode == RUN_SU ? WAIT : i % SPECULATIONS);
    }
}

static void faults_beside_cards_lose_nothing(void **state)
{
    (void)state;
    const struct variant v = { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring", .cards = 1,
                               .compress = 0.05, .feedback = STREAMED };

    faults_lose_nothing_of(&v, SPECULATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_records_are_named),
        cmocka_unit_test(faults_lose_nothing),
        cmocka_unit_test(faults_beside_cards_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
