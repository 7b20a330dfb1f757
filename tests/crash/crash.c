/* crash.c: power cuts, every one of them. A small run on a simulated machine (storage.h, threads.h) is cut at each operation that
 * changes a file; what was not durable is kept, lost or torn by seed; then the run is opened again and trained to its end, perhaps cut
 * a second time on the way. In the end everything there is, losses, rows, states, versions, residuals, has to be that of a run that was
 * never cut, bit for bit, and no step that was reported as committed may have been lost.
 *
 *     crash                                          the short form: a part of the points, as TAP
 *     crash --all [--config NAME] [--schedules N]    every point, in N schedules (1), as a table
 *     crash --config NAME --schedule S --point K --seed T    one point again, and what became of it
 *
 * A schedule is a seed of threads.h, an order in which threads and requests happened to run. */
#include "csd/csd.h"
#include "data/crc32c.h"
#include "kernels/rng.h"
#include "offload/devices.h"
#include "offload/image.h"
#include "offload/journal.h"
#include "offload/reshard.h"
#include "offload/run.h"
#include "tests/crash/disk_sim.h"
#include "tests/crash/posix.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"
#include "tests/crash/vfs_sim.h"
#include "tests/toy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4, STEPS = 4, MAX_SUBS = 64, MANY = 20, NEVER = -1 }; // MANY failures are enough
enum { PAIRS = 1000 }; // seeds from here on: recovery is cut, too, at operation seed - PAIRS

static const size_t sizes[BLOCKS] = { 8000, 7000, 7000, 77 };

#define DIR "/sim/run"

/* What is cut. */
struct plan {
    const char   *name;
    enum run_mode mode;
    double        compress;
    int           feedback, in_ram; // what compression does not send is kept: on the devices, in RAM too
    int           sync;             // csd/disk_sync.c on simulated files, instead of a simulated disk
    int           create;           // begin with nothing: the making of the run is cut too
    int           reshard;          // halfway, move it from two devices to three
    uint64_t      commit_every;
    int           checkpoint;       // pages of run.db's log after which it is moved into run.db; 0: SQLite's own 1000
    int           skip;             // the step whose gradients are not finite; NEVER
    enum { HONEST, LYING, NO_FLUSHES } storage; // flushes that do nothing; --durability none
};

static const struct plan plans[] = {
    { .name = "base", .mode = RUN_BASE, .skip = NEVER },
    { .name = "su", .mode = RUN_SU, .checkpoint = 16, .skip = NEVER },
    { .name = "su+o", .mode = RUN_SUO, .skip = 1 },
    { .name = "su+o sync", .mode = RUN_SUO, .sync = 1, .skip = NEVER },
    { .name = "su+o+c", .mode = RUN_SUO, .compress = 0.05, .skip = NEVER },
    { .name = "su+o+c feedback", .mode = RUN_SUO, .compress = 0.05, .feedback = 1, .skip = 2 },
    { .name = "su+o+c feedback ram", .mode = RUN_SUO, .compress = 0.05, .feedback = 1, .in_ram = 1, .skip = NEVER },
    { .name = "mem", .mode = RUN_MEM, .commit_every = 1, .skip = 1 },
    { .name = "mem every 2 feedback", .mode = RUN_MEM, .commit_every = 2, .checkpoint = 4, .compress = 0.05, .feedback = 1, .skip = NEVER },
    { .name = "reshard su+o", .mode = RUN_SUO, .sync = 1, .reshard = 1, .skip = NEVER },
    { .name = "reshard feedback", .mode = RUN_SUO, .compress = 0.05, .feedback = 1, .reshard = 1, .skip = NEVER },
    { .name = "create su+o", .mode = RUN_SUO, .sync = 1, .create = 1, .skip = NEVER },
    { .name = "create mem", .mode = RUN_MEM, .create = 1, .skip = NEVER },
    { .name = "su+o lying", .mode = RUN_SUO, .checkpoint = 16, .skip = NEVER, .storage = LYING },
    { .name = "mem lying", .mode = RUN_MEM, .commit_every = 1, .skip = NEVER, .storage = LYING },
    { .name = "su+o none", .mode = RUN_SUO, .checkpoint = 16, .skip = NEVER, .storage = NO_FLUSHES },
    { .name = "mem none", .mode = RUN_MEM, .commit_every = 1, .skip = NEVER, .storage = NO_FLUSHES },
};
enum { PLANS = sizeof plans / sizeof *plans };

