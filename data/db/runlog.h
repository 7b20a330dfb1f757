/* runlog.h: RUN/run.db, the journal and the measurement in one SQLite database (WAL). The files of
 * runlog own the measuring tables and their bounded size; the journal's rows are ledger.h's. One
 * thread uses a runlog at a time. docs/measurements.md has the tables and the views. */
#pragma once

#include "data/base/err.h"

#include <math.h>

struct runlog;

/* What takes time. On devices: UPDATE_READ, _COMPUTE and _WRITE are parts of an UPDATE;
 * UPDATE_PARAMS is the beginning of its WRITE, until its parameters may be read. On the host STEP
 * contains all that the training thread does for a step; a WAIT is it standing still, by what it
 * waits for: a block's parameters that are being read (PARAMS), their update (UPDATE), the commit
 * of the step before (COMMIT), a gradient's buffer that is still being written (GRADIENT), a
 * residual that is being read, activations; anything in an evaluation (EVAL); the end of all that
 * was asked for, at the end of a training or before an evaluation (DRAIN). */
enum runlog_phase {
    PHASE_SETUP, PHASE_STEP, PHASE_DATA, PHASE_FORWARD, PHASE_LOSS, PHASE_BACKWARD, PHASE_GRAD_NORM,
    PHASE_GRAD_COMPRESS, PHASE_GRAD_WRITE, PHASE_UPDATE, PHASE_UPDATE_READ, PHASE_UPDATE_COMPUTE,
    PHASE_UPDATE_WRITE, PHASE_UPDATE_PARAMS, PHASE_PARAM_READ, PHASE_ACT_WRITE, PHASE_ACT_READ,
    PHASE_COMMIT, PHASE_EVAL, PHASE_REDO, PHASE_GATHER, PHASE_EXCHANGE,
    PHASE_WAIT_PARAMS, PHASE_WAIT_UPDATE, PHASE_WAIT_COMMIT, PHASE_WAIT_GRADIENT,
    PHASE_WAIT_RESIDUAL, PHASE_WAIT_ACT_WRITE, PHASE_WAIT_ACT_READ, PHASE_WAIT_EVAL,
    PHASE_WAIT_DRAIN, PHASES
};
extern const char *const runlog_phase_names[PHASES];

/* Create path (must not exist; the caller closes it, then renames it, when the run is complete: an
 * open one has its WAL beside it, by name) or open an existing one. durable: synchronous=FULL, else
 * OFF. Unless read_only, holds run.lock in the same folder against a second process; a busy one is
 * refused with the holder's pid and host (written in run.lock, which stays). read_only: where
 * nothing can be written beside the database (a read-only mount, another user's folder, a full
 * disk) it is read all the same, with its log; processes that write are then kept away as by
 * runlog_lock_reading. One of an older format is brought to this one, in the file by who writes. */
int runlog_create(struct runlog **out, const char *path, int durable, struct err *err);
int runlog_open(struct runlog **out, const char *path, int read_only, int durable, struct err *err);
/* That of the run in the folder `dir`, for reading; where there is none, a sentence says so. */
int runlog_open_run(struct runlog **out, const char *dir, struct err *err);
/* A run whose log (run.db-wal) is damaged, so that runlog_open refuses it: what is whole of it, for
 * reading, as an earlier commit left it; writes nothing. 0 also where no damage is known: then all
 * is there (*past 0). -EBADMSG: nothing that can be relied on. */
int  runlog_open_past(struct runlog **out, const char *path, int *past, struct err *err);
/* Cut the log, so that the run is what runlog_open_past shows, for good; all that the log was is
 * kept in run.db-wal.damaged. Nobody may have it open. A kill leaves it damaged or cut. */
int  runlog_cut(const char *path, struct err *err);
/* All that it is now as a new database, which runlog_open opens. */
int  runlog_copy(struct runlog *log, const char *path, struct err *err);
void runlog_close(struct runlog *log); // checkpoints the WAL; NULL is fine
/* Everything into the one file, before it is closed and gets another name. */
int runlog_whole(struct runlog *log, struct err *err);
/* Whether a process has the run's database open for writing. who: "process PID on HOST", as it
 * wrote; where none has, the one that did not take it back, since it was killed; else "". */
int runlog_writer(const char *path, char *who, size_t size);
/* Of one that was opened read_only: keep processes that write away, as far as run.lock is there and
 * can be read; -EBUSY where one is at work. */
int  runlog_lock_reading(struct runlog *log, struct err *err);
const char *runlog_path(const struct runlog *log);

/* What is written outside of a transaction is one of its own. A transaction begins only while the
 * lock file still has its name (run_lock_still) and runlog_unchanged says 0. */
int  runlog_begin(struct runlog *log, struct err *err);
int  runlog_commit(struct runlog *log, struct err *err);
void runlog_rollback(struct runlog *log);
int  runlog_end(struct runlog *log, int rc, struct err *err); // rc is 0: commit, else roll back

/* -ESTALE if another process has committed since this one opened run.db. Of who has it open for
 * writing; asked once more when the devices are locked, since their states must be those of the
 * commit that was read. */
int runlog_unchanged(struct runlog *log, struct err *err);

/* How commits reach the drive: not by us; with a later one, or a checkpoint; each before it
 * returns. */
enum runlog_sync { RUNLOG_SYNC_NONE, RUNLOG_SYNC_LATER, RUNLOG_SYNC_ALL };
int runlog_sync(struct runlog *log, enum runlog_sync how, struct err *err);

/* Take the log into run.db, as far as who reads allows. Committing does, where the log has
 * runlog_log_pages pages: 1000, unless that is set before. */
