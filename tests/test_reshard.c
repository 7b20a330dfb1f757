/* test_reshard.c: a run moved to other devices is the same run: states, residuals and every later
 * bit, whatever the numbers of devices and the sizes of subgroups; killed at any point of the move
 * it is whole, and what was left of it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/devices/devices.h"
#include "offload/upkeep/reshard.h"
#include "tests/files.h"
#include "tests/toy_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 5, STEPS = 6, MOVE_AT = 3 };
static const size_t sizes[BLOCKS] = { 13003, 7000, 7000, 7000, 77 };

/* A set of devices: how many, how large their memory. */
struct place { size_t devices, csd_mem; };

struct variant {
    enum run_mode  mode;
    enum dtype     dt;
    double         compress;
    int            feedback;
    struct place   at, to;
};

/* The devices that t is on from here on. */
static void stands_at(struct toy *t, struct place at, const char *layout)
{
    t->cfg.n_devices = at.devices;
    t->cfg.csd_mem = at.csd_mem;
    t->cfg.layout = layout;
}

static void variant_make(struct toy *t, const struct variant *v)
{
    struct run_config cfg = toy_config(NULL, v->mode, sizes, BLOCKS);

    cfg.wire_dt = v->dt;
    cfg.compress = v->compress;
    cfg.error_feedback = v->feedback;
    cfg.n_devices = v->at.devices;
    cfg.csd_mem = v->at.csd_mem;
    toy_make(t, &cfg);
}

/* Steps [from, to), the losses into loss. */
static void train(struct toy *t, uint64_t from, uint64_t to, double *loss)
{
    struct stream *s = toy_open(t);

    for (uint64_t step = from; step < to; step++)
        loss[step] = toy_train(t, s, step);
    toy_close(t, s);
}

/* Device files in the run's folder, wherever they are. */
static size_t device_files(const struct toy *t)
{
    size_t n = 0;

    for (size_t i = 0; i < 16; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/dev%zu", t->dir, i);
        n += files_count(path);
    }
    return n;
}

/* ---- the move */

struct moving { struct toy *t; const char *layout; size_t quit_after; };

static int settings(void *ctx, struct err *err)
{
    struct moving *m = ctx;

    return runlog_set(m->t->cfg.log, "layout", m->layout, err);
}

static int quit(void *ctx, uint64_t done, uint64_t n)
{
    (void)n;
    return done == ((struct moving *)ctx)->quit_after;
}

static int kill_self(void *ctx, uint64_t done, uint64_t n)
{
    (void)n;
    if (done == ((struct moving *)ctx)->quit_after)
        _exit(9);
    return 0;
}

static int toy_move(struct toy *t, const struct variant *v, const char *layout,
                    int (*look)(void *, uint64_t, uint64_t), size_t quit_after)
{
    struct moving  m = { t, layout, quit_after };
    struct watch   watch = { look, &m };
    struct reshard r = {
        .from = t->cfg, .to = t->cfg, .settings = settings, .ctx = &m, .watch = look ? &watch : NULL
    };

    r.to.n_devices = v->to.devices;
    r.to.csd_mem = v->to.csd_mem;
    r.to.layout = layout;
    return reshard_run(&r, &t->err);
}

static void toy_clean(struct toy *t)
{
    char notice[512] = "";

    must(t, reshard_clean(&t->cfg, 1, notice, sizeof notice, &t->err));
    assert_string_equal(notice, "");
}

/* Moved, and nothing but the new devices left. */
static void move_and_clean(struct toy *t, const struct variant *v, const char *layout)
{
    must(t, toy_move(t, v, layout, NULL, 0));
    stands_at(t, v->to, layout);
    toy_clean(t);
    assert_int_equal(device_files(t), v->to.devices);
}

struct trained { double loss[STEPS]; uint32_t params; };

static struct trained run_through(const struct variant *v, int move)
{
    struct toy     t;
    struct trained out;

    variant_make(&t, v);
    train(&t, 0, MOVE_AT, out.loss);
    if (move) {
        uint32_t before = toy_sum(&t);

        move_and_clean(&t, v, "aaaa");
        assert_int_equal(toy_sum(&t), before);
    }
    train(&t, MOVE_AT, STEPS, out.loss);
    out.params = toy_sum(&t);
    toy_remove(&t);
    return out;
}

