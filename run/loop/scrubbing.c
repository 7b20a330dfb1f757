/* scrubbing.c: the thread of --scrub-bw: it lists what there is, reads one area after another, and
 * notes what it finds. */
#include "run/loop/scrubbing.h"

#include "data/base/clock.h"
#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/base/thread.h"
#include "offload/devices/devices.h"
#include "run/folder/exports.h"
#include "run/loop/scrub_order.h"
#include "run/snapshots/portions_scrub.h"
#include "run/snapshots/snapshots.h"

#include <time.h>

enum { RECORD_NS = 1000000000, RECORD_EVERY = 10, IDLE_NS = 1000000000 };

/* Damage that was found. */
struct find { char *portion, *text; int told, recorded; };

/* A snapshot that is read. It is not held: if it is removed meanwhile, reading it ends. */
struct opened {
    struct session        s;
    struct scrub_rows     rows;
    struct portions_scrub parity;
    char                  identity[FILE_IDENTITY];
};

struct scrubbing {
    struct session *s; // the thread reads what no training changes: dir, id, run, snapshot_dir
    struct stream  *stream;
    struct watch    watch;
    struct thread   thread; // its lock guards what follows
    struct scrub_portions all;
    struct find    *finds;
    size_t          n_finds;
    uint64_t       *moved, files;     // bytes read since the last step: of each device; of others
    uint64_t        recorded_ns;
    // the thread's own
    int                 yields;      // it has given way to all others
    struct scrub        reader;
    struct scrub_source states;
    size_t              device;      // of `states`
    size_t              now;         // portion under way; SIZE_MAX: none
    size_t              n;           // its number of areas
    uint64_t            pass_bytes;  // read in this pass
    struct opened       snapshot;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return file_ns(&t);
}

static int is_stopped(void *ctx, uint64_t done, uint64_t total)
{
    struct scrubbing *c = ctx;

    (void)done, (void)total;
    thread_lock(&c->thread);
    int stop = c->thread.stop;
    thread_unlock(&c->thread);
    return stop;
}

/* ---- what there is ---- */

static int look(void *ctx, size_t i, struct area *out, struct err *err)
{
    struct scrubbing *c = ctx;

    (void)err;
    stream_area(c->stream, i, out);
    if (c->s->run.mode != RUN_MEM && out->file != c->device)
        out->bytes = 0;
    return 0;
}

/* The time in a text as "2026-11-28T16:50:42.123Z". */
static uint64_t time_ns(const char *text)
{
    struct tm t = { 0 };

    return strptime(text, "%Y-%m-%dT%H:%M:%S", &t) ? (uint64_t)timegm(&t) * 1000000000u : 0;
}

/* Forgets what was found in a portion. Lock held. */
static void forget(struct scrubbing *c, const char *portion)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n_finds; i++) {
        if (strcmp(c->finds[i].portion, portion)) {
            c->finds[kept++] = c->finds[i];
            continue;
        }
        free(c->finds[i].portion);
        free(c->finds[i].text);
    }
    c->n_finds = kept;
}

/* Of a snapshot that was removed, nothing is kept: another one may get its name. Lock held. */
static void note_gone(struct scrubbing *c, struct scrub_portion *p)
{
    if (!p->there && !p->gone) {
        forget(c, p->name);
        p->position = p->verified_ns = p->passes = p->bytes = p->damaged = 0;
        p->bad = p->over = 0;
        p->changed = 1;
    }
    p->gone = !p->there;
}

/* Lists the snapshots. The lock is not held; it is taken where portions change. */
static void list_snapshots(struct scrubbing *c)
{
    struct snapshots list;
    struct err       ignored;
    int              rc = snapshots_find(&list, c->s, &ignored);

    thread_lock(&c->thread);
    for (size_t i = 0; i < c->all.n && !rc; i++)
        c->all.at[i].there = c->all.at[i].kind != SCRUB_SNAPSHOT;
    for (size_t i = 0; i < list.n && !rc; i++) {
        struct scrub_portion *p =
            list.at[i].whole ? scrub_order_add(&c->all, SCRUB_SNAPSHOT, list.at[i].path) : NULL;

        if (!p)
            continue;
        p->there = 1;
        p->taken_ns = time_ns(list.at[i].taken);
        p->step = list.at[i].step;
        p->parity = list.at[i].parity > 0;
    }
    for (size_t i = 0; i < c->all.n && !rc; i++)
        note_gone(c, &c->all.at[i]);
    thread_unlock(&c->thread);
    snapshots_free(&list);
}