/* What a run is when it has ended. */
struct state {
    uint64_t next_step, applied;
    int      rows;             // of steps, each once and in order
    double   loss[STEPS];      // as the rows say
    uint64_t skipped;          // bits of steps
    size_t   n;
    struct { uint64_t version; uint32_t states, wire, grad, residual; } sub[MAX_SUBS]; // checksums of what is stored
};

/* What the one who trains has seen, over all the lives of a run. */
struct witness {
    double   loss[STEPS];
    unsigned seen;      // bits of steps
    uint64_t committed; // steps reported as committed
    uint64_t went_back; // lives that began before that
    int      differs;   // a loss was another one the second time
};

/* ---- a run ---- */

static int sim_csd_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t size, struct err *err)
{
    struct csd_config c = *cfg;

    c.disk_ops = &disk_sim;
    return csd_emu.open(out, &c, notice, size, err);
}

static struct csd_ops csd_sim;

static struct run_config config_of(const struct plan *p, struct runlog *log)
{
    return (struct run_config){
        .dir = DIR, .log = log, .id = "00112233445566778899aabbccddeeff", .mode = p->mode, .n_blocks = BLOCKS, .block_params = sizes,
        .decay = toy_decay, .wire_dt = DT_BF16, .optim = OPTIM_ADAMW, .compress = p->compress, .error_feedback = p->feedback,
        .residual_in_ram = p->in_ram, .n_devices = 2, .csd = p->sync ? &csd_emu : &csd_sim, .disk = "sync",
        .csd_mem = csd_arena_bytes(CSD_ALIGN_PARAMS, optim_moments(OPTIM_ADAMW), DT_BF16, 0), .frames = 2, .grad_buffers = 1,
        .durable = p->storage != NO_FLUSHES, .commit_every = p->commit_every,
    };
}

/* Of the devices that the run is on: those it was made with, or those it was moved to. layout: kept there. */
static int config_now(struct run_config *out, const struct plan *p, struct runlog *log, char layout[32], struct err *err)
{
    int rc = p->reshard ? runlog_get(log, "layout", layout, 32, err) : -ENOENT;

    *out = config_of(p, log);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    out->layout = layout;
    out->n_devices = 3;
    return 0;
}

static int is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* What a creation that was cut left behind goes away, as cmd/newrun.c does it. */
static void clear(void)
{
    static const char *const left[] = { "run.db.new", "run.db.new-wal", "run.db.new-shm", "dev0/states", "dev1/states", "image0" };

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char path[96];

        snprintf(path, sizeof path, DIR "/%s", left[i]);
        if (is_there(path))
            unlink(path);
    }
}

