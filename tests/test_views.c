/* test_views.c: a run whose spans were made by hand, so that all that is derived from them can be
 * computed on paper; and the same overlap from the views as from the meter, of spans in any order.
 *
 * The run, in ms. Its first step is 0 to 100, its second 100 to 180; devices are d0 and d1.
 *
 *     thread   1 forward 11 waits for block 1 15 forward 25 loss 35 backward 55 waits for a
 *              gradient buffer 60 backward 70        101 waits for block 0's update 130 waits for
 *              its parameters 134 forward 144 loss 154 backward 174 waits for the commit 180
 *     d0       5 reads block 1 15    40 writes a gradient 60    70 update of step 0 130
 *              130 reads block 0 134
 *     d1       42 writes a gradient 58                          120 reads block 2 for step 1 130
 */
#include "tests/runlog_dir.h"

#include "data/db/questions.h"
#include "kernels/rng.h"
#include "offload/devices/meter.h"

#define MS 1000000u

static int take(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(double *)ctx = values[0] ? strtod(values[0], NULL) : (double)NAN;
    return 0;
}

static double real(struct runlog *log, const char *sql)
{
    double v = -1;

    assert_int_equal(runlog_query(log, sql, take, &v, &err), 0);
    return v;
}

static void is(struct runlog *log, const char *sql, double expected)
{
    double got = real(log, sql);

    if (!(fabs(got - expected) < 1e-9))
        print_error("%s: %.12g, expected %.12g\n", sql, got, expected);
    assert_true(fabs(got - expected) < 1e-9);
}

static const struct {
    enum runlog_phase phase;
    int               step, block, device, start, end, busy;
} by_hand[] = {
    { PHASE_STEP, 0, -1, -1, 0, 100, 100 },       { PHASE_DATA, 0, 0, -1, 0, 1, 1 },
    { PHASE_FORWARD, 0, 0, -1, 1, 11, 10 },       { PHASE_WAIT_PARAMS, 0, 1, -1, 11, 15, 4 },
    { PHASE_FORWARD, 0, 1, -1, 15, 25, 10 },      { PHASE_LOSS, 0, 2, -1, 25, 35, 10 },
    { PHASE_BACKWARD, 0, 1, -1, 35, 55, 20 },     { PHASE_WAIT_GRADIENT, 0, 0, -1, 55, 60, 5 },
    { PHASE_BACKWARD, 0, 0, -1, 60, 70, 10 },     { PHASE_PARAM_READ, 0, 1, 0, 5, 15, 10 },
    { PHASE_GRAD_WRITE, 0, 1, 0, 40, 60, 20 },    { PHASE_GRAD_WRITE, 0, 1, 1, 42, 58, 16 },
    { PHASE_UPDATE, 0, 0, 0, 70, 130, 60 },       { PHASE_UPDATE_READ, 0, 0, 0, 70, 100, 20 },
    { PHASE_UPDATE_COMPUTE, 0, 0, 0, 80, 105, 5 }, { PHASE_UPDATE_WRITE, 0, 0, 0, 100, 130, 30 },
    { PHASE_STEP, 1, -1, -1, 100, 180, 80 },      { PHASE_WAIT_UPDATE, 1, 0, -1, 101, 130, 29 },
    { PHASE_WAIT_PARAMS, 1, 0, -1, 130, 134, 4 }, { PHASE_FORWARD, 1, 0, -1, 134, 144, 10 },
    { PHASE_LOSS, 1, 2, -1, 144, 154, 10 },       { PHASE_BACKWARD, 1, 0, -1, 154, 174, 20 },
    { PHASE_WAIT_COMMIT, 1, -1, -1, 174, 180, 6 }, { PHASE_PARAM_READ, 1, 2, 1, 120, 130, 10 },
    { PHASE_PARAM_READ, 1, 0, 0, 130, 134, 4 },
};
enum { SPANS = sizeof by_hand / sizeof *by_hand };