/* ---- a portion ---- */

static void snapshot_close(struct opened *o)
{
    portions_scrub_close(&o->parity);
    scrub_rows_close(&o->rows);
    session_close(&o->s);
}

/* Ends the portion under way. A snapshot that is removed takes its room until it is closed. */
static void portion_close(struct scrubbing *c)
{
    scrub_turn(&c->reader, NULL, NULL);
    snapshot_close(&c->snapshot);
}

static int snapshot_open(struct opened *o, const char *path, struct err *err)
{
    file_identity(path, o->identity);
    int rc = session_open(&o->s, path, SESSION_READ, NULL, err);

    session_let_go(&o->s);
    return rc ? rc : scrub_rows_open(&o->rows, &o->s.run, 1, err);
}

/* Opens the portion. Lock not held; `p` is a copy. */
static int begin(struct scrubbing *c, const struct scrub_portion *p, struct err *err)
{
    struct area ignored;
    int         rc = 0;

    portion_close(c);
    c->pass_bytes = 0;
    c->n = 1;
    if (p->kind == SCRUB_SNAPSHOT) {
        rc = snapshot_open(&c->snapshot, p->name, err);
        scrub_turn(&c->reader, &c->snapshot.s.run, &c->snapshot.rows.source);
        c->n = c->snapshot.rows.source.n + 2; // then its best model, and its parity piece by piece
        c->n = p->position < c->n ? c->n : p->position + 1;
    } else if (p->kind == SCRUB_STATES) {
        c->device = p->file;
        c->n = stream_area(c->stream, SIZE_MAX, &ignored);
        scrub_turn(&c->reader, &c->s->run, &c->states);
    }
    return rc;
}

/* Reads the best model of RUN, or of the open snapshot. */
static int read_best(struct scrubbing *c, const struct scrub_portion *p, struct err *err)
{
    struct exported best;
    int             its = p->kind == SCRUB_SNAPSHOT;
    int rc = scrub_best(&best, &c->reader, its ? c->snapshot.s.log : NULL,
                        its ? p->name : c->s->dir, err);

    if (rc <= 0)
        return rc < 0 ? rc : SCRUB_NOTHING;
    if (best.state != EXPORTS_DAMAGED)
        return best.state == EXPORTS_INTACT ? SCRUB_WHOLE : SCRUB_NOTHING;
    *err = best.why;
    return SCRUB_DAMAGED;
}

/* Reads a piece of the open snapshot's parity, which lies behind its states and its best model. */
static int read_parity(struct scrubbing *c, uint64_t at, size_t states, struct err *err)
{
    struct opened *o = &c->snapshot;
    int more, rc = portions_scrub(&o->parity, &more, &c->reader, &o->s, at - states - 1, err);

    c->n = at + 1 + (size_t)more;
    return rc;
}

/* Reads from p->position on until one area was read. *next: the position behind it. */
static int read_some(struct scrubbing *c, const struct scrub_portion *p, uint64_t *next,
                     struct area *area, struct err *err)
{
    int rc = SCRUB_NOTHING;

    *area = (struct area){ 0 };
    for (*next = p->position; *next < c->n && rc == SCRUB_NOTHING; ++*next) {
        size_t states = c->snapshot.rows.source.n;

        rc = p->kind == SCRUB_BEST || (p->kind == SCRUB_SNAPSHOT && *next == states)
                 ? read_best(c, p, err)
             : p->kind == SCRUB_SNAPSHOT && *next > states ? read_parity(c, *next, states, err)
             : scrub_read(&c->reader, *next, area, err);
    }
    return rc;
}

/* ---- what was found ---- */

/* The newest snapshot without known damage; NULL: there is none. Lock held. */
static const struct scrub_portion *newest(const struct scrubbing *c)
{
    const struct scrub_portion *found = NULL;

    for (size_t i = 0; i < c->all.n; i++) {
        const struct scrub_portion *p = &c->all.at[i];

        if (p->kind == SCRUB_SNAPSHOT && p->there && !p->bad &&
            (!found || p->taken_ns >= found->taken_ns))
            found = p;
    }
    return found;
}

