/* test_snapshot.c: the states of a run copied to a snapshot and put back are the same states: every
 * later bit is that of a run that never went further, in all modes, also if the run was moved to
 * other devices meanwhile, or trains while it is copied. A snapshot's devices are no run's, and a
 * run stopped in the middle of a copy is the run that it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/upkeep/reshard.h"
#include "offload/upkeep/snapshot.h"
#include "offload/upkeep/verify.h"
#include "tests/files.h"
#include "tests/toy_run.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCKS = 5, STEPS = 8, TAKE_AT = 3 };
static const size_t sizes[BLOCKS] = { 13003, 7000, 7000, 7000, 77 };

struct variant {
    enum run_mode mode;
    enum dtype    dt;
    double        compress;
    int           feedback;
    size_t        devices, moved; // moved: the run is on so many others when it goes back; 0: not
};

static const struct variant variants[] = {
    { RUN_MEM, DT_BF16, 0, 0, 0, 0 },
    { RUN_MEM, DT_F32, 0.1, 1, 0, 0 },
    { RUN_BASE, DT_BF16, 0, 0, 3, 0 },
    { RUN_SU, DT_F32, 0, 0, 2, 0 },
    { RUN_SUO, DT_BF16, 0, 0, 1, 0 },
    { RUN_SUO, DT_BF16, 0.1, 1, 2, 0 },
    { RUN_SUO, DT_BF16, 0.1, 1, 2, 3 },
    { RUN_SUO, DT_BF16, 0, 0, 3, 1 },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* few: with few spare slots, so that updates come to those that are held. */
static void variant_make_few(struct toy *t, const struct variant *v, int few)
{
    struct run_config cfg = toy_config(NULL, v->mode, sizes, BLOCKS);

    cfg.wire_dt = v->dt;
    cfg.compress = v->compress;
    cfg.error_feedback = v->feedback;
    cfg.n_devices = v->devices;
    cfg.csd_mem = 128 << 10;
    if (few)
        cfg.spares = RUN_SPARES_FEW;
    toy_make(t, &cfg);
}

static void variant_make(struct toy *t, const struct variant *v) { variant_make_few(t, v, 0); }

static void train(struct toy *t, uint64_t from, uint64_t to, double *loss)
{
    struct stream *s = toy_open(t);

    for (uint64_t step = from; step < to; step++)
        loss[step] = toy_train(t, s, step);
    toy_close(t, s);
}

/* ---- a snapshot in the run's folder */

static int name_is_noted(void *ctx, const char *name, struct err *err)
{
    char path[4096];

    (void)err;
    snprintf(path, sizeof path, "%s/%s", ((struct run_config *)ctx)->dir, name);
    struct stat st;
    assert_int_equal(stat(path, &st), -1); // it is said before it is there
    return 0;
}

/* The snapshot's configuration, without a log. */
static struct run_config snapshot_of(const struct toy *t, char dir[4096])
{
    struct run_config to = t->cfg;

    snprintf(dir, 4096, "%s/copy", t->dir);
    to.dir = dir;
    to.log = NULL;
    to.layout = NULL;
    to.owner = "0123456789abcdef";
    return to;
}

static int take(struct toy *t, struct run_config *to, const struct watch *watch)
{
    struct snapshot_take s = { .run = &t->cfg, .to = to, .log = t->cfg.log, .watch = watch,
                               .made = name_is_noted, .ctx = to };
    char                 db[8192];

    assert_int_equal(mkdir(to->dir, 0700), 0);
    int rc = snapshot_take(&s, &t->err);
    if (rc)
        return rc;
    assert_true(s.bytes > 0 && s.shared <= s.bytes);
    snprintf(db, sizeof db, "%s/run.db", to->dir);
    must(t, runlog_copy(t->cfg.log, db, &t->err));
    must(t, runlog_open(&to->log, db, 0, 0, &t->err));
    return 0;
}

static void say(void *ctx, int damage, const char *sentence)
{
    (void)sentence;
    *(int *)ctx += damage;
}

/* How many parts of it are damaged. In mode mem, its rows name the other image, too. */
static int damage(struct toy *t, const struct run_config *cfg)
{
    int           n = 0;
    struct verify v = { .say = say, .ctx = &n };

    must(t, verify_run(&v, cfg, &t->err));
    assert_true(v.count[cfg->mode == RUN_MEM ? VERIFY_IMAGE : VERIFY_STATES].n > 0);
    return n;
}

