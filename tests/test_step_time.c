/* The time of a step, against numbers computed on paper: the formula itself, phases in turn, and
 * the moves of a small run on modelled links. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/estimate/step_work.h"
#include "tests/tempdir.h"
#include "tests/toy.h"

#include <math.h>

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%.12g, expected %.12g", got, want);
}

/* ---- the formula */

static const struct step_work work = {
    .F = 0.3, .last = 0.1, .B = 0.6, .h = 0.2, .update = { .drive = 12, .up = 4, .down = 3.5 },
    .first = { .drive = 2 },
    .second = { .drive = 1.5 },
    .load = { .drive = 1.2, .up = 0.5 },
    .wire_forward = { .drive = 1, .up = 0.3 }, .wire_backward = { .drive = 0.5, .up = 0.15 },
    .gradient = { .drive = 2, .down = 0.5 }, .write_0 = { .drive = 0.3 },
};

static void test_step(void **state)
{
    struct step_work  w = work;
    struct step_time  t = step_time(&w, (struct step_share){ 1, 1 });

    (void)state;
    near(t.forward, 12 + 1 + 0.1);
    near(t.backward, 0.2 + 0.5 + 2);
    near(t.step, 15.8);
    // ten devices: the way up is full of states and parameters, the way down of gradients
    t = step_time(&w, (struct step_share){ 0.1, 0.1 });
    near(t.forward, 4 + 0.3 + 0.1);
    near(t.backward, 0.2 + 0.5);
    // four: the drives are what is waited for, but where block 0 is loaded, with nothing beside it
    t = step_time(&w, (struct step_share){ 0.34, 0.34 });
    near(t.forward, 0.5 + 0.34 * 11.8 + 0.1);
    // on devices updates leave the links alone; uneven shards: one device has 0.14 of all
    w.update.up = w.update.down = w.load.up = 0;
    t = step_time(&w, (struct step_share){ 0.14, 0.2 });
    near(t.forward, 0.2 * 1.2 + 0.14 * 11.8 + 0.1);
    near(t.backward, 0.2 + 0.5);
    // where the link is full of block 0's gradient, 1.2 in all, the first device has its 0.14 of
    // that 1.2 - 0.168 before the last, of which 0.7 are hidden behind its last writes
    w.write_0.down = 1.2;
    w.tail.drive = 5;
    near(step_time(&w, (struct step_share){ 0.14, 0.14 }).forward, 0.14 * 13 - 0.7 + 0.1);
    w.tail.drive = 10;
    near(step_time(&w, (struct step_share){ 0.14, 0.14 }).forward, 0.14 * 13 - 1.032 + 0.1);
    w.write_0 = work.write_0;
    near(step_time(&w, (struct step_share){ 0.14, 0.14 }).forward, 0.14 * 13 + 0.1);
    // computing is what is waited for, and block 0 before and after it
    w.F = 5;
    w.B = 9;
    t = step_time(&w, (struct step_share){ 0.1, 0.2 });
    near(t.forward, 0.2 * 2 + 0.1 * 1.5 + 5);
    near(t.backward, 9 + 0.2 * 0.3);
    near(step_time_speculating(&w, (struct step_share){ 0.1, 0.2 }).step, 5 + 9 + 0.06 + 0.4);
    near(step_time_speculating(&work, (struct step_share){ 1, 1 }).step, 0.2 + 12 + 1 + 0.5 + 2);
    // more is moved beside it: drives with time to spare lengthen nothing but the one step in ten
    // that waits for its updates; drives that are busy all the time have all of it to do
    struct step_beside more = { .extra = { .drive = 10 }, .every = 10 };
    near(step_time_beside(&w, (struct step_share){ 0.1, 0.2 }, &more),
         14.61 + (5 + 9.06 + 1.2 - 14.61) / 10);
    near(step_time_beside(&work, (struct step_share){ 1, 1 }, &more), 15.8 + 10);
    // the host's own arithmetic does not become less with devices
    w = work;
    w.update.host = 6;
    near(step_time(&w, (struct step_share){ 0.1, 0.1 }).forward, 0.5 + 6 + 0.1);
    assert_int_equal(step_time(&w, (struct step_share){ 0.1, 0.1 }).forward_by, STEP_HOST);
    // what emulated devices take of the cores is added to forward, where that is waited for
    w = work;
    w.F = 13;
    w.A = 1.5;
    t = step_time(&w, (struct step_share){ 1, 1 });
    near(t.forward, 2 + 1.5 + 13 + 1.5);
    assert_int_equal(t.forward_by, STEP_COMPUTING);
    assert_int_equal(t.backward_by, STEP_DRIVES);
}

