/* checkpoints.c: writes RUN/checkpoint-STEP under another name (struct file_new), which it loses in
 * one rename. run.db gets its checksum first, marked as being written, so that the folder is the
 * run's from its first moment on. */
#include "run/loop/checkpoints.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/file/file_names.h"
#include "data/file/file_walk.h"
#include "data/tensors/safetensors.h"
#include "model/file/hf.h"
#include "model/file/peft.h"
#include "offload/devices/devices.h"
#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/loop/model_out.h"

#include <unistd.h>

#define PREFIX "checkpoint-"
#define KEY    "checkpoint."

/* A folder is checkpoint-STEP.gone-TIME.new-HEX while it is removed. TIME is file_names_newest of
 * the files that go. */
#define GONE ".gone"
enum { GONE_BYTES = sizeof GONE "-0123456789abcdef" };

static const char writing[] = " writing";

/* ---- whose folder it is ---- */

/* Add the checksum of one file of a model's folder, its name included. Tensors are in the sum of
 * their headers already. Anything but a file makes the sum another one. */
static int add_file(uint32_t *sum, const struct file_walk *w, struct err *err)
{
    static const char tensors[] = ".safetensors";
    size_t            n = strlen(w->name), size = 0;
    uint32_t          own = crc32c(0, w->name, n + 1);
    struct stat       st;
    char             *text = NULL;
    int               rc = file_stat(w->path, &st, err);

    if (rc < 0)
        return rc;
    if (!rc || !S_ISREG(st.st_mode)) {
        *sum += own + 1;
        return 0;
    }
    rc = 0;
    if (n < sizeof tensors || strcmp(w->name + n - (sizeof tensors - 1), tensors))
        rc = file_read_whole(&text, &size, w->path, (uint64_t)1 << 30, err);
    *sum += crc32c(own, text, size);
    free(text);
    return rc;
}

/* The checksum of a folder: of its tensors, and of all other files in it. */
static int folder_sum(uint32_t *sum, const char *path, struct err *err)
{
    struct file_walk w;
    int              rc = peft_files_sum(sum, path, err);

    if (rc || (rc = file_walk_begin(&w, path, err)))
        return rc;
    while (!rc && file_walk_next(&w))
        rc = add_file(sum, &w, err);
    return file_walk_end(&w, rc, err);
}

static void path_of(char path[CHECKPOINTS_PATH], const struct session *s, uint64_t step)
{
    snprintf(path, CHECKPOINTS_PATH, "%s/" PREFIX "%" PRIu64, s->dir, step);
}

/* Whether this folder has the checksum that run.db has of this step. A folder that holds no model,
 * or a damaged one, is not the run's; -errno: it cannot be read. */
static int sum_fits(int *fits, const struct session *s, const char *path, uint64_t step,
                    struct err *err)
{
    char       *said;
    struct err  why = { 0 };
    uint32_t    sum, is;
    int         rc = settings_find(&said, s->log, err, KEY "%" PRIu64, step);

    *fits = 0;
    if (!rc && said && sscanf(said, "%" SCNx32, &sum) == 1) {
        rc = folder_sum(&is, path, &why);
        *fits = !rc && is == sum;
        if (file_is_unread(rc))
            *err = why;
        else
            rc = 0;
    }
    free(said);
    return rc;
}

int checkpoints_is_ours(int *ours, char path[CHECKPOINTS_PATH], const struct session *s,
                        uint64_t step, struct err *err)
{
    struct stat st;

    path_of(path, s, step);
    *ours = 0;
    int rc = file_stat(path, &st, err);
    return rc > 0 && S_ISDIR(st.st_mode) ? sum_fits(ours, s, path, step, err) : rc < 0 ? rc : 0;
}

/* Whether all of the run's folder is as the run wrote it: the tensors are read, too. What cannot be
 * read is not known to be. */