/* 128 KiB hold 2,048 parameters twice, 1 MiB all of a shard. */
static const struct variant variants[] = {
    { RUN_SUO, DT_BF16, 0, 0, { 1, 128 << 10 }, { 3, 128 << 10 } },
    { RUN_SUO, DT_BF16, 0, 0, { 3, 128 << 10 }, { 2, 1 << 20 } },
    { RUN_SU, DT_F32, 0, 0, { 2, 1 << 20 }, { 5, 128 << 10 } },
    { RUN_BASE, DT_BF16, 0.1, 0, { 5, 128 << 10 }, { 1, 1 << 20 } },
    { RUN_SUO, DT_BF16, 0.1, 1, { 2, 128 << 10 }, { 3, 200 << 10 } },
    { RUN_SUO, DT_F32, 0.1, 1, { 4, 1 << 20 }, { 4, 128 << 10 } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void test_moved_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        struct trained stayed = run_through(&variants[i], 0), moved = run_through(&variants[i], 1);

        assert_memory_equal(stayed.loss, moved.loss, sizeof stayed.loss);
        assert_int_equal(stayed.params, moved.params);
    }
}

/* ---- what may come between */

/* Open run.db again; the run is where it says. layout is kept by t. */
static void toy_find(struct toy *t, const struct variant *v, char layout[SUPERBLOCK_WORD])
{
    char path[4096];

    snprintf(path, sizeof path, "%s/run.db", t->dir);
    must(t, runlog_open(&t->cfg.log, path, 0, 0, &t->err));
    *layout = '\0';
    runlog_get(t->cfg.log, "layout", layout, SUPERBLOCK_WORD, &t->err);
    stands_at(t, *layout ? v->to : v->at, layout);
}

/* Killed in the copy after each subgroup, and after the switch: whole, without leftovers, and the
 * next move succeeds. */
static void test_killed(void **state)
{
    const struct variant *v = &variants[4];
    struct trained        want = run_through(v, 0);
    struct store          st;

    (void)state;
    for (size_t after = 1, subs = 1; after <= subs + 1; after++) {
        char           layout[SUPERBLOCK_WORD], next[SUPERBLOCK_WORD];
        struct trained got;
        struct toy     t;
        uint32_t       before;
        int            status;
        pid_t          pid;

        variant_make(&t, v);
        train(&t, 0, MOVE_AT, got.loss);
        before = toy_sum(&t);
        runlog_close(t.cfg.log);
        pid = fork();
        if (pid == 0) { // without cleaning, without closing
            toy_find(&t, v, layout);
            _exit(toy_move(&t, v, "bbbb", kill_self, after) ? 1 : 9);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);

        toy_find(&t, v, layout); // both sets are there, the one or the other valid
        assert_int_equal(device_files(&t), v->at.devices + v->to.devices);
        toy_clean(&t);
        assert_int_equal(device_files(&t), t.cfg.n_devices);
        assert_string_equal(layout, after > subs ? "bbbb" : "");
        assert_int_equal(toy_sum(&t), before);
        snprintf(next, sizeof next, "cccc%zu", after);
        if (!*layout)
            move_and_clean(&t, v, next);
        train(&t, MOVE_AT, STEPS, got.loss);
        assert_memory_equal(want.loss, got.loss, sizeof want.loss);
        assert_int_equal(want.params, toy_sum(&t));
        must(&t, store_init(&st, &t.cfg, &t.err));
        subs = st.n_subs;
        store_release(&st);
        toy_remove(&t);
    }
}

static void test_stopped(void **state)
{
    const struct variant *v = &variants[0];
    struct toy            t;
    double                loss[STEPS];
    uint32_t              before;

    (void)state;
    variant_make(&t, v);
    train(&t, 0, 2, loss);
    before = toy_sum(&t);
    assert_int_equal(toy_move(&t, v, "dddd", quit, 3), -EINTR);
    assert_int_equal(device_files(&t), v->at.devices);
    assert_int_equal(toy_sum(&t), before);
    train(&t, 2, 3, loss);
    toy_remove(&t);
}

