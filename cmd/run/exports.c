/* exports.c: exports as run.db knows them, looked at where they lie. */
#include "cmd/run/exports.h"

#include "cmd/run/best.h"
#include "data/tensors/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the model file in dir: its sum, or -errno. */
static int sum_of(const char *dir, uint32_t *sum, struct err *err)
{
    struct safetensors *st = NULL;
    int                 rc = safetensors_open(&st, dir, err);

    if (!rc)
        *sum = safetensors_sum(st);
    safetensors_close(st);
    return rc;
}

int exports_record(struct session *s, const char *dir, uint64_t step, struct err *err)
{
    char    *full = realpath(dir, NULL), step_text[32], sum_text[16];
    uint32_t sum = 0;
    int rc = full ? sum_of(full, &sum, err) : err_set(err, -errno, "%s: %s", dir, strerror(errno));

    snprintf(step_text, sizeof step_text, "%" PRIu64, step);
    snprintf(sum_text, sizeof sum_text, "%08" PRIx32, sum);
    if (!rc)
        rc = runlog_begin(s->log, err);
    if (!rc &&
        ((rc = session_set(s, "export.path", full, err)) ||
         (rc = session_set(s, "export.step", step_text, err)) ||
         (rc = session_set(s, "export.sum", sum_text, err)) || (rc = runlog_commit(s->log, err))))
        runlog_rollback(s->log);
    free(full);
    return rc;
}

/* Path and step of what was exported; 0 if nothing was. */
static int find(struct exported *w, struct session *s, int which)
{
    char *path = which == EXPORTS_EXPORT ? session_get(s, "export.path") : NULL;
    char *step = session_get(s, which == EXPORTS_EXPORT ? "export.step" : "best.step");
    int   found = step && (which == EXPORTS_BEST || path);

    *w = (struct exported){.step = step ? strtoull(step, NULL, 10) + (which == EXPORTS_BEST) : 0};
    if (which == EXPORTS_BEST)
        best_path(s, w->path, sizeof w->path);
    else if (path)
        snprintf(w->path, sizeof w->path, "%s", path);
    free(path);
    free(step);
    return found;
}

/* Is it what was recorded? RUN/best is nobody's but ours. */
static int is_ours(struct session *s, int which, const struct safetensors *st)
{
    char *sum = session_get(s, "export.sum");
    int   same = which == EXPORTS_BEST || (sum && strtoul(sum, NULL, 16) == safetensors_sum(st));

    free(sum);
    return same;
}

/* Every byte of an export in dir; *st, open or NULL, is the caller's to close. */
static int read_export(struct safetensors **st, const char *dir, const struct events *events,
                       struct err *err)
{
    struct watch w = work_begin(events, "checking %s", dir);
    int          rc = safetensors_open(st, dir, err);

    if (!rc)
        rc = safetensors_verify(*st, &w, err);
    work_end(events);
    return rc;
}

int exports_look(struct exported *w, struct session *s, int which)
{
    struct safetensors *st = NULL;
    char                file[sizeof w->path + 32];
    int                 rc;

    if (!find(w, s, which))
        return 0;
    w->state = EXPORTS_GONE;
    snprintf(file, sizeof file, "%s/model.safetensors", w->path);
    if (access(file, F_OK))
        return 1;
    rc = read_export(&st, w->path, s->events, &w->why);
    if (st)
        w->bytes = safetensors_bytes(st);
    w->state = rc ? EXPORTS_DAMAGED : is_ours(s, which, st) ? EXPORTS_INTACT : EXPORTS_OTHER;
    safetensors_close(st);
    return 1;
}

const char *exports_state_text(enum export_state state)
{
    static const char *const texts[] = { "", ": not there any more", ": now another model's",
                                         ": damaged" };

    return texts[state];
}

int exports_explain(struct session *s, int rc, struct err *err)
{
    if (rc != -EBADMSG)
        return rc;
    err_set(err, rc,
            "%.600s; siTrain check %s says what else is, and with --repair makes again what can be",
            err->text, s->dir);
    exports_say(s, err);
    return rc;
}

void exports_say(struct session *s, struct err *err)
{
    struct exported best = {0}, w;
    int          any = 0;

    for (int i = 0; i < EXPORTS_KINDS; i++) {
        if (!exports_look(&w, s, i))
            continue;
        if (w.why.stopped)
            return;
        if (w.state == EXPORTS_INTACT && (!any || w.step > best.step)) {
            best = w;
            any = 1;
        }
    }
    if (any)
        err_set(err, 0,
                "%.700s; the last exported state that is whole is that after step %" PRIu64
                ", in %s: pretrain or finetune --run NEW --init takes it",
                err->text, best.step, best.path);
    else
        err_set(err, 0, "%.700s; there is no exported state that is whole", err->text);
}

/* run.db, which knows what was exported, says nothing any more: RUN/best is where it always is. */
static void best_say(const char *dir, const struct events *events, struct err *err)
{
    struct safetensors *st = NULL;
    struct err          why = {0};
    char                best[SESSION_PATH + 16];
    int                 rc;

    snprintf(best, sizeof best, "%s/best", dir);
    rc = read_export(&st, best, events, &why);
    safetensors_close(st);
    if (why.stopped)
        return;
    if (rc)
        err_set(err, 0,
                "%.700s; where it was exported to is not known any more: siTrain check HFDIR says "
                "whether such a folder is whole, and pretrain or finetune --run NEW --init takes "
                "it",
                err->text);
    else
        err_set(err, 0,
                "%.700s; its best state, in %s, is whole: pretrain or finetune --run NEW --init "
                "takes it",
                err->text, best);
}

int exports_explain_open(const char *dir, int rc, const struct events *events, struct err *err)
{
    struct session s = { 0 };
    struct err     why;
    uint64_t       next, applied;
    int            past;

    if (rc != -EBADMSG)
        return rc;
    past = session_open_past(&s, dir, events, &why);
    if (!past)
        past = run_position(&s.run, &next, &applied, &why);
    if (!past && s.past)
        err_set(err, rc,
                "%.600s; run.db is whole up to step %" PRIu64 ": siTrain check %s says whether the "
                                                              "devices hold that still, and with "
                                                              "--repair goes back to it",
                err->text, next, dir);
    if (past)
        best_say(dir, events, err);
    else
        exports_say(&s, err);
    session_close(&s);
    return rc;
}