static void put_by_hand(struct runlog *log)
{
    const struct runlog_traffic traffic[] = {
        { 0, PHASE_GRAD_WRITE, "host", 0, "gradient", "write", 2000, 96 },
        { 0, PHASE_UPDATE, "internal", 0, "states", "read", 400, 0 },
        { 0, PHASE_UPDATE, "internal", 0, "gradient", "read", 200, 0 },
    };
    const double seconds[] = { 0.100, 0.080, 0.070, 0.074 };

    assert_int_equal(runlog_process(log, 0, &err), 0);
    for (uint64_t step = 0; step < 4; step++)
        assert_int_equal(runlog_step(log, &(struct runlog_step){ .step = step, .tokens = 10,
                                                                 .seconds = seconds[step] }, &err),
                         0);
    for (int step = 0; step < 2; step++) {
        struct runlog_span spans[SPANS];
        size_t             n = 0;

        for (int i = 0; i < SPANS; i++)
            if (by_hand[i].step == step)
                spans[n++] = (struct runlog_span){
                    (uint64_t)step, by_hand[i].phase, by_hand[i].block, by_hand[i].device,
                    (1000 + (uint64_t)by_hand[i].start) * MS,
                    (1000 + (uint64_t)by_hand[i].end) * MS, 0, (uint64_t)by_hand[i].busy * MS };
        assert_int_equal(runlog_measure(log, (uint64_t)step, spans, n, traffic, step ? 0 : 3, &err),
                         0);
    }
    assert_int_equal(runlog_choice(log, &(struct runlog_choice){ .step = 1, .layers = 4, .why = "",
                                                                 .step_seconds = 0.1,
                                                                 .expected_seconds = 0.07 }, &err),
                     0);
}

static void test_on_paper(void **state)
{
    static const struct { const char *sql; double is; } paper[] = {
        // the devices: 5-15, 40-60, 70-134; waited for: 11-15, 55-60, 101-134
        { "SELECT busy_seconds FROM overlap", 0.094 },
        { "SELECT waited_seconds FROM overlap", 0.042 },
        { "SELECT hidden_seconds FROM overlap", 0.052 },
        { "SELECT wait_seconds FROM overlap", 0.048 },
        { "SELECT fw FROM breakdown WHERE step = 0", 0.024 },
        { "SELECT bw_grad FROM breakdown WHERE step = 0", 0.045 },
        { "SELECT \"update\" FROM breakdown WHERE step = 0", 0 },
        { "SELECT other FROM breakdown WHERE step = 0", 0.031 },
        { "SELECT fw FROM breakdown WHERE step = 1", 0.014 },
        { "SELECT bw_grad FROM breakdown WHERE step = 1", 0.030 },
        { "SELECT \"update\" FROM breakdown WHERE step = 1", 0.035 },
        { "SELECT other FROM breakdown WHERE step = 1", 0.001 },
        // 120-130 is half the update's, half the read's
        { "SELECT seconds FROM device_time", 0.094 },
        { "SELECT forward_reads FROM device_time", 0.019 },
        { "SELECT grad_writes FROM device_time", 0.020 },
        { "SELECT updates FROM device_time", 0.055 },
        { "SELECT steps FROM breakdown_serial", 2 },
        { "SELECT fw FROM breakdown_serial", 0.0245 },
        { "SELECT bw_grad FROM breakdown_serial", 0.045 },
        { "SELECT \"update\" FROM breakdown_serial", 0.0275 },
        { "SELECT device FROM waits WHERE phase = 'wait_params' AND step = 0", 0 },
        { "SELECT device FROM waits WHERE phase = 'wait_gradient'", 0 },
        { "SELECT device FROM waits WHERE phase = 'wait_update'", 0 },
        { "SELECT count(*) FROM waits WHERE phase = 'wait_commit' AND device IS NULL", 1 },
        { "SELECT sum(seconds) FROM waits", 0.048 },
        { "SELECT seconds FROM update_parts", 0.060 },
        { "SELECT read_busy FROM update_parts", 0.020 },
        { "SELECT compute_busy FROM update_parts", 0.005 },
        { "SELECT write_busy FROM update_parts", 0.030 },
        { "SELECT read_wait FROM update_parts", 0.010 },
        { "SELECT compute_wait FROM update_parts", 0.020 },
        { "SELECT write_wait FROM update_parts", 0 },
        { "SELECT count(*) FROM update_parts", 1 },
        { "SELECT bytes_per_second FROM device_rate WHERE phase = 'grad_write'", 1e5 },
        { "SELECT bytes_per_second FROM device_rate WHERE phase = 'update_read'", 3e4 },
        { "SELECT count(*) FROM steady_steps", 3 }, // not the first
        { "SELECT seconds FROM steady_quantiles WHERE at = 0", 0.070 },
        { "SELECT seconds FROM steady_quantiles WHERE at = 0.25", 0.072 },
        { "SELECT seconds FROM steady_quantiles WHERE at = 0.5", 0.074 },
        { "SELECT seconds FROM steady_quantiles WHERE at = 1", 0.080 },
        { "SELECT after_seconds FROM choice_outcomes", 0.072 },
        { "SELECT seconds FROM phase_seconds WHERE step = 0 AND phase = 'forward'", 0.020 },
        { "SELECT sum(seconds) FROM phase_seconds WHERE place = 'devices' AND step = 0", 0.191 },
    };
    struct runlog *log = create(0);

    (void)state;
    put_by_hand(log);
    for (size_t i = 0; i < sizeof paper / sizeof *paper; i++)
        is(log, paper[i].sql, paper[i].is);
    assert_int_equal(runlog_eval(log, 1, "loss", 2.5, &err), 0); // the next one is not steady
    is(log, "SELECT count(*) FROM steady_steps", 2);
    runlog_close(log);
}

