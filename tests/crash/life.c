/* life.c: a run's life on the simulated machine: made, opened, trained, moved; and what is stored
 * of it in the end. */
#include "tests/crash/life.h"

#include "csd/csd.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "offload/upkeep/recovery.h"
#include "offload/upkeep/reshard.h"
#include "tests/comm_threads.h"
#include "tests/crash/disk_sim.h"
#include "tests/crash/makers.h"
#include "tests/crash/named.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"
#include "tests/routes.h"
#include "tests/toy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4, WORDS = 2, SHARED = 3, ADAPTED = 2 };

static const size_t sizes[BLOCKS] = { 8000, 7000, 7000, 77 };
static const size_t words[WORDS + 2 + WORDS] = { 5000, 3000, 7000, 77, 5000, 3000 };
/* Frozen blocks around an adapter for each layer. */
static const size_t adapted[2 * ADAPTED + 2] = { 5000, 7000, 7000, 3000, 2999, 77 };
/* Of ranks: blocks of several portions, one of which some ranks have none of. */
static const size_t shared[SHARED] = { 20000, 33000, 77 };
static size_t       portions[THREADS_HOSTS][SHARED];

size_t life_ranks(const struct plan *p) { return size_max(p->ranks, 1); }

const char *life_dir(size_t rank)
{
    static const char *const dirs[THREADS_HOSTS] = { RUN_AT, RUN_AT ".rank1", RUN_AT ".rank2",
                                                     RUN_AT ".rank3" };

    return dirs[rank];
}

/* A name in a rank's folder. */
static const char *in_dir(char out[96], size_t rank, const char *name)
{
    snprintf(out, 96, "%s/%s", life_dir(rank), name);
    return out;
}

/* ---- a run ---- */

static const struct csd_ops *under; // of the plan
static struct csd_ops        csd_sim;
static char                  xclbin[512];

static int sim_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t size,
                    struct err *err)
{
    struct csd_config c = *cfg;

    c.disk = &disk_sim;
    return under->open(out, &c, notice, size, err);
}

void life_init(void)
{
    const char *smartssd = getenv("SITRAIN_SMARTSSD");

    if (!smartssd || !*smartssd)
        return;
    snprintf(xclbin, sizeof xclbin, "%s/sitrain.xclbin", smartssd);
    setenv("XILINX_XRT", smartssd, 1);
    setenv("SMARTSSD_DEVICES", "3", 1);
}

int life_has(const struct plan *p) { return !p->cards || *xclbin; }

/* Each has a group of its own. */
static void config_rank(struct run_config *cfg, const struct plan *p, size_t rank)
{
    cfg->dir = life_dir(rank);
    cfg->route = toy_route(SHARED);
    cfg->ranks = (struct run_ranks){ .rank = rank, .size = p->ranks, .groups = p->ranks,
                                     .whole_params = shared };
    ranks_portions(portions[rank], &cfg->ranks, shared, SHARED);
    cfg->block_params = portions[rank];
}

struct run_config life_config(const struct plan *p, struct runlog *log, size_t rank)
{
    static const char *const cards[] = { "0000:31:00.1", "0000:32:00.1", "0000:33:00.1" };
    static const char *const folders[] = { "/sim/drive0", "/sim/drive1" };
    static const char *const files[] = { "/sim/drive0/states", "/sim/drive1/states" };
    struct run_config        cfg = toy_config(RUN_AT, p->mode, sizes, BLOCKS);