/* A run that is not there is made; the name of run.db comes last. */
static int make(const struct plan *p, struct err *err)
{
    struct runlog    *log;
    struct run_config cfg;
    int               fd, rc;

    clear();
    rc = runlog_create(&log, DIR "/run.db.new", p->storage != NO_FLUSHES, err);
    if (rc)
        return rc;
    cfg = config_of(p, log);
    rc = run_format(&cfg, &toy_init, err);
    runlog_close(log);
    if (rc)
        return rc;
    if (is_there(DIR "/run.db.new-wal"))
        return err_set(err, -EIO, "run.db.new could not be written completely");
    if (rename(DIR "/run.db.new", DIR "/run.db"))
        return err_set(err, -errno, "rename run.db.new");
    fd = open(DIR, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd))
        rc = err_set(err, -EIO, "sync the folder of the run");
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Train from where the run is to step `end`, or to the cut. */
static int train(const struct plan *p, const struct run_config *cfg, uint64_t end, struct witness *w, struct err *err)
{
    struct stream *s = NULL;
    char           notice[512];
    uint64_t       step = 0, applied;
    int            rc = run_train(&s, cfg, notice, sizeof notice, err);

    if (!rc)
        rc = run_position(cfg, &step, &applied, err);
    w->went_back += !rc && step < w->committed;
    for (; !rc && step < end; step++) {
        double loss;

        rc = toy_step(cfg, s, step, (int)step == p->skip, 0, &loss, err);
        if (rc)
            break;
        w->differs |= (w->seen >> step & 1) && memcmp(&loss, &w->loss[step], sizeof loss);
        w->loss[step] = loss;
        w->seen |= 1u << step;
        uint64_t sure = p->mode != RUN_MEM ? step : p->commit_every ? (step + 1) / p->commit_every * p->commit_every : 0;

        w->committed = sure > w->committed ? sure : w->committed;
    }
    if (!rc)
        rc = stream_drain(s, err);
    if (!rc)
        w->committed = end;
    stream_close(s);
    return rc;
}

static int store_layout(void *ctx, struct err *err)
{
    const struct run_config *to = ctx;

    return runlog_set(to->log, "layout", to->layout, err);
}

/* Onto three devices, as cmd/reshard.c does it. */
static int move(struct run_config *cfg, char layout[32], struct err *err)
{
    struct reshard r = { .from = *cfg, .to = *cfg, .settings = store_layout, .ctx = &r.to };
    char           notice[512] = "";
    int            rc;

    snprintf(layout, 32, "%016llx", (unsigned long long)threads_roll(UINT64_MAX));
    r.to.layout = layout;
    r.to.n_devices = 3;
    rc = reshard_run(&r, err);
    if (!rc)
        rc = reshard_clean(&r.to, notice, sizeof notice, err);
    *cfg = r.to;
    return rc;
}

/* What an opened run goes through. */
static int work(const struct plan *p, struct runlog *log, struct witness *w, struct err *err)
{
    struct run_config cfg;
    char              layout[32], notice[512] = "";
    int               rc = config_now(&cfg, p, log, layout, err);

    if (!rc && p->reshard)
        rc = reshard_clean(&cfg, notice, sizeof notice, err);
    if (!rc && p->reshard && !cfg.layout) {
        rc = train(p, &cfg, STEPS / 2, w, err);
        if (!rc)
            rc = move(&cfg, layout, err);
    }
    return rc ? rc : train(p, &cfg, STEPS, w, err);
}

/* A process from its start to its end; 0 or -errno with a sentence. */
static int life(const struct plan *p, struct witness *w, struct err *err)
{
    struct runlog *log = NULL;
    int            rc = 0;

    *err = (struct err){ 0 };
    if (p->storage == LYING)
        storage_lie(1);
    if (p->create && !is_there(DIR "/run.db"))
        rc = make(p, err);
    if (!rc)
        rc = runlog_open(&log, DIR "/run.db", 0, p->storage != NO_FLUSHES, err);
    if (!rc && p->checkpoint)
        sqlite3_wal_autocheckpoint(runlog_db(log), p->checkpoint);
    if (!rc)
        rc = work(p, log, w, err);
    runlog_close(log);
    return rc;
}

/* ---- what it has become ---- */

static void must(int rc, const struct err *err)
{
    if (rc) {
        fprintf(stderr, "reading the state: %s\n", err->text);
        abort();
    }
}

/* The rows of steps: each once, in order. */
static int rows_read(struct runlog *log, struct state *out)
{
    sqlite3_stmt *st;
    int           n = 0;

    if (sqlite3_prepare_v2(runlog_db(log), "SELECT step, loss, skipped FROM steps ORDER BY step", -1, &st, NULL))
        return -1;
    while (sqlite3_step(st) == SQLITE_ROW && n < STEPS && sqlite3_column_int(st, 0) == n) {
        out->loss[n] = sqlite3_column_double(st, 1);
        out->skipped |= (uint64_t)sqlite3_column_int(st, 2) << n;
        n++;
    }
    sqlite3_finalize(st);
    return n;
}