/* A byte of a master or a residual: named, and nothing is moved. */
static void turn(const struct toy *t, size_t device, uint64_t off)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/dev%zu/states", t->dir, device);
    files_turn(path, off, 0x10);
}

static void test_damaged(void **state)
{
    const struct variant *v = &variants[4];
    struct toy            t;
    struct store          st;
    double                loss[STEPS];
    uint64_t              off;

    (void)state;
    variant_make(&t, v);
    train(&t, 0, 2, loss);
    must(&t, store_init(&st, &t.cfg, &t.err));
    off = store_residual_off(&st.subs[st.n_subs - 1], 2) + 100;
    turn(&t, st.subs[st.n_subs - 1].device, off);
    assert_int_equal(toy_move(&t, v, "eeee", NULL, 0), -EBADMSG);
    assert_non_null(strstr(t.err.text, "the residual of block 4 at offset"));
    assert_int_equal(device_files(&t), v->at.devices);
    turn(&t, st.subs[st.n_subs - 1].device, off);
    must(&t, toy_move(&t, v, "ffff", NULL, 0));
    store_release(&st);
    toy_remove(&t);
}

/* The new devices must fit beside the old ones. */
static void test_no_room(void **state)
{
    struct variant v = variants[0];
    struct toy     t;
    // tens of terabytes of states
    static size_t  huge[BLOCKS] = { (size_t)1 << 42, 7000, 7000, 7000, 77 };

    (void)state;
    variant_make(&t, &v);
    v.to.csd_mem = (size_t)4 << 30;
    t.cfg.block_params = huge;
    v.to.devices = 1;
    assert_int_equal(toy_move(&t, &v, "gggg", NULL, 0), -ENOSPC);
    assert_non_null(strstr(t.err.text, "bytes free; the devices up to"));
    t.cfg.block_params = sizes;
    assert_int_equal(device_files(&t), v.at.devices);
    toy_remove(&t);
}

static int truncate_new(const char *path, off_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600), rc = fd < 0 || ftruncate(fd, bytes);

    close(fd);
    return rc;
}

/* What another process still uses stays listed; the run is not moved again before it is gone. */
static void test_used(void **state)
{
    const struct variant *v = &variants[0];
    struct variant        back = *v;
    char                  path[4096], notice[512] = "";
    struct toy            t;

    (void)state;
    back.to = v->at;
    variant_make(&t, v);
    must(&t, toy_move(&t, v, "hhhh", NULL, 0));
    stands_at(&t, v->to, "hhhh");
    snprintf(path, sizeof path, "%s/dev0/states", t.dir);
    int fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    must(&t, reshard_clean(&t.cfg, 1, notice, sizeof notice, &t.err));
    assert_non_null(strstr(notice, "dev0/states is not of this run any more and was left where it "
                                   "is: another process uses it"));
    assert_int_equal(toy_move(&t, &back, "iiii", NULL, 0), -EAGAIN);
    assert_non_null(strstr(t.err.text, "another process still uses device files"));
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    toy_clean(&t);
    assert_int_equal(device_files(&t), v->to.devices);
    must(&t, toy_move(&t, &back, "iiii", NULL, 0));
    stands_at(&t, v->at, "iiii");
    toy_remove(&t);
}