/* What to do about damage. Lock held. */
static void way_on(const struct scrubbing *c, const struct scrub_portion *p, const struct area *a,
                   char *out, size_t size)
{
    const struct scrub_portion *s = newest(c);
    char                        run[SESSION_PATH];

    machine_word(run, sizeof run, c->s->dir);
    if (p->kind == SCRUB_SNAPSHOT && p->parity)
        snprintf(out, size, "training does not need this snapshot; siTrain restore %s makes it "
                 "whole again, if its parity bears the damage", run);
    else if (p->kind == SCRUB_SNAPSHOT)
        snprintf(out, size, "training does not need this snapshot, and nothing can go back to it");
    else if (p->kind == SCRUB_BEST)
        snprintf(out, size, "training does not need it; the next better model replaces it");
    else if (a->kind == VERIFY_WIRE)
        snprintf(out, size, "training ends when it reads it; then siTrain check --repair %s makes "
                 "it again", run);
    else if (s)
        snprintf(out, size, "training ends when it reads it; then siTrain restore %s goes back to "
                 "the snapshot after step %" PRIu64, run, s->step);
    else
        snprintf(out, size, "training ends when it reads it, and there is no whole snapshot to go "
                 "back to");
}

/* Notes damage, unless it is known. Lock held. Without memory it is found in the next pass. */
static void note(struct scrubbing *c, const struct scrub_portion *p, const char *text)
{
    struct find *grown;

    for (size_t i = 0; i < c->n_finds; i++)
        if (!strcmp(c->finds[i].text, text))
            return;
    char *portion = strdup(p->name), *copy = strdup(text);
    if (portion && copy && (grown = realloc(c->finds, (c->n_finds + 1) * sizeof *grown))) {
        c->finds = grown;
        grown[c->n_finds++] = (struct find){ .portion = portion, .text = copy };
        return;
    }
    free(portion);
    free(copy);
}

static void damage(struct scrubbing *c, struct scrub_portion *p, const struct area *a,
                   const struct err *why)
{
    char       way[SESSION_PATH + 128];
    struct err text;

    p->damaged++;
    p->bad = 1;
    way_on(c, p, a, way, sizeof way);
    err_set(&text, 0, "%s; %s", why->text, way);
    note(c, p, text.text);
}

/* ---- the thread ---- */

/* A whole pass has ended. Lock held. */
static void pass_over(struct scrubbing *c, struct scrub_portion *p)
{
    p->verified_ns = now_ns();
    p->position = 0;
    p->passes++;
    p->bad = p->damaged > 0;
    p->over |= !p->damaged;
    p->damaged = 0;
    if (p->over)
        forget(c, p->name);
    c->now = SIZE_MAX;
    if (!c->pass_bytes) // there is little to read: rest
        c->reader.due_ns = clock_ns() + IDLE_NS;
}

/* Whether a snapshot that was opened has been removed, or is being removed just now, which ends its
 * portion. */
static int is_removed(const struct scrubbing *c, const struct scrub_portion *p, int rc)
{
    return p->kind == SCRUB_SNAPSHOT &&
           (rc == -EBUSY || !file_is(p->name, c->snapshot.identity));
}

/* Takes in what came of a read. gone: the snapshot was removed. Lock held. */
static void take(struct scrubbing *c, struct scrub_portion *p, int rc, int gone, uint64_t next,
                 const struct area *area, uint64_t bytes, const struct err *why)
{
    if (p->kind == SCRUB_STATES && c->s->run.mode != RUN_MEM)
        c->moved[p->file] += bytes;
    else
        c->files += bytes;
    c->pass_bytes += bytes;
    p->bytes += bytes;
    p->changed = 1;
    if (rc == -EINTR)
        return;
    if (gone || (rc < 0 && rc != -EBADMSG && rc != -EIO)) { // or no memory, say: nothing is known
        p->denied = !gone && file_is_unknown(rc);
        c->now = SIZE_MAX;
        c->reader.due_ns = clock_ns() + IDLE_NS;
        return;
    }
    if (rc == SCRUB_DAMAGED || rc < 0)
        damage(c, p, area, why);
    p->position = next;
    if (rc < 0 || next >= c->n)
        pass_over(c, p);
}