static uint32_t stored_sum(const char *path, uint64_t off, size_t n)
{
    unsigned char *p = malloc(n);
    int            file = storage_find(path);
    uint32_t       sum;

    assert(p && file >= 0);
    memset(p, 0, n);
    storage_read(file, p, n, off);
    sum = crc32c(0, p, n);
    free(p);
    return sum;
}

/* 0, or a sentence where what is stored is not what the journal says: what the next read would find. */
static int devices_state(const struct run_config *cfg, int honest, struct state *out, struct err *found)
{
    struct store         st;
    struct journal      *j;
    struct journal_state js;
    struct journal_sub   subs[MAX_SUBS];
    struct journal_grad  grads[MAX_SUBS];
    struct err           err;
    int                  rc = 0;

    must(devices_layout(&st, cfg, &err), &err);
    assert(st.n_subs <= MAX_SUBS);
    must(journal_open(&j, cfg->log, st.n_subs, &js, subs, grads, &err), &err);
    journal_close(j);
    out->n = st.n_subs;
    for (size_t i = 0; i < st.n_subs; i++) {
        const struct store_sub *u = &st.subs[i];
        uint64_t                slot = store_slot_off(&st, u->class_, subs[i].slot);
        char                    path[96];

        snprintf(path, sizeof path, DIR "/dev%zu/states%s%s", u->device, cfg->layout ? "-" : "", cfg->layout ? cfg->layout : "");
        out->sub[i].version = subs[i].version;
        out->sub[i].states = stored_sum(path, slot, store_state_bytes(&st, u->n_pad));
        out->sub[i].wire = stored_sum(path, slot + store_state_bytes(&st, u->n_pad), store_wire_bytes(&st, u->n_pad));
        if (honest) // of a step that is complete: nobody reads it again, and what is lost of it is not missed
            out->sub[i].grad = grads[i].crc;
        if (cfg->error_feedback)
            out->sub[i].residual = stored_sum(path, store_residual_off(u, js.applied), store_residual_bytes(u->n_pad));
        if (out->sub[i].states != subs[i].states_crc || out->sub[i].wire != subs[i].wire_crc)
            rc = err_set(found, -EBADMSG, "the slot of subgroup %zu is damaged: its next reader finds it", i);
    }
    store_release(&st);
    return rc;
}

static int image_state_read(const struct run_config *cfg, struct state *out, struct err *found)
{
    struct image_state at;
    char               path[64];
    int                rc = image_load(cfg, &at, NULL, found);

    image_path(cfg, at.area, path, sizeof path);
    out->n = 1;
    out->sub[0].version = at.applied;
    out->sub[0].states = stored_sum(path, 0, image_bytes(cfg));
    return rc;
}

/* What is durable: whatever is not is thrown away first. 0, or -EBADMSG with a sentence: a next reader will find it. */
static int state_read(const struct plan *p, struct state *out, struct err *found)
{
    struct runlog    *log;
    struct run_config cfg;
    struct err        err;
    char              layout[32];
    int               rc;

    memset(out, 0, sizeof *out);
    if (p->storage == HONEST)
        storage_power_on(0);
    must(runlog_open(&log, DIR "/run.db", 0, 1, &err), &err);
    must(config_now(&cfg, p, log, layout, &err), &err);
    must(run_position(&cfg, &out->next_step, &out->applied, &err), &err);
    out->rows = rows_read(log, out);
    rc = p->mode == RUN_MEM ? image_state_read(&cfg, out, found) : devices_state(&cfg, p->storage == HONEST, out, found);
    runlog_close(log);
    return rc;
}

/* ---- a point ---- */

enum outcome { IDENTICAL, REFUSED, WRONG, OUTCOMES };

struct point { const struct plan *plan; uint64_t schedule, at, seed; };

static struct point current; // for whoever has to say where it ended

