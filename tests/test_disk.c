/* test_disk.c: one table of behaviours, every disk. What is written comes back, whatever the size
 * and the order; what cannot be done is one sentence and leaves nothing behind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/disk/disk_beneath.h"
#include "csd/disk/disk_file.h"
#include "data/base/clock.h"
#include "kernels/rng.h"
#include "tests/disk_fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNIT = 4096, BYTES = 12 << 20, DEPTH = 8 };

struct rig {
    const char    *name;
    struct disk   *d;
    char           dir[64], path[96];
    unsigned char *mem; // BYTES, registered; and as many more, not registered
};

static void rig_init(struct rig *r, const char *name)
{
    r->name = name;
    r->d = NULL;
    r->mem = aligned_alloc(UNIT, 2 * (size_t)BYTES);
    strcpy(r->dir, "/var/tmp/sitrain-disk-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->path, sizeof r->path, "%s/disk", r->dir);
}

static int rig_open(struct rig *r, struct disk_config cfg, struct err *err)
{
    struct iovec iov = {r->mem, BYTES};
    char         notice[256];

    cfg.path = r->path;
    cfg.depth = DEPTH;
    cfg.buffers = &iov;
    cfg.n_buffers = 1;
    if (strcmp(r->name, "fault") == 0)
        return disk_fault.open(&r->d, &cfg, err);
    return disk_open(&r->d, disk_find(r->name), &cfg, notice, sizeof notice, err);
}

static void rig_release(struct rig *r)
{
    disk_close(r->d);
    unlink(r->path);
    rmdir(r->dir);
    free(r->mem);
}

static int run_all(struct disk *d, struct disk_req *req, int n)
{
    struct disk_req *done[4];
    int              sent = 0, back = 0, status = 0;

    while (back < n) {
        while (sent < n && disk_submit(d, &req[sent]) == 0)
            sent++;
        int got = disk_reap(d, done, 4, -1);

        assert_true(got >= 0);
        for (int i = 0; i < got; i++)
            if (done[i]->status)
                status = done[i]->status;
        back += got;
    }
    return status;
}

/* Pieces of many sizes, written from registered memory in one order, read into other memory in
 * another. */
static void round_trip(struct rig *r)
{
    struct disk_req req[64];
    unsigned char  *from = r->mem, *to = r->mem + BYTES;
    int             n = 0;

    for (size_t i = 0; i < BYTES / 8; i++)
        ((uint64_t *)(void *)from)[i] = rng_bits(1, 2, i);
    memset(to, 0, BYTES);
    for (size_t at = 0; at < BYTES; n++) {
        size_t bytes = (size_t)UNIT << (rng_bits(3, 4, (uint64_t)n) % 11); // up to 4 MiB

        bytes = bytes < BYTES - at ? bytes : BYTES - at;
        if (n == 62)
            bytes = BYTES - at;
        req[n] = (struct disk_req){.op = DISK_WRITE, .buf = from + at, .bytes = bytes, .off = at};
        at += bytes;
    }
    assert_int_equal(run_all(r->d, req, n), 0);
    struct disk_req flush = {.op = DISK_FLUSH};

    assert_int_equal(run_all(r->d, &flush, 1), 0);
    for (int i = 0; i < n / 2; i++) {
        struct disk_req swap = req[i];

        req[i] = req[n - 1 - i];
        req[n - 1 - i] = swap;
    }
    for (int i = 0; i < n; i++)
        req[i] = (struct disk_req){
            .op = DISK_READ, .buf = to + req[i].off, .bytes = req[i].bytes, .off = req[i].off};
    assert_int_equal(run_all(r->d, req, n), 0);
    assert_memory_equal(from, to, BYTES);
}

static void test_round_trip(void **state)
{
    struct rig  r;
    struct err  err;
    struct stat st;

    rig_init(&r, *state);
    if (rig_open(&r, (struct disk_config){.bytes = BYTES, .create = 1}, &err))
        fail_msg("%s", err.text);
    assert_int_equal(stat(r.path, &st), 0);
    assert_int_equal(st.st_size, BYTES);
    assert_int_equal(st.st_mode & 077, 0);
    assert_true(st.st_blocks * 512 >= BYTES);
    round_trip(&r);
    rig_release(&r);
}

/* Reading past the end fails with EIO, what is beside it does not; a disk open for reading refuses
 * writes. */
