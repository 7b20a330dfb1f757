/* trial.c: see trial.h. */
#include "tests/fault/trial.h"

#include "tests/disk_fault.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "offload/devices/base_files.h"
#include "tests/files.h"
#include "tests/routes.h"
#include "tests/smartssd.h"
#include "tests/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t sizes[BLOCKS] = { 5011, 3000, 3000, 77 };

int trial_all;

/* ---- a base in place ---- */

enum { ADAPTED = 2, ADAPTED_BLOCKS = 2 * ADAPTED + 2 };
static const size_t adapted[ADAPTED_BLOCKS] = { 5011, 3000, 3000, 1500, 1499, 77 };
static size_t       held[ADAPTED_BLOCKS], base_bytes[ADAPTED_BLOCKS];

static struct base_piece base_piece_of(void *ctx, size_t block, size_t first)
{
    struct base_piece at = { .dt = DT_BF16, .n = adapted[block] - first };

    (void)ctx;
    for (size_t b = 0; b < block; b++)
        at.off += base_bytes[b];
    at.off += first * sizeof(bf16);
    return at;
}

/* The file of the base, in bf16. All trials read the same one, which has no name. */
static const struct base_files *base_open(const struct run_config *cfg)
{
    static struct base_file  file = { .path = "the base", .fd = -1 };
    static struct base_files files = { .file = &file, .n = 1, .piece = base_piece_of };
    static float             x[5011];
    static bf16              y[5011];

    if (file.fd >= 0)
        return &files;
    file.fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    for (size_t b = 0; b < ADAPTED_BLOCKS; b++) {
        held[b] = run_in_place(cfg, b) ? 0 : adapted[b];
        base_bytes[b] = run_in_place(cfg, b) ? adapted[b] * sizeof *y : 0;
        toy_init.read(NULL, b, 0, adapted[b], x, NULL);
        convert(y, DT_BF16, x, DT_F32, adapted[b]);
        assert_int_equal(write(file.fd, y, base_bytes[b]), base_bytes[b]);
    }
    assert_int_equal(fstat(file.fd, &file.was), 0);
    return &files;
}

static void base_take(struct run_config *cfg)
{
    cfg->block_params = adapted;
    cfg->route = route_adapters(ADAPTED);
    cfg->base_end = ADAPTED_BLOCKS;
    cfg->base = base_open(cfg);
    cfg->held = held;
    cfg->base_bytes = base_bytes;
}

/* ---- a run ---- */

char *trial_folder(int direct)
{
    char path[] = "/dev/shm/sitrain-fault-XXXXXX";

    return !direct && mkdtemp(path) ? strdup(path) : tempdir_new();
}

static size_t threads_before, files_before;
static int    foreign; // libxrt keeps threads of its own, for devices to come

void trial_begin(struct trial *t, const struct plan *p)
{
    *t = (struct trial){ .dir = trial_folder(!strcmp(p->disk, "uring")) };
    snprintf(t->db, sizeof t->db, "%s/run.db", t->dir);
    t->cfg = toy_config(t->dir, p->mode, sizes, BLOCKS);
    if (p->in_place)
        base_take(&t->cfg);
    t->cfg.compress = p->compress;
    t->cfg.error_feedback = p->feedback;
    t->cfg.residual_in_ram = p->in_ram;
    t->cfg.spares = p->speculate;
    t->cfg.speculate = p->speculate;
    foreign = p->cards;
    if (foreign)
        smartssd_run(&t->cfg);
    if (!strcmp(p->disk, "fault"))
        t->cfg.csd = disk_fault_csd(t->cfg.csd);
    else
        t->cfg.disk = p->disk;
    t->cfg.durable = 1;
    t->cfg.device_in_ram = 1;
    t->cfg.commit_every = 1;
    t->cfg.acts = toy_acts(&t->cfg, (size_t)p->pieces / (BLOCKS - 2), 5000, 3);
}

void trial_end(struct trial *t)
{
    tempdir_remove(t->dir);
}

static void close_log(struct trial *t)
{
    runlog_close(t->cfg.log);
    t->cfg.log = NULL;
}