/* What a killed process left undone the next one does before its first step, and waits for; what
 * stands between steps makes them no more. */
static void test_between_steps(void **state)
{
    const struct runlog_span redone = { 3, PHASE_REDO, 0, 0, 1200 * MS, 1210 * MS, 0, 10 * MS };
    const struct runlog_span waited = { 4, PHASE_WAIT_DRAIN, -1, -1, 1195 * MS, 1212 * MS, 0,
                                        17 * MS };
    struct runlog *log = create(0);
    char           sql[2048];

    (void)state;
    put_by_hand(log);
    assert_int_equal(runlog_measure(log, 3, &redone, 1, NULL, 0, &err), 0);
    assert_int_equal(runlog_measure(log, 4, &waited, 1, NULL, 0, &err), 0);
    assert_int_equal(runlog_process(log, 4, &err), 0);
    is(log, "SELECT busy_seconds FROM overlap WHERE process = 1", 0.094);
    is(log, "SELECT busy_seconds FROM overlap WHERE process = 2", 0.010);
    is(log, "SELECT hidden_seconds FROM overlap WHERE process = 2", 0);
    snprintf(sql, sizeof sql, "SELECT seconds_per_step FROM (%s) WHERE phase = 'forward'",
             question_find("phases")->sql);
    is(log, sql, 0.015);
    // one that stands alone: what it waits for, and who waits for it, is not known
    assert_int_equal(runlog_step(log, &(struct runlog_step){ .step = 1000 }, &err), 0);
    assert_int_equal(runlog_measure(log, 1000, &redone, 1, NULL, 0, &err), 0);
    is(log, "SELECT sum(busy_seconds) FROM overlap", 0.104);
    is(log, "SELECT count(*) FROM whole_spans WHERE step = 1000", 1);
    runlog_close(log);
}

/* Devices 0 and 1 share a drive, with updates from 10 to 30 and from 20 to 50 ms: 40 ms. A read
 * from 40 to 60 counts by half, one from 0 to 10 not at all; device 2 has a drive of its own. */
static void test_drives(void **state)
{
    const struct runlog_span spans[] = {
        { 0, PHASE_PARAM_READ, 0, 0, 1 * MS, 10 * MS, 9000, 9 * MS },
        { 0, PHASE_UPDATE, 0, 0, 10 * MS, 30 * MS, 0, 20 * MS },
        { 0, PHASE_UPDATE, 0, 1, 20 * MS, 50 * MS, 0, 30 * MS },
        { 0, PHASE_GRAD_WRITE, 0, 2, 10 * MS, 30 * MS, 500, 20 * MS },
        { 0, PHASE_UPDATE, 0, 2, 20 * MS, 30 * MS, 0, 10 * MS },
        { 0, PHASE_PARAM_READ, 1, 1, 40 * MS, 60 * MS, 2000, 20 * MS },
    };
    const struct runlog_traffic traffic[] = {
        { 0, PHASE_UPDATE, "internal", 0, "states", "read", 400, 96 },
        { 0, PHASE_UPDATE, "internal", 1, "states", "write", 500, 4 },
        { 0, PHASE_PARAM_READ, "host", 1, "wire", "read", 2000, 0 },
        { 0, PHASE_UPDATE, "internal", 2, "states", "write", 50, 0 },
    };
    struct runlog *log = create(0);

    (void)state;
    assert_int_equal(runlog_process(log, 0, &err), 0);
    assert_int_equal(runlog_step(log, &(struct runlog_step){ .seconds = 0.1 }, &err), 0);
    assert_int_equal(runlog_set(log, "drive.0", "254:1", &err), 0);
    assert_int_equal(runlog_set(log, "drive.1", "254:1", &err), 0);
    assert_int_equal(runlog_measure(log, 0, spans, sizeof spans / sizeof *spans, traffic,
                                    sizeof traffic / sizeof *traffic, &err), 0);
    is(log, "SELECT count(*) FROM drive_rate", 2);
    is(log, "SELECT seconds FROM drive_rate WHERE drive = '254:1' AND devices = '0, 1'", 0.040);
    is(log, "SELECT update_bytes FROM drive_rate WHERE drive = '254:1'", 1000);
    is(log, "SELECT other_bytes FROM drive_rate WHERE drive = '254:1'", 1000);
    is(log, "SELECT bytes_per_second FROM drive_rate WHERE drive = '254:1'", 50e3);
    is(log, "SELECT bytes_per_second FROM drive_rate WHERE devices = '2'", 30e3);
    runlog_close(log);
}