static int put(struct toy *t, const struct run_config *from, const struct watch *watch)
{
    struct snapshot_put p = { .from = from, .to = &t->cfg, .watch = watch };
    int                 rc = snapshot_put(&p, &t->err);

    rc = rc ? rc : runlog_begin(t->cfg.log, &t->err);
    rc = rc ? rc : snapshot_put_record(&p, &t->err);
    if (!rc)
        rc = runlog_end(t->cfg.log, rc, &t->err);
    assert_true(rc || p.bytes > 0);
    snapshot_put_end(&p);
    return rc;
}

/* ---- the run on other devices */

static int settings(void *ctx, struct err *err)
{
    (void)ctx, (void)err;
    return 0;
}

static void move(struct toy *t, size_t devices)
{
    struct reshard r = { .from = t->cfg, .to = t->cfg, .settings = settings };

    r.to.n_devices = devices;
    r.to.csd_mem = 1 << 20; // other subgroups
    r.to.layout = "moved";
    must(t, reshard_run(&r, &t->err));
    t->cfg = r.to;
    must(t, reshard_clean(&t->cfg, 1, NULL, 0, &t->err));
}

/* ---- tests */

static void test_back_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        double                want[STEPS], got[STEPS];
        char                  dir[4096];
        struct toy            t;

        variant_make(&t, v);
        train(&t, 0, TAKE_AT, want);
        uint32_t          before = toy_sum(&t);
        struct run_config to = snapshot_of(&t, dir);
        must(&t, take(&t, &to, NULL));
        assert_int_equal(damage(&t, &to), 0);
        train(&t, TAKE_AT, STEPS, want);
        uint32_t end = toy_sum(&t);
        assert_int_not_equal(end, before);
        if (v->moved)
            move(&t, v->moved);
        must(&t, put(&t, &to, NULL));
        assert_int_equal(toy_sum(&t), before);
        assert_int_equal(damage(&t, &t.cfg), 0);
        train(&t, TAKE_AT, STEPS, got);
        assert_memory_equal(want + TAKE_AT, got + TAKE_AT, (STEPS - TAKE_AT) * sizeof *got);
        assert_int_equal(toy_sum(&t), end);
        assert_int_equal(damage(&t, &to), 0); // the run's steps have not written to it
        runlog_close(to.log);
        toy_remove(&t);
    }
}

static int stop_at(void *ctx, uint64_t done, uint64_t n)
{
    return done >= n / *(uint64_t *)ctx;
}

/* Stopped in a copy, the run is what it was. Stopped on the way back, the same way succeeds. */
static void test_stopped(void **state)
{
    uint64_t           part = 2;
    const struct watch half = { stop_at, &part };

    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        double     want[STEPS], got[STEPS];
        char       dir[4096];
        struct toy t;

        variant_make(&t, &variants[i]);
        train(&t, 0, TAKE_AT, want);
        struct run_config to = snapshot_of(&t, dir);
        assert_int_equal(take(&t, &to, &half), -EINTR);
        assert_int_equal(damage(&t, &t.cfg), 0);
        snprintf(dir, sizeof dir, "%s/again", t.dir);
        must(&t, take(&t, &to, NULL));
        train(&t, TAKE_AT, STEPS, want);
        assert_int_equal(put(&t, &to, &half), -EINTR);
        must(&t, put(&t, &to, NULL));
        train(&t, TAKE_AT, STEPS, got);
        assert_memory_equal(want + TAKE_AT, got + TAKE_AT, (STEPS - TAKE_AT) * sizeof *got);
        runlog_close(to.log);
        toy_remove(&t);
    }
}

struct copier {
    struct toy          *t;
    struct snapshot_take take;
    struct beside        beside;
    int                  rc;
    struct err           err;
};

static void *copy(void *arg)
{
    struct copier *c = arg;

    c->rc = snapshot_take(&c->take, &c->err);
    stream_hold_end(c->beside.stream);
    return NULL;
}

/* Trains from TAKE_AT on while a thread copies what the run was then. rate: so slow that updates
 * and gradients come to what it still needs. watch: it may be told to end. */