    if (p->words) {
        size_t head = p->words == 2 ? 2 : 0;

        cfg = toy_config(RUN_AT, p->mode, words, WORDS + 1 + 1 + head);
        cfg.route = route_pieces(WORDS, 1, head);
    }
    if (p->frozen) {
        cfg = toy_config(RUN_AT, p->mode, adapted, 2 * ADAPTED + 2);
        cfg.route = route_adapters(ADAPTED);
    }
    if (p->ranks)
        config_rank(&cfg, p, rank);
    cfg.log = log;
    cfg.compress = p->compress;
    cfg.error_feedback = p->feedback;
    cfg.residual_in_ram = p->in_ram;
    cfg.speculate = p->speculate;
    cfg.spares = (enum run_spares)p->spares;
    cfg.n_devices = 2;
    cfg.device_paths = p->outside == FOLDERS ? folders : p->outside ? files : NULL;
    under = p->cards ? &csd_xrt : &csd_emu;
    csd_sim = *under;
    csd_sim.open = sim_open;
    cfg.csd = p->sync ? &csd_emu : &csd_sim;
    cfg.fpgas = cards;
    cfg.xclbin = xclbin;
    cfg.durable = p->storage != NO_FLUSHES;
    cfg.commit_every = p->commit_every;
    if (p->pieces)
        cfg.acts = toy_acts(&cfg, (size_t)p->pieces / (run_blocks(&cfg) - 2), 5000, 3);
    return cfg;
}

/* What a run_config borrows of run.db. */
struct texts { char id[33], layout[32], owner[SUPERBLOCK_WORD], owner_next[SUPERBLOCK_WORD]; };

static int text_get(struct runlog *log, const char *key, char *out, size_t size, struct err *err)
{
    int rc = runlog_get(log, key, out, size, err);

    return rc == -ENOENT ? 0 : rc;
}

/* Of the devices that the run is on: those it was made with, or those it was moved to. */
static int config_now(struct run_config *out, const struct plan *p, struct runlog *log,
                      size_t rank, struct texts *t, struct err *err)
{
    int rc;

    *t = (struct texts){ 0 };
    *out = life_config(p, log, rank);
    out->decay_ctx = p->ranks ? out : NULL;
    rc = text_get(log, "id", t->id, sizeof t->id, err);
    rc = rc || !p->reshard ? rc : text_get(log, "layout", t->layout, sizeof t->layout, err);
    rc = rc ? rc : text_get(log, "owner", t->owner, sizeof t->owner, err);
    rc = rc ? rc : text_get(log, "owner.next", t->owner_next, sizeof t->owner_next, err);
    out->owner = t->owner;
    out->owner_next = t->owner_next;
    if (*t->id)
        out->id = t->id;
    if (!rc && *t->layout) {
        out->layout = t->layout;
        out->n_devices = 3;
    }
    return rc;
}

static int is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* What a creation that was cut left behind goes away, as run/folder/creation.c does it. So does a
 * run.lock of any bytes, which creation.c has flushed by then (makers.c tests that). */
static void clear(size_t rank)
{
    static const char *const left[] = { "run.db.new",     "run.db.new-wal", "run.db.new-shm",
                                        "run.db.new-journal", "dev0/states",    "dev1/states",
                                        "image0",         "frozen",         "run.lock" };

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char path[96];

        if (is_there(in_dir(path, rank, left[i])))
            unlink(path);
    }
}

/* Of one rank; the name of run.db comes last. */
static int make(const struct plan *p, size_t rank, struct err *err)
{
    struct runlog    *log;
    struct run_config cfg;
    char              new[96], path[96];
    int               fd, rc;

    clear(rank);
    rc = runlog_create(&log, in_dir(new, rank, "run.db.new"), p->storage != NO_FLUSHES, err);
    if (rc)
        return rc;
    cfg = life_config(p, log, rank);
    rc = run_format(&cfg, &toy_init, err);
    if (!rc && p->named)
        rc = named_begin(&cfg, err);
    runlog_close(log);
    if (rc)
        return rc;
    if (is_there(in_dir(path, rank, "run.db.new-wal")))
        return err_set(err, -EIO, "run.db.new could not be written completely");
    if (rename(new, in_dir(path, rank, "run.db")))
        return err_set(err, -errno, "rename run.db.new");
    fd = open(life_dir(rank), O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd))
        rc = err_set(err, -EIO, "sync the folder of the run");
    if (fd >= 0)
        close(fd);
    return rc;
}

int life_make(const struct plan *p, struct err *err)
{
    int rc = 0;

    for (size_t r = 0; r < life_ranks(p) && !rc; r++)
        rc = make(p, r, err);
    return rc;
}

