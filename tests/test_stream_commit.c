/* test_stream_commit.c: what goes on while run.db is being written: everything that does not need
 * the commit. SQLite's files are those of its own VFS, but for the moment in which run.db's log is
 * synced: there the test has its say.
 *
 *     build/tests/test_stream_commit time
 *
 * says how long a step takes where a sync takes 50 ms. */
#include "data/base/clock.h"
#include "tests/csd_hold.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- a sync that the test looks into */

static int (*on_sync)(void); // NULL: nothing to say; else 0, or an error of SQLite's
static const sqlite3_io_methods *real_methods;
static sqlite3_io_methods        methods;
static sqlite3_vfs               vfs, *real_vfs;

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static int vfs_sync(sqlite3_file *f, int flags)
{
    int rc = on_sync ? on_sync() : SQLITE_OK;

    return rc ? rc : real_methods->xSync(f, flags);
}

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    int rc = real_vfs->xOpen(v, name, f, flags, out);

    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL)) { // its methods are not those of run.db
        real_methods = f->pMethods;
        methods = *real_methods;
        methods.xSync = vfs_sync;
        f->pMethods = &methods;
    }
    return rc;
}

static int vfs_set(void **state)
{
    (void)state;
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "looked-into";
    vfs.xOpen = vfs_open;
    return sqlite3_vfs_register(&vfs, 1);
}

/* A run whose commits are synced. */
static struct stream *run_open(struct toy *t, const struct variant *v)
{
    variant_make(t, v, WAIT);
    assert_int_equal(runlog_sync(t->cfg.log, RUNLOG_SYNC_ALL, NULL), 0);
    t->cfg.csd = &csd_hold;
    return toy_open(t);
}

/* ---- order */

static struct stream *looked_at;
static uint64_t       looked_step;
static int            held_syncs, late;

/* The sync of the step's commit A does not end before updates were made and reaped that could not
 * be there when it began. */
static int wait_for_updates(void)
{
    on_sync = NULL;
    held_syncs++;
    csd_hold_set(0);
    for (int ms = 0; !late && meter_total(looked_at->meter, looked_step, PHASE_UPDATE) == 0;
         ms++) {
        late = ms > 20000;
        sleep_ms(1);
    }
    return SQLITE_OK;
}

/* A commit that run.db's drive keeps waiting keeps no update waiting, and the bits are the same. */
static void devices_do_not_wait_for_run_db(void **state)
{
    const struct variant v[] = {
        { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring" },
        { RUN_SU, 1, 128 << 10, 2, 1, .disk = "sync" },
        { RUN_BASE, 1, 1 << 20, 2, 1, .disk = "sync", .compress = 0.05, .feedback = STREAMED },
    };

    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct trained want = variant_run(&v[i]);
        struct toy     t;
        struct stream *s = run_open(&t, &v[i]);

        looked_at = s;
        held_syncs = late = 0;
        for (looked_step = 0; looked_step < STEPS; looked_step++) {
            csd_hold_set(1u << CSD_UPDATE);
            on_sync = wait_for_updates;
            assert_true(toy_train(&t, s, looked_step) == want.loss[looked_step]);
            must(&t, stream_drain(s, &t.err)); // its own A alone is to wait
        }
        assert_false(late);
        assert_int_equal(held_syncs, STEPS);
        toy_close(&t, s);
        assert_int_equal(toy_sum(&t), want.params);
        toy_remove(&t);
    }
}

static int no_sync(void)
{
    return SQLITE_IOERR_FSYNC;
}

/* What the committer cannot write ends the run with its sentence, and is not there. */
static void a_failed_commit_ends_the_run(void **state)
{
    const struct variant v = { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "sync" };
    struct toy           t;
    struct stream       *s = run_open(&t, &v);
    uint64_t             next = 0, applied;
    double               loss;
    int                  rc;

    (void)state;
    toy_train(&t, s, 0);
    must(&t, stream_drain(s, &t.err));
    on_sync = no_sync;
    rc = toy_step(&t.cfg, s, 1, 0, 0, &loss, &t.err);
    assert_int_equal(rc ? rc : stream_drain(s, &t.err), -EIO);
    assert_non_null(strstr(t.err.text, "run.db: "));
    on_sync = NULL;
    stream_close(s);
    must(&t, run_position(&t.cfg, &next, &applied, &t.err));
    assert_int_equal(next, 1);
    assert_int_equal(applied, 1);
    toy_remove(&t);
}

/* ---- time */

static int slow_sync(void)
{
    sleep_ms(50);
    return SQLITE_OK;
}

/* A step whose parameters and states cross modelled links takes a while: in how much of it are the
 * syncs hidden? */
static int say_time(void)
{
    const uint64_t       bw = 5000000; // bytes a second
    const struct variant v = { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring" };

    vfs_set(NULL);
    for (int slow = 0; slow < 2; slow++) {
        struct toy     t;
        struct stream *s;
        uint64_t       start, step = 0;

        variant_make(&t, &v, WAIT);
        runlog_sync(t.cfg.log, RUNLOG_SYNC_ALL, NULL);
        t.cfg.links = (struct topology_config){ .host_bw = bw, .read_bw = { &bw, 1 },
                                                .write_bw = { &bw, 1 } };
        s = toy_open(&t);
        on_sync = slow ? slow_sync : NULL;
        toy_train(&t, s, step++); // the first one has nothing to wait for
        for (start = clock_ns(); step <= 10; step++)
            toy_train(&t, s, step);
        printf("a step takes %.0f ms where a sync of run.db takes %d ms\n",
               (double)(clock_ns() - start) * 1e-7, slow ? 50 : 0);
        toy_close(&t, s);
        toy_remove(&t);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_do_not_wait_for_run_db),
        cmocka_unit_test(a_failed_commit_ends_the_run),
    };

    if (argc > 1 && strcmp(argv[1], "time") == 0)
        return say_time();
    return cmocka_run_group_tests(tests, vfs_set, NULL);
}