static void say_point(FILE *to)
{
    fprintf(to, "crash --config '%s' --schedule %llu --point %llu --seed %llu", current.plan->name,
            (unsigned long long)current.schedule, (unsigned long long)current.at, (unsigned long long)current.seed);
}

static void aborted(int sig)
{
    (void)sig;
    say_point(stderr);
    fprintf(stderr, ": aborted\n");
    _exit(1);
}

/* Counts of a configuration. */
struct tally {
    uint64_t points, cuts, outcomes[OUTCOMES], second, went_back;
    unsigned most_loose;
};

/* What the run has to be, and how it begins. */
struct reference { struct storage *begin; struct state state; struct witness witness; uint64_t ops; };

/* A machine starts. */
static void boot(uint64_t seed)
{
    threads_seed(seed);
    vfs_sim_restart(seed);
}

/* Of one life that nothing cuts, from the beginning. */
static void reference_run(struct reference *r, const struct plan *p, uint64_t schedule)
{
    struct err err;
    int        rc;

    storage_load(r->begin);
    boot(schedule);
    r->witness = (struct witness){ 0 };
    rc = life(p, &r->witness, &err);
    r->ops = storage_ops();
    must(rc, &err);
    must(state_read(p, &r->state, &err), &err);
}

static void reference_open(struct reference *r, const struct plan *p)
{
    struct plan honest = *p;
    struct err  err = { 0 };

    honest.storage = HONEST;
    storage_load(NULL);
    boot(1);
    storage_create("/sim", 1);
    storage_create(DIR, 1);
    storage_sync_folder("");
    storage_sync_folder("/sim");
    if (!p->create)
        must(make(&honest, &err), &err);
    storage_power_on(0);
    r->begin = storage_save();
}

/* The first thing in which a run differs from what it has to be; 0 or a sentence. */
static int compare(const struct state *got, const struct state *want, struct err *err)
{
    if (got->next_step != want->next_step || got->applied != want->applied)
        return err_set(err, -1, "it stands before step %llu with %llu updates, not %llu with %llu", (unsigned long long)got->next_step,
                       (unsigned long long)got->applied, (unsigned long long)want->next_step, (unsigned long long)want->applied);
    if (got->rows != want->rows)
        return err_set(err, -1, "it has rows of %d steps, not of %d", got->rows, want->rows);
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&got->loss[i], &want->loss[i], sizeof got->loss[i]) || (got->skipped ^ want->skipped) >> i & 1)
            return err_set(err, -1, "the row of step %d says loss %.17g, not %.17g", i, got->loss[i], want->loss[i]);
    for (size_t i = 0; i < want->n; i++)
        if (memcmp(&got->sub[i], &want->sub[i], sizeof got->sub[i]))
            return err_set(err, -1, "subgroup %zu: version %llu states %08x wire %08x gradient %08x residual %08x, not %llu %08x %08x %08x %08x",
                           i, (unsigned long long)got->sub[i].version, got->sub[i].states, got->sub[i].wire, got->sub[i].grad,
                           got->sub[i].residual, (unsigned long long)want->sub[i].version, want->sub[i].states, want->sub[i].wire,
                           want->sub[i].grad, want->sub[i].residual);
    return 0;
}

static enum outcome judge(const struct reference *r, const struct plan *p, struct witness *w, int rc, struct err *err)
{
    struct state s;

    if (rc)
        return err->text[0] ? REFUSED : WRONG;
    if (state_read(p, &s, err))
        return p->storage == HONEST ? WRONG : REFUSED;
    if (w->differs) {
        err_set(err, 0, "a step was computed twice with different losses");
        return WRONG;
    }
    for (int i = 0; i < STEPS; i++)
        if ((w->seen >> i & 1) && memcmp(&w->loss[i], &r->witness.loss[i], sizeof w->loss[i])) {
            err_set(err, 0, "the loss of step %d is another one", i);
            return WRONG;
        }
    return compare(&s, &r->state, err) ? WRONG : IDENTICAL;
}

