/* test_fault.c: everything that can fail does, once, at every place: requests of a device, calls of
 * the system (ours, SQLite's, what io_uring answers), memory. Each time: a sentence that says
 * where, no hang (a watchdog), no thread and no descriptor left, and the run goes on from there,
 * bit for bit, when the cause is gone. `test_fault all` (make prove-faults) takes every place;
 * without it, some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cmd/run/newrun.h"
#include "data/base/crc32c.h"
#include "model/step.h"
#include "offload/run.h"
#include "tests/disk_fault.h"
#include "tests/fault/calls.h"
#include "tests/stream_plain.h"
#include "tests/tempdir.h"
#include "tests/toy.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4, STEPS = 3, WATCHDOG = 120 };
static const size_t sizes[BLOCKS] = { 5011, 3000, 3000, 77 };
static int          all; // every place, not some

/* ---- a run ---- */

struct plan {
    const char   *name;
    enum run_mode mode;
    const char   *disk; // "fault": the faulty disk around sync
    double        compress;
    int           feedback, in_ram, speculate, records;
};

struct toy {
    struct run_config cfg;
    struct err        err;
    char             *dir, db[4096];
    double            loss[STEPS];
    uint32_t          params;
};

static int faulty_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t size,
                       struct err *err)
{
    struct csd_config c = *cfg;

    c.disk_ops = &disk_fault;
    return csd_emu.open(out, &c, notice, size, err);
}

static const struct csd_ops *csd_of(const struct plan *p)
{
    static struct csd_ops faulty;

    faulty = csd_emu;
    faulty.open = faulty_open;
    return strcmp(p->disk, "fault") ? &csd_emu : &faulty;
}

/* In memory, where flushes cost nothing; but it takes no direct transfers. */
static char *folder(int direct)
{
    char path[] = "/dev/shm/sitrain-fault-XXXXXX";

    return !direct && mkdtemp(path) ? strdup(path) : tempdir_new();
}

static void toy_begin(struct toy *t, const struct plan *p)
{
    *t = (struct toy){ .dir = folder(!strcmp(p->disk, "uring")) };
    snprintf(t->db, sizeof t->db, "%s/run.db", t->dir);
    t->cfg = (struct run_config){
        .dir = t->dir,
        .id = "00112233445566778899aabbccddeeff",
        .mode = p->mode,
        .n_blocks = BLOCKS,
        .block_params = sizes,
        .decay = toy_decay,
        .wire_dt = DT_BF16,
        .optim = OPTIM_ADAMW,
        .compress = p->compress,
        .error_feedback = p->feedback,
        .residual_in_ram = p->in_ram,
        .spares = p->speculate,
        .speculate = p->speculate,
        .n_devices = 1,
        .csd = csd_of(p),
        .disk = strcmp(p->disk, "fault") ? p->disk : "sync",
        .csd_mem = csd_arena_bytes(CSD_ALIGN_PARAMS, optim_moments(OPTIM_ADAMW), DT_BF16, 0),
        .frames = 2,
        .grad_buffers = 1,
        .durable = 1,
        .device_in_ram = 1,
        .commit_every = 1,
        .records = { .n = (size_t)p->records, .bytes = 5000, .buffers = 1 },
    };
}

static void toy_end(struct toy *t)
{
    tempdir_remove(t->dir);
}

static int toy_make(struct toy *t)
{
    int rc = runlog_create(&t->cfg.log, t->db, 1, &t->err);

    if (rc)
        return rc;
    rc = run_format(&t->cfg, &toy_init, &t->err);
    runlog_close(t->cfg.log);
    t->cfg.log = NULL;
    if (rc)
        unlink(t->db);
    return rc;
}

