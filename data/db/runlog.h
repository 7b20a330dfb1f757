/* runlog.h: RUN/run.db, the journal and the measurements in one SQLite database (WAL). The files
 * of runlog own the measuring tables and bound their size. The journal's rows are ledger.h's.
 * One thread uses a runlog at a time. docs/measurements.md describes the tables and the views.
 *
 * Unless a comment says otherwise, an int result is 0, or -errno with a sentence in `err`. */
#pragma once

#include "data/base/err.h"
#include "data/db/format.h"
#include "data/db/run_lock.h"

#include <math.h>

struct runlog;

/* The phases in which time is spent.
 *
 * On devices, UPDATE_READ, UPDATE_COMPUTE and UPDATE_WRITE are parts of an UPDATE. UPDATE_PARAMS
 * is the first part of UPDATE_WRITE, until the new parameters may be read.
 *
 * On the host, STEP contains all work of the training thread for a step. Each WAIT is a stall of
 * that thread, named by its cause:
 *   PARAMS     a block's parameters are being read
 *   UPDATE     a block's parameters are being updated
 *   COMMIT     the step before is being committed
 *   GRADIENT   a gradient's buffer is still being written
 *   RESIDUAL   a residual is being read
 *   ACT_WRITE  activations are being written
 *   ACT_READ   activations are being read
 *   EVAL       any wait in an evaluation
 *   DRAIN      all requests must finish, before an evaluation or at the end of a training */
enum runlog_phase {
    PHASE_SETUP, PHASE_STEP, PHASE_DATA, PHASE_FORWARD, PHASE_LOSS, PHASE_BACKWARD, PHASE_GRAD_NORM,
    PHASE_GRAD_COMPRESS, PHASE_GRAD_WRITE, PHASE_UPDATE, PHASE_UPDATE_READ, PHASE_UPDATE_COMPUTE,
    PHASE_UPDATE_WRITE, PHASE_UPDATE_PARAMS, PHASE_PARAM_READ, PHASE_ACT_WRITE, PHASE_ACT_READ,
    PHASE_COMMIT, PHASE_EVAL, PHASE_REDO, PHASE_GATHER, PHASE_EXCHANGE, PHASE_SNAPSHOT, PHASE_SCRUB,
    PHASE_WAIT_PARAMS, PHASE_WAIT_UPDATE, PHASE_WAIT_COMMIT, PHASE_WAIT_GRADIENT,
    PHASE_WAIT_RESIDUAL, PHASE_WAIT_ACT_WRITE, PHASE_WAIT_ACT_READ, PHASE_WAIT_EVAL,
    PHASE_WAIT_DRAIN, PHASES
};
extern const char *const runlog_phase_names[PHASES];

/* runlog_create makes the database `path`, which must not exist. The caller closes it, then
 * renames it when the run is complete: an open database has its WAL next to it, by name.
 * runlog_open opens an existing one. `durable` selects synchronous=FULL; otherwise it is OFF.
 *
 * A writer holds run.lock in the same folder against a second process. If another process holds
 * it, opening fails and the sentence names its pid and host. The file run.lock stays.
 *
 * A reader (read_only) can open the database where nothing can be written next to it: a
 * read-only mount, another user's folder, a full disk. It then reads the log, too, and keeps
 * writers away as runlog_lock_reading does. A reading that a failed call ended is tried once
 * more. */
int runlog_create(struct runlog **out, const char *path, int durable, struct err *err);
int runlog_open(struct runlog **out, const char *path, int read_only, int durable, struct err *err);
/* Opens the database of the run or snapshot in the folder `dir`, durably. */
int runlog_open_in(struct runlog **out, const char *dir, int read_only, struct err *err);
/* Opens the database of the run in the folder `dir` for reading. If there is none, a sentence
 * says so. */
int runlog_open_run(struct runlog **out, const char *dir, struct err *err);
/* Refuses a folder in which a run was begun (it has run.lock) and is not complete (it has no
 * run.db), or which has lost its run.db. Returns 0 for any other folder. */
int runlog_refuse_begun(const char *dir, struct err *err);
/* Opens a run whose log (run.db-wal) is damaged, so that runlog_open refuses it. It is opened
 * for reading, at the last commit before the damage; nothing is written. If no damage is known,
 * *past is 0 and the whole run is there. Returns -EBADMSG if no part is reliable, or
 * -EEXIST if the log is another run's. */
int  runlog_open_past(struct runlog **out, const char *path, int *past, struct err *err);
/* Cuts the damaged log, so that the run becomes what runlog_open_past shows, for good. The old
 * log is kept in run.db-wal.damaged. No process may have the run open. If the process is killed,
 * the log is either damaged or cut. */