/* Where recovery is cut: as told, or anywhere in what is left to do, most often soon. */
static uint64_t second_cut(const struct reference *r, const struct point *at)
{
    if (at->seed >= PAIRS)
        return at->seed - PAIRS;
    return rng_bits(at->seed, 2, at->at) % (rng_bits(at->seed, 1, at->at) % 4 ? 80 : r->ops);
}

/* The machine as the cut left it: power on, perhaps a second cut during recovery, then to the end. */
static enum outcome recover(const struct reference *r, struct tally *t, const struct storage *left, struct witness w, struct err *err)
{
    const struct point *at = &current;
    enum outcome        o;
    int                 rc;

    storage_load(left);
    storage_power_on(at->seed);
    t->most_loose = storage_loose() > t->most_loose ? storage_loose() : t->most_loose;
    if (at->seed % 2 || at->seed >= PAIRS) {
        boot(at->schedule + 1000);
        storage_arm(second_cut(r, at));
        rc = life(at->plan, &w, err);
        t->second += (uint64_t)storage_is_cut();
        if (rc && !storage_is_cut())
            return judge(r, at->plan, &w, rc, err);
        storage_power_on(rng_bits(at->seed, 3, at->at));
    }
    boot(at->schedule + 2000);
    rc = life(at->plan, &w, err);
    o = judge(r, at->plan, &w, rc, err);
    t->went_back += w.went_back;
    if (o == IDENTICAL && w.went_back && at->plan->storage == HONEST) {
        err_set(err, 0, "a step that was reported as committed was lost");
        o = WRONG;
    }
    return o;
}

/* Whether the outcome is one that may be. */
static int fine(const struct plan *p, enum outcome o)
{
    return o == IDENTICAL || (o == REFUSED && p->storage != HONEST);
}

/* Cut the run at `at` and try what may be left with the seeds [first, first + n). The number of outcomes that may not be. */
static int try_point(const struct reference *r, const struct plan *p, struct tally *t, uint64_t schedule, uint64_t at, uint64_t first,
                     uint64_t n, int verbose)
{
    struct witness  w = { 0 };
    struct storage *left;
    struct err      err;
    int             bad = 0, rc;

    current = (struct point){ p, schedule, at, first };
    storage_load(r->begin);
    boot(schedule);
    storage_arm(at);
    rc = life(p, &w, &err);
    t->points++;
    if (posix_open_files() > 0 || (rc && !err.text[0])) {
        say_point(stdout);
        printf(": the process left a file open, or failed without a sentence\n");
        bad++;
    }
    if (verbose)
        printf("cut: %s\n", rc ? err.text : "after the end");
    left = storage_save();
    for (uint64_t seed = first; seed < first + n; seed++) {
        enum outcome o;

        current.seed = seed;
        o = recover(r, t, left, w, &err);
        t->cuts++;
        t->outcomes[o]++;
        if (!fine(p, o) || verbose) {
            say_point(stdout);
            printf(": %s: %s\n", o == IDENTICAL ? "identical" : o == REFUSED ? "refused" : "WRONG", err.text);
        }
        bad += !fine(p, o);
    }
    storage_free(left);
    return bad;
}

/* ---- all of it ---- */

/* points: of each schedule; 0: all. pairs: at one point in so many, recovery is cut at each of its first `recovery` operations; 0: nowhere. */
struct effort { uint64_t schedules, points, seeds, pairs, recovery; };