/* Train from where the run is to step `end`, or to the cut. */
static int train(const struct plan *p, const struct run_config *cfg, uint64_t end,
                 struct witness *w, struct err *err)
{
    struct stream *s = NULL;
    char           notice[512];
    uint64_t       step = 0, applied;
    int            rc = recovery_run(cfg, err);

    rc = rc ? rc : run_train(&s, cfg, notice, sizeof notice, err);
    if (!rc)
        rc = run_position(cfg, &step, &applied, err);
    w->went_back += !rc && step < w->committed;
    for (; !rc && step < end; step++) {
        double loss;

        rc = p->words || p->frozen
                 ? toy_order_step(cfg, s, step, (int)step == p->skip, &loss, err)
                 : toy_step(cfg, s, step, (int)step == p->skip, 0, &loss, err);
        if (rc)
            break;
        w->differs |= (w->seen >> step & 1) && memcmp(&loss, &w->loss[step], sizeof loss);
        w->loss[step] = loss;
        w->seen |= 1u << step;
        uint64_t sure = p->mode != RUN_MEM ? step
                        : p->commit_every  ? (step + 1) / p->commit_every * p->commit_every
                                           : 0;

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
static int move(struct run_config *cfg, struct texts *t, struct err *err)
{
    struct reshard r = { .from = *cfg, .to = *cfg, .settings = store_layout, .ctx = &r.to };
    char           notice[512] = "";
    int            rc;

    snprintf(t->layout, sizeof t->layout, "%016llx",
             (unsigned long long)threads_roll(UINT64_MAX));
    r.to.layout = t->layout;
    r.to.n_devices = 3;
    rc = reshard_run(&r, err);
    if (!rc)
        rc = reshard_clean(&r.to, 1, notice, sizeof notice, err);
    *cfg = r.to;
    return rc;
}

/* What an opened run goes through. */
static int work(const struct plan *p, struct runlog *log, struct witness *w, size_t rank,
                struct comm *comm, struct err *err)
{
    struct run_config cfg;
    struct texts      texts;
    char              notice[512] = "";
    int               rc = config_now(&cfg, p, log, rank, &texts, err);

    cfg.ranks.comm = comm;
    if (!rc && p->named)
        rc = named_take(&cfg, texts.owner, texts.owner_next, err);
    if (!rc && p->reshard)
        rc = reshard_clean(&cfg, 1, notice, sizeof notice, err);
    if (!rc && p->reshard && !cfg.layout) {
        rc = train(p, &cfg, STEPS / 2, w, err);
        if (!rc)
            rc = move(&cfg, &texts, err);
    }
    return rc ? rc : train(p, &cfg, STEPS, w, err);
}

/* As the user goes on who reads that the log is none. */
static int open_again(struct runlog **log, const char *path, int durable, struct err *err)
{
    static const char said[] = "SQLite would write over it: move it elsewhere";
    char              wal[112];
    int               rc = runlog_open(log, path, 0, durable, err);

    snprintf(wal, sizeof wal, "%s-wal", path);
    if (!rc || !strstr(err->text, said) || rename(wal, "/sim/moved"))
        return rc;
    return runlog_open(log, path, 0, durable, err);
}

/* A process from its start to its end; 0 or -errno with a sentence. */
static int process(const struct plan *p, struct witness *w, size_t rank, struct comm *comm,
                   struct err *err)
{
    struct runlog *log = NULL;
    char           path[96];
    int            rc = 0;

    *err = (struct err){ 0 };
    if (p->create && !p->makers && !is_there(in_dir(path, rank, "run.db")))
        rc = make(p, rank, err);
    if (!rc)
        rc = open_again(&log, in_dir(path, rank, "run.db"), p->storage != NO_FLUSHES, err);
    if (!rc)
        rc = work(p, log, w, rank, comm, err);
    runlog_close(log);
    return rc;
}

/* A rank's, on a machine of its own. One that fails ends all, as mpirun does it. */
struct rank {
    const struct plan *plan;
    struct witness    *witness; // of all: they have to see the same
    struct comm       *comm;
    pthread_t          thread;
    struct err         err;
    int                rc;
};

static void *rank_main(void *rank)
{
    struct rank *r = rank;

    threads_host_set((int)r->comm->rank);
    r->rc = process(r->plan, r->witness, r->comm->rank, r->comm, &r->err);
    if (r->rc)
        comm_abort(r->comm, 1);
    return NULL;
}

static int job(const struct plan *p, struct witness *w, struct err *err)
{
    struct comm_threads *t = comm_threads_new(p->ranks);
    struct rank          ranks[THREADS_HOSTS] = { 0 };
    int                  rc = 0;

    for (size_t i = 0; i < p->ranks; i++) {
        ranks[i] = (struct rank){ .plan = p, .witness = w, .comm = comm_threads_rank(t, i) };
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]))
            abort();
    }
    *err = (struct err){ 0 };
    for (size_t i = 0; i < p->ranks; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].rc && (!rc || rc == -ECONNABORTED)) { // what was first
            rc = ranks[i].rc;
            *err = ranks[i].err;
        }
    }
    comm_threads_free(t);
    return rc;
}