static int is_as_written(int *as, char path[CHECKPOINTS_PATH], const struct session *s,
                         uint64_t step, struct err *err)
{
    struct safetensors *st = NULL;
    struct err          why;
    int                 rc = checkpoints_is_ours(as, path, s, step, err);

    if (rc || !*as)
        return rc;
    *as = !peft_files_open(&st, path, &why) && !safetensors_verify(st, NULL, &why);
    safetensors_close(st);
    return 0;
}

/* Whether something is there that a new folder would not replace. */
static int is_taken(const char *path) { return hf_export_check(path, NULL) != 0; }

/* The step in the name of a folder. 0: it has another name. */
static uint64_t step_in(const char *name, const char **rest)
{
    char    *end = NULL;
    size_t   n = strlen(PREFIX);
    uint64_t step = 0;

    if (!strncmp(name, PREFIX, n) && name[n] >= '1' && name[n] <= '9')
        step = strtoull(name + n, &end, 10);
    *rest = end ? end : name;
    return step;
}

static int refuse(const char *path, struct err *err)
{
    return err_misuse(err, "%s is not a model of this run (run.db does not know it, or somebody "
                      "changed it), and --export-every would write one there: move it elsewhere, "
                      "or give another --export-every", path);
}

/* ---- which ones there are, and are to be ---- */

int checkpoints_due(const struct session *s, uint64_t done)
{
    uint64_t every = s->o.export_every;

    return every && done && (done % every == 0 || done == s->o.steps);
}

struct list { uint64_t *step; size_t n, cap; };

static int list_row(void *ctx, int n, const char **values, const char **names)
{
    struct list *l = ctx;

    (void)n, (void)names;
    if (l->n == l->cap) {
        size_t    cap = l->cap ? 2 * l->cap : 16;
        uint64_t *more = realloc(l->step, cap * sizeof *more);

        if (!more)
            return 1;
        l->step = more;
        l->cap = cap;
    }
    l->step[l->n++] = values[0] ? strtoull(values[0], NULL, 10) : 0;
    return 0;
}

int checkpoints_list(uint64_t **out, size_t *n, struct runlog *log, struct err *err)
{
    struct list l = { 0 };
    int         rc = runlog_query(log, "SELECT CAST(substr(key, 12) AS INTEGER) AS step FROM runs "
                                  "WHERE key GLOB 'checkpoint.[0-9]*' ORDER BY step", list_row, &l,
                                  err);

    *out = l.step;
    *n = l.n;
    return rc;
}

int checkpoints_missing(struct session *s, uint64_t done, int *missing, struct err *err)
{
    char *said = NULL;
    int   due = checkpoints_due(s, done) && !s->ranks.rank;
    int   rc = due ? settings_find(&said, s->log, err, KEY "%" PRIu64, done) : 0;

    *missing = !rc && due && (!said || strstr(said, writing));
    free(said);
    return rc;
}

/* Removes what a killed process left of a folder that it removed: the model's files that were there
 * at `newest`. What was saved or changed since stays, and gives the folder its name again. */
static void clear_gone(const struct session *s, const char *gone, const char *path, uint64_t newest)
{
    struct file_walk w;
    struct stat      st;

    file_walk_begin(&w, gone, NULL);
    while (file_walk_next(&w))
        if (output_is_model(w.name) && !lstat(w.path, &st) && S_ISREG(st.st_mode) &&
            file_ns(&st.st_ctim) <= newest)
            unlink(w.path);
    file_walk_end(&w, 0, NULL);
    if (!rmdir(gone))
        return;
    if (file_rename_new(gone, path, NULL))
        events_notice(s->events, "%s is what was left of %s, which training removed; it holds "
                      "somebody's files: move them elsewhere, and remove the folder", gone, path);
    else
        events_notice(s->events, "%s stays: a kill came while training removed it, and it holds "
                      "files that were saved or changed since", path);
}