/* Chooses the next portion. Lock held, but not all the time. 0: there is none. */
static int choose(struct scrubbing *c, struct scrub_portion *copy, struct err *err, int *rc)
{
    thread_unlock(&c->thread);
    list_snapshots(c);
    thread_lock(&c->thread);
    struct scrub_portion *p = scrub_order_next(&c->all);
    if (!p)
        return 0;
    c->now = (size_t)(p - c->all.at);
    *copy = *p;
    thread_unlock(&c->thread);
    *rc = begin(c, copy, err);
    thread_lock(&c->thread);
    return 1;
}

static int work(void *ctx)
{
    struct scrubbing    *c = ctx;
    struct scrub_portion copy;
    struct area          area = { 0 };
    struct err           err = { 0 };
    uint64_t             next = 0, before = c->reader.bytes;
    int                  rc = 0;

    if (c->thread.stop)
        return 0;
    if (!c->yields)
        scrub_yields();
    c->yields = 1;
    if (c->now != SIZE_MAX)
        copy = c->all.at[c->now];
    else if (!choose(c, &copy, &err, &rc))
        c->reader.due_ns = clock_ns() + IDLE_NS;
    thread_unlock(&c->thread);
    if (c->now == SIZE_MAX)
        scrub_pause(&c->reader, NULL);
    else if (!rc && !(rc = scrub_pause(&c->reader, &err)))
        rc = read_some(c, &copy, &next, &area, &err);
    int gone = c->now != SIZE_MAX && is_removed(c, &copy, rc);
    if (gone)
        portion_close(c);
    thread_lock(&c->thread);
    if (c->now != SIZE_MAX)
        take(c, &c->all.at[c->now], rc, gone, next, &area, c->reader.bytes - before, &err);
    return !c->thread.stop;
}

/* ---- opening ---- */

static int row(void *ctx, int n, const char **values, const char **names)
{
    struct scrubbing     *c = ctx;
    const char           *name = values[0] ? values[0] : "";
    struct scrub_portion *p = scrub_order_find(&c->all, name);

    (void)n, (void)names;
    p = p ? p : scrub_order_add(&c->all, SCRUB_SNAPSHOT, name); // it may be gone
    if (!p)
        return -ENOMEM;
    p->position = runlog_count(values[1]);
    p->verified_ns = runlog_count(values[2]);
    p->passes = runlog_count(values[3]);
    p->bytes = runlog_count(values[4]);
    p->bad = runlog_count(values[5]) > 0;
    if (p->bad) // only a pass that reads all of it shows that its damage was mended
        p->position = 0;
    return 0;
}

static int portions(struct scrubbing *c, struct err *err)
{
    int    mem = c->s->run.mode == RUN_MEM;
    char   name[32], any[8];
    size_t n = mem ? 1 : c->s->run.n_devices;

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, mem ? "images" : "device %zu", i);
        struct scrub_portion *p = scrub_order_add(&c->all, SCRUB_STATES, name);
        if (!p)
            return err_set(err, -ENOMEM, "out of memory for reading states");
        p->file = i;
        p->there = 1;
    }
    struct scrub_portion *best = scrub_order_add(&c->all, SCRUB_BEST, "best");
    if (!best || !(c->moved = calloc(n, sizeof *c->moved)))
        return err_set(err, -ENOMEM, "out of memory for reading states");
    best->there = 1;
    int rc = runlog_value(c->s->log, any, sizeof any, err, "SELECT 1 FROM sqlite_schema WHERE"
                          " type = 'table' AND name = 'scrubs'");
    return rc || !*any ? rc : runlog_query(c->s->log, "SELECT portion, position, verified_ns,"
                                          " passes, bytes, portion IN (SELECT portion FROM damages)"
                                          " FROM scrubs", row, c, err);
}

/* Writes to run.db what it does not know, inside the caller's transaction. Lock held. */
static int write_all(struct scrubbing *c, struct runlog *log, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < c->all.n && !rc; i++) {
        struct scrub_portion *p = &c->all.at[i];

        if (p->over || (p->changed && !p->there))
            rc = runlog_scrub_over(log, p->name, !p->there, err);
        if (!rc && p->changed && p->there)
            rc = runlog_scrub(log, &(struct runlog_scrub){ p->name, p->position, p->verified_ns,
                                                           p->passes, p->bytes }, err);
        p->changed = p->over = 0;
    }
    for (size_t i = 0; i < c->n_finds && !rc; i++) {
        struct find *f = &c->finds[i];

        rc = f->recorded ? 0 : runlog_damage(log, f->portion, f->text, err);
        rc = rc || f->recorded ? rc : runlog_notice(log, f->text, err);
        f->recorded = 1;
    }
    return rc;
}

