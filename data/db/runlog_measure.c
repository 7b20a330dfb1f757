/* runlog_measure.c: writes measurements: spans and traffic of steps, processes and choices. They
 * have no checksums, because no run depends on them.
 *
 * A step is stored whole when it comes, because it is the newest. `whole` lists the steps that must
 * be folded once 100 newer ones exist. So nothing is searched: each runlog_measure folds the one
 * step (or, after a gap, the few) that left the window. */
#include "data/db/runlog_parts.h"

#include "data/base/clock.h"
#include "data/base/machine.h"
#include "data/base/version.h"

#include <unistd.h>

enum { KEEP_FIRST = 100, KEEP_LAST = 100, KEEP_EVERY = 1000 };

const char *const runlog_phase_names[PHASES] = {
    [PHASE_SETUP] = "setup", [PHASE_STEP] = "step", [PHASE_DATA] = "data",
    [PHASE_FORWARD] = "forward", [PHASE_LOSS] = "loss", [PHASE_BACKWARD] = "backward",
    [PHASE_GRAD_NORM] = "grad_norm", [PHASE_GRAD_COMPRESS] = "grad_compress",
    [PHASE_GRAD_WRITE] = "grad_write", [PHASE_UPDATE] = "update",
    [PHASE_UPDATE_READ] = "update_read", [PHASE_UPDATE_COMPUTE] = "update_compute",
    [PHASE_UPDATE_WRITE] = "update_write", [PHASE_UPDATE_PARAMS] = "update_params",
    [PHASE_PARAM_READ] = "param_read", [PHASE_ACT_WRITE] = "act_write",
    [PHASE_ACT_READ] = "act_read", [PHASE_COMMIT] = "commit", [PHASE_EVAL] = "eval",
    [PHASE_REDO] = "redo", [PHASE_GATHER] = "gather", [PHASE_EXCHANGE] = "exchange",
    [PHASE_SNAPSHOT] = "snapshot", [PHASE_SCRUB] = "scrub", [PHASE_WAIT_PARAMS] = "wait_params",
    [PHASE_WAIT_UPDATE] = "wait_update", [PHASE_WAIT_COMMIT] = "wait_commit",
    [PHASE_WAIT_GRADIENT] = "wait_gradient", [PHASE_WAIT_RESIDUAL] = "wait_residual",
    [PHASE_WAIT_ACT_WRITE] = "wait_act_write", [PHASE_WAIT_ACT_READ] = "wait_act_read",
    [PHASE_WAIT_EVAL] = "wait_eval", [PHASE_WAIT_DRAIN] = "wait_drain",
};

static const char folding[] = "folding an old step", measuring[] = "writing a step's measurements";

/* The first value of a row, or `none`. */
static int first_of(struct runlog *log, const char *text, uint64_t bound, int64_t none,
                    int64_t *out, struct err *err)
{
    sqlite3_stmt *st;
    int           got = db_row(&log->db, &st, text, folding, err, "u", bound);

    *out = got > 0 ? sqlite3_column_int64(st, 0) : none;
    sqlite3_reset(st);
    return got < 0 ? got : 0;
}

/* Folds a step. Folded rows are appended, then the step's old rows are deleted: these have rowids
 * up to `last`. */
static int fold_step(struct runlog *log, uint64_t step, struct err *err)
{
    static const struct { const char *last, *fold, *drop; } of[] = {
        { "SELECT max(rowid) FROM spans WHERE step = ?",
          "INSERT INTO spans SELECT step, phase, -1, iif(device IS -1, -1, NULL), 0,"
          " sum(end_ns - start_ns), sum(bytes), sum(busy_ns)"
          " FROM spans WHERE step = ? GROUP BY phase, device IS -1",
          "DELETE FROM spans WHERE step = ? AND rowid <= ?" },
        { "SELECT max(rowid) FROM traffic WHERE step = ?",
          "INSERT INTO traffic SELECT step, phase, link, -1, class, direction, sum(bytes),"
          " sum(padding_bytes) FROM traffic WHERE step = ? GROUP BY phase, link, class, direction",
          "DELETE FROM traffic WHERE step = ? AND rowid <= ?" },
    };
    int rc = 0;

    for (int t = 0; t < 2 && !rc; t++) {
        int64_t last;

        rc = first_of(log, of[t].last, step, 0, &last, err);
        rc = rc ? rc : db_run(&log->db, of[t].fold, folding, err, "u", step);
        rc = rc ? rc : db_run(&log->db, of[t].drop, folding, err, "uu", step, last);
    }
    return rc ? rc : db_run(&log->db, "DELETE FROM whole WHERE step = ?", folding, err, "u", step);
}

