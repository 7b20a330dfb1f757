/* test_reshard.c: a run moved to other devices is the same run: states, residuals and every later
 * bit, whatever the numbers of devices and the sizes of subgroups; killed at any point of the move
 * it is whole, and what was left of it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "offload/devices.h"
#include "offload/reshard.h"
#include "tests/tempdir.h"
#include "tests/toy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

struct toy {
    struct run_config cfg;
    char              dir[256], layout[STORE_LAYOUT];
    struct err        err;
};

static int must(struct toy *t, int rc)
{
    if (rc)
        print_message("%s\n", t->err.text);
    assert_int_equal(rc, 0);
    return rc;
}

static void toy_config(struct toy *t, const struct variant *v, struct place at, const char *layout)
{
    struct runlog *log = t->cfg.log;

    snprintf(t->layout, sizeof t->layout, "%s", layout);
    t->cfg = (struct run_config){
        .dir = t->dir,
        .log = log,
        .id = "00112233445566778899aabbccddeeff",
        .mode = v->mode,
        .n_blocks = BLOCKS,
        .block_params = sizes,
        .decay = toy_decay,
        .wire_dt = v->dt,
        .optim = OPTIM_ADAMW,
        .compress = v->compress,
        .error_feedback = v->feedback,
        .n_devices = at.devices,
        .csd = &csd_emu,
        .disk = "sync",
        .csd_mem = at.csd_mem,
        .layout = t->layout,
        .frames = 2,
        .grad_buffers = 1,
    };
}

static void toy_open(struct toy *t)
{
    char path[300];

    snprintf(path, sizeof path, "%s/run.db", t->dir);
    must(t, runlog_open(&t->cfg.log, path, 0, 0, &t->err));
}

static void toy_create(struct toy *t, const struct variant *v, const char *dir)
{
    char path[300];

    *t = (struct toy){ 0 };
    snprintf(t->dir, sizeof t->dir, "%s", dir);
    snprintf(path, sizeof path, "%s/run.db", dir);
    must(t, runlog_create(&t->cfg.log, path, 0, &t->err));
    toy_config(t, v, v->at, "");
    must(t, run_format(&t->cfg, &toy_init, &t->err));
}

/* Steps [from, to), the losses into loss. */
static void toy_train(struct toy *t, uint64_t from, uint64_t to, double *loss)
{
    struct stream *s;
    char           notice[512];

    must(t, run_train(&s, &t->cfg, notice, sizeof notice, &t->err));
    for (uint64_t step = from; step < to; step++)
        must(t, toy_step(&t->cfg, s, step, 0, 0, &loss[step], &t->err));
    must(t, stream_drain(s, &t->err));
    stream_close(s);
}

static uint32_t params_sum(struct toy *t)
{
    uint32_t sum = 0;

    must(t, toy_params_sum(&t->cfg, &sum, &t->err));
    return sum;
}

/* Device files in the run's folder, wherever they are. */
static size_t files(const struct toy *t)
{
    size_t n = 0;

    for (size_t i = 0; i < 16; i++) {
        char           path[300];
        DIR           *d;
        struct dirent *e;

        snprintf(path, sizeof path, "%s/dev%zu", t->dir, i);
        d = opendir(path);
        while (d && (e = readdir(d)))
            n += e->d_name[0] != '.';
        if (d)
            closedir(d);
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
    char notice[512];

    must(t, reshard_clean(&t->cfg, notice, sizeof notice, &t->err));
    assert_string_equal(notice, "");
}

struct finetune_results { double loss[STEPS]; uint32_t params; };

static struct finetune_results run_through(const struct variant *v, int move)
{
    char          *dir = tempdir_new();
    struct toy     t;
    struct finetune_results out;

    toy_create(&t, v, dir);
    toy_train(&t, 0, MOVE_AT, out.loss);
    if (move) {
        uint32_t before = params_sum(&t);

        must(&t, toy_move(&t, v, "aaaa", NULL, 0));
        toy_config(&t, v, v->to, "aaaa");
        toy_clean(&t);
        assert_int_equal(files(&t), v->to.devices);
        assert_int_equal(params_sum(&t), before);
    }
    toy_train(&t, MOVE_AT, STEPS, out.loss);
    out.params = params_sum(&t);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
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
        struct finetune_results stayed = run_through(&variants[i], 0),
                                moved = run_through(&variants[i], 1);

        assert_memory_equal(stayed.loss, moved.loss, sizeof stayed.loss);
        assert_int_equal(stayed.params, moved.params);
    }
}