/* In the thread that commits, as a step ends. */
static int write_due(void *ctx, struct runlog *log, struct err *err)
{
    struct scrubbing *c = ctx;
    uint64_t          now = clock_ns();
    int               due, rc = 0;

    thread_lock(&c->thread);
    due = now - c->recorded_ns >= (uint64_t)RECORD_EVERY * RECORD_NS;
    for (size_t i = 0; i < c->n_finds; i++)
        due |= !c->finds[i].recorded;
    if (due) {
        c->recorded_ns = now;
        rc = write_all(c, log, err);
    }
    thread_unlock(&c->thread);
    return rc;
}

int scrubbing_open(struct scrubbing **out, struct session *s, struct stream *stream,
                   struct err *err)
{
    struct scrubbing *c;

    *out = NULL;
    if (!s->o.scrub_bw || (s->run.mode != RUN_MEM && devices_fake(&s->run)))
        return 0;
    if (!(c = calloc(1, sizeof *c)))
        return err_set(err, -ENOMEM, "out of memory for reading states");
    *c = (struct scrubbing){ .s = s, .stream = stream, .now = SIZE_MAX,
                             .recorded_ns = clock_ns() };
    c->watch = (struct watch){ is_stopped, c };
    c->states = (struct scrub_source){ .look = look, .ctx = c };
    c->reader = (struct scrub){ .bw = s->o.scrub_bw, .watch = &c->watch };
    thread_init(&c->thread, work, c);
    int rc = scrub_open(&c->reader, err);
    rc = rc ? rc : portions(c, err);
    rc = rc ? rc : thread_start(&c->thread, "scrub", err);
    if (rc) {
        scrubbing_close(c);
        return rc;
    }
    meter_also(stream->meter, &(struct meter_also){ write_due, c });
    *out = c;
    return 0;
}

/* ---- the training thread ---- */

void scrubbing_step(struct scrubbing *c, uint64_t step)
{
    struct link_meter files = { 0 };
    size_t            n = c && c->s->run.mode != RUN_MEM ? c->s->run.n_devices : 0;

    if (!c)
        return;
    thread_lock(&c->thread);
    for (size_t i = 0; i < n; i++) {
        struct link_meter m = { 0 };

        if (c->moved[i])
            link_meter_count(&m, LINK_HOST, CLASS_STATES, LINK_READ, c->moved[i], c->moved[i]);
        if (c->moved[i])
            meter_traffic(c->stream->meter, step, PHASE_SCRUB, (int)i, &m);
        c->moved[i] = 0;
    }
    if (c->files) {
        link_meter_count(&files, LINK_FILES, CLASS_STATES, LINK_READ, c->files, c->files);
        meter_traffic(c->stream->meter, step, PHASE_SCRUB, -1, &files);
    }
    c->files = 0;
    for (size_t i = 0; i < c->n_finds; i++)
        if (!c->finds[i].told) {
            c->finds[i].told = 1;
            events_notice(c->s->events, "%s", c->finds[i].text);
        }
    thread_unlock(&c->thread);
}

void scrubbing_stop(struct scrubbing *c)
{
    if (!c)
        return;
    thread_stop(&c->thread);
    meter_also(c->stream->meter, NULL);
}

int scrubbing_record(struct scrubbing *c, struct err *err)
{
    if (!c)
        return 0;
    int rc = runlog_begin(c->s->log, err);

    return rc ? rc : runlog_end(c->s->log, write_all(c, c->s->log, err), err);
}

void scrubbing_close(struct scrubbing *c)
{
    if (!c)
        return;
    thread_release(&c->thread);
    snapshot_close(&c->snapshot);
    scrub_close(&c->reader);
    for (size_t i = 0; i < c->n_finds; i++) {
        free(c->finds[i].portion);
        free(c->finds[i].text);
    }
    free(c->finds);
    free(c->all.at);
    free(c->moved);
    free(c);
}