static int fold_old(struct runlog *log, uint64_t newest, struct err *err)
{
    int64_t step;
    int     rc;

    while (!(rc = first_of(log, "SELECT step FROM whole WHERE step <= ? ORDER BY step LIMIT 1",
                           newest - KEEP_LAST, -1, &step, err)) && step >= 0)
        if ((rc = fold_step(log, (uint64_t)step, err)))
            break;
    return rc;
}

static int spans_put(struct runlog *log, uint64_t step, const struct runlog_span *s, size_t n,
                     struct err *err)
{
    int rc = db_run(&log->db, "DELETE FROM spans WHERE step = ?", measuring, err, "u", step);

    for (size_t i = 0; i < n && !rc; i++, s++) // (RUNLOG_DEVICES is NULL)
        rc = db_run(&log->db, "INSERT INTO spans VALUES (?, ?, ?, nullif(?, -2), ?, ?, ?, ?)",
                    measuring, err, "utiiuuuu", step, runlog_phase_names[s->phase], s->block,
                    s->device, s->start_ns, s->end_ns, s->bytes, s->busy_ns);
    return rc;
}

static int traffic_put(struct runlog *log, uint64_t step, const struct runlog_traffic *t, size_t n,
                       struct err *err)
{
    int rc = db_run(&log->db, "DELETE FROM traffic WHERE step = ? AND phase <> 'snapshot'",
                    measuring, err, "u", step);

    for (size_t i = 0; i < n && !rc; i++, t++)
        rc = db_run(&log->db, "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?)", measuring, err,
                    "uttittuu", step, runlog_phase_names[t->phase], t->link, t->device, t->cls,
                    t->dir, t->bytes, t->padding_bytes);
    return rc;
}

int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans,
                   size_t n_spans, const struct runlog_traffic *traffic, size_t n_traffic,
                   struct err *err)
{
    int own = sqlite3_get_autocommit(log->db.sql), rc = own ? runlog_begin(log, err) : 0;

    rc = rc ? rc : spans_put(log, step, spans, n_spans, err);
    rc = rc ? rc : traffic_put(log, step, traffic, n_traffic, err);
    if (!rc && step >= KEEP_FIRST && step % KEEP_EVERY)
        rc = db_run(&log->db, "INSERT OR IGNORE INTO whole VALUES (?)", measuring, err, "u", step);
    if (!rc && step >= KEEP_LAST)
        rc = fold_old(log, step, err);
    return own ? runlog_end(log, rc, err) : rc;
}

int runlog_choice(struct runlog *log, const struct runlog_choice *c, struct err *err)
{
    return runlog_write(log, "INSERT OR REPLACE INTO choices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                        " ?, ?, ?)", "writing what was chosen", err, "utuuuuuuuuudd", c->step,
                        c->why, c->layers, c->kept[0], c->offloaded[0], c->kept[1],
                        c->offloaded[1], c->kept[2], c->offloaded[2], c->kept_bytes,
                        c->moved_bytes, c->step_seconds, c->expected_seconds);
}

int runlog_process(struct runlog *log, uint64_t first_step, struct err *err)
{
    struct machine m;
    char          *command = machine_command();
    struct timespec now;

    machine_here(&m);
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = runlog_write(log, "INSERT INTO processes (first_step, begun, pid, version, command,"
                          " host, system, cpu, threads, memory_bytes, clock_ns, unix_ns) VALUES"
                          " (?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                          " ?)", "writing who trains", err, "uitttttiuuu", first_step,
                          (int)getpid(), SITRAIN_VERSION, command ? command : "", m.host, m.system,
                          m.cpu, m.cpus, m.memory_bytes, clock_ns(),
                          (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);

    free(command);
    return rc;
}