/* The second process on the machine: at some time the lock's file goes, and it resumes the run. */
struct rival {
    const struct plan *plan;
    struct witness    *witness; // of both: whoever computes a step computes the same
    struct err         err;
    int                rc;
};

static void *rival_main(void *rival)
{
    struct rival *r = rival;
    char          path[96];

    for (uint64_t n = threads_roll(3000); n > 0; n--)
        threads_yield();
    unlink(in_dir(path, 0, "run.lock"));
    r->rc = process(r->plan, r->witness, 0, NULL, &r->err);
    return NULL;
}

/* Two processes that both would train the run. Where neither came to the end the next one does, to
 * whom nothing happens but power cuts. */
static int pair(const struct plan *p, struct witness *w, struct err *err)
{
    struct rival r = { .plan = p, .witness = w };
    pthread_t    thread;

    if (pthread_create(&thread, NULL, rival_main, &r))
        abort();
    int rc = process(p, w, 0, NULL, err);
    pthread_join(thread, NULL);
    if (r.rc && !r.err.text[0]) // which has to say why, too
        err->text[0] = '\0';
    if ((rc && !err->text[0]) || (r.rc && !r.err.text[0]))
        return -EPROTO;
    return rc && r.rc ? process(p, w, 0, NULL, err) : 0;
}

int life_train(const struct plan *p, struct witness *w, struct err *err)
{
    return process(p, w, 0, NULL, err);
}

int life(const struct plan *p, struct witness *w, struct err *err)
{
    runlog_log_pages = p->checkpoint ? (unsigned)p->checkpoint : 1000;
    if (p->storage == LYING)
        storage_lie(1);
    if (p->makers)
        return makers(p, w, err);
    if (p->rival)
        return pair(p, w, err);
    return p->ranks ? job(p, w, err) : process(p, w, 0, NULL, err);
}

/* ---- what it has become ---- */

