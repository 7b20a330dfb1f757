/* test_act_stack.c: the stack of activations over devices. Rows of records of many pieces of
 * different sizes come back in their order and as they were (the toy looks at every byte), whatever
 * the devices, buffers and disks, and what moved is what is computed, to the byte. That pieces are
 * popped while their write is held back, and that reads go ahead, is made to happen here. */
#include "offload/devices/devices.h"
#include "offload/layout/act_rule.h"
#include "tests/disk_fault.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const size_t sizes[4] = { 3000, 2000, 2000, 77 };

static void random_rows(void **state)
{
    (void)state;
    static const char *const disks[] = { "sync", "uring" };
    struct disk_fault_plan   slow = { .inner = &disk_sync, .ops = 1u << DISK_WRITE };
    uint64_t                 written = 0;

    for (size_t seed = 0; seed < 40; seed++) {
        struct run_config cfg = toy_config(NULL, seed % 3 ? RUN_SUO : RUN_BASE, sizes, 4);
        struct toy        t;

        cfg.n_devices = 1 + seed % 5;
        cfg.disk = disks[seed % 2];
        cfg.acts = toy_acts(&cfg, 1 + seed * seed % 61, 1 + seed * 7919 % 20000, 1 + seed * 5 % 11);
        toy_make(&t, &cfg);
        const char *own[] = { t.dir, t.dir, t.dir }; // drives for activations alone
        t.cfg.act_paths = own;
        t.cfg.n_act_devices = seed % 7 < 4 ? seed % 7 : 0;
        if (seed % 4 == 0) {
            slow.delay_ns = 1000000 * seed % 3000000;
            disk_fault_set(&slow);
            t.cfg.csd = disk_fault_csd(&csd_emu);
        }
        struct stream *s = toy_open(&t);
        for (uint64_t step = 0; step < 4; step++) {
            toy_train(&t, s, step);
            if (seed % 3 == step % 3)
                stream_rest(s); // the buffers come back empty
        }
        toy_close(&t, s);
        for (uint64_t step = 0; step < 4; step++)
            written += variant_traffic(&t, step).bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE];
        toy_remove(&t);
    }
    assert_true(written > 1 << 20);
}

/* ---- one device, pieces of 4 KiB, and a disk that tells them apart */

enum { PIECE = ARENA_IO, PIECES = 24 };
static uint64_t area;                             // where they begin
static int      writes_held;                      // from this piece on
static unsigned writes_came, writes_done, reads_came; // bits 1 << piece

static int look(const struct disk_req *r)
{
    size_t piece = (r->off - area) / PIECE;

    if (r->off < area || r->op == DISK_FLUSH)
        return 0;
    assert_true(piece < PIECES && r->bytes == PIECE);
    __atomic_fetch_or(r->op == DISK_READ ? &reads_came : &writes_came, 1u << piece,
                      __ATOMIC_SEQ_CST);
    if (r->op == DISK_WRITE && piece >= (size_t)__atomic_load_n(&writes_held, __ATOMIC_SEQ_CST))
        return 1;
    if (r->op == DISK_WRITE)
        __atomic_fetch_or(&writes_done, 1u << piece, __ATOMIC_SEQ_CST);
    return 0;
}

static struct stream *open_looked_at(struct toy *t, size_t buffers)
{
    const struct disk_fault_plan plan = { .inner = &disk_sync, .hold = look };
    struct run_config            cfg = toy_config(NULL, RUN_SUO, sizes, 4);
    struct store                 st;

    cfg.acts = (struct run_acts){ .n = PIECES, .bytes = PIECE, .buffers = buffers,
                                  .area = PIECES * PIECE };
    toy_make(t, &cfg);
    must(t, store_init(&st, &t->cfg, &t->err));
    area = st.device_bytes[0];
    store_release(&st);
    writes_held = PIECES;
    writes_came = writes_done = reads_came = 0;
    disk_fault_set(&plan);
    t->cfg.csd = disk_fault_csd(&csd_emu);
    struct stream *s = toy_open(t);
    must(t, stream_begin(s, STREAM_TRAIN, 0, &t->err));
    return s;
}