void checkpoints_clean(const struct session *s)
{
    char             path[CHECKPOINTS_PATH], base[NAME_MAX + 1];
    struct file_walk w;

    if (s->ranks.rank)
        return;
    file_walk_begin(&w, s->dir, NULL);
    while (file_walk_next(&w)) {
        const char *rest;
        uint64_t    newest = 0, step = step_in(w.name, &rest);
        size_t      n = strlen(w.name);

        snprintf(base, sizeof base, "%.*s", n > FILE_NEW_TAIL ? (int)(n - FILE_NEW_TAIL) : 0,
                 w.name);
        if (!step || !file_new_is(w.name, base, 1))
            continue;
        path_of(path, s, step);
        if (!strncmp(rest, GONE, strlen(GONE))) {
            sscanf(rest, GONE "-%16" SCNx64, &newest); // older versions wrote no time
            clear_gone(s, w.path, path, newest);
        } else if (rest == w.name + strlen(base)) {
            file_new_clear_left(path, 1);
        }
    }
    file_walk_end(&w, 0, NULL);
}

int checkpoints_open(struct session *s, uint64_t next, struct err *err)
{
    char             path[CHECKPOINTS_PATH];
    struct file_walk w;
    int              rc, ours, missing;

    if (s->o.export_every && s->run.mode != RUN_MEM && devices_fake(&s->run))
        return err_misuse(err, "--export-every writes models, and devices that store nothing have "
                          "none: leave it out");
    checkpoints_clean(s);
    if (s->ranks.rank || (rc = checkpoints_missing(s, next, &missing, err)) ||
        (rc = file_walk_begin(&w, s->dir, err)))
        return s->ranks.rank ? 0 : rc;
    while (!rc && file_walk_next(&w)) {
        const char *rest;
        uint64_t    step = step_in(w.name, &rest);

        if (!step || *rest || step < next + !missing || !checkpoints_due(s, step))
            continue;
        rc = is_as_written(&ours, path, s, step, err);
        rc = rc || ours || !is_taken(path) ? rc : refuse(path, err);
    }
    return file_walk_end(&w, rc, err);
}

/* ---- removing ---- */

/* Give the folder its name again, with what is left in it. Returns rc, or 1: it stays. */
static int put_back(struct file_new *away, const char *path, int rc, struct err *err)
{
    int back = file_rename_new(away->temp, path, rc ? NULL : err);

    file_new_keep(away);
    return rc || back ? rc ? rc : back : 1;
}

/* Remove this run's folder of a step. It is looked at once more under its other name, where nobody
 * looks for it. That name is flushed: a power cut must not give back a folder, or half of it, that
 * run.db does not know any more. Who works in it may still put something into it. 1: it is not the
 * run's any more, and stays. */
static int remove_folder(const struct session *s, const char *path, uint64_t step,
                         const struct file_names *files, struct err *err)
{
    char            base[CHECKPOINTS_PATH + GONE_BYTES];
    struct file_new away;

    snprintf(base, sizeof base, "%s" GONE "-%016" PRIx64, path, file_names_newest(files));
    int ours, rc = file_new_aside(&away, path, base, err);
    if (rc)
        return rc;
    rc = file_sync_dir(s->dir, err);
    rc = rc ? rc : sum_fits(&ours, s, away.temp, step, err);
    if (rc || !ours || file_names_remove(files, away.temp))
        return put_back(&away, path, rc, err);
    file_new_keep(&away);
    return 0;
}

/* Remove the run's folder of this step, if it is there. Returns 1 if something at its name, or in
 * it, is not the run's: that stays. */
static int remove_ours(const struct session *s, uint64_t step, struct err *err)
{
    char              path[CHECKPOINTS_PATH];
    struct file_names files;
    struct stat       st;
    int               ours;

    path_of(path, s, step);
    int rc = file_stat(path, &st, err);
    if (rc <= 0 || !S_ISDIR(st.st_mode))
        return rc;
    rc = file_names_take(&files, path, err);
    rc = rc ? rc : is_as_written(&ours, path, s, step, err);
    rc = rc ? rc : !ours ? 1 : remove_folder(s, path, step, &files, err);
    file_names_release(&files);
    return rc;
}

