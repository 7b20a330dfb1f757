/* test_fault_calls.c: every call of the system that can fail does, once, at every place: ours,
 * SQLite's, what io_uring answers, memory; in the life of a run, and in its creation as the
 * commands do it. Each time what test_fault.c wants, too. `test_fault_calls all` (make
 * prove-faults) takes every place; without it, some. */
#include "model/step.h"
#include "run/newrun.h"
#include "run/sources/corpus.h"
#include "tests/disk_fault.h"
#include "tests/fault/calls.h"
#include "tests/fault/trial.h"
#include "tests/files.h"
#include "tests/stream_plain.h"
#include "tests/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- calls of the system ---- */

/* Let call k of a kind go wrong, in the life of a run; 0 when there are fewer. */
static int call_fails(const struct plan *p, const struct trial *want, enum calls_kind kind,
                      uint64_t k, int how, int *survived)
{
    struct trial t;
    int        made, rc, met;

    trial_watch();
    trial_begin(&t, p);
    calls_arm(kind, k, how);
    rc = trial_live(&t, &made);
    calls_disarm();
    met = calls_met();
    if (met && rc) {
        trial_is_sentence(&t, rc, p->name, k);
        if (kind == CALLS_SQLITE && how == ENOSPC && strstr(t.err.text, "is missing"))
            fail_msg("%s at %llu: what could not be read is not missing: %s", p->name,
                     (unsigned long long)k, t.err.text);
        if (!made)
            trial_nothing_left(&t);
    }
    *survived += met && !rc;
    trial_live_on(&t, made, met ? want : NULL, p->name, k);
    return met;
}

static void calls_fail(const struct plan *p, enum calls_kind kind, const char *name, uint64_t some)
{
    static const struct { const char *name; int how, harmless; } ways[] = {
        { "EIO", EIO, 0 },       { "ENOSPC", ENOSPC, 0 },     { "EINTR", EINTR, 1 },
        { "EAGAIN", EAGAIN, 1 }, { "short", CALLS_SHORT, 1 },
    };
    struct trial want;

    want = trial_whole(p);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        uint64_t k = 1 + w, n = 0;
        int      survived = 0;

        for (; call_fails(p, &want, kind, k, ways[w].how, &survived); n++)
            k += trial_all ? 1 : some;
        print_message("%s: %s at %llu of %llu calls (%s); %d were mended on the way\n", p->name,
                      ways[w].name, (unsigned long long)n, (unsigned long long)k, name, survived);
        assert_true(n > 2);
        if (ways[w].harmless && kind == CALLS_RING)
            assert_true(survived > 0);
    }
}

static const struct plan on_sync = { .name = "su+o on sync", .mode = RUN_SUO, .disk = "sync",
                                     .compress = 0.05, .feedback = 1 },
                         in_mem = { .name = "mem", .mode = RUN_MEM, .disk = "sync",
                                    .compress = 0.05, .feedback = 1 },
                         on_uring = { .name = "su+o on uring", .mode = RUN_SUO, .disk = "uring",
                                      .pieces = 4 },
                         faulty = { .name = "su", .mode = RUN_SU, .disk = "fault" },
                         in_place = { .name = "su+o, base in place", .mode = RUN_SUO,
                                      .disk = "sync", .in_place = 1 },
                         in_place_mem = { .name = "mem, base in place", .mode = RUN_MEM,
                                          .disk = "sync", .in_place = 1 };

static void file_calls_fail(void **state)
{
    (void)state;
    calls_fail(&on_sync, CALLS_FILES, "of files", 53);
    calls_fail(&in_mem, CALLS_FILES, "of files", 7);
    calls_fail(&in_place, CALLS_FILES, "of files", 23);
    calls_fail(&in_place_mem, CALLS_FILES, "of files", 7);
}

static void database_calls_fail(void **state)
{
    (void)state;
    calls_fail(&on_sync, CALLS_SQLITE, "of SQLite", 29);
    calls_fail(&in_mem, CALLS_SQLITE, "of SQLite", 29);
}

static void ring_answers_fail(void **state)
{
    (void)state;
    calls_fail(&on_uring, CALLS_RING, "of io_uring", 41);
}

/* ---- memory ---- */

static void memory_fails(void **state)
{
    (void)state;
    static const struct plan *const plans[] = { &on_sync, &on_uring, &in_mem, &faulty,
                                                &in_place };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct trial want;
        uint64_t   k = 1, n = 0;
        int        survived = 0;

        disk_fault_set(&(struct disk_fault_plan){ .inner = &disk_sync });
        want = trial_whole(plans[i]);
        for (; call_fails(plans[i], &want, CALLS_MEMORY, k, ENOMEM, &survived); n++)
            k += trial_all ? 1 : plans[i] == &on_uring ? 7 : 3;
        print_message("%s: %llu of %llu allocations failed, one at a time; %d could be done "
                      "without\n",
                      plans[i]->name, (unsigned long long)n, (unsigned long long)k, survived);
        assert_true(n > 5);
    }
}