/* A drive that reads 4 and writes 2 a second. An update's mix, 16 read for 14 written, takes 4 + 7
 * seconds where it does one thing at a time, 7 where it does both at once, and 9 in between. */
static void test_drive(void **state)
{
    struct step_drive d = { 4, 2, 30.0 / 11 };

    (void)state;
    near(step_drive_seconds(&d, 8, 4), 2 + 2);
    near(step_drive_seconds(&d, 8, 0), 2);
    d.mixed = 30.0 / 7;
    near(step_drive_seconds(&d, 8, 6), 3);
    d.mixed = 30.0 / 9; // half of the shorter is hidden
    near(step_drive_seconds(&d, 8, 6), 3 + 1);
    near(step_drive_seconds(&d, 20, 6), 5 + 1.5);
    d.mixed = 30.0 / 13; // in each other's way
    near(step_drive_seconds(&d, 16, 14), 13);
    d.mixed = 0; // not known: one thing at a time
    near(step_drive_seconds(&d, 8, 6), 2 + 3);
}

/* Reads of 8 units and writes of 6 on drives that read twice as fast as they write, behind a link
 * that four of them fill: the replication's T / min(n, B_link / B_drive). */
static void test_turns(void **state)
{
    struct step_serial base = { .F = 1, .B = 2, .gradient = { .drive = 4, .down = 0.5 },
                                .read = { .drive = 8, .up = 2 },
                                .write = { .drive = 12, .down = 1.5 }, .host = 0.25 };
    struct step_serial su = base;

    (void)state;
    struct step_time_serial t = step_time_serial(&base, 1);
    near(t.forward, 1);
    near(t.backward, 2 + 4);
    near(t.update, 8 + 12 + 0.25);
    near(t.step, 1 + 6 + 20.25);
    t = step_time_serial(&base, 0.1);
    near(t.backward, 2 + 0.5);
    near(t.update, 2 + 1.5 + 0.25);
    su.read.up = su.write.down = su.host = 0;
    su.engine = 3;
    su.upload = (struct step_move){ .drive = 4, .up = 1 };
    near(step_time_serial(&su, 1).update, 8 + 3 + 12 + 4);
    near(step_time_serial(&su, 0.1).update, 2.7);
    su.overlapped = 1;
    near(step_time_serial(&su, 0.1).update, 2 + 0.4);
    su.engine = 30; // slower than the drive
    near(step_time_serial(&su, 0.1).update, 3);
    near(step_time_serial(&su, 0.01).update, 1); // what goes up fills the link
}

/* ---- a run's moves */

enum { PARAMS = 20480 + 3 * 8192 + 2048 }; // 47,104
static const size_t blocks[5] = { 20480, 8192, 8192, 8192, 2048 };

static struct run_config run_of(enum run_mode mode, size_t n_devices)
{
    return (struct run_config){ .mode = mode, .route = toy_route(5), .block_params = blocks,
                                .frames = 1, .wire_dt = DT_BF16, .optim = OPTIM_ADAMW,
                                .n_devices = n_devices,
                                .csd = csd_at(0), .csd_mem = 16 << 20 };
}

/* Drives that read 100 bytes a second or write 50, at a link of 1,000 each way. */
static struct topology *links_of(size_t n_devices)
{
    uint64_t               read = 100, write = 50;
    struct topology_config cfg = { .host_bw = 1000, .read_bw = { &read, 1 },
                                   .write_bw = { &write, 1 } };
    struct topology       *t;
    struct err             err;

    assert_int_equal(topology_open(&t, &cfg, n_devices, &err), 0);
    return t;
}