/* A file that is listed but is another's stays; a device of the layout before is refused. */
static void test_strangers(void **state)
{
    const struct variant *v = &variants[0];
    char                  path[4096], listed[8300], notice[512] = "";
    struct toy            t;
    struct devices        d;
    const char           *paths[3];
    FILE                 *f;

    (void)state;
    variant_make(&t, v);
    must(&t, toy_move(&t, v, "hhhh", NULL, 0)); // the old ones are listed still
    stands_at(&t, v->to, "hhhh");

    snprintf(path, sizeof path, "%s/dev0/states", t.dir);
    paths[0] = paths[1] = paths[2] = path;
    t.cfg.device_paths = paths;
    assert_int_equal(devices_open(&d, &t.cfg, DEVICES_READ, NULL, &t.err), -EBADMSG);
    assert_non_null(strstr(t.err.text, "was device 0 of 1 of this run at another time"));
    t.cfg.device_paths = NULL;

    f = fopen(path, "r+");
    assert_non_null(f);
    fputs("somebody else's", f);
    fclose(f);
    must(&t, reshard_clean(&t.cfg, 1, notice, sizeof notice, &t.err));
    assert_non_null(strstr(notice, "dev0/states is not of this run any more and was left where it "
                                   "is: what it holds is something else"));
    assert_int_equal(access(path, F_OK), 0);
    *notice = '\0';
    must(&t, reshard_clean(&t.cfg, 1, notice, sizeof notice, &t.err)); // and is forgotten
    assert_string_equal(notice, "");

    // a run.db of somebody else's lists what it likes: what is empty, or all zeros, says nothing of
    // itself
    snprintf(path, sizeof path, "%s/dev0/victim", t.dir);
    for (int zeros = 0; zeros < 2; zeros++) {
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fseek(f, 8191 * zeros, SEEK_SET), 0);
        if (zeros)
            fputc('x', f);
        fclose(f);
        snprintf(listed, sizeof listed, "kkkk\n%s\ndev0/victim\n", path);
        must(&t, runlog_set(t.cfg.log, "reshard.remove", listed, &t.err));
        *notice = '\0';
        must(&t, reshard_clean(&t.cfg, 1, notice, sizeof notice, &t.err));
        assert_non_null(strstr(notice, "victim is not of this run any more and was left where it "
                                       "is: nothing in it says"));
        assert_int_equal(access(path, F_OK), 0);
    }

    // an older version's name: 8 digits of the id are no run's alone, with a layout they are
    for (int named = 0; named < 2; named++) {
        snprintf(path, sizeof path, "%s/sitrain-00112233%s-dev0", t.dir, named ? "-kkkk" : "");
        assert_int_equal(truncate_new(path, 8192), 0);
        snprintf(listed, sizeof listed, "%s\n%s\n", named ? "kkkk" : "", path);
        must(&t, runlog_set(t.cfg.log, "reshard.remove", listed, &t.err));
        must(&t, reshard_clean(&t.cfg, 1, NULL, 0, &t.err));
        assert_int_equal(access(path, F_OK), named ? -1 : 0);
    }
    toy_remove(&t);
}

/* Devices that get a word by which they are known from a copy's: a kill may come between them. */
static void test_taken(void **state)
{
    static const char    first[] = "00112233445566aa", copy[] = "ffeeddccbbaa9988";
    const struct variant v = { .mode = RUN_SUO, .dt = DT_F32, .at = { 2, 128 << 10 } };
    struct devices       d;
    struct toy           t;
    struct run_config    cfg;

    (void)state;
    variant_make(&t, &v);
    cfg = t.cfg;
    cfg.owner_next = first;
    must(&t, devices_open(&d, &cfg, DEVICES_MEND, NULL, &t.err));
    d.cfg.owner = first;
    must(&t, devices_super_write(&d, 0, &t.err)); // and a kill
    devices_close(&d);
    assert_int_equal(devices_open(&d, &t.cfg, DEVICES_READ, NULL, &t.err), -EXDEV);
    assert_non_null(strstr(t.err.text, "was taken by a copy of this run"));
    must(&t, devices_open(&d, &cfg, DEVICES_MEND, NULL, &t.err));
    must(&t, devices_take(&d, &t.err));
    devices_close(&d);
    cfg.owner = first;
    cfg.owner_next = NULL;
    must(&t, devices_open(&d, &cfg, DEVICES_READ, NULL, &t.err));
    devices_close(&d);
    cfg.owner_next = copy; // one that never came to write it
    must(&t, devices_open(&d, &cfg, DEVICES_READ, NULL, &t.err));
    devices_close(&d);
    cfg.owner = copy;
    cfg.owner_next = "";
    assert_int_equal(devices_open(&d, &cfg, DEVICES_READ, NULL, &t.err), -EXDEV);
    toy_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moved_is_the_same), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),           cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_room),           cmocka_unit_test(test_used),
        cmocka_unit_test(test_strangers),         cmocka_unit_test(test_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