static const struct model_config tiny = {
    .arch = &gpt2_arch, .n_layer = 2, .n_head = 2, .n_embd = 16, .vocab = 64, .n_positions = 32,
    .norm_eps = 1e-5f, .n_kv_head = 2, .head_dim = 8, .n_inner = 64
};

static void trainer_memory_fails(void **state)
{
    (void)state;
    struct stream_plain_options plain = { .config = tiny, .wire = DT_BF16, .optim = OPTIM_ADAMW };
    struct trainer_options      o = {
        .model = { .config = tiny, .batch = 2, .seq = 16, .grad_accum = 2, .dtype = DT_BF16,
                   .threads = 1, .engine = MATMUL_OPENBLAS, .training = 1,
                   .placement = placement_recompute(2, 1) },
        .optim = OPTIM_ADAMW,
        .clip = 1,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-8,
    };
    struct stream  *s = stream_plain_open(&plain);
    struct trainer *t = NULL;
    struct err      err;
    uint64_t        k = 1;
    int             rc;

    for (;; k++) {
        err.text[0] = '\0';
        alarm(WATCHDOG);
        calls_arm(CALLS_MEMORY, k, ENOMEM);
        rc = trainer_open(&t, &o, s, &err);
        calls_disarm();
        if (!rc)
            trainer_close(t);
        if (!calls_met())
            break;
        assert_true(rc == 0 || (rc < 0 && strlen(err.text) > 10));
    }
    print_message("%llu allocations of a trainer failed, one at a time\n",
                  (unsigned long long)k - 1);
    assert_true(k > 5);
    stream_close(s);
}

/* ---- the creation of a run, as the commands do it ---- */

struct creation {
    char             *dir, *argv[2], data[4096], run[4096];
    const char        *named;
    struct train_opts  o;
    struct corpus_opts corpus;
    struct newrun      n;
    struct err         err;
};

static void creation_begin(struct creation *c, int mode)
{
    uint16_t ids[600];
    FILE    *f;
    struct opt_line line;
    static const struct opt_part    parts[] = { { "Training", train_rows, 0 }, { 0 } };
    static const struct opt_command rows = {
        .name = "run", .usage = "", .summary = "", .parts = parts, .size = sizeof(struct train_opts)
    };

    *c = (struct creation){ .dir = trial_folder(0), .argv = { (char *)(uintptr_t)"run" } };
    line = (struct opt_line){ .cmd = &rows, .argc = 1, .argv = c->argv, .options = &c->o };
    assert_int_equal(opt_parse(&line, &c->err), 0);
    c->o.mode = mode;
    c->o.disk = 1; // sync
    c->o.device_in_ram = 1;
    c->o.csd_mem = 1 << 20;
    c->o.seq = 16;
    snprintf(c->data, sizeof c->data, "%s/tokens.bin", c->dir);
    snprintf(c->run, sizeof c->run, "%s/run", c->dir);
    c->named = c->data;
    c->corpus = (struct corpus_opts){ .data = { &c->named, 1 } };
    f = fopen(c->data, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < 600; i++)
        ids[i] = (uint16_t)(i * 7 % 61);
    fwrite(ids, sizeof ids, 1, f);
    fclose(f);
    c->n = (struct newrun){ .dir = c->run, .config = tiny, .o = &c->o,
                            .corpus = &c->corpus };
}

/* A creation that cannot be completed leaves no folder behind, and the next one of the same name
 * works. */
static void creations_fail(void **state)
{
    (void)state;
    static const struct {
        enum calls_kind kind;
        int             how;
        uint64_t        some;
        const char     *name;
    } ways[] = {
        { CALLS_FILES, ENOSPC, 3, "no space for our files" },
        { CALLS_FILES, EIO, 5, "EIO of our files" },
        { CALLS_SQLITE, ENOSPC, 5, "no space for SQLite's" },
        { CALLS_SQLITE, EIO, 7, "EIO of SQLite's" },
        { CALLS_MEMORY, ENOMEM, 5, "no memory" },
    };
    static const int modes[] = { RUN_SUO, RUN_MEM };

    for (size_t m = 0; m < 2; m++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            uint64_t k = 1, n = 0;

            for (;; k += trial_all ? 1 : ways[w].some, n++) {
                struct creation c;
                int             rc;

                trial_watch();
                creation_begin(&c, modes[m]);
                calls_arm(ways[w].kind, k, ways[w].how);
                rc = newrun_create(&c.n, &c.err);
                calls_disarm();
                if (rc && (strlen(c.err.text) < 12 || access(c.run, F_OK) == 0 || c.err.misuse))
                    fail_msg("%s at %llu: %s; the folder has %zu files", ways[w].name,
                             (unsigned long long)k, c.err.text, files_count(c.run));
                if (rc && newrun_create(&c.n, &c.err))
                    fail_msg("%s at %llu: a second creation fails: %s", ways[w].name,
                             (unsigned long long)k, c.err.text);
                trial_nothing_runs(c.err.text);
                tempdir_remove(c.dir);
                if (!calls_met())
                    break;
            }
            print_message("%s: %llu of %llu places in a creation\n", ways[w].name,
                          (unsigned long long)n, (unsigned long long)k);
            assert_true(n > 2);
        }
}