/* Train from the last commit to the end. */
static int toy_train(struct toy *t)
{
    struct stream *s = NULL;
    char           notice[512];
    uint64_t       step = 0, applied;
    int            rc = runlog_open(&t->cfg.log, t->db, 0, 1, &t->err);

    if (!rc)
        rc = run_train(&s, &t->cfg, notice, sizeof notice, &t->err);
    if (!rc)
        rc = stream_drain(s, &t->err);
    if (!rc)
        rc = run_position(&t->cfg, &step, &applied, &t->err);
    for (; !rc && step < STEPS; step++)
        rc = toy_step(&t->cfg, s, step, 0, 0, &t->loss[step], &t->err);
    if (!rc)
        rc = stream_drain(s, &t->err);
    stream_close(s);
    runlog_close(t->cfg.log);
    t->cfg.log = NULL;
    return rc;
}

/* What the run ends with. */
static int toy_read(struct toy *t)
{
    struct params_source src;
    struct run_reader   *r = NULL;
    float                p[8192];
    int                  rc = runlog_open(&t->cfg.log, t->db, 1, 1, &t->err);

    t->params = 0;
    if (!rc)
        rc = run_reader(&r, &src, &t->cfg, &t->err);
    for (size_t b = 0; b < BLOCKS && !rc; b++) {
        rc = src.read(src.ctx, b, 0, sizes[b], p, &t->err);
        t->params = crc32c(t->params, p, sizeof *p * sizes[b]);
    }
    run_reader_close(r);
    runlog_close(t->cfg.log);
    t->cfg.log = NULL;
    return rc;
}

static int entries(const char *path)
{
    DIR           *d = opendir(path);
    struct dirent *e;
    int            n = 0;

    while (d && (e = readdir(d)))
        n += *e->d_name != '.';
    if (d)
        closedir(d);
    return n;
}

/* Nothing of a failed creation is left but the lock. */
static void nothing_left(const struct toy *t)
{
    DIR           *d = opendir(t->dir);
    struct dirent *e;

    while ((e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, "run.lock"))
            fail_msg("a failed creation (%s) left %s", t->err.text, e->d_name);
    closedir(d);
}

static struct toy whole_of(const struct plan *p)
{
    struct toy t;

    toy_begin(&t, p);
    if (toy_make(&t) || toy_train(&t) || toy_read(&t))
        fail_msg("%s: %s", p->name, t.err.text);
    toy_end(&t);
    return t;
}

/* ---- what every failure must be ---- */

static int threads_before, files_before;

static void count_before(void)
{
    alarm(WATCHDOG);
    threads_before = entries("/proc/self/task");
    files_before = entries("/proc/self/fd");
}

/* A thread that was joined may stand in /proc for another moment. */
static void nothing_runs(const char *text)
{
    for (int i = 0; i < 200 && entries("/proc/self/task") > threads_before; i++)
        usleep(1000);
    if (entries("/proc/self/task") > threads_before || entries("/proc/self/fd") > files_before)
        fail_msg("%s: %d threads and %d files were open before, %d and %d are now", text,
                 threads_before, files_before, entries("/proc/self/task"),
                 entries("/proc/self/fd"));
}

static void is_sentence(const struct toy *t, int rc, const char *what, uint64_t k)
{
    assert_true(rc < 0);
    if (strlen(t->err.text) < 12 || strchr(t->err.text, '\n'))
        fail_msg("%s at %llu: %s", what, (unsigned long long)k, t->err.text);
}

/* After a failure that is over: the run goes on to the same end. */
static void goes_on(struct toy *t, const struct toy *want, const char *what, uint64_t k)
{
    double loss[STEPS];

    memcpy(loss, t->loss, sizeof loss);
    if (toy_train(t) || toy_read(t))
        fail_msg("%s at %llu: it does not go on: %s", what, (unsigned long long)k, t->err.text);
    if (t->params != want->params || memcmp(t->loss, want->loss, sizeof t->loss))
        fail_msg("%s at %llu: not the same bits", what, (unsigned long long)k);
}

static uint64_t stride(uint64_t some)
{
    return all ? 1 : some;
}

/* ---- requests of a device ---- */