/* A folded step has the same sums; the host's and the devices' stay apart. */
static void test_folded(void **state)
{
    struct runlog           *log = create(0);
    const struct runlog_span spans[] = {
        { 100, PHASE_UPDATE_READ, 1, 0, 10, 30, 7, 15 },
        { 100, PHASE_UPDATE_READ, 1, 1, 10, 40, 5, 30 },
        { 100, PHASE_EVAL, -1, -1, 5, 9, 0, 4 },
        { 100, PHASE_EVAL, -1, 1, 5, 7, 0, 2 },
    };

    (void)state;
    assert_int_equal(runlog_measure(log, 100, spans, 4, NULL, 0, &err), 0);
    for (int folded = 0; folded < 2; folded++) {
        is(log, "SELECT seconds FROM phase_seconds WHERE phase = 'update_read'", 50e-9);
        is(log, "SELECT busy_seconds FROM phase_seconds WHERE phase = 'update_read'", 45e-9);
        is(log, "SELECT bytes FROM phase_seconds WHERE phase = 'update_read'", 12);
        is(log, "SELECT seconds FROM phase_seconds WHERE phase = 'eval' AND place = 'host'", 4e-9);
        is(log, "SELECT seconds FROM phase_seconds WHERE phase = 'eval' AND place = 'devices'",
           2e-9);
        is(log, "SELECT count(*) FROM whole_steps WHERE step = 100", folded ? 0 : 1);
        assert_int_equal(runlog_measure(log, 300, NULL, 0, NULL, 0, &err), 0);
        is(log, "SELECT count(*) FROM spans", folded ? 3 : 3);
        if (!folded)
            is(log, "SELECT count(*) FROM spans WHERE device IS NULL", 2);
    }
    runlog_close(log);
}

/* Devices' spans and waits as they come, each when it ends or a little later. */
static void test_meter_agrees(void **state)
{
    enum { N = 3000, PHASES_USED = 6 };
    static const enum runlog_phase phases[PHASES_USED] = {
        PHASE_PARAM_READ, PHASE_UPDATE, PHASE_ACT_READ, PHASE_FORWARD, PHASE_EVAL, PHASE_SETUP
    };
    struct runlog *log = create(0);
    struct meter  *m = meter_new((size_t)2 * N, 3);
    uint64_t       now = 1000000, waits_to = 0;

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        uint64_t ns = rng_bits(7, 1, i) % 3000, back = rng_bits(7, 2, i) % 4000;
        uint64_t end = now - rng_bits(7, 3, i) % 500, start = end - ns - back;
        int      device = (int)(rng_bits(7, 4, i) % 3);

        now += rng_bits(7, 5, i) % 6000;
        meter_span(m, 1, phases[rng_bits(7, 6, i) % PHASES_USED], 0, device, start, end, 0);
        if (i % 3)
            continue;
        start = now - rng_bits(7, 7, i) % 2000; // one thread's, one after the other
        start = start > waits_to ? start : waits_to;
        waits_to = start > now ? start : now;
        meter_span(m, 1, i % 2 ? PHASE_WAIT_UPDATE : i % 5 ? PHASE_WAIT_DRAIN : PHASE_WAIT_EVAL, 0,
                   -1, start, waits_to, 0);
    }
    struct meter_io io = meter_io(m);
    assert_int_equal(meter_flush(m, 1, log, &err), 0);
    assert_true(io.waited_ns > 0 && io.waited_ns < io.busy_ns / 2);
    is(log, "SELECT busy_seconds FROM overlap", (double)io.busy_ns / 1e9);
    is(log, "SELECT waited_seconds FROM overlap", (double)io.waited_ns / 1e9);
    is(log, "SELECT busy_seconds - hidden_seconds FROM overlap", (double)io.waited_ns / 1e9);
    meter_free(m);
    runlog_close(log);
}

/* More times apart from each other than a meter remembers: none counts twice. */
static void test_meter_forgets(void **state)
{
    struct meter *m = meter_new(10, 1);

    (void)state;
    for (uint64_t i = 1; i <= 2000; i++)
        meter_span(m, 1, PHASE_PARAM_READ, 0, 0, 10 * i, 10 * i + 1, 0);
    assert_int_equal(meter_io(m).busy_ns, 2000);
    for (int again = 0; again < 2; again++) // before the oldest of the 1024 that it has: 9770
        meter_span(m, 1, PHASE_PARAM_READ, 0, 0, 9763, 9766, 0);
    assert_int_equal(meter_io(m).busy_ns, 2003);
    meter_free(m);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(test_on_paper), CASE(test_between_steps),
                                        CASE(test_drives), CASE(test_folded),
                                        CASE(test_meter_agrees), CASE(test_meter_forgets) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