static void test_moves(void **state)
{
    struct topology  *t = links_of(3);
    struct step_rates none = { 0 };
    struct step_work  w = { .F = 7 };
    struct run_config suo = run_of(RUN_SUO, 1), base = run_of(RUN_BASE, 3);
    struct step_share share;
    struct err        err;
    double            n = PARAMS;

    (void)state;
    assert_int_equal(step_work_moves(&w, &suo, t, &none, &err), 0);
    near(w.F, 7);
    near(w.update.drive, 16 * n / 100 + 14 * n / 50);
    assert_true(w.update.up == 0 && w.update.down == 0 && w.update.host == 0);
    near(w.load.drive, 16.0 * 20480 / 100);
    near(w.first.drive, 16.0 * 20480 / 100 + 6.0 * 20480 / 50);
    near(w.second.drive, 16.0 * 8192 / 100 + (8.0 * 20480 + 6.0 * 8192) / 50);
    near(w.wire_forward.drive, 2 * n / 100);
    near(w.wire_forward.up, 2 * n / 1000);
    near(w.wire_backward.up, 2.0 * 2 * 8192 / 1000); // the last layer's frame is still there
    near(w.gradient.drive, 4 * n / 50);
    near(w.gradient.down, 4 * n / 1000);
    near(w.write_0.drive, 4.0 * 20480 / 50);
    near(w.tail.drive, 8.0 * 8192 / 50);
    // base: all of it crosses the links, whatever the number of devices
    assert_int_equal(step_work_moves(&w, &base, t, &(struct step_rates){ .host = 1e4 }, &err), 0);
    near(w.update.drive, 16 * n / 100 + 14 * n / 50);
    near(w.update.up, 16 * n / 1000);
    near(w.update.down, 14 * n / 1000);
    near(w.update.host, n / 1e4);
    // shards end at multiples of 2,048: 8,192 + 3 x 4,096 + 2,048 on the first of three
    assert_int_equal(step_work_share(&share, &base, &err), 0);
    near(share.all, 22528 / n);
    near(share.block_0, 8192.0 / 20480);
    topology_close(t);
}

/* Of two ranks: each has half of every block, reads it, and gets the other half. */
static void test_network(void **state)
{
    struct topology  *t = links_of(1);
    struct run_config cfg = run_of(RUN_SUO, 1);
    struct step_rates slow = { .network = 1000, .latency = 0.5 }, none = { 0 };
    struct step_share one = { 1, 1 };
    struct step_work  w = { .F = 1, .B = 2, .h = 0.5 };
    struct step_time  at_once, t_slow;
    struct err        err;
    size_t            whole[8], half[8]; // two ranks have as much of each block (ranks.h)
    double            n = 8 * PARAMS, gathers = (double)run_blocks(&cfg);

    (void)state;
    for (size_t b = 0; b < run_blocks(&cfg); b++)
        whole[b] = 16 * cfg.block_params[b];
    cfg.ranks = (struct run_ranks){ .size = 2, .groups = 2, .whole_params = whole };
    ranks_portions(half, &cfg.ranks, whole, run_blocks(&cfg));
    cfg.block_params = half;
    assert_int_equal(step_work_moves(&w, &cfg, t, &none, &err), 0);
    assert_true(w.wire_forward.in == 0 && w.gradient.out == 0 && w.gather_0 == 0);
    at_once = step_time(&w, one);
    assert_int_equal(step_work_moves(&w, &cfg, t, &slow, &err), 0);
    near(w.wire_forward.in, 2 * n / 1000 + gathers * 0.5);
    near(w.wire_forward.out, 2 * n / 1000 + gathers * 0.5);
    near(w.wire_backward.in, 2.0 * 2 * 8 * 8192 / 1000 + gathers * 0.5);
    near(w.gradient.in, 4 * n / 1000 + gathers * 0.5);
    near(w.gradient.out, 4 * n / 1000 + gathers * 0.5);
    near(w.gather_0, 2.0 * 8 * 20480 / 1000 + 0.5);
    near(w.exchange_0, 4.0 * 8 * 20480 / 1000 + 0.5);
    // a network that is slower than the drives sets backward's pace
    assert_true(at_once.backward_by == STEP_DRIVES);
    slow.network = 10;
    assert_int_equal(step_work_moves(&w, &cfg, t, &slow, &err), 0);
    t_slow = step_time(&w, one);
    assert_true(t_slow.backward_by == STEP_NETWORK);
    near(t_slow.backward, 0.5 + (4 * n + 2.0 * 2 * 8 * 8192) / 10 + 2 * gathers * 0.5);
    topology_close(t);
}