/* ---- what may come between */

/* Where run.db says that the run is. */
static void toy_find(struct toy *t, const struct variant *v)
{
    char layout[STORE_LAYOUT] = "";

    t->cfg.log = NULL;
    toy_open(t);
    runlog_get(t->cfg.log, "layout", layout, sizeof layout, &t->err);
    toy_config(t, v, *layout ? v->to : v->at, layout);
}

/* Killed in the copy after each subgroup, and after the switch: whole, without leftovers, and the
 * next move succeeds. */
static void test_killed(void **state)
{
    const struct variant *v = &variants[4];
    struct finetune_results        want = run_through(v, 0);
    size_t                n;
    struct store          st;

    (void)state;
    for (size_t after = 1, subs = 1; after <= subs + 1; after++) {
        char          *dir = tempdir_new(), layout[STORE_LAYOUT];
        struct finetune_results got;
        struct toy     t;
        uint32_t       before;
        int            status;
        pid_t          pid;

        toy_create(&t, v, dir);
        toy_train(&t, 0, MOVE_AT, got.loss);
        before = params_sum(&t);
        runlog_close(t.cfg.log);
        pid = fork();
        if (pid == 0) {
            toy_find(&t, v);
            _exit(toy_move(&t, v, "bbbb", kill_self, after) ? 1 : 9); // without cleaning, without
                                                                      // closing
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);

        toy_find(&t, v);
        n = files(&t);
        assert_int_equal(n, v->at.devices + v->to.devices); // both sets, the one or the other valid
        toy_clean(&t);
        assert_int_equal(files(&t), t.cfg.n_devices);
        assert_string_equal(t.layout, after > subs ? "bbbb" : "");
        assert_int_equal(params_sum(&t), before);
        snprintf(layout, sizeof layout, "cccc%zu", after);
        if (!*t.layout) {
            must(&t, toy_move(&t, v, layout, NULL, 0));
            toy_config(&t, v, v->to, layout);
            toy_clean(&t);
            assert_int_equal(files(&t), v->to.devices);
        }
        toy_train(&t, MOVE_AT, STEPS, got.loss);
        assert_memory_equal(want.loss, got.loss, sizeof want.loss);
        assert_int_equal(want.params, params_sum(&t));
        must(&t, devices_layout(&st, &t.cfg, &t.err));
        subs = st.n_subs;
        store_release(&st);
        runlog_close(t.cfg.log);
        tempdir_remove(dir);
    }
}