static void test_errors(void **state)
{
    struct rig      r;
    struct err      err;
    struct disk_req req[3];

    rig_init(&r, *state);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES, .create = 1}, &err), 0);
    for (int i = 0; i < 3; i++)
        req[i] = (struct disk_req){
            .op = DISK_READ, .buf = r.mem + i * UNIT, .bytes = UNIT, .off = (uint64_t)i * UNIT};
    req[1] = (struct disk_req){
        .op = DISK_READ, .buf = r.mem + BYTES, .bytes = BYTES, .off = BYTES / 2
    };
    run_all(r.d, req, 3);
    assert_int_equal(req[0].status, 0);
    assert_int_equal(req[1].status, -EIO);
    assert_int_equal(req[2].status, 0);
    disk_close(r.d);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES, .read_only = 1}, &err), 0);
    req[0].op = DISK_WRITE;
    assert_true(run_all(r.d, req, 1) < 0);
    rig_release(&r);
}

static void test_open(void **state)
{
    struct rig r;
    struct err err;

    rig_init(&r, *state);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES}, &err), -ENOENT);
    assert_non_null(strstr(err.text, r.path));
    assert_int_equal(rig_open(&r, (struct disk_config){ .bytes = 1ull << 50, .create = 1 }, &err),
                     -ENOSPC);
    assert_non_null(strstr(err.text, "1125899906842624"));
    assert_int_equal(access(r.path, F_OK), -1);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = UNIT, .create = 1}, &err), 0);
    disk_close(r.d);
    r.d = NULL;
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = UNIT, .create = 1}, &err), -EEXIST);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = 2 * UNIT}, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is 4096 bytes, this run needs 8192"));
    // what has another name too is read, not written
    char other[sizeof r.path + 8];
    snprintf(other, sizeof other, "%s.twin", r.path);
    assert_int_equal(link(r.path, other), 0);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = UNIT}, &err), -EINVAL);
    assert_non_null(strstr(err.text, "has other names too"));
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = UNIT, .read_only = 1}, &err), 0);
    disk_close(r.d);
    r.d = NULL;
    unlink(other);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = UNIT}, &err), 0);
    rig_release(&r);
}

/* What is behind the part to keep grows and shrinks with what is asked for, holes filled; where
 * there is no room the file stays as it was, and one that is too short is left alone. */
static void test_keep(void **state)
{
    struct rig  r;
    struct err  err;
    struct stat st;
    char        page[UNIT];
    FILE       *f;

    rig_init(&r, *state);
    f = fopen(r.path, "wb");
    assert_non_null(f);
    memset(page, 0x5a, sizeof page);
    assert_int_equal(fwrite(page, 1, sizeof page, f), sizeof page);
    fclose(f);
    assert_int_equal(rig_open(&r, (struct disk_config){ .bytes = 1ull << 50, .keep = UNIT }, &err),
                     -ENOSPC);
    assert_non_null(strstr(err.text, "needs 1125899906838528 bytes more"));
    assert_true(stat(r.path, &st) == 0 && st.st_size == UNIT);
    assert_int_equal(rig_open(&r, (struct disk_config){ .bytes = 3 * UNIT, .keep = 2 * UNIT },
                              &err),
                     -EINVAL);
    assert_true(stat(r.path, &st) == 0 && st.st_size == UNIT);
    assert_int_equal(truncate(r.path, 4 * UNIT), 0); // all of it a hole behind the first
    for (int units = 3; units >= 1; units -= 2) {
        assert_int_equal(
            rig_open(&r, (struct disk_config){ .bytes = (uint64_t)units * UNIT, .keep = UNIT },
                     &err),
            0);
        disk_close(r.d);
        r.d = NULL;
        assert_true(stat(r.path, &st) == 0 && st.st_size == units * UNIT &&
                    st.st_blocks * 512 >= units * UNIT);
        f = fopen(r.path, "rb");
        assert_non_null(f);
        for (int i = 0; i < units * UNIT; i++)
            assert_int_equal(fgetc(f), i < UNIT ? 0x5a : 0);
        fclose(f);
    }
    rig_release(&r);
}

static void *waker(void *arg)
{
    usleep(20000);
    disk_wake(arg);
    return NULL;
}

static void test_wake(void **state)
{
    struct rig       r;
    struct err       err;
    struct disk_req *done[1];
    pthread_t        t;
    uint64_t         t0;

    rig_init(&r, *state);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES, .create = 1}, &err), 0);
    assert_int_equal(disk_reap(r.d, done, 1, 0), 0);
    t0 = clock_ns();
    assert_int_equal(disk_reap(r.d, done, 1, 5000000), 0);
    assert_true(clock_ns() - t0 >= 5000000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&t, NULL, waker, r.d), 0);
        assert_int_equal(disk_reap(r.d, done, 1, -1), 0);
        pthread_join(t, NULL);
        while (disk_reap(r.d, done, 1, 1000000) > 0)
            ;
        disk_wake(r.d); // before the wait
        assert_int_equal(disk_reap(r.d, done, 1, -1), 0);
    }
    rig_release(&r);
}

