/* test_scrub.c: which portion is read next, and what counts as damage: bytes that differ, or cannot
 * be read, with the same answer of the source before and after; never an area that changed while it
 * was read. */
#include "data/base/crc32c.h"
#include "offload/upkeep/scrub.h"
#include "run/loop/scrub_order.h"
#include "tests/tempdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- what is next ---- */

static void oldest_first(void **state)
{
    struct scrub_portions all = { 0 };

    (void)state;
    assert_null(scrub_order_next(&all));
    struct scrub_portion *device = scrub_order_add(&all, SCRUB_STATES, "device 0");
    device->there = 1;
    scrub_order_add(&all, SCRUB_BEST, "best")->there = 1;
    scrub_order_add(&all, SCRUB_SNAPSHOT, "/s/1")->there = 1;
    scrub_order_find(&all, "/s/1")->taken_ns = 50;
    assert_ptr_equal(scrub_order_add(&all, SCRUB_SNAPSHOT, "/s/1"), scrub_order_find(&all, "/s/1"));
    assert_int_equal(all.n, 3);

    // nobody has read the first two; a snapshot was read when it was taken
    assert_string_equal(scrub_order_next(&all)->name, "device 0");
    scrub_order_find(&all, "device 0")->verified_ns = 100;
    assert_string_equal(scrub_order_next(&all)->name, "best");
    scrub_order_find(&all, "best")->verified_ns = 101;
    assert_string_equal(scrub_order_next(&all)->name, "/s/1");
    scrub_order_find(&all, "/s/1")->verified_ns = 102;
    assert_string_equal(scrub_order_next(&all)->name, "device 0");
    // a pass under way is gone on with, since its end is what counts
    scrub_order_find(&all, "device 0")->position = 7;
    assert_string_equal(scrub_order_next(&all)->name, "device 0");
    // what is gone is not read
    scrub_order_find(&all, "device 0")->there = 0;
    assert_string_equal(scrub_order_next(&all)->name, "best");
    free(all.at);
}

/* ---- what is damage ---- */

enum { AREA = 3 << 20, OFF = 4096 + 100 }; // several pieces, from no page's beginning

struct trial {
    struct run_config   cfg;
    struct scrub_source source;
    struct scrub        s;
    struct area         area;
    unsigned            looks, moves; // the first `moves` answers differ from each other
    char               *dir;
};

static int look(void *ctx, size_t i, struct area *out, struct err *err)
{
    struct trial *t = ctx;

    (void)i, (void)err;
    *out = t->area;
    if (++t->looks <= t->moves) {
        out->version = t->looks;
        out->crc ^= 1;
    }
    return 0;
}

static void trial_begin(struct trial *t)
{
    static const size_t params[] = { 8 };
    char                path[256];
    char               *bytes = calloc(1, OFF + AREA + 333);
    struct err          err;

    *t = (struct trial){ .dir = tempdir_new() };
    assert_non_null(bytes);
    for (size_t i = 0; i < OFF + AREA + 333; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    snprintf(path, sizeof path, "%s/image0", t->dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, bytes, OFF + AREA + 333), OFF + AREA + 333);
    close(fd);
    t->area = (struct area){ .kind = VERIFY_IMAGE, .off = OFF, .bytes = AREA,
                             .crc = crc32c(0, bytes + OFF, AREA) };
    free(bytes);
    t->cfg = (struct run_config){ .dir = t->dir, .mode = RUN_MEM, .block_params = params };
    t->source = (struct scrub_source){ .n = 1, .look = look, .ctx = t };
    t->s = (struct scrub){ .cfg = &t->cfg, .from = &t->source };
    assert_int_equal(scrub_open(&t->s, &err), 0);
}

static void trial_end(struct trial *t)
{
    scrub_close(&t->s);
    tempdir_remove(t->dir);
}

static void whole_or_damaged(void **state)
{
    struct trial t;
    struct area  area;
    struct err   err = { 0 };

    (void)state;
    trial_begin(&t);
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_WHOLE);
    assert_int_equal(t.s.count[VERIFY_IMAGE].n, 1);
    assert_int_equal(t.s.count[VERIFY_IMAGE].bytes, AREA);
    t.area.crc ^= 1;
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_DAMAGED);
    assert_non_null(strstr(err.text, "image0"));
    assert_non_null(strstr(err.text, "3145728 bytes at offset 4196"));
    assert_int_equal(t.s.count[VERIFY_IMAGE].damaged, 1);
    // a file that ends before the area does cannot be read
    t.area.crc ^= 1;
    t.area.bytes = AREA + 334;
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_DAMAGED);
    assert_non_null(strstr(err.text, "the file ends there"));
    t.area.bytes = 0;
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_NOTHING);
    // a file that is not there
    t.area.bytes = AREA;
    t.area.file = 1;
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_DAMAGED);
    assert_non_null(strstr(err.text, "image1"));
    trial_end(&t);
}

static void changed_is_read_again(void **state)
{
    struct trial t;
    struct area  area;
    struct err   err = { 0 };

    (void)state;
    trial_begin(&t);
    t.moves = 6; // the checksums of the first three reads are of what is gone by then
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_WHOLE);
    assert_int_equal(t.s.count[VERIFY_IMAGE].damaged, 0);
    assert_true(t.looks > 6);
    t.looks = 0;
    t.moves = 1000; // and one that never rests is not damaged
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), SCRUB_CHANGED);
    assert_int_equal(t.s.changed, 1);
    trial_end(&t);
}

static int stops(void *ctx, uint64_t done, uint64_t total)
{
    (void)total;
    return done >= *(uint64_t *)ctx;
}

/* The rate is kept by pauses, in which a stop is heard. */
static void stops_in_a_pause(void **state)
{
    struct trial t;
    struct area  area;
    struct err   err = { 0 };
    uint64_t     most = 1;
    struct watch w = { stops, &most };

    (void)state;
    trial_begin(&t);
    t.s.watch = &w;
    t.s.bw = 1; // the first piece would be paid for in days
    assert_int_equal(scrub_read(&t.s, 0, &area, &err), -EINTR);
    assert_true(t.s.bytes > 0 && t.s.bytes <= 2 << 20);
    trial_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oldest_first),
        cmocka_unit_test(whole_or_damaged),
        cmocka_unit_test(changed_is_read_again),
        cmocka_unit_test(stops_in_a_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