/* begins: R where a piece begins a record. */
static void push(struct toy *t, struct stream *s, const char *begins)
{
    void *place;

    for (size_t i = 0; begins[i]; i++) {
        must(t, stream_push(s, begins[i] == 'R', &place, &t->err));
        memset(place, (int)i + 1, PIECE);
        stream_pushed(s, PIECE, strlen(begins + i + 1));
    }
}

static void pop(struct toy *t, struct stream *s, size_t piece)
{
    const unsigned char *place;

    must(t, stream_pop(s, (void **)&place, &t->err));
    assert_int_equal(place[0], piece + 1);
    assert_int_equal(place[PIECE - 1], piece + 1);
    stream_popped(s);
}

static void until(const unsigned *came, unsigned want)
{
    for (int ms = 0; __atomic_load_n(came, __ATOMIC_SEQ_CST) != want; ms++) {
        if (ms > 60000)
            fail_msg("came %#x, not %#x", *came, want);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Of six pieces through five buffers the last two are being written, and will be for as long as
 * they like, when all six are popped: nothing waits, and neither is read. */
static void popped_while_written(void **state)
{
    (void)state;
    struct toy     t;
    struct stream *s = open_looked_at(&t, 5);

    writes_held = 4;
    alarm(60);
    push(&t, s, "R.....");
    for (size_t i = 0; i < 6; i++)
        pop(&t, s, i);
    alarm(0);
    until(&writes_came, 0x38);
    assert_int_equal(writes_done, 0x08);
    assert_int_equal(reads_came, 0x08);
    __atomic_store_n(&writes_held, PIECES, __ATOMIC_SEQ_CST);
    until(&writes_done, 0x38);
    stream_close(s);
    toy_remove(&t);
}

/* A push waits for a write only when two are under way. */
static void pushed_while_written(void **state)
{
    (void)state;
    struct toy     t;
    struct stream *s = open_looked_at(&t, 4);
    void          *place;

    writes_held = 0;
    alarm(60);
    for (size_t i = 0; i < 4; i++) { // 0 and 1 are to be written after 2 and 3
        must(&t, stream_push(s, 1, &place, &t.err));
        stream_pushed(s, PIECE, PIECES - 1 - i);
    }
    until(&writes_came, 0x3);
    __atomic_store_n(&writes_held, PIECES, __ATOMIC_SEQ_CST);
    for (size_t i = 4; i < PIECES; i++) {
        must(&t, stream_push(s, 1, &place, &t.err));
        stream_pushed(s, PIECE, PIECES - 1 - i);
    }
    alarm(0);
    until(&writes_done, 0xfffff); // all but four
    stream_close(s);
    toy_remove(&t);
}

/* Reads go into every free buffer in the order of pops, while the model is not even asking. */
static void reads_go_ahead(void **state)
{
    (void)state;
    struct toy     t;
    struct stream *s = open_looked_at(&t, 5);
    void          *place;

    push(&t, s, "R...R...........R.......");
    until(&writes_done, 0xf8ffff); // all but the first three of the last record
    assert_int_equal(reads_came, 0);
    must(&t, stream_pop(s, &place, &t.err)); // two buffers are of pieces that come late
    until(&reads_came, 0);
    stream_popped(s);
    until(&reads_came, 1u << 19);
    pop(&t, s, 17);
    until(&reads_came, 3u << 19);
    for (size_t i = 18; i < 24; i++)
        pop(&t, s, i);
    until(&reads_came, 7u << 19 | 0x1f0); // the next record's, as buffers are
    for (size_t i = 4; i < 16; i++)
        pop(&t, s, i);
    for (size_t i = 0; i < 4; i++)
        pop(&t, s, i);
    assert_int_equal(reads_came, 7u << 19 | 0xffff);
    stream_close(s);
    toy_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows),
        cmocka_unit_test(popped_while_written),
        cmocka_unit_test(pushed_while_written),
        cmocka_unit_test(reads_go_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