static void test_stopped(void **state)
{
    const struct variant *v = &variants[0];
    char                 *dir = tempdir_new();
    struct toy            t;
    double                loss[STEPS];
    uint32_t              before;

    (void)state;
    toy_create(&t, v, dir);
    toy_train(&t, 0, 2, loss);
    before = params_sum(&t);
    assert_int_equal(toy_move(&t, v, "dddd", quit, 3), -EINTR);
    assert_int_equal(files(&t), v->at.devices);
    assert_int_equal(params_sum(&t), before);
    toy_train(&t, 2, 3, loss);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

/* A byte of a master or a residual: named, and nothing is moved. */
static void flip(const struct toy *t, size_t device, uint64_t off)
{
    char          path[300];
    unsigned char byte;
    int           fd;

    snprintf(path, sizeof path, "%s/dev%zu/states", t->dir, device);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
    close(fd);
}

static void test_damaged(void **state)
{
    const struct variant *v = &variants[4];
    char                 *dir = tempdir_new();
    struct toy            t;
    struct store          st;
    double                loss[STEPS];
    uint64_t              off;

    (void)state;
    toy_create(&t, v, dir);
    toy_train(&t, 0, 2, loss);
    must(&t, devices_layout(&st, &t.cfg, &t.err));
    off = store_residual_off(&st.subs[st.n_subs - 1], 2) + 100;
    flip(&t, st.subs[st.n_subs - 1].device, off);
    assert_int_equal(toy_move(&t, v, "eeee", NULL, 0), -EBADMSG);
    assert_non_null(strstr(t.err.text, "the residual of block 4 at offset"));
    assert_int_equal(files(&t), v->at.devices);
    flip(&t, st.subs[st.n_subs - 1].device, off);
    must(&t, toy_move(&t, v, "ffff", NULL, 0));
    store_release(&st);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

/* The new devices must fit beside the old ones. */
static void test_no_room(void **state)
{
    struct variant v = variants[0];
    char          *dir = tempdir_new();
    struct toy     t;
    static size_t  huge[BLOCKS] = { (size_t)1 << 42, 7000, 7000, 7000, 77 }; // tens of terabytes of
                                                                             // states

    (void)state;
    toy_create(&t, &v, dir);
    v.to.csd_mem = (size_t)4 << 30;
    t.cfg.block_params = huge;
    v.to.devices = 1;
    assert_int_equal(toy_move(&t, &v, "gggg", NULL, 0), -ENOSPC);
    assert_non_null(strstr(t.err.text, "bytes free; the devices up to"));
    t.cfg.block_params = sizes;
    assert_int_equal(files(&t), v.at.devices);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

/* A file that is listed but is another's stays; a device of the layout before is refused. */
static void test_strangers(void **state)
{
    const struct variant *v = &variants[0];
    char                 *dir = tempdir_new(), path[300], listed[400], notice[512];
    struct toy            t;
    struct devices        d;
    const char           *paths[3];
    FILE                 *f;

    (void)state;
    toy_create(&t, v, dir);
    must(&t, toy_move(&t, v, "hhhh", NULL, 0)); // the old ones are listed still
    toy_config(&t, v, v->to, "hhhh");

    snprintf(path, sizeof path, "%s/dev0/states", dir);
    paths[0] = paths[1] = paths[2] = path;
    t.cfg.device_paths = paths;
    assert_int_equal(devices_open(&d, &t.cfg, DEVICES_READ, NULL, 0, notice, sizeof notice, &t.err),
                     -EBADMSG);
    assert_non_null(strstr(t.err.text, "was device 0 of 1 of this run at another time"));
    t.cfg.device_paths = NULL;

    f = fopen(path, "r+");
    assert_non_null(f);
    fputs("somebody else's", f);
    fclose(f);
    must(&t, reshard_clean(&t.cfg, notice, sizeof notice, &t.err));
    assert_non_null(strstr(notice, "dev0/states is not of this run any more and was left where it "
                                   "is: what it holds is something else"));
    assert_int_equal(access(path, F_OK), 0);
    must(&t, reshard_clean(&t.cfg, notice, sizeof notice, &t.err)); // and is forgotten
    assert_string_equal(notice, "");

    // a run.db of somebody else's lists what it likes: what is empty, or all zeros, says nothing of
    // itself
    snprintf(path, sizeof path, "%s/dev0/victim", dir);
    for (int zeros = 0; zeros < 2; zeros++) {
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fseek(f, 8191 * zeros, SEEK_SET), 0);
        if (zeros)
            fputc('x', f);
        fclose(f);
        snprintf(listed, sizeof listed, "kkkk\n%s\ndev0/victim\n", path);
        must(&t, runlog_set(t.cfg.log, "reshard.remove", listed, &t.err));
        must(&t, reshard_clean(&t.cfg, notice, sizeof notice, &t.err));
        assert_non_null(strstr(notice, "victim is not of this run any more and was left where it "
                                       "is: nothing in it says"));
        assert_int_equal(access(path, F_OK), 0);
    }
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moved_is_the_same), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),           cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_room),           cmocka_unit_test(test_strangers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