static const struct plan device_plans[] = {
    { "base", RUN_BASE, "fault", 0, 0, 0, 0, 0 },
    { "su", RUN_SU, "fault", 0, 0, 0, 0, 0 },
    { "su+o", RUN_SUO, "fault", 0, 0, 0, 0, 0 },
    { "su+o, records", RUN_SUO, "fault", 0, 0, 0, 0, 4 },
    { "su+o, compressed, feedback", RUN_SUO, "fault", 0.05, 1, 0, 0, 0 },
    { "su, compressed, feedback in RAM", RUN_SU, "fault", 0.05, 1, 1, 0, 0 },
    { "base, speculate", RUN_BASE, "fault", 0, 0, 0, 1, 0 },
    { "su+o, compressed, feedback, speculate", RUN_SUO, "fault", 0.05, 1, 0, 1, 0 },
};
enum { DEVICE_PLANS = sizeof device_plans / sizeof *device_plans };

static const struct disk_fault_plan no_fault = { .inner = &disk_sync };

/* The sentence of a failed request says which device, where, and for which block. */
static void names_the_place(const struct toy *t, const char *plan, uint64_t k, int made)
{
    const char *s = t->err.text;
    int         flush = strstr(s, ": flush") != NULL,
        super = strstr(s, "of 4096 bytes at offset 0") != NULL;

    if (!strstr(s, "device 0 (") || !strstr(s, "/dev0/states)") ||
        (!flush && !strstr(s, " at offset ")) ||
        (!flush && !super && !strstr(s, "(block ") && !strstr(s, "(activations, ")) ||
        (made && !flush && !super && !strstr(s, "step ")))
        fail_msg("%s, request %llu: %s", plan, (unsigned long long)k, s);
}

/* Fail request k of a run's life from its creation; 0 when there are fewer. */
static int request_fails(const struct plan *p, const struct toy *want, uint64_t k, int status,
                         uint64_t timeout_ns)
{
    struct disk_fault_plan plan = { .inner = &disk_sync, .nth = k, .nth_status = status };
    struct toy             t;
    int                    made, rc, met;

    count_before();
    toy_begin(&t, p);
    t.cfg.io_timeout_ns = timeout_ns;
    disk_fault_set(&plan);
    rc = toy_make(&t);
    made = !rc;
    if (made)
        rc = toy_train(&t);
    met = disk_fault_count() > 0;
    disk_fault_set(&no_fault);
    t.cfg.io_timeout_ns = 0;
    if (met) {
        is_sentence(&t, rc, p->name, k);
        assert_int_equal(rc, status ? status : -ETIMEDOUT);
        assert_true(status || strstr(t.err.text, "no answer for"));
        names_the_place(&t, p->name, k, made);
        if (!made)
            nothing_left(&t);
    }
    if (!made && toy_make(&t))
        fail_msg("%s", t.err.text);
    if (met)
        goes_on(&t, want, p->name, k);
    nothing_runs(t.err.text);
    toy_end(&t);
    return met;
}

static void requests_fail_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < DEVICE_PLANS; i++) {
        struct toy want;
        uint64_t   k = 1, n = 0;

        disk_fault_set(&no_fault);
        want = whole_of(&device_plans[i]);
        for (; request_fails(&device_plans[i], &want, k, k % 2 ? -EIO : -ENOSPC, 0); n++)
            k += stride(11);
        print_message("%s: %llu of %llu requests failed, one at a time\n", device_plans[i].name,
                      (unsigned long long)n, (unsigned long long)k);
        assert_true(n > 5);
    }
}

static void requests_never_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < DEVICE_PLANS; i++) {
        struct toy want;
        uint64_t   k = 1 + i, n = 0;

        disk_fault_set(&no_fault);
        want = whole_of(&device_plans[i]);
        for (; request_fails(&device_plans[i], &want, k, 0, 100000000); n++)
            k += all ? 3 : 41;
        print_message("%s: %llu of %llu requests never ended, one at a time\n",
                      device_plans[i].name, (unsigned long long)n, (unsigned long long)k);
        assert_true(n > 2);
    }
}

