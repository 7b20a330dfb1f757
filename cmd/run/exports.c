/* exports.c: exports as run.db knows them, looked at where they lie. */
#include "cmd/run/exports.h"

#include "cmd/run/settings.h"
#include "data/tensors/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int exports_record(struct runlog *log, const char *to, uint64_t step, struct err *err)
{
    char               *full = realpath(to, NULL);
    struct safetensors *st = NULL;
    int rc = full ? safetensors_open(&st, full, err)
                  : err_set(err, -errno, "%s: %s", to, strerror(errno));

    if (!rc)
        rc = runlog_begin(log, err);
    if (!rc && ((rc = settings_set(log, err, "export.path=%s", full)) ||
                (rc = settings_set(log, err, "export.step=%" PRIu64, step)) ||
                (rc = settings_set(log, err, "export.sum=%08" PRIx32, st->sum)) ||
                (rc = runlog_commit(log, err))))
        runlog_rollback(log);
    safetensors_close(st);
    free(full);
    return rc;
}

/* Path and step of what was exported; 0 if nothing was. */
static int find(struct exported *e, struct runlog *log, const char *dir, int which)
{
    int   best = which == EXPORTS_BEST;
    char *path = best ? NULL : settings_get(log, "export.path");
    int   found = settings_scan(log, "%" SCNu64, &e->step, best ? "best.step" : "export.step");

    e->step += best != 0;
    if (best)
        snprintf(e->path, sizeof e->path, "%s/best", dir);
    else
        snprintf(e->path, sizeof e->path, "%s", path ? path : "");
    found = found && (best || path);
    free(path);
    return found;
}

/* Is it what was recorded? RUN/best is nobody's but ours. */
static int is_ours(struct runlog *log, int which, const struct safetensors *st)
{
    uint32_t sum;

    return which == EXPORTS_BEST ||
           (settings_scan(log, "%" SCNx32, &sum, "export.sum") && sum == st->sum);
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

int exports_look(struct exported *e, struct runlog *log, const char *dir, int which,
                 const struct events *events)
{
    struct safetensors *st = NULL;
    char                file[sizeof e->path + 32];
    int                 rc;

    *e = (struct exported){ .state = EXPORTS_GONE };
    if (!find(e, log, dir, which))
        return 0;
    snprintf(file, sizeof file, "%s/model.safetensors", e->path);
    if (access(file, F_OK))
        return 1;
    rc = read_export(&st, e->path, events, &e->why);
    if (st)
        e->bytes = st->bytes;
    e->state = rc ? EXPORTS_DAMAGED : is_ours(log, which, st) ? EXPORTS_INTACT : EXPORTS_OTHER;
    safetensors_close(st);
    return 1;
}

const char *exports_state_text(enum export_state state)
{
    static const char *const texts[] = { "", ": not there any more", ": now another model's",
                                         ": damaged" };

    return texts[state];
}

void exports_say(struct runlog *log, const char *dir, const struct events *events, struct err *err)
{
    struct exported newest = { 0 }, e;
    int             any = 0;

    for (int i = 0; i < EXPORTS_KINDS; i++) {
        if (!exports_look(&e, log, dir, i, events))
            continue;
        if (e.why.stopped)
            return;
        if (e.state == EXPORTS_INTACT && (!any || e.step > newest.step)) {
            newest = e;
            any = 1;
        }
    }
    if (any)
        err_set(err, 0,
                "%.700s; the last exported state that is whole is that after step %" PRIu64
                ", in %s: pretrain or finetune --run NEW --init takes it",
                err->text, newest.step, newest.path);
    else
        err_set(err, 0, "%.700s; there is no exported state that is whole", err->text);
}

void exports_say_best(const char *dir, const struct events *events, struct err *err)
{
    struct safetensors *st = NULL;
    struct err          why = { 0 };
    char                best[4096 + 16];
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