/* Remove the oldest folders beyond the limit. Those of steps after `done` come first: training went
 * on from an earlier step. */
static int rotate(struct session *s, uint64_t done, struct err *err)
{
    char      path[CHECKPOINTS_PATH], key[48];
    uint64_t *step = NULL;
    size_t    n = 0, later = 0, limit = s->o.export_limit;
    int       rc = limit ? checkpoints_list(&step, &n, s->log, err) : 0;

    while (later < n && step[n - 1 - later] > done)
        later++;
    for (size_t i = 0; i + limit < n && !rc; i++) {
        uint64_t oldest = step[i < later ? n - later + i : i - later];

        path_of(path, s, oldest);
        const char *fixed = file_fixed(path); // or else it would lose its name, and could not go
        rc = fixed ? 0 : remove_ours(s, oldest, err);
        if (rc > 0 || fixed)
            rc = session_notice(s, err, "%s %s, so it stays", path,
                                fixed ? fixed : "holds something that this run did not write");
        snprintf(key, sizeof key, KEY "%" PRIu64, oldest);
        rc = rc ? rc : runlog_unset(s->log, key, err);
    }
    free(step);
    return rc;
}

/* ---- writing ---- */

struct exporting { struct session *s; uint64_t done; };

/* Says of a folder, before it goes, that it is written anew: a resume after a kill does so. */
static int say_writing(struct session *s, uint64_t done, struct err *err)
{
    char *said = NULL;
    int   rc = settings_find(&said, s->log, err, KEY "%" PRIu64, done);

    if (!rc && said && !strstr(said, writing))
        rc = settings_set(s->log, err, KEY "%" PRIu64 "=%s%s", done, said, writing);
    free(said);
    return rc ? rc : runlog_flush(s->log, err);
}

/* Give the complete folder its name. An earlier training of this step may have left a folder of the
 * run's there, which goes first. */
static int take_name(struct session *s, struct file_new *f, uint64_t done, struct err *err)
{
    uint32_t sum;
    int      rc = folder_sum(&sum, f->temp, err);

    const char *fixed = file_fixed(f->path);
    if (!rc && fixed)
        rc = err_misuse(err, "%s %s", f->path, fixed);
    if (!rc && is_taken(f->path) && !(rc = say_writing(s, done, err)) &&
        (rc = remove_ours(s, done, err)) > 0)
        rc = refuse(f->path, err);
    rc = rc ? rc : settings_set(s->log, err, KEY "%" PRIu64 "=%08" PRIx32 "%s", done, sum, writing);
    rc = rc ? rc : runlog_flush(s->log, err);
    rc = rc ? rc : file_new_commit(f, err);
    rc = rc ? rc : rotate(s, done, err); // after a kill in it, a resume makes up for all of this
    return rc ? rc : settings_set(s->log, err, KEY "%" PRIu64 "=%08" PRIx32, done, sum);
}

static int write_folder(void *ctx, const struct params_source *model, struct err *err)
{
    struct exporting *x = ctx;
    struct session   *s = x->s;
    char              path[CHECKPOINTS_PATH];
    struct file_new   f = { 0 };

    path_of(path, s, x->done);
    int rc = file_new_folder(&f, path, err);

    if (rc)
        return rc;
    snprintf(path, sizeof path, "writing the model after step %" PRIu64, x->done);
    rc = model_out(s, model, f.temp, 1, path, err);
    rc = rc ? rc : take_name(s, &f, x->done, err);
    file_new_abort(&f);
    return rc;
}

int checkpoints_export(struct session *s, struct stream *stream, uint64_t done, struct err *err)
{
    struct exporting    x = { s, done };
    struct model_writer w = { .write = write_folder, .ctx = &x };
    int                 rc = model_out_between(&w, s, stream, done, err);

    if (rc || !w.rc)
        return rc;
    if (w.rc == -EINTR && w.why.stopped && done < s->o.steps)
        return 0;
    *err = w.why;
    return w.rc;
}