/* ---- a file that a resume names ---- */

static int stop_now(void *ctx)
{
    (void)ctx;
    return 1;
}

/* A run that names the same ids under another name: what goes wrong as they are compared is said
 * as what it is, not as misuse or as another file; and the run goes on with what it had. */
static void resumes_fail(void **state)
{
    (void)state;
    static const struct { enum calls_kind kind; int how; const char *name; } ways[] = {
        { CALLS_FILES, EIO, "EIO of our files" },
        { CALLS_SQLITE, EIO, "EIO of SQLite's" },
        { CALLS_MEMORY, ENOMEM, "no memory" },
    };
    const struct events stops = { .asked_to_stop = stop_now };
    struct creation     c;
    char                other[4200], command[8600];
    const char         *name[] = { c.data, other }; // [at]: what the run does not have now
    int                 at = 1;

    creation_begin(&c, RUN_MEM);
    assert_int_equal(newrun_create(&c.n, &c.err), 0);
    snprintf(other, sizeof other, "%s/other", c.dir);
    snprintf(command, sizeof command, "cp %s %s", c.data, other);
    assert_int_equal(system(command), 0);
    for (size_t w = 0; w <= sizeof ways / sizeof *ways; w++) {
        int stopped = w == sizeof ways / sizeof *ways, met = 1;

        for (uint64_t k = 1; met; k++) {
            struct session s = { 0 };
            struct err     err = { 0 };

            assert_int_equal(session_open(&s, c.run, SESSION_WRITE, stopped ? &stops : NULL, &err),
                             0);
            if (!stopped)
                calls_arm(ways[w].kind, k, ways[w].how);
            int rc = corpus_resume(&s, &(struct corpus_opts){ .data = { &name[at], 1 } }, &err);
            if (!stopped)
                calls_disarm();
            met = !stopped && calls_met();
            session_close(&s);
            if (stopped ? rc != -EINTR || !err.stopped
                        : rc ? !met || err.misuse || strstr(err.text, "keeps it") : 0)
                fail_msg("%s at %llu: %d: %s", stopped ? "a stop" : ways[w].name,
                         (unsigned long long)k, rc, err.text);
            at ^= !rc;
            assert_true(met || stopped || k > 3);
        }
    }
    tempdir_remove(c.dir);
}

/* A setting that cannot be read is not one that the run does not have: it would be trained with
 * another one, or its devices be taken for those of a run that does not say whose they are. */
static void openings_fail(void **state)
{
    (void)state;
    static const struct { enum calls_kind kind; int how; const char *name; } ways[] = {
        { CALLS_SQLITE, EIO, "EIO of SQLite's" },
        { CALLS_MEMORY, ENOMEM, "no memory" },
    };
    struct creation c;
    struct session  want = { 0 };
    struct err      err = { 0 };

    creation_begin(&c, RUN_MEM);
    assert_int_equal(newrun_create(&c.n, &c.err), 0);
    assert_int_equal(session_open(&want, c.run, SESSION_WRITE, NULL, &err), 0);
    session_close(&(struct session){ .log = want.log }); // the options stay, and its lock goes
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (uint64_t k = 1, met = 1; met; k++) {
            struct session s = { 0 };

            err = (struct err){ 0 };
            calls_arm(ways[w].kind, k, ways[w].how);
            int rc = session_open(&s, c.run, SESSION_WRITE, NULL, &err);
            calls_disarm();
            met = (uint64_t)calls_met();
            if (rc ? !met || err.misuse || !*err.text
                   : s.o.seq != want.o.seq || s.o.batch != want.o.batch || s.o.lr != want.o.lr ||
                         s.o.schedule != want.o.schedule || s.o.seed != want.o.seed ||
                         s.o.beta2 != want.o.beta2 || s.moved != want.moved)
                fail_msg("%s at %llu: %d: %s", ways[w].name, (unsigned long long)k, rc, err.text);
            session_close(&s);
        }
    want.log = NULL;
    session_close(&want);
    tempdir_remove(c.dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_calls_fail),
        cmocka_unit_test(database_calls_fail),
        cmocka_unit_test(ring_answers_fail),
        cmocka_unit_test(memory_fails),
        cmocka_unit_test(trainer_memory_fails),
        cmocka_unit_test(creations_fail),
        cmocka_unit_test(resumes_fail),
        cmocka_unit_test(openings_fail),
    };

    trial_set_up(argc, argv);
    calls_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