/* Neither modelled links, a hundred times slower than the limit, nor requests that take long one
 * after the other are silence. */
static void slow_is_not_silent(void **state)
{
    (void)state;
    const struct plan      *p = &device_plans[2];
    struct disk_fault_plan  late = { .inner = &disk_sync, .delay_ns = 30000000 };
    struct toy              want, t;

    disk_fault_set(&no_fault);
    want = whole_of(p);
    for (int links = 0; links < 2; links++) {
        disk_fault_set(links ? &no_fault : &late);
        count_before();
        toy_begin(&t, p);
        if (toy_make(&t))
            fail_msg("%s", t.err.text);
        t.cfg.io_timeout_ns = 400000000;
        t.cfg.csd_read_bw = t.cfg.csd_write_bw = links ? 1e6 : 0; // a step moves about half a
                                                                  // megabyte each way
        goes_on(&t, &want, "slow", (uint64_t)links);
        nothing_runs("slow");
        toy_end(&t);
    }
}

/* ---- calls of the system ---- */

/* Let call k of a kind go wrong, in the life of a run; 0 when there are fewer. */
static int call_fails(const struct plan *p, const struct toy *want, enum calls_kind kind,
                      uint64_t k, int how, int *survived)
{
    struct toy t;
    int        made, rc, met;

    count_before();
    toy_begin(&t, p);
    calls_arm(kind, k, how);
    rc = toy_make(&t);
    made = !rc;
    if (made)
        rc = toy_train(&t);
    calls_disarm();
    met = calls_met();
    if (met && rc) {
        is_sentence(&t, rc, p->name, k);
        if (kind == CALLS_SQLITE && how == ENOSPC && strstr(t.err.text, "is missing"))
            fail_msg("%s at %llu: what could not be read is not missing: %s", p->name,
                     (unsigned long long)k, t.err.text);
        if (!made)
            nothing_left(&t);
    }
    *survived += met && !rc;
    if (!made && toy_make(&t))
        fail_msg("%s", t.err.text);
    if (met)
        goes_on(&t, want, p->name, k);
    nothing_runs(t.err.text);
    toy_end(&t);
    return met;
}

static void calls_fail(const struct plan *p, enum calls_kind kind, const char *name, uint64_t some)
{
    static const struct { const char *name; int how, harmless;
    } ways[] = {
        { "EIO", EIO, 0 },       { "ENOSPC", ENOSPC, 0 },     { "EINTR", EINTR, 1 },
        { "EAGAIN", EAGAIN, 1 }, { "short", CALLS_SHORT, 1 },
    };
    struct toy want;

    if (!strcmp(p->disk, "fault"))
        disk_fault_set(&no_fault);
    want = whole_of(p);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        uint64_t k = 1 + w, n = 0;
        int      survived = 0;

        for (; call_fails(p, &want, kind, k, ways[w].how, &survived); n++)
            k += stride(some);
        print_message("%s: %s at %llu of %llu calls (%s); %d were mended on the way\n", p->name,
                      ways[w].name, (unsigned long long)n, (unsigned long long)k, name, survived);
        assert_true(n > 2);
        if (ways[w].harmless && kind == CALLS_RING)
            assert_true(survived > 0);
    }
}

static const struct plan on_sync = { "su+o on sync", RUN_SUO, "sync", 0.05, 1, 0, 0, 0 },
                         in_mem = { "mem", RUN_MEM, "sync", 0.05, 1, 0, 0, 0 },
                         on_uring = { "su+o on uring", RUN_SUO, "uring", 0, 0, 0, 0, 4 };