int trial_make(struct trial *t)
{
    int rc = runlog_create(&t->cfg.log, t->db, 1, &t->err);

    if (rc)
        return rc;
    rc = run_format(&t->cfg, &toy_init, &t->err);
    close_log(t);
    if (rc)
        unlink(t->db);
    return rc;
}

int trial_train(struct trial *t)
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
        rc = t->cfg.base ? toy_order_step(&t->cfg, s, step, 0, &t->loss[step], &t->err)
                         : toy_step(&t->cfg, s, step, 0, 0, &t->loss[step], &t->err);
    if (!rc)
        rc = stream_drain(s, &t->err);
    stream_close(s);
    close_log(t);
    return rc;
}

int trial_read(struct trial *t)
{
    int rc = runlog_open(&t->cfg.log, t->db, 1, 1, &t->err);

    t->params = 0;
    if (!rc)
        rc = toy_params_sum(&t->cfg, &t->params, &t->err);
    close_log(t);
    return rc;
}

struct stream *trial_open(struct trial *t)
{
    struct stream *s = NULL;
    char           notice[512];

    if (runlog_open(&t->cfg.log, t->db, 0, 1, &t->err) ||
        run_train(&s, &t->cfg, notice, sizeof notice, &t->err))
        fail_msg("%s", t->err.text);
    return s;
}

void trial_close(struct trial *t, struct stream *s)
{
    stream_close(s);
    close_log(t);
}

void trial_nothing_left(const struct trial *t)
{
    DIR           *d = opendir(t->dir);
    struct dirent *e;

    while ((e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, "run.lock"))
            fail_msg("a failed creation (%s) left %s", t->err.text, e->d_name);
    closedir(d);
}

struct trial trial_whole(const struct plan *p)
{
    struct trial t;

    trial_begin(&t, p);
    if (trial_make(&t) || trial_train(&t) || trial_read(&t))
        fail_msg("%s: %s", p->name, t.err.text);
    trial_end(&t);
    return t;
}

/* ---- what every failure must be ---- */

void trial_watch(void)
{
    alarm(WATCHDOG);
    threads_before = files_count("/proc/self/task");
    files_before = files_count("/proc/self/fd");
}

/* A thread that was joined may stand in /proc for another moment. */
void trial_nothing_runs(const char *text)
{
    for (int i = 0; i < 200 && !foreign && files_count("/proc/self/task") > threads_before; i++)
        usleep(1000);
    if ((!foreign && files_count("/proc/self/task") > threads_before) ||
        files_count("/proc/self/fd") > files_before)
        fail_msg("%s: %zu threads and %zu files were open before, %zu and %zu are now", text,
                 threads_before, files_before, files_count("/proc/self/task"),
                 files_count("/proc/self/fd"));
}

void trial_is_sentence(const struct trial *t, int rc, const char *what, uint64_t k)
{
    assert_true(rc < 0);
    if (strlen(t->err.text) < 12 || strchr(t->err.text, '\n'))
        fail_msg("%s at %llu: %s", what, (unsigned long long)k, t->err.text);
}

void trial_goes_on(struct trial *t, const struct trial *want, const char *what, uint64_t k)
{
    if (trial_train(t) || trial_read(t))
        fail_msg("%s at %llu: it does not go on: %s", what, (unsigned long long)k, t->err.text);
    if (t->params != want->params || memcmp(t->loss, want->loss, sizeof t->loss))
        fail_msg("%s at %llu: not the same bits", what, (unsigned long long)k);
}

int trial_live(struct trial *t, int *made)
{
    int rc = trial_make(t);

    *made = !rc;
    return rc ? rc : trial_train(t);
}

void trial_live_on(struct trial *t, int made, const struct trial *want, const char *what,
                   uint64_t k)
{
    if (!made && trial_make(t))
        fail_msg("%s", t->err.text);
    if (want)
        trial_goes_on(t, want, what, k);
    trial_nothing_runs(t->err.text);
    trial_end(t);
}

/* ---- a program ---- */

static void on_alarm(int signal)
{
    static const char text[] = "the watchdog: it hangs\n";

    (void)signal;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    abort();
}

void trial_set_up(int argc, char **argv)
{
    trial_all = argc > 1 && !strcmp(argv[1], "all");
    signal(SIGALRM, on_alarm);
    omp_set_num_threads(1);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
}