/* Requests in flight when the disk is closed are waited for. */
static void test_close(void **state)
{
    struct rig      r;
    struct err      err;
    struct disk_req req[DEPTH + 1], *done[1];
    int             n = 0;

    rig_init(&r, *state);
    memset(r.mem, 7, BYTES);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES, .create = 1}, &err), 0);
    for (int i = 0; i <= DEPTH; i++) {
        req[i] = (struct disk_req){
            .op = DISK_WRITE, .buf = r.mem + i * UNIT, .bytes = UNIT, .off = (uint64_t)i * UNIT};
        n += disk_submit(r.d, &req[i]) == 0;
    }
    assert_int_equal(n, DEPTH);
    disk_reap(r.d, done, 1, 0);
    disk_close(r.d);
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = BYTES}, &err), 0);
    req[0] = (struct disk_req){.op = DISK_READ, .buf = r.mem + BYTES, .bytes = DEPTH * UNIT};
    assert_int_equal(run_all(r.d, req, 1), 0);
    assert_memory_equal(r.mem, r.mem + BYTES, DEPTH * UNIT);
    rig_release(&r);
}

static void test_null(void **state)
{
    struct rig      r;
    struct err      err;
    struct disk_req req[3] = {{.op = DISK_READ}, {.op = DISK_WRITE}, {.op = DISK_FLUSH}};

    (void)state;
    rig_init(&r, "null");
    for (int i = 0; i < 2; i++) {
        req[i].buf = r.mem;
        req[i].bytes = BYTES;
    }
    assert_int_equal(rig_open(&r, (struct disk_config){.bytes = 1ull << 60, .create = 1}, &err), 0);
    assert_int_equal(run_all(r.d, req, 3), 0);
    assert_int_equal(access(r.path, F_OK), -1);
    rig_release(&r);
    assert_null(disk_find("floppy"));
}

/* Where O_DIRECT is refused (here: /proc), uring gives way to sync and says so. */
static void test_fall_back(void **state)
{
    struct disk_config cfg = {.path = "/proc/self/comm", .read_only = 1, .depth = 1};
    struct disk       *d = NULL;
    struct err         err = {0};
    char               notice[256];
    int                rc = disk_open(&d, &disk_uring, &cfg, notice, sizeof notice, &err);

    (void)state;
    if (rc)
        fail_msg("%s", err.text);
    assert_string_equal(d->ops->name, "sync");
    assert_non_null(strstr(notice, "instead"));
    disk_close(d);
}

/* The same behaviours through the faulty disk, with many transfers cut in two and all of them late.
 */
static void test_fault_wrapper(void **state)
{
    struct disk_fault_plan plan = {
        .inner = &disk_sync, .seed = 5, .ops = 3, .short_io = 0.7, .delay_ns = 100000};
    void *name = (void *)(uintptr_t) "fault";

    (void)state;
    disk_fault_set(&plan);
    test_round_trip(&name);
    assert_true(disk_fault_count() > 0);
}

static void test_node(void **state)
{
    char path[64];

    (void)state;
    disk_node(path, sizeof path, "/sys/devices/virtual/block/loop0");
    assert_string_equal(path, "/dev/loop0");
    disk_node(path, sizeof path, "/sys/devices/pci0/block/cciss!c0d0/cciss!c0d0p1");
    assert_string_equal(path, "/dev/cciss/c0d0p1");
    disk_node(path, sizeof path, "");
    assert_string_equal(path, "/dev/");
}

static char uring_name[] = "uring", sync_name[] = "sync";

static int uring_state(void **state)
{
    *state = uring_name;
    return 0;
}
static int sync_state(void **state)
{
    *state = sync_name;
    return 0;
}

#define BOTH(f)                                                                                    \
    { "uring: " #f, f, uring_state, NULL, NULL },                                                  \
    {                                                                                              \
        "sync: " #f, f, sync_state, NULL, NULL                                                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_round_trip),
        BOTH(test_errors),
        BOTH(test_open),
        BOTH(test_keep),
        BOTH(test_wake),
        BOTH(test_close),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_fall_back),
        cmocka_unit_test(test_fault_wrapper),
        cmocka_unit_test(test_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