static void file_calls_fail(void **state)
{
    (void)state;
    calls_fail(&on_sync, CALLS_FILES, "of files", 53);
    calls_fail(&in_mem, CALLS_FILES, "of files", 7);
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

/* ---- devices that disappear ---- */

enum harm { MOVED, REPLACED, CUT, DATABASE_MOVED, FOLDER_MOVED };

static void file_copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char  buf[65536];
    size_t n;

    assert_true(in && out);
    while ((n = fread(buf, 1, sizeof buf, in)) > 0)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    fclose(in);
    fclose(out);
}

/* path, or what is at it, goes; and comes back. */
static void harm_do(enum harm h, const char *path, const char *aside)
{
    if (h == CUT) {
        file_copy(path, aside);
        assert_int_equal(truncate(path, 8192), 0);
        return;
    }
    assert_int_equal(rename(path, aside), 0);
    if (h == REPLACED)
        file_copy(aside, path);
}

static void harm_undo(const char *path, const char *aside)
{
    unlink(path);
    assert_int_equal(rename(aside, path), 0);
}

/* While a run is at work what it writes to goes away: no commit says that it went well, and when it
 * is back the run goes on. */
static void devices_disappear(void **state)
{
    (void)state;
    static const struct { enum harm harm; const char *what, *says; int rc_again;
    } ways[] = {
        { MOVED, "dev0/states", "is gone", -ENOENT },
        { REPLACED, "dev0/states", "is another file", 0 },
        { CUT, "dev0/states", "dev0/states", -EINVAL },
        { DATABASE_MOVED, "run.db", "run.db was removed or renamed", -ENOENT },
        { FOLDER_MOVED, "dev0", "is gone", -ENOENT },
    };
    struct toy want = whole_of(&on_sync);

    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct toy     t;
        struct stream *s;
        char           path[4200], aside[4200], notice[512];
        int            rc;

        count_before();
        toy_begin(&t, &on_sync);
        snprintf(path, sizeof path, "%s/%s", t.dir, ways[w].what);
        snprintf(aside, sizeof aside, "%s/aside", t.dir);
        assert_int_equal(toy_make(&t), 0);
        assert_int_equal(runlog_open(&t.cfg.log, t.db, 0, 1, &t.err), 0);
        assert_int_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err), 0);
        assert_int_equal(toy_step(&t.cfg, s, 0, 0, 0, &t.loss[0], &t.err), 0);
        assert_int_equal(stream_drain(s, &t.err), 0);
        harm_do(ways[w].harm, path, aside);
        rc = toy_step(&t.cfg, s, 1, 0, 0, &t.loss[1], &t.err);
        if (!rc)
            rc = stream_drain(s, &t.err);
        is_sentence(&t, rc, ways[w].what, w);
        if (!strstr(t.err.text, ways[w].says))
            fail_msg("%s: %s", ways[w].what, t.err.text);
        stream_close(s);
        runlog_close(t.cfg.log);
        t.cfg.log = NULL;
        if (ways[w].rc_again) { // it is not there, and that is said again
            assert_int_equal(toy_train(&t), ways[w].rc_again);
            assert_non_null(strstr(t.err.text, path));
        }
        harm_undo(path, aside);
        goes_on(&t, &want, ways[w].what, w);
        nothing_runs(t.err.text);
        toy_end(&t);
    }
}

/* ---- gradients that become infinite only with what is owed ---- */

/* A step whose gradients of block 1 are so large, in steps 0 and 1, that what the first does not
 * send and the second are infinite together. */
