/* The computed traffic against the table of docs/design.md, written out by hand for a small model.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/estimate/traffic.h"
#include "offload/layout/act_rule.h"
#include "tests/toy.h"

static const size_t blocks[6] = { 1000, 300, 300, 300, 300, 20 }; // 2,220 parameters in all

static struct run_config small(void)
{
    return (struct run_config){
        .mode = RUN_SUO, .route = toy_route(6), .block_params = blocks, .frames = 2,
        .wire_dt = DT_BF16, .optim = OPTIM_ADAMW,
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

/* What is offloaded crosses the host link both ways, but for what is popped from memory. */
static void test_activations(void **state)
{
    struct run_config c = small();
    struct link_meter m;

    (void)state;
    c.acts = (struct run_acts){ .n = 9, .bytes = 2000, .buffers = 3, .area = 9000,
                                .written = 5005, .read = 4004 };
    traffic_computed(&m, &c);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 5005);
    assert_int_equal(m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ], 4004);
    assert_int_equal(link_meter_total(&m), 34 * 2220 + 2 * 2820 + 9009);
}

/* Bytes that rows of records leave to write and to read: piece i is of 1 << i bytes. */
static void moves(const char *begins, size_t buffers, uint64_t written, uint64_t read)
{
    struct act_item piece[32];
    size_t           n = strlen(begins);
    uint64_t         w, r;

    for (size_t i = 0; i < n; i++)
        piece[i] = (struct act_item){ (size_t)1 << i, begins[i] == 'R' };
    assert_int_equal(act_rule_moves(&w, &r, buffers, piece, n, NULL), 0);
    if (w != written || r != read)
        fail_msg("%s through %zu: %#" PRIx64 " written, %#" PRIx64 " read", begins, buffers, w, r);
}

/* By hand, R: a piece that begins a record. What is popped first is neither written nor read; what
 * is let go late in the last record is written, but popped from memory. */
static void test_act_rule(void **state)
{
    (void)state;
    moves("", 3, 0, 0);
    moves("RRRRRRRR", 3, 0x1f, 0x1f); // the last three stay
    moves("RRRRRRRR", 2, 0x3f, 0x3f);
    moves("RRRRRRRR", 1, 0x7f, 0x7f);
    moves("RRRRRRRR", 8, 0, 0);
    moves("RRRRRRRR", 99, 0, 0);
    moves("R..R..R..", 3, 0x3f, 0x3f);  // the last record
    moves("R..R..R..", 5, 0x27, 0x27);  // and the first two pieces of the one before
    moves("R..R..R..", 9, 0, 0);
    moves("R..R....", 5, 0x07, 0x07);
    moves("R..R.....", 5, 0x1c7, 0x047); // 3, 4 and 5 stay; 7 and 8 are still in their buffers
    moves("R...........", 3, 0xffe, 0xffe); // 10 and 11 are, too, but much is popped before them
    moves("R..", 2, 0x7, 0x7);
    moves("R.", 1, 0x3, 0x3);
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
        cmocka_unit_test(test_error_feedback), cmocka_unit_test(test_activations),
        cmocka_unit_test(test_act_rule),
        cmocka_unit_test(test_frames_and_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
