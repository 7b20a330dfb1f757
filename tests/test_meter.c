/* test_meter.c: spans and traffic of two open steps, the bound, and threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/clock.h"
#include "offload/devices/meter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char       dir[64];
static struct err err;

static int setup(void **state)
{
    struct runlog *log;
    char           path[96];

    snprintf(dir, sizeof dir, "/var/tmp/test_meter.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/run.db", dir);
    if (runlog_create(&log, path, 0, &err))
        return -1;
    *state = log;
    return 0;
}

static int teardown(void **state)
{
    char command[96];

    runlog_close(*state);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static int take(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(long long *)ctx = values[0] ? strtoll(values[0], NULL, 10) : -1;
    return 0;
}

static long long number(struct runlog *log, const char *sql)
{
    long long v = -2;

    assert_int_equal(runlog_query(log, sql, take, &v, &err), 0);
    return v;
}

static void test_two_steps(void **state)
{
    struct meter     *m = meter_new(100, 2);
    struct link_meter t = { 0 };

    assert_non_null(m);
    meter_span(m, 4, PHASE_FORWARD, 1, -1, 10, 30, 0);
    meter_span(m, 5, PHASE_FORWARD, 1, -1, 30, 31, 0);
    meter_span(m, 4, PHASE_UPDATE_READ, 2, 1, 5, 25, 4096);
    assert_int_equal(meter_total(m, 4, PHASE_FORWARD), 20);
    assert_int_equal(meter_total(m, 5, PHASE_FORWARD), 1);
    assert_int_equal(meter_total(m, 6, PHASE_FORWARD), 0);
    t.bytes[LINK_INTERNAL][CLASS_STATES][LINK_WRITE] = 12;
    t.padding[LINK_HOST][CLASS_WIRE][LINK_READ] = 3;
    meter_traffic(m, 4, PHASE_UPDATE_WRITE, 1, &t);
    meter_traffic(m, 4, PHASE_UPDATE_WRITE, 1, &t);
    meter_traffic(m, 5, PHASE_UPDATE_WRITE, -1, &t);
    assert_int_equal(meter_flush(m, 4, *state, &err), 0);
    assert_int_equal(number(*state, "SELECT count(*) FROM spans"), 2);
    assert_int_equal(number(*state, "SELECT bytes FROM spans WHERE phase = 'update_read' AND block "
                                    "= 2 AND device = 1"),
                     4096);
    assert_int_equal(number(*state, "SELECT count(*) FROM traffic"), 2);
    assert_int_equal(number(*state, "SELECT bytes FROM traffic WHERE link = 'internal' AND class = "
                                    "'states' AND direction = 'write' AND device = 1"),
                     24);
    assert_int_equal(number(*state, "SELECT padding_bytes FROM traffic WHERE link = 'host' AND "
                                    "class = 'wire' AND bytes = 0"),
                     6);
    meter_span(m, 6, PHASE_LOSS, -1, -1, 1, 2, 0); // 4's place is free again, and empty
    assert_int_equal(meter_total(m, 6, PHASE_FORWARD), 0);
    assert_int_equal(meter_flush(m, 5, *state, &err), 0);
    assert_int_equal(number(*state, "SELECT bytes FROM traffic WHERE step = 5 AND device = -1 AND "
                                    "link = 'internal'"),
                     12);
    assert_int_equal(meter_flush(m, 6, *state, &err), 0);
    assert_int_equal(number(*state, "SELECT count(*) FROM traffic WHERE step = 6"), 0);
    assert_int_equal(meter_flush(m, 7, *state, &err), 0); // nothing was recorded
    meter_free(m);
    meter_free(NULL);
}

/* The work before a wait and the work after it are two spans, and the wait is in none. */
static void test_waits(void **state)
{
    struct meter    *m = meter_new(100, 0);
    struct open_span work = { 4, clock_ns(), PHASE_BACKWARD, 1 };
    uint64_t         first = work.start_ns, since = clock_ns();

    while (clock_ns() < since + 1000000)
        ;
    open_span_waited(&work, m, since);
    assert_true(work.start_ns >= since + 1000000);
    assert_int_equal(meter_total(m, 4, PHASE_BACKWARD), since - first);
    meter_free(m);
    (void)state;
}

static void test_bound(void **state)
{
    struct meter *m = meter_new(3, 0);

    for (uint64_t i = 0; i < 10; i++)
        meter_span(m, 1, i % 2 ? PHASE_PARAM_READ : PHASE_FORWARD, 0, -1, 100 + i, 110 + i, 7);
    assert_int_equal(meter_flush(m, 1, *state, &err), 0);
    assert_int_equal(number(*state, "SELECT count(*) FROM spans"), 5);
    assert_int_equal(number(*state, "SELECT sum(end_ns - start_ns) FROM spans"), 100);
    assert_int_equal(number(*state, "SELECT sum(bytes) FROM spans"), 70);
    assert_int_equal(number(*state, "SELECT bytes FROM spans WHERE start_ns = 0 AND phase = "
                                    "'param_read'"),
                     28);
    meter_free(m);
}

struct recorder { struct meter *m; int device; };

static void *record(void *arg)
{
    struct recorder  *r = arg;
    struct link_meter t = { 0 };

    t.bytes[LINK_HOST][CLASS_WIRE][LINK_READ] = 1;
    for (int i = 0; i < 2000; i++) {
        meter_span(r->m, 9, PHASE_PARAM_READ, 0, r->device, 1, 2, 1);
        meter_traffic(r->m, 9, PHASE_PARAM_READ, r->device, &t);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct meter   *m = meter_new(500, 4);
    struct recorder r[4];
    pthread_t       t[4];

    for (int i = 0; i < 4; i++) {
        r[i] = (struct recorder){ m, i };
        assert_int_equal(pthread_create(&t[i], NULL, record, &r[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(meter_total(m, 9, PHASE_PARAM_READ), 8000);
    assert_int_equal(meter_flush(m, 9, *state, &err), 0);
    assert_int_equal(number(*state, "SELECT sum(bytes) FROM spans"), 8000);
    assert_int_equal(number(*state, "SELECT min(bytes) FROM traffic"), 2000);
    assert_int_equal(number(*state, "SELECT count(*) FROM traffic"), 4);
    meter_free(m);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(test_two_steps), CASE(test_waits), CASE(test_bound),
                                        CASE(test_threads) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