static int large_step(struct toy *t, struct stream *s, uint64_t step, struct stream_norm *norm)
{
    const void        *wire[BLOCKS];
    struct stream_step up = { .row = { .step = step } };
    float             *grad;
    int                fresh, rc = toy_forward(&t->cfg, s, step, wire, &t->loss[step], &t->err);

    *norm = (struct stream_norm){ 0 };
    for (size_t b = BLOCKS; b-- > 0 && !rc;) {
        rc = b > 0 && b < BLOCKS - 1 ? stream_acquire(s, b, &wire[b], &t->err) : 0;
        if (!rc)
            rc = stream_grad(s, b, &grad, &fresh, &t->err);
        for (size_t i = 0; !rc && i < sizes[b]; i++)
            grad[i] = b == 1 && i % 5 == 0 && step < 2 ? 2e38f : 0.001f * (float)((i + step) % 17);
        if (b > 0)
            stream_release(s, b);
        if (b == BLOCKS - 1)
            stream_release(s, 0);
        if (!rc)
            rc = stream_send_grad(s, b, norm, &t->err);
    }
    if (rc)
        return rc;
    up.row.skipped = up.skip = norm->nonfinite;
    // clipped so far that what was owed may come: no moment becomes too large
    optim_scalars(&up.optim, t->cfg.optim, 1e-2, 0.9, 0.95, 1e-8, 1e-30, stream_applied(s) + 1);
    return stream_update(s, &up, &t->err);
}

static void residuals_overflow(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        { "mem", RUN_MEM, "sync", 0.05, 1, 0, 0, 0 },
        { "base", RUN_BASE, "sync", 0.05, 1, 0, 0, 0 },
        { "su+o", RUN_SUO, "sync", 0.05, 1, 0, 0, 0 },
        { "su+o in RAM", RUN_SUO, "sync", 0.05, 1, 1, 0, 0 },
    };
    struct toy first = { 0 };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct toy         t;
        struct stream     *s;
        struct stream_norm norm;
        char               notice[512];

        count_before();
        toy_begin(&t, &plans[i]);
        assert_int_equal(toy_make(&t), 0);
        assert_int_equal(runlog_open(&t.cfg.log, t.db, 0, 1, &t.err), 0);
        assert_int_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err), 0);
        for (uint64_t step = 0; step < STEPS; step++) {
            assert_int_equal(large_step(&t, s, step, &norm), 0);
            assert_int_equal(norm.nonfinite, step == 1);
            assert_true(step != 1 || norm.block == 1);
        }
        assert_int_equal(stream_applied(s), STEPS - 1);
        assert_int_equal(stream_drain(s, &t.err), 0);
        stream_close(s);
        runlog_close(t.cfg.log);
        assert_int_equal(toy_read(&t), 0);
        if (i == 0)
            first = t;
        assert_true(isfinite(t.loss[STEPS - 1]));
        assert_int_equal(t.params, first.params);
        assert_memory_equal(t.loss, first.loss, sizeof t.loss);
        nothing_runs(plans[i].name);
        toy_end(&t);
    }
}

/* ---- memory ---- */

static void memory_fails(void **state)
{
    (void)state;
    static const struct plan *const plans[] = { &on_sync, &on_uring, &in_mem, &device_plans[1] };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct toy want;
        uint64_t   k = 1, n = 0;
        int        survived = 0;

        disk_fault_set(&no_fault);
        want = whole_of(plans[i]);
        for (; call_fails(plans[i], &want, CALLS_MEMORY, k, ENOMEM, &survived); n++)
            k += stride(plans[i] == &on_uring ? 13 : 3);
        print_message("%s: %llu of %llu allocations failed, one at a time; %d could be done "
                      "without\n",
                      plans[i]->name, (unsigned long long)n, (unsigned long long)k, survived);
        assert_true(n > 5);
    }
}

static const struct gpt_config tiny = {
    .n_layer = 2, .n_head = 2, .n_embd = 16, .vocab = 64, .n_positions = 32, .norm_eps = 1e-5f
};

static void trainer_memory_fails(void **state)
{
    (void)state;
    struct stream_plain_options plain = { .gpt = tiny, .wire = DT_BF16, .optim = OPTIM_ADAMW };
    struct trainer_options      o = { .model = { .gpt = tiny,
                                                 .batch = 2,
                                                 .seq = 16,
                                                 .grad_accum = 2,
                                                 .dtype = DT_BF16,
                                                 .threads = 1,
                                                 .engine = MATMUL_OPENBLAS,
                                                 .training = 1,
                                                 .kept = 1 },
                                      .optim = OPTIM_ADAMW,
                                      .clip = 1,
                                      .beta1 = 0.9,
                                      .beta2 = 0.99,
                                      .eps = 1e-8 };
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
    struct train_opts o;
    struct newrun     n;
    struct err        err;
};