int  runlog_cut(const char *path, struct err *err);
/* Copies the current contents to a new database, which runlog_open can open. */
int  runlog_copy(struct runlog *log, const char *path, struct err *err);
void runlog_close(struct runlog *log); // checkpoints the WAL; accepts NULL
/* Moves everything from the log into the database file, before it is closed and renamed. */
int runlog_whole(struct runlog *log, struct err *err);
/* Returns whether a process has the run's database open for writing. `who` gets "process PID on
 * HOST" of that process. If none has, `who` names a writer that was killed, or is "". */
enum run_lock_holder runlog_writer(const char *path, char *who, size_t size);
/* Keeps writers away from a database that was opened read_only, if run.lock exists and can be
 * read. Returns -EBUSY if a writer is at work. */
int  runlog_lock_reading(struct runlog *log, struct err *err);
const char *runlog_path(const struct runlog *log);

/* A write outside of a transaction is a transaction of its own. A transaction begins only if the
 * lock file still has its name (run_lock_still) and runlog_unchanged returns 0. */
int  runlog_begin(struct runlog *log, struct err *err);
int  runlog_commit(struct runlog *log, struct err *err);
void runlog_rollback(struct runlog *log);
int  runlog_end(struct runlog *log, int rc, struct err *err); // rc is 0: commit, else roll back

/* Returns -ESTALE if another process has committed since this writer opened run.db. The caller
 * calls it again once the devices are locked, since their states must match the commit that was
 * read. */
int runlog_unchanged(struct runlog *log, struct err *err);

/* When commits are flushed to the drive: never by siTrain; with a later commit or a checkpoint;
 * each before the commit returns. */
enum runlog_sync { RUNLOG_SYNC_NONE, RUNLOG_SYNC_LATER, RUNLOG_SYNC_ALL };
int  runlog_sync(struct runlog *log, enum runlog_sync how, struct err *err);
/* Flushes all commits so far, if they are to be flushed later. A caller uses it before it changes
 * files that would be nobody's without these commits. */
int  runlog_flush(struct runlog *log, struct err *err);

/* Moves the log into run.db, as far as readers allow. A commit does this once the log has
 * runlog_log_pages pages: 1000, unless the caller sets it first. */
void            runlog_checkpoint(struct runlog *log);
extern unsigned runlog_log_pages;

/* Stores one of the run's settings: a key and a text value. Settings are the options' rows,
 * config, host, CPU, versions, notices. */
int runlog_set(struct runlog *log, const char *key, const char *value, struct err *err);
/* Return the value of a setting: malloced, or copied into buf. If there is none, they return
 * -ENOENT without a sentence. If it cannot be read, a caller may take it for one that is not
 * there: no transaction begins from then on, and runlog_unread returns that error. */
int runlog_text(struct runlog *log, const char *key, char **out, struct err *err);
int runlog_get(struct runlog *log, const char *key, char *buf, size_t size, struct err *err);
int runlog_unread(const struct runlog *log, struct err *err);
int runlog_unset(struct runlog *log, const char *key, struct err *err);
/* Gives the run a format, unless it has a higher one: older programs refuse it from then on. */
int runlog_raise(struct runlog *log, enum run_format format, struct err *err);
/* Makes the table of rewards, for a new run of pairs. */
int runlog_new_pairs(struct runlog *log, struct err *err);
/* Stores a notice (a fall-back, a skipped step, ...) with the time. */
int runlog_notice(struct runlog *log, const char *text, struct err *err);

/* Means over the pairs of a step of preferences (model/layer/pairs.h): rewards, and the share of
 * pairs whose chosen answer has the larger one. pairs 0: the step had none. */
struct runlog_rewards { uint64_t pairs; double chosen, rejected, accuracy; };

struct runlog_step {
    uint64_t step, tokens;
    double   loss, lr, grad_norm, seconds;
    int      clipped, skipped;
    uint64_t peak_rss;
    struct runlog_rewards rewards;
};
/* Inserts or replaces the row of s->step, and with rewards that of the table rewards. */
int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err);
/* Fills in the numbers that are known only after the step. */
int runlog_step_done(struct runlog *log, uint64_t step, double seconds, uint64_t peak_rss,
                     struct err *err);
int runlog_eval(struct runlog *log, uint64_t step, const char *name, double value, struct err *err);

/* A measured interval. busy_ns is the part of end_ns - start_ns in which some of its work was in
 * progress. During the rest it waited, as one part of an update waits for another. */
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
/* Stores the spans and traffic of one step, in place of earlier ones (but what snapshots moved is
 * added to what is there: it is not moved again when a step is). Whole spans are kept for
 * the first and last 100 steps and every 1,000th step.
 *
 * The spans of other steps are summed up per phase: one row for the host (device -1), and one
 * for all devices (device NULL). Such a row has block -1, start_ns 0, and the totals in end_ns,
 * busy_ns and bytes. Their traffic is one row per class (device -1). */