/* Arithmetic: naive updates compute after they have read, others meanwhile. */
static void test_engine(void **state)
{
    struct topology  *t = links_of(1);
    struct run_config su = run_of(RUN_SU, 1), suo = run_of(RUN_SUO, 1);
    struct step_rates fast = { .engine = 1e3 }, slow = { .engine = 1 };
    struct step_serial turns = { 0 };
    struct step_work  w = { 0 };
    struct err        err;
    double            n = PARAMS, moved = 16 * n / 100 + 14 * n / 50;

    (void)state;
    assert_int_equal(step_work_moves(&w, &su, t, &fast, &err), 0);
    assert_true(w.tail.drive == 0); // all is written at once
    near(w.update.drive, moved + n / 1e3);
    assert_int_equal(step_work_moves(&w, &suo, t, &fast, &err), 0);
    near(w.update.drive, moved);
    assert_int_equal(step_work_moves(&w, &suo, t, &slow, &err), 0);
    near(w.update.drive, n);
    assert_int_equal(step_work_serial(&turns, &suo, t, &fast, &err), 0);
    near(turns.read.drive, 16 * n / 100);
    near(turns.write.drive, 12 * n / 50);
    near(turns.upload.up, 4 * n / 1000);
    near(turns.gradient.down, 4 * n / 1000);
    near(turns.engine, n / 1e3);
    topology_close(t);
}

/* Emulated devices compute on two of the host's cores, and drives of which one was measured: the
 * slower of that and of the modelled one counts. */
static void test_emulated(void **state)
{
    struct step_drive drives[2] = { { 1000, 20, 0 }, { 1e6, 1e6, 0 } };
    struct step_rates rates = { .engine = 10, .cores = 2, .drive = drives };
    struct topology  *t = links_of(2);
    struct run_config base = run_of(RUN_BASE, 2);
    struct step_work  w = { 0 };
    struct err        err;
    double            n = PARAMS;

    (void)state;
    assert_int_equal(step_work_moves(&w, &base, t, &rates, &err), 0);
    near(w.wire_forward.drive, 2 * n / 100);   // modelled: 100 a second
    near(w.gradient.drive, 4 * n / 20);        // measured: 20
    near(w.update.drive, 16 * n / 1000 + 14 * n / 20);
    near(w.update.host, n / 10 / 2);
    near(w.A, 2 * (8192.0 + 1024) / 10 / 2); // of the blocks behind block 1
    rates.beside = 8;
    assert_int_equal(step_work_moves(&w, &base, t, &rates, &err), 0);
    near(w.A, 2 * (8192.0 + 1024) / 8);
    topology_close(t);
    assert_int_equal(step_work_moves(&w, &base, NULL, &rates, &err), 0);
    near(w.wire_forward.drive, 2 * n / 1000);
}

/* Activations beside the devices take none of their drives' time, unless they take longer, but the
 * host's link. */
static void test_acts_aside(void **state)
{
    const uint64_t         read = 100, write = 50;
    struct topology_config cfg = { .host_bw = 1000, .read_bw = { &read, 1 },
                                   .write_bw = { &write, 1 }, .others = 2 };
    struct run_config      suo = run_of(RUN_SUO, 1);
    struct step_rates      none = { 0 };
    struct step_work       without = { 0 }, w = { 0 };
    struct topology       *t;
    struct err             err;

    (void)state;
    assert_int_equal(topology_open(&t, &cfg, 1, &err), 0);
    assert_int_equal(step_work_moves(&without, &suo, t, &none, &err), 0);
    suo.n_act_devices = 2;
    suo.acts = (struct run_acts){ .n = 1, .written = 50, .read = 40 };
    assert_int_equal(step_work_moves(&w, &suo, t, &none, &err), 0);
    near(w.wire_forward.drive, fmax(without.wire_forward.drive, 50.0 / 2 / 50));
    near(w.wire_forward.down, without.wire_forward.down + 50.0 / 1000);
    near(w.wire_backward.drive, fmax(without.wire_backward.drive, 40.0 / 2 / 100));
    near(w.wire_backward.up, without.wire_backward.up + 40.0 / 1000);
    suo.acts.written = 1 << 30;
    assert_int_equal(step_work_moves(&w, &suo, t, &none, &err), 0);
    near(w.wire_forward.drive, (1 << 30) / 2.0 / 50);
    topology_close(t);
}