/* The points of a configuration; the number of outcomes that may not be. */
static int try_plan(const struct plan *p, const struct effort *e, struct tally *t)
{
    struct reference r = { 0 };
    struct state     first;
    struct err       err;
    int              bad = 0;

    current = (struct point){ p, 0, 0, 0 };
    reference_open(&r, p);
    for (uint64_t schedule = 0; schedule < e->schedules; schedule++) {
        uint64_t stride;

        reference_run(&r, p, schedule);
        if (schedule == 0)
            first = r.state;
        if (compare(&r.state, &first, &err)) {
            printf("%s: schedule %llu: %s\n", p->name, (unsigned long long)schedule, err.text);
            bad++;
        }
        stride = e->points ? r.ops / e->points + 1 : 1;
        for (uint64_t at = stride / 2; at < r.ops && bad < MANY; at += stride)
            bad += try_point(&r, p, t, schedule, at, 0, e->seeds, 0);
        for (uint64_t at = schedule; e->pairs && at < r.ops && bad < MANY; at += e->pairs)
            bad += try_point(&r, p, t, schedule, at, PAIRS, e->recovery, 0);
    }
    if (p->storage != HONEST && t->outcomes[REFUSED] + t->went_back == 0) {
        printf("%s: nothing was lost by storage that keeps nothing: this proof proves nothing\n", p->name);
        bad++;
    }
    storage_free(r.begin);
    return bad;
}

static int try_all(const struct effort *e, int table, const char *only)
{
    int bad = 0;

    if (table)
        printf("%-24s %7s %8s %8s %9s %8s %6s %6s %6s\n", "configuration", "points", "cuts", "second", "identical", "refused", "wrong",
               "back", "loose");
    else
        printf("1..%d\n", PLANS);
    for (int i = 0; i < PLANS; i++) {
        struct tally t = { 0 };
        int          wrong;

        if (only && strcmp(only, plans[i].name))
            continue;
        bad += wrong = try_plan(&plans[i], e, &t);
        if (table)
            printf("%-24s %7llu %8llu %8llu %9llu %8llu %6llu %6llu %6u\n", plans[i].name, (unsigned long long)t.points,
                   (unsigned long long)t.cuts, (unsigned long long)t.second, (unsigned long long)t.outcomes[IDENTICAL],
                   (unsigned long long)t.outcomes[REFUSED], (unsigned long long)t.outcomes[WRONG], (unsigned long long)t.went_back,
                   t.most_loose);
        else
            printf("%s %d - %s: %llu power cuts\n", wrong ? "not ok" : "ok", i + 1, plans[i].name, (unsigned long long)t.cuts);
        fflush(stdout);
    }
    return bad != 0;
}

static int try_one(const char *name, uint64_t schedule, uint64_t at, uint64_t seed)
{
    const struct plan *p = NULL;
    struct reference   r = { 0 };
    struct tally       t = { 0 };
    int                bad;

    for (int i = 0; i < PLANS; i++)
        p = strcmp(plans[i].name, name) ? p : &plans[i];
    if (!p) {
        fprintf(stderr, "no configuration is called %s\n", name);
        return 2;
    }
    current = (struct point){ p, schedule, at, seed };
    reference_open(&r, p);
    reference_run(&r, p, schedule);
    printf("a run of %llu operations\n", (unsigned long long)r.ops);
    bad = try_point(&r, p, &t, schedule, at, seed, 1, 1);
    storage_free(r.begin);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct effort brief = { .schedules = 1, .points = 6, .seeds = 2 };
    struct effort full = { .seeds = 4, .pairs = 80, .recovery = 100 };
    const char   *name = NULL;
    uint64_t      number[4] = { 0 };
    int           all = 0, rc;

    for (int i = 1; i < argc; i++) {
        static const char *const options[] = { "--schedule", "--point", "--seed", "--schedules" };

        all |= !strcmp(argv[i], "--all");
        if (i + 1 < argc && !strcmp(argv[i], "--config"))
            name = argv[i + 1];
        for (int k = 0; k < 4; k++)
            if (i + 1 < argc && !strcmp(argv[i], options[k]))
                number[k] = strtoull(argv[i + 1], NULL, 10);
    }
    full.schedules = number[3] ? number[3] : 1;
    omp_set_num_threads(1);
    signal(SIGABRT, aborted);
    csd_sim = csd_emu;
    csd_sim.open = sim_csd_open;
    vfs_sim_register();
    rc = name && !all ? try_one(name, number[0], number[1], number[2]) : try_all(all ? &full : &brief, all, name);
    storage_load(NULL);
    return rc;
}
