/* session.c: opens a run and loads its stored settings: its model (session_model.c) and options
 * (session_options.c). run_config is derived from them at each open (session_config.c). */
#include "run/folder/session.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "model/file/hf_base.h"
#include "offload/upkeep/reshard.h"
#include "run/folder/exports.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/folder/tune_opts.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

int session_notice(struct session *s, struct err *err, const char *fmt, ...)
{
    char    text[2 * SESSION_PATH + 512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    events_notice(s->events, "%s", text);
    return s->log ? runlog_notice(s->log, text, err) : 0;
}

const char *session_ranks_line(char out[SESSION_LINE], const struct session *s,
                               const char *command)
{
    const char *dir = *s->data_dir                       ? s->data_dir
                      : settings_has(s->log, "snapshot") ? "RUN" // of its run, which is gone
                                                         : s->dir;
    struct run_ranks r = { .size = 1 };

    settings_scan(s->log, "%zu", &r.size, "ranks");
    settings_scan(s->log, "%zu", &r.rank, "rank");
    return ranks_command(out, dir, &r, command);
}

const char *session_resume_line(char out[SESSION_LINE], const struct session *s)
{
    return session_ranks_line(out, s, settings_has(s->log, "task") ? "finetune --resume"
                                                                   : "pretrain --resume");
}

const char *session_back_line(char out[SESSION_LINE], const struct session *s, uint64_t step)
{
    char  *options = settings_get(s->log, "going_back.options");
    size_t n = strlen(session_resume_line(out, s));

    snprintf(out + n, SESSION_LINE - n, " --from %" PRIu64 "%s", step, options ? options : "");
    free(options);
    return out;
}

int session_load(struct session *s, struct err *err)
{
    int rc = session_load_config(s, err);

    rc = rc ? rc : session_load_options(s, err);
    rc = rc ? rc : lora_opts_set(&s->config, &s->o.lora, err);
    s->rows = !settings_has(s->log, "chat.form")       ? SESSION_WHOLE
              : settings_has(s->log, "chat.packing") ? SESSION_PACKED
              : pairs_opts_load(&s->pairs, s->log)   ? SESSION_PAIRS
                                                     : SESSION_PADDED;
    settings_scan(s->log, "%zu", &s->ranks.size, "ranks");
    settings_scan(s->log, "%zu", &s->ranks.rank, "rank");
    int unread = runlog_unread(s->log, err); // before what follows from it
    rc = unread ? unread : rc;
    return rc ? rc : session_config(s, err);
}

/* ---- opening ---- */

int session_is_run(const char *dir)
{
    char path[SESSION_PATH];

    if (snprintf(path, sizeof path, "%s/run.db", dir) < (int)sizeof path)
        return file_is_there(path);
    errno = ENAMETOOLONG;
    return 0;
}

int session_may_be_run(const char *dir) { return session_is_run(dir) || !file_is_absent(errno); }

/* The run that a snapshot was taken of, which has the data: the folder that it names or, if RUN was
 * moved, the one that it lies in. */
static void find_data(struct session *s)
{
    char *up = file_path(NULL, "%s/../../..", s->dir), *of = settings_get(s->log, "snapshot.of");
    char *named = of ? strchr(of, '/') : NULL;

    if (named && session_is_run(named))
        snprintf(s->data_dir, sizeof s->data_dir, "%s", named);
    else if (!up || !session_is_run(up) || !realpath(up, s->data_dir))
        *s->data_dir = '\0';
    free(up);
    free(of);
}

/* A snapshot is only read: the run that it was taken of goes back to it. */
static int refuse_snapshot(struct session *s, struct err *err)
{
    char *step = settings_get(s->log, "snapshot"), line[SESSION_LINE];

    find_data(s);
    err_misuse(err, "%s is a snapshot, and is only read; %s --from %s goes back to it", s->dir,
               session_resume_line(line, s), step ? step : "STEP");
    free(step);
    return -EROFS;
}

/* A run that was killed on its way back to a snapshot has neither its own states nor yet the
 * snapshot's. What is left of a damaged run.db is read even so. */
static int refuse_half_way(const struct session *s, enum session_how how, struct err *err)
{
    char  line[SESSION_LINE];
    int   looks = how == SESSION_PAST || how == SESSION_LOOK;
    char *to = looks ? NULL : settings_get(s->log, "going_back");

    if (!to)
        return 0;
    uint64_t step = strtoull(to, NULL, 10);
    free(to);
    return err_misuse(err, "%s is on its way back to the snapshot after step %" PRIu64 ", and was "
                      "stopped before it was there; go on with: %s", s->dir, step,
                      session_back_line(line, s, step));
}

/* Open run.db. --durability is stored in the database that it configures, so run.db is opened
 * twice. */
static int open_log(struct session *s, enum session_how how, struct err *err)
{
    char path[SESSION_PATH + 16], word[16] = "";

    snprintf(path, sizeof path, "%s/run.db", s->dir);
    if (how == SESSION_PAST)
        return runlog_open_past(&s->log, path, &s->past, err);
    int rc = runlog_open(&s->log, path, 1, 1, err);
    if (rc || how >= SESSION_LIVE || how == SESSION_READ)
        return rc || how >= SESSION_LIVE ? rc : runlog_lock_reading(s->log, err);
    if (settings_has(s->log, "snapshot"))
        return refuse_snapshot(s, err);
    runlog_get(s->log, "option.durability", word, sizeof word, err);
    runlog_close(s->log);
    s->log = NULL;
    return runlog_open(&s->log, path, 0, strcmp(word, "none") != 0, err);
}

/* Load a text setting that may be absent. */
static int load_text(struct session *s, const char *key, char *out, size_t size, struct err *err)
{
    int rc = runlog_get(s->log, key, out, size, err);

    return rc == -ENOENT ? 0 : rc;
}

/* Keeps a snapshot that is read from being removed. Without locks nobody removes it either. */
static int hold_snapshot(struct session *s, struct err *err)
{
    if (!settings_has(s->log, "snapshot"))
        return 0;
    find_data(s);
    s->held = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->holds = s->held >= 0;
    int rc = s->holds ? file_lock(s->held, 1) : -errno;

    return rc && rc != -ENOLCK ? file_lock_fail(rc, s->dir, ", which makes or removes it", err) : 0;
}

static int open_as(struct session *s, const char *dir, enum session_how how,
                   const struct events *events, struct err *err)
{
    char spares[8] = "", notice[512] = "";

    *s = (struct session){ .events = events, .read_only = how > SESSION_NAMED };
    int there = realpath(dir, s->dir) != NULL;
    if (!there && errno != ENOENT && errno != ENOTDIR)
        return err_name(err, errno, "%s: %s", dir, strerror(errno));
    int run = there && session_is_run(s->dir), why = errno;
    if (there && !run && !file_is_absent(why))
        return err_set(err, -why, "%s/run.db cannot be read: %s", s->dir, strerror(why));
    if (!run && (why = runlog_refuse_begun(dir, err)))
        return why;
    if (!run)
        return err_misuse(err, "%s is not a run: a folder with run.db is expected, as pretrain "
                          "--run or import makes it", dir);
    int rc = open_log(s, how, err);
    rc = rc ? rc : hold_snapshot(s, err);
    if (!rc && (rc = runlog_get(s->log, "id", s->id, sizeof s->id, err)) == -ENOENT)
        rc = err_set(err, -EBADMSG, "%s/run.db has no id", s->dir);
    if (rc || (how > SESSION_BACK && (rc = refuse_half_way(s, how, err))) ||
        (rc = session_load(s, err)) ||
        (rc = load_text(s, "layout", s->layout, sizeof s->layout, err)) ||
        (rc = load_text(s, "owner", s->owner, sizeof s->owner, err)) ||
        (rc = load_text(s, "owner.next", s->owner_next, sizeof s->owner_next, err)) ||
        (rc = load_text(s, "spares", spares, sizeof spares, err)))
        return rc;
    s->spares = s->run.spares = !strcmp(spares, "few") ? RUN_SPARES_FEW
                                : *spares == '1'        ? RUN_SPARES_ALL
                                                        : RUN_SPARES_HALF;
    if (s->read_only)
        return 0;
    int named = how == SESSION_NAMED || how == SESSION_RESTORE;
    if ((rc = moved_check(&s->moved, &s->run, named, err)) ||
        (rc = runlog_unread(s->log, err)))
        return rc;
    // leftovers of killed processes
    run_files_clean(s->dir, settings_has(s->log, "data.path")); // a run without data may go on
    rc = reshard_clean(&s->run, s->moved <= MOVED_UNKNOWN, notice, sizeof notice, err);
    return rc || !*notice ? rc : session_notice(s, err, "%s", notice);
}

/* check --repair writes to no snapshot. */
static int explain_snapshot(const struct session *s, int rc, struct err *err)
{
    char line[SESSION_LINE], mends[SESSION_LINE + 64] = "";

    if (settings_has(s->log, "snapshot.parity"))
        snprintf(mends, sizeof mends, "; %s mends what its parity bears",
                 session_ranks_line(line, s, "restore"));
    return err_set(err, rc, "%s; siTrain check %s lists all damage%s", err->text, s->dir,
                   mends);
}

int session_explain(struct session *s, int rc, struct err *err)
{
    if (rc != -EBADMSG || !s->log) // without its log, what refused to open it has said all
        return rc;
    if (settings_has(s->log, "snapshot"))
        return explain_snapshot(s, rc, err);
    err_set(err, rc, "%s; siTrain check %s lists all damage, and with --repair repairs it as "
            "far as possible", err->text, s->dir);
    exports_say(s->log, s->dir, s->events, err);
    return rc;
}

int session_explain_closed(const char *dir, int rc, const struct events *events, struct err *err)
{
    struct session s = { 0 };
    struct err     why;
    uint64_t       next, applied;

    if (rc != -EBADMSG)
        return rc;
    int past = open_as(&s, dir, SESSION_PAST, events, &why);
    if (!past)
        past = run_position(&s.run, &next, &applied, &why);
    if (!past && s.past)
        err_set(err, rc,
                "%s; run.db is whole up to step %" PRIu64 ": siTrain check %s says whether the "
                "devices still hold that step, and with --repair goes back to it", err->text, next,
                dir);
    exports_say(past ? NULL : s.log, dir, events, err);
    session_close(&s);
    return rc;
}

int session_open(struct session *s, const char *dir, enum session_how how,
                 const struct events *events, struct err *err)
{
    int rc = open_as(s, dir, how == SESSION_EITHER ? SESSION_WRITE : how, events, err);

    if (how == SESSION_PAST)
        return rc;
    rc = s->log ? session_explain(s, rc, err) : session_explain_closed(dir, rc, events, err);
    if (how != SESSION_EITHER || !session_cannot_write(rc))
        return rc;
    session_close(s);
    return session_open(s, dir, SESSION_READ, events, err);
}

int session_cannot_write(int rc)
{
    return rc == -EROFS || rc == -EACCES || rc == -EPERM || rc == -ENOSPC || rc == -EDQUOT ||
           rc == -EFBIG || rc == -EXDEV;
}

void session_let_go(struct session *s)
{
    if (s->holds)
        close(s->held);
    s->holds = 0;
}

void session_close(struct session *s)
{
    struct opt_line line = train_opts_line(&s->o);
    for (size_t i = 1; s->others && i < s->ranks.size; i++)
        session_close(&s->others[i - 1]);
    free(s->others);
    free((void *)(uintptr_t)s->ranks.parts);
    runlog_close(s->log);
    if (s->holds)
        close(s->held);
    hf_base_close(s->base);
    free(s->block_params);
    if (s->has_opts)
        opt_release(&line);
    memset(s, 0, sizeof *s);
}

int session_recover(struct session *s, struct err *err)
{
    struct stream *stream = NULL;
    char           notice[512] = "";

    if (s->run.mode == RUN_MEM) // a committed image is complete
        return 0;
    if (s->ranks.size > 1 && !s->ranks.comm)
        return err_misuse(err, "%s stopped in the middle of a step: finish it with all ranks, "
                          "mpirun -n %zu siTrain %s --resume RUN, where RUN is the folder of rank "
                          "0", s->dir,
                          s->ranks.size, settings_has(s->log, "task") ? "finetune" : "pretrain");
    if (s->read_only)
        return err_set(err, -EROFS, "%s stopped in the middle of a step, and it cannot be written "
                       "here: `siTrain pretrain --resume` (or finetune) finishes the step where "
                       "the run can be written", s->dir);
    int rc = run_train(&stream, &s->run, notice, sizeof notice, err);
    rc = rc ? rc : stream_drain(stream, err);
    stream_close(stream);
    if (!rc && *notice)
        rc = session_notice(s, err, "%s", notice);
    return rc;
}