void            runlog_checkpoint(struct runlog *log);
extern unsigned runlog_log_pages;

/* The run's settings: a key and a text value (the options' rows, config, host, CPU, versions,
 * notices). */
int runlog_set(struct runlog *log, const char *key, const char *value, struct err *err);
/* The value: malloced, or copied into buf; -ENOENT (without a sentence) if there is none. */
int runlog_text(struct runlog *log, const char *key, char **out, struct err *err);
int runlog_get(struct runlog *log, const char *key, char *buf, size_t size, struct err *err);
int runlog_unset(struct runlog *log, const char *key, struct err *err);
/* A line of notice (a fall-back, a skipped step, ...) with the time. */
int runlog_notice(struct runlog *log, const char *text, struct err *err);

struct runlog_step {
    uint64_t step, tokens;
    double   loss, lr, grad_norm, seconds;
    int      clipped, skipped;
    uint64_t peak_rss;
};
/* Insert or replace the row of s->step. */
int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err);
/* Fill in what is only known when the step is over. */
int runlog_step_done(struct runlog *log, uint64_t step, double seconds, uint64_t peak_rss,
                     struct err *err);
int runlog_eval(struct runlog *log, uint64_t step, const char *name, double value, struct err *err);

/* busy_ns: of end - start the time in which something of it was under way; what is left it waited
 * itself, as a part of an update waits for another. */
struct runlog_span {
    uint64_t          step;
    enum runlog_phase phase;
    int               block, device; // block -1: none; device -1: the host, RUNLOG_DEVICES: all
    uint64_t          start_ns, end_ns, bytes, busy_ns;
};
enum { RUNLOG_DEVICES = -2 };
struct runlog_traffic {
    uint64_t          step;
    enum runlog_phase phase;
    const char       *link;
    int               device;
    const char       *cls, *dir;
    uint64_t          bytes, padding_bytes;
};
/* The rows of one step replace any it had before. Whole spans are kept for the first and last 100
 * steps and every 1,000th; the others are folded to a row a phase of the host and one of all
 * devices (block -1, device -1 or NULL, start_ns = 0, end_ns, busy_ns and bytes their totals) and a
 * row a traffic class (device -1). */
int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans,
                   size_t n_spans, const struct runlog_traffic *traffic, size_t n_traffic,
                   struct err *err);

/* What becomes of activations from a step on (`--activations auto`, `ssdtrain`): of how many of
 * `layers` a part is kept, of how many offloaded; the rest is computed again. Parts: a layer's
 * input, attention, MLP. kept_bytes stay in RAM, moved_bytes a step cross the link each way.
 * step_seconds: the median step before; expected_seconds: what a step should then take. */
enum { RUNLOG_PARTS = 3 };
struct runlog_choice {
    uint64_t    step, layers; // layers 0: there was none
    const char *why;
    uint64_t    kept[RUNLOG_PARTS], offloaded[RUNLOG_PARTS];
    uint64_t    kept_bytes, moved_bytes;
    double      step_seconds, expected_seconds;
};
int runlog_choice(struct runlog *log, const struct runlog_choice *c, struct err *err);

/* A process begins to train this run, from first_step on: who it is, by what command, on what
 * machine, and what the clock of its spans and the time of day (UTC) say at the same instant. */
int runlog_process(struct runlog *log, uint64_t first_step, struct err *err);

int runlog_device(struct runlog *log, int device, const char *path, const char *backend,
                  const char *disk, uint64_t bytes, struct err *err);
int runlog_devices_forget(struct runlog *log, int from, struct err *err); // from this one on

/* Everything that can be said of the database alone, for `siTrain check`: its pages and indices
 * (SQLite's own check), a sum of every setting, step and evaluation, and steps without a hole.
 * say() gets a sentence for each damage. mend: a step's row that is damaged or missing is emptied
 * (runlog_step_forget), a damaged evaluation taken out: training goes on without what they said. */
struct runlog_check { uint64_t settings, steps, evals, bytes, damaged, mended; };
int runlog_check(struct runlog *log, int mend, void (*say)(void *ctx, const char *sentence),
                 void *ctx, struct runlog_check *out, struct err *err);

/* Nothing is known of this step any more but that it was: its numbers become NULL. */
int runlog_step_forget(struct runlog *log, uint64_t step, struct err *err);
/* Whether the steps [0, n) all have their rows, whole: each was written in the transaction that
 * took the run past it, but a database whose pages were lost (a power cut with --durability none,
 * or with a drive that only says that it flushes) may look whole but for that. */
int runlog_check_steps(struct runlog *log, uint64_t n, struct err *err);

/* For this connection, which only reads, the view whole_steps, and all that is
 * derived from it, is of the steps from `step` on alone: of a long run that takes milliseconds. */
int runlog_since(struct runlog *log, uint64_t step, struct err *err);
/* Rows of any SELECT, for reports: called per row with column texts (NULL for NULL); a non-zero
 * return stops and is passed on. runlog_real and runlog_count read such a text. They
 * return NaN and 0 for NULL. */
static inline double runlog_real(const char *column)
{
    return column ? strtod(column, NULL) : (double)NAN;
}
static inline uint64_t runlog_count(const char *column)
{
    return column ? strtoull(column, NULL, 10) : 0;
}
int runlog_query(struct runlog *log, const char *sql,
                 int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
                 struct err *err);
/* The same with numbers put into it, as printf does; at most 4 KiB. */
int runlog_ask(struct runlog *log,
               int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
               struct err *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