static void train_beside(struct toy *t, struct run_config *to, uint64_t rate,
                         const struct watch *watch, int ends, double *loss)
{
    struct stream *s = toy_open(t);
    struct copier  c = { .t = t, .beside = { .stream = s, .rate = rate } };
    char           db[8192];
    pthread_t      id;

    for (uint64_t step = 0; step < TAKE_AT; step++)
        loss[step] = toy_train(t, s, step);
    must(t, stream_drain(s, &t->err));
    assert_int_equal(mkdir(to->dir, 0700), 0);
    snprintf(db, sizeof db, "%s/run.db", to->dir);
    must(t, runlog_copy(t->cfg.log, db, &t->err));
    must(t, runlog_open(&to->log, db, 0, 0, &t->err));
    c.take = (struct snapshot_take){ .run = &t->cfg, .to = to, .log = to->log, .watch = watch,
                                     .beside = &c.beside, .made = name_is_noted, .ctx = to };
    stream_hold(s);
    assert_int_equal(pthread_create(&id, NULL, copy, &c), 0);
    for (uint64_t step = TAKE_AT; step < STEPS; step++)
        loss[step] = toy_train(t, s, step);
    pthread_join(id, NULL);
    assert_int_equal(c.rc, ends ? -EINTR : 0);
    toy_close(t, s);
}

/* With a snapshot under way, a run has the same bits as without; the snapshot is the run as it was
 * then; and a copy that ends early lets the run go on. */
static void test_beside(void **state)
{
    uint64_t           part = 2;
    const struct watch half = { stop_at, &part };

    (void)state;
    for (size_t i = 0; i < VARIANTS + 3; i++) { // slowly; the last ones end early
        int        ends = i >= VARIANTS, few = i % 2 == 0;
        const struct variant *v = &variants[ends ? 2 * (i - VARIANTS) + 1 : i];
        double                want[STEPS], got[STEPS];
        char                  dir[4096];
        struct toy            t, alone;

        variant_make(&alone, v);
        train(&alone, 0, TAKE_AT, want);
        uint32_t before = toy_sum(&alone);
        train(&alone, TAKE_AT, STEPS, want);
        variant_make_few(&t, v, few);
        struct run_config to = snapshot_of(&t, dir);
        train_beside(&t, &to, few ? 2 << 20 : 0, ends ? &half : NULL, ends, got);
        assert_memory_equal(want, got, sizeof want);
        assert_int_equal(toy_sum(&t), toy_sum(&alone));
        assert_int_equal(damage(&t, &t.cfg), 0);
        if (!ends) {
            assert_int_equal(damage(&t, &to), 0);
            must(&t, put(&t, &to, NULL));
            assert_int_equal(toy_sum(&t), before);
        }
        runlog_close(to.log);
        toy_remove(&alone);
        toy_remove(&t);
    }
}

/* A snapshot's devices are not taken for the run's, nor the run's for them; a byte of it is noticed
 * on the way back. */
static void test_whose(void **state)
{
    const struct variant *v = &variants[4];
    struct devices        d;
    double                loss[STEPS];
    char                  dir[4096], path[8192];
    struct toy            t;
    struct stat           st;

    (void)state;
    variant_make(&t, v);
    train(&t, 0, TAKE_AT, loss);
    struct run_config to = snapshot_of(&t, dir), mixed;
    must(&t, take(&t, &to, NULL));
    mixed = to;
    mixed.owner = NULL;
    assert_int_equal(devices_open(&d, &mixed, DEVICES_READ, NULL, &t.err), -EXDEV);
    mixed = t.cfg;
    mixed.owner = to.owner;
    assert_int_equal(devices_open(&d, &mixed, DEVICES_READ, NULL, &t.err), -EXDEV);
    snprintf(path, sizeof path, "%s/dev0/states", dir);
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 5000; at < st.st_size; at += 4096) // which slots count is a matter of time
        files_turn(path, (uint64_t)at, 0x10);
    assert_true(damage(&t, &to) > 0);
    assert_int_equal(put(&t, &to, NULL), -EBADMSG);
    runlog_close(to.log);
    toy_remove(&t);
}

/* A step that is half done has two states: neither is copied. */
static void test_half_done(void **state)
{
    char           dir[4096];
    double         loss;
    struct toy     t;

    (void)state;
    variant_make(&t, &variants[4]);
    struct stream *s = toy_open(&t);
    must(&t, toy_step(&t.cfg, s, 0, 0, 0, &loss, &t.err));
    stream_close(s); // before its last commit, or after it
    struct store   st;
    struct journal j = { 0 };
    int            late = 0;
    must(&t, store_init(&st, &t.cfg, &t.err));
    must(&t, journal_open(&j, t.cfg.log, st.n_subs, 0, &t.err));
    for (size_t i = 0; i < st.n_subs; i++)
        late |= j.subs[i].version != j.state.applied;
    struct run_config to = snapshot_of(&t, dir);
    assert_int_equal(take(&t, &to, NULL), late ? -EBUSY : 0);
    runlog_close(to.log);
    journal_close(&j);
    store_release(&st);
    toy_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_is_the_same),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_half_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
