/* The computed traffic against the table of docs/design.md, written out by hand for a small model.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/traffic.h"

static const size_t blocks[6] = { 1000, 300, 300, 300, 300, 20 }; // 2,220 parameters in all

static struct run_config small(void)
{
    return (struct run_config){
        .mode = RUN_SUO, .n_blocks = 6, .block_params = blocks, .frames = 2, .wire_dt = DT_BF16,
        .optim = OPTIM_ADAMW,
    };
}

static void test_base(void **state)
{
    struct run_config c = small();
    struct link_meter m;
    uint64_t        (*host)[LINK_DIRS] = m.bytes[LINK_HOST];

    (void)state;
    c.mode = RUN_BASE;
    traffic_computed(&m, &c);
    assert_int_equal(host[CLASS_STATES][LINK_READ], 12 * 2220);
    assert_int_equal(host[CLASS_STATES][LINK_WRITE], 12 * 2220);
    assert_int_equal(host[CLASS_GRADIENT][LINK_READ], 4 * 2220);
    assert_int_equal(host[CLASS_GRADIENT][LINK_WRITE], 4 * 2220);
    assert_int_equal(host[CLASS_WIRE][LINK_WRITE], 2 * 2220);
    assert_int_equal(host[CLASS_WIRE][LINK_READ], 2 * (1020 + 2 * 2 * 300 + 2 * 300));
    assert_int_equal(link_meter_total(&m), 34 * 2220 + 2 * 2820); // the internal link carries
                                                                  // nothing
}

static void test_su(void **state)
{
    struct run_config c = small();
    struct link_meter m;

    (void)state;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_STATES][LINK_READ], 0);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_GRADIENT][LINK_READ], 0);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE], 4 * 2220);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_WIRE][LINK_WRITE], 0);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_WIRE][LINK_READ], 2 * 2820);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_STATES][LINK_READ], 12 * 2220);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_STATES][LINK_WRITE], 12 * 2220);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_GRADIENT][LINK_READ], 4 * 2220);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_WIRE][LINK_WRITE], 2 * 2220);
    assert_int_equal(link_meter_total(&m), 34 * 2220 + 2 * 2820);
}

/* 2% of the bytes: 10, 3, 3, 3, 3 pairs, and one where 1% is less than one. */
static void test_compressed(void **state)
{
    struct run_config c = small();
    struct link_meter m;

    (void)state;
    c.compress = 0.02;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE], 8 * 23);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_GRADIENT][LINK_READ], 8 * 23);
    c.mode = RUN_BASE;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE], 8 * 23);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_GRADIENT][LINK_READ], 8 * 23);
}

/* The last records stay in memory. */
static void test_records(void **state)
{
    struct run_config c = small();
    struct link_meter m;

    (void)state;
    c.acts.n = 8;
    c.acts.bytes = 1001;
    c.acts.buffers = 3;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 5 * 1001);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ], 5 * 1001);
    assert_int_equal(link_meter_total(&m), 34 * 2220 + 2 * 2820 + 10 * 1001);
    c.acts.buffers = 9;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ], 0);
}

static void test_error_feedback(void **state)
{
    struct run_config c = small();
    struct link_meter m, without;

    (void)state;
    c.compress = 0.02;
    traffic_computed(&without, &c);
    c.error_feedback = 1;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_RESIDUAL][LINK_WRITE], 4 * 2220);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_RESIDUAL][LINK_READ], 4 * 2220);
    assert_int_equal(link_meter_total(&m), link_meter_total(&without) + 8 * 2220);
    c.residual_in_ram = 1;
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_RESIDUAL][LINK_READ], 0);
    assert_int_equal(link_meter_total(&m), link_meter_total(&without) + 4 * 2220);
}

static void test_frames_and_formats(void **state)
{
    struct run_config c = small();
    struct link_meter m;

    (void)state;
    c.wire_dt = DT_F32;
    c.optim = OPTIM_SGD;
    c.frames = 9; // more than layers: everything is read once
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_WIRE][LINK_READ], 4 * 2220);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_WIRE][LINK_WRITE], 4 * 2220);
    assert_int_equal(m.bytes[LINK_INTERNAL][CLASS_STATES][LINK_READ], 8 * 2220);
    c.mode = RUN_MEM;
    traffic_computed(&m, &c);
    assert_int_equal(link_meter_total(&m), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_su),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_error_feedback), cmocka_unit_test(test_records),
        cmocka_unit_test(test_frames_and_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