/* A row of steps: each once, in order. */
static int row_read(void *ctx, int n, const char **values, const char **names)
{
    struct state *out = ctx;

    (void)n, (void)names;
    if (out->rows >= STEPS || atoi(values[0]) != out->rows)
        return 1;
    out->loss[out->rows] = strtod(values[1], NULL);
    out->skipped |= (uint64_t)atoi(values[2]) << out->rows++;
    return 0;
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

/* 0, or a sentence where what is stored is not what the journal says: what the next read would
 * find. */
static int devices_state(const struct run_config *cfg, int honest, struct state *out,
                         struct err *found)
{
    struct store   st;
    struct journal j;
    int            rc = store_init(&st, cfg, found);

    assert(rc == 0 && st.n_subs <= MAX_SUBS);
    rc = journal_open(&j, cfg->log, st.n_subs, 0, found);
    out->n = rc ? 0 : st.n_subs;
    for (size_t i = 0; i < out->n; i++) {
        const struct store_sub *u = &st.subs[i];
        size_t                  states = store_states_of(&st, u);
        uint64_t                slot = store_slot_off(&st, u->class_, j.subs[i].slot);
        char                   *path;

        assert(!devices_path(&path, cfg, u->device, 0, found));
        out->sub[i].version = j.subs[i].version;
        out->sub[i].states = stored_sum(path, slot, states);
        out->sub[i].wire = stored_sum(path, slot + states, store_wire_bytes(&st, u->n_pad));
        if (honest) // of a step that is complete: nobody reads it again, and what is lost of it is
                    // not missed
            out->sub[i].grad = j.grads[i].crc;
        if (cfg->error_feedback && u->trains)
            out->sub[i].residual = stored_sum(path, store_residual_off(u, j.state.applied),
                                              store_residual_bytes(u->n_pad));
        free(path);
        if (out->sub[i].states != j.subs[i].states_crc || out->sub[i].wire != j.subs[i].wire_crc)
            rc = err_set(found, -EBADMSG,
                         "the slot of subgroup %zu is damaged: its next reader finds it", i);
    }
    journal_close(&j);
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

static int state_of(const struct plan *p, size_t rank, struct state *out, struct err *err)
{
    struct runlog    *log;
    struct run_config cfg;
    struct texts      texts;
    char              path[96];
    int               rc = runlog_open(&log, in_dir(path, rank, "run.db"), 0, 1, err);

    memset(out, 0, sizeof *out);
    if (rc)
        return rc;
    rc = config_now(&cfg, p, log, rank, &texts, err);
    if (!rc)
        rc = run_position(&cfg, &out->next_step, &out->applied, err);
    runlog_query(log, "SELECT step, printf('%!.17g', loss), skipped FROM steps ORDER BY step",
                 row_read, out, NULL);
    if (!rc)
        rc = p->mode == RUN_MEM ? image_state_read(&cfg, out, err)
                                : devices_state(&cfg, p->storage == HONEST, out, err);
    runlog_close(log);
    return rc;
}

/* What ranks have of it stands one behind the other; all else they have in common. */
int life_state(const struct plan *p, struct state *out, struct err *err)
{
    struct state next;
    int          rc = state_of(p, 0, out, err);

    for (size_t r = 1; r < life_ranks(p) && !rc; r++) {
        rc = state_of(p, r, &next, err);
        if (!rc && (memcmp(next.loss, out->loss, sizeof next.loss) || next.rows != out->rows ||
                    next.skipped != out->skipped || next.next_step != out->next_step ||
                    next.applied != out->applied))
            rc = err_set(err, -EPROTO, "rank %zu stands elsewhere than rank 0", r);
        assert(rc || out->n + next.n <= MAX_SUBS);
        for (size_t i = 0; i < next.n && !rc; i++)
            out->sub[out->n++] = next.sub[i];
    }
    return rc;
}

int life_compare(const struct state *got, const struct state *want, struct err *err)
{
    if (got->next_step != want->next_step || got->applied != want->applied)
        return err_set(err, -1, "it stands before step %llu with %llu updates, not %llu with %llu",
                       (unsigned long long)got->next_step, (unsigned long long)got->applied,
                       (unsigned long long)want->next_step, (unsigned long long)want->applied);
    if (got->rows != want->rows)
        return err_set(err, -1, "it has rows of %d steps, not of %d", got->rows, want->rows);
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&got->loss[i], &want->loss[i], sizeof got->loss[i]) ||
            (got->skipped ^ want->skipped) >> i & 1)
            return err_set(err, -1, "the row of step %d says loss %.17g, not %.17g", i,
                           got->loss[i], want->loss[i]);
    for (size_t i = 0; i < want->n; i++)
        if (memcmp(&got->sub[i], &want->sub[i], sizeof got->sub[i]))
            return err_set(err, -1,
                           "subgroup %zu: version %llu states %08x wire %08x gradient %08x "
                           "residual %08x, not %llu %08x %08x %08x %08x",
                           i, (unsigned long long)got->sub[i].version, got->sub[i].states,
                           got->sub[i].wire, got->sub[i].grad, got->sub[i].residual,
                           (unsigned long long)want->sub[i].version, want->sub[i].states,
                           want->sub[i].wire, want->sub[i].grad, want->sub[i].residual);
    return 0;
}