/* A base in place on the drive that also takes activations: both are one mix, of which the drive
 * moves less than of either alone. On another drive its reads take their own time. */
static void test_base_beside(void **state)
{
    static const size_t     bytes[5] = { 0, 1000, 2000, 0, 0 };
    const struct step_drive whole = { 400, 200, 30 / (16.0 / 400 + 14.0 / 200 + 0.05) },
                            halves[2] = { { 200, 100, whole.mixed / 2 },
                                          { 200, 100, whole.mixed / 2 } };
    struct run_config suo = run_of(RUN_SUO, 1);
    struct step_rates rates = { .drive = &whole, .files = 400, .files_beside = 1 };
    struct step_work  w = { 0 }, two = { 0 }, apart = { 0 };
    struct step_share share;
    struct err        err;

    (void)state;
    suo.base_end = 3;
    suo.base_bytes = bytes;
    suo.acts = (struct run_acts){ .n = 1, .written = 500, .read = 500 };
    assert_int_equal(step_work_moves(&w, &suo, NULL, &rates, &err), 0);
    near(w.wire_forward.drive, step_drive_seconds(&whole, 2.0 * PARAMS + 3000, 500));
    assert_true(w.wire_forward.files == 0 && w.wire_backward.files == 0);
    rates.files_beside = 0;
    assert_int_equal(step_work_moves(&apart, &suo, NULL, &rates, &err), 0);
    near(apart.wire_forward.drive, step_drive_seconds(&whole, 2.0 * PARAMS, 500));
    near(apart.wire_forward.files, 3000.0 / 400);
    near(w.wire_backward.drive, apart.wire_backward.drive + apart.wire_backward.files);

    // two devices have half of the drive each
    suo.n_devices = 2;
    rates = (struct step_rates){ .drive = halves, .files = 400, .files_beside = 1 };
    assert_int_equal(step_work_moves(&two, &suo, NULL, &rates, &err), 0);
    assert_int_equal(step_work_share(&share, &suo, &err), 0);
    near(two.wire_backward.drive * share.all,
         2 * share.all * apart.wire_backward.drive + apart.wire_backward.files);
}

/* An accelerator behind the drives' link: parameters go up and down again, gradients so, too. */
static void test_tree(void **state)
{
    static const char lines[] = "link box host 1000 500\ndrive 0 box 100 50\ndrive 1 box 100 25\n"
                                "accelerator gpu box - -\nengine 1 box 10 10\n";
    struct topology_config cfg = { .file = tempdir_at("tree") };
    struct run_config suo = run_of(RUN_SUO, 2);
    struct step_rates none = { 0 };
    struct step_work  w = { 0 };
    struct topology  *t;
    struct err        err;
    double            n = PARAMS;

    (void)state;
    tempdir_put("tree", lines, sizeof lines - 1);
    assert_int_equal(topology_open(&t, &cfg, 2, &err), 0);
    assert_int_equal(step_work_moves(&w, &suo, t, &none, &err), 0);
    near(w.wire_forward.up, 2 * n / 1000);
    near(w.wire_forward.down, 2 * n / 500);
    near(w.gradient.up, 4 * n / 1000);
    near(w.gradient.down, 4 * n / 500);
    near(w.gradient.drive, 4 * n / 25);  // the slower drive
    near(w.update.drive, 16 * n / 10);   // and its accelerator's link, which is slower still
    topology_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step), cmocka_unit_test(test_turns), cmocka_unit_test(test_moves),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_engine), IN_TEMPDIR(test_tree),
        cmocka_unit_test(test_drive), cmocka_unit_test(test_emulated),
        cmocka_unit_test(test_acts_aside), cmocka_unit_test(test_base_beside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