static void creation_begin(struct creation *c, int mode)
{
    uint16_t ids[600];
    FILE    *f;
    static const struct opt_part    parts[] = { { "Training", train_rows, 0 }, { 0 } };
    static const struct opt_command rows = {
        .name = "run", .usage = "", .summary = "", .parts = parts, .size = sizeof(struct train_opts)
    };

    *c = (struct creation){ .dir = folder(0), .argv = { (char *)(uintptr_t)"run" } };
    assert_int_equal(opt_parse(&rows, 1, c->argv, &c->o, NULL, &c->err), 0);
    c->o.mode = mode;
    c->o.disk = 1; // sync
    c->o.device_in_ram = 1;
    c->o.csd_mem = 1 << 20;
    c->o.seq = 16;
    snprintf(c->data, sizeof c->data, "%s/tokens.bin", c->dir);
    snprintf(c->run, sizeof c->run, "%s/run", c->dir);
    f = fopen(c->data, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < 600; i++)
        ids[i] = (uint16_t)(i * 7 % 61);
    fwrite(ids, sizeof ids, 1, f);
    fclose(f);
    c->n = (struct newrun){
        .dir = c->run, .gpt = tiny, .o = &c->o, .data = c->data, .argc = 1, .argv = c->argv
    };
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
        { CALLS_SQLITE, ENOSPC, 5, "no space for SQLite's" },
        { CALLS_SQLITE, EIO, 7, "EIO of SQLite's" },
        { CALLS_MEMORY, ENOMEM, 5, "no memory" },
    };
    static const int modes[] = { TRAIN_SU_O, TRAIN_MEM };

    for (size_t m = 0; m < 2; m++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            uint64_t k = 1, n = 0;

            for (;; k += stride(ways[w].some), n++) {
                struct creation c;
                int             rc;

                count_before();
                creation_begin(&c, modes[m]);
                calls_arm(ways[w].kind, k, ways[w].how);
                rc = newrun_create(&c.n, &c.err);
                calls_disarm();
                if (rc && (strlen(c.err.text) < 12 || access(c.run, F_OK) == 0))
                    fail_msg("%s at %llu: %s; the folder has %d files", ways[w].name,
                             (unsigned long long)k, c.err.text, entries(c.run));
                if (rc && newrun_create(&c.n, &c.err))
                    fail_msg("%s at %llu: a second creation fails: %s", ways[w].name,
                             (unsigned long long)k, c.err.text);
                nothing_runs(c.err.text);
                tempdir_remove(c.dir);
                if (!calls_met())
                    break;
            }
            print_message("%s: %llu of %llu places in a creation\n", ways[w].name,
                          (unsigned long long)n, (unsigned long long)k);
            assert_true(n > 2);
        }
}

static void on_alarm(int signal)
{
    static const char text[] = "the watchdog: it hangs\n";

    (void)signal;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    abort();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_fail_one_by_one),
        cmocka_unit_test(requests_never_end),
        cmocka_unit_test(slow_is_not_silent),
        cmocka_unit_test(file_calls_fail),
        cmocka_unit_test(database_calls_fail),
        cmocka_unit_test(ring_answers_fail),
        cmocka_unit_test(devices_disappear),
        cmocka_unit_test(residuals_overflow),
        cmocka_unit_test(memory_fails),
        cmocka_unit_test(trainer_memory_fails),
        cmocka_unit_test(creations_fail),
    };

    all = argc > 1 && !strcmp(argv[1], "all");
    signal(SIGALRM, on_alarm);
    omp_set_num_threads(1);
    calls_register();
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
