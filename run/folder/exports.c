/* exports.c: finds a run's exports by its run.db, and checks their files. */
#include "run/folder/exports.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "model/file/peft.h"
#include "run/folder/settings.h"

#include <unistd.h>

int exports_record(struct runlog *log, const char *to, uint64_t step, struct err *err)
{
    char    *full = file_real(to);
    uint32_t sum;
    int      rc = full ? peft_files_sum(&sum, full, err)
                       : err_set(err, -errno, "%s: %s", to, strerror(errno));

    if (!rc && !(rc = runlog_begin(log, err))) {
        rc = settings_set(log, err, "export.path=%s", full);
        rc = rc ? rc
                : settings_set(log, err, "export.step=%" PRIu64 "\nexport.sum=%08" PRIx32, step,
                               sum);
        rc = runlog_end(log, rc, err);
    }
    free(full);
    return rc;
}

/* Find path and step of an export; 0 if there is none. */
static int find(struct exported *e, struct runlog *log, const char *dir, int which)
{
    int   best = which == EXPORTS_BEST;
    char *path = best || !log ? NULL : settings_get(log, "export.path");
    int   found = log ? settings_scan(log, "%" SCNu64, &e->step, best ? "best.step" : "export.step")
                      : best;

    e->step += best != 0;
    if (best)
        snprintf(e->path, sizeof e->path, "%s/best", dir);
    else
        snprintf(e->path, sizeof e->path, "%s", path ? path : "");
    free(path);
    return found && *e->path;
}

int exports_look(struct exported *e, struct runlog *log, const char *dir, int which,
                 const struct events *events)
{
    struct safetensors *st = NULL;
    char                file[sizeof e->path + 32], index[sizeof file + 16];
    const char         *kind = which == EXPORTS_BEST ? "best" : "export";
    uint32_t            sum;

    *e = (struct exported){ .state = EXPORTS_GONE };
    if (!find(e, log, dir, which))
        return 0;
    snprintf(file, sizeof file, "%s/model.safetensors", e->path);
    snprintf(index, sizeof index, "%s.index.json", file);
    if (!file_may_be(file) && !file_may_be(index) && !peft_is_folder(e->path))
        return 1;
    struct watch w = work_begin(events, "checking %s", e->path);
    int          rc = peft_files_open(&st, e->path, &e->why);
    if (!rc) {
        e->bytes = st->bytes;
        e->sum = st->sum;
        rc = safetensors_verify(st, &w, &e->why); // every byte
    }
    work_end(events);
    if (rc)
        e->state = file_is_unknown(rc) ? EXPORTS_DENIED : EXPORTS_DAMAGED;
    else if (!log || !settings_scan(log, "%" SCNx32, &sum, "%s.sum", kind) || sum == st->sum)
        e->state = EXPORTS_INTACT;
    else
        e->state = EXPORTS_OTHER;
    safetensors_close(st);
    return 1;
}

const char *exports_state_text(enum export_state state)
{
    static const char *const texts[] = { "", ": not there any more", ": now another model's",
                                         ": damaged", ": cannot be read" };

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
    if (!log && any)
        err_set(err, 0, "%s; its best model, in %s, is whole: begin a new run from it with "
                "pretrain or finetune --run NEW --init", err->text, newest.path);
    else if (!log)
        err_set(err, 0, "%s; the record of its exports is lost: siTrain check HFDIR says "
                "whether an export is whole, and pretrain or finetune --run NEW --init begins a "
                "new run from it", err->text);
    else if (any)
        err_set(err, 0,
                "%s; the last exported state that is whole is that after step %" PRIu64 ", in "
                "%s: begin a new run from it with pretrain or finetune --run NEW --init", err->text,
                newest.step, newest.path);
    else
        err_set(err, 0, "%s; there is no exported state that is whole", err->text);
}

/* ---- at a scrub's rate ---- */

struct pacing { struct scrub *s; uint64_t seen; int stopped; };

static void goes_on(void *ctx, uint64_t done, uint64_t total)
{
    struct pacing *p = ctx;

    (void)total;
    if (done > p->seen)
        scrub_took(p->s, done - p->seen);
    p->seen = done;
    p->stopped |= scrub_pause(p->s, NULL) != 0;
}

static int is_stopped(void *ctx) { return ((struct pacing *)ctx)->stopped; }

/* Drops the pages of a folder's files, so that they are read from the drive. */
static void forget(const char *dir)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, dir, NULL);

    while (!rc && file_walk_next(&w))
        file_forget(w.path);
    file_walk_end(&w, rc, NULL);
}

int scrub_best(struct exported *out, struct scrub *s, struct runlog *log, const char *dir,
               struct err *err)
{
    enum { TRIES = 4 };
    struct pacing p = { .s = s };
    struct events e = { .ctx = &p, .work_goes_on = goes_on, .asked_to_stop = is_stopped };
    char          best[sizeof out->path];
    int           any = 1;

    snprintf(best, sizeof best, "%s/best", dir);
    for (int i = 0; i < TRIES && any; i++) {
        p.seen = 0;
        forget(best);
        any = exports_look(out, log, dir, EXPORTS_BEST, &e);
        if (p.stopped)
            return err_stopped(err, "stopped");
        if (out->state == EXPORTS_INTACT || out->state == EXPORTS_DENIED)
            break;
    }
    return any;
}