int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans,
                   size_t n_spans, const struct runlog_traffic *traffic, size_t n_traffic,
                   struct err *err);

/* The placement of activations from a step on (`--activations auto`, `ssdtrain`). Each layer has
 * three parts: its input, attention, MLP. For each part, `kept` and `offloaded` count the layers
 * (of `layers`) in which it is kept or offloaded. In the other layers it is recomputed.
 * kept_bytes stay in RAM. moved_bytes cross the link each way per step. step_seconds is the
 * median step before; expected_seconds is the prediction for a step afterwards. */
enum { RUNLOG_PARTS = 3 };
struct runlog_choice {
    uint64_t    step, layers; // layers 0: no choice was made
    const char *why;
    uint64_t    kept[RUNLOG_PARTS], offloaded[RUNLOG_PARTS];
    uint64_t    kept_bytes, moved_bytes;
    double      step_seconds, expected_seconds;
};
int runlog_choice(struct runlog *log, const struct runlog_choice *c, struct err *err);

/* A snapshot (run/snapshots/snapshots.h): its number, the steps that are done, its folder, the
 * bytes of its states, how many of them share their blocks with the run's, and how long training
 * waited. Older runs get the table with their first row. */
struct runlog_snapshot {
    uint64_t    n, step, bytes, shared;
    const char *path;
    double      seconds;
};
int runlog_snapshot(struct runlog *log, const struct runlog_snapshot *s, struct err *err);

/* How far scrubbing has come in a portion of the run: "device 0", "images", "best", or the path of
 * a snapshot. Called inside the caller's transaction, as are the next two; runs without scrubs get
 * the tables with the first row. */
struct runlog_scrub {
    const char *portion;
    uint64_t    position;    // the area that is read next
    uint64_t    verified_ns; // when the last whole pass ended, UTC since 1970; 0: there was none
    uint64_t    passes, bytes;
};
int runlog_scrub(struct runlog *log, const struct runlog_scrub *s, struct err *err);
/* Records damage in a portion, once. */
int runlog_damage(struct runlog *log, const char *portion, const char *text, struct err *err);
/* The portion was read whole, or (gone) is not there any more: its damages are forgotten, and with
 * `gone` its row, too. */
int runlog_scrub_over(struct runlog *log, const char *portion, int gone, struct err *err);

/* Records that this process begins to train the run at first_step. It stores the process, its
 * command and its machine. It also reads the spans' clock and the time of day (UTC) at the same
 * instant. */
int runlog_process(struct runlog *log, uint64_t first_step, struct err *err);

int runlog_device(struct runlog *log, int device, const char *path, const char *backend,
                  const char *disk, uint64_t bytes, struct err *err);
int runlog_devices_forget(struct runlog *log, int from, struct err *err); // removes devices >= from

/* Checks the database alone, for `siTrain check`. It runs SQLite's check of pages and indices,
 * compares the checksum of every setting, step and evaluation, and looks for missing steps.
 * say() gets a sentence for each damage. With `mend`, the row of a damaged or missing step is
 * emptied (runlog_step_forget), and a damaged evaluation is removed. Training then goes on
 * without these numbers. */
struct runlog_check { uint64_t settings, steps, evals, bytes, damaged, mended; };
int runlog_check(struct runlog *log, int mend, void (*say)(void *ctx, const char *sentence),
                 void *ctx, struct runlog_check *out, struct err *err);

/* Sets all numbers of a step to NULL. The step itself stays on record. */
int runlog_step_forget(struct runlog *log, uint64_t step);
/* Checks that each of the steps [0, n) has an intact row. Each row was written in the
 * transaction that completed its step. If pages were lost, a missing row may be the only sign.
 * That can happen after a power cut with --durability none, or with a drive that does not flush. */
int runlog_check_steps(struct runlog *log, uint64_t n, struct err *err);

/* Restricts the view whole_steps, and all views derived from it, to steps from `step` on, for
 * this read-only connection. On a long run this takes milliseconds. */
int runlog_since(struct runlog *log, uint64_t step, struct err *err);
/* Runs a SELECT for a report. row() is called for each row with the columns as text (NULL for
 * NULL). If it returns other than 0, the query stops and returns that. runlog_real and
 * runlog_count parse such a text; they return NaN and 0 for NULL. */
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
/* Runs a SELECT that is formatted as by printf, at most 4 KiB long. */
int runlog_ask(struct runlog *log,
               int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
               struct err *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The first column of the first row of such a SELECT as text; "": it has no row, or NULL in it. */
int runlog_value(struct runlog *log, char *out, size_t size, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Keeps the rows of a SELECT as the table `name` of this read-only connection, found by `columns`,
 * for later questions. The file stays as it is. */
int runlog_keep(struct runlog *log, const char *name, const char *columns, struct err *err,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));
