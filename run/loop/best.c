/* best.c: writes RUN/best under another name (struct file_new) and exchanges it with the existing
 * folder. Files that somebody else put into RUN/best stay in it.
 *
 * On a file system that cannot exchange two folders, RUN/best is absent for a moment. The old
 * folder is then RUN/best.old.new-HEX, and gets its name back after a kill. */
#include "run/loop/best.h"

#include "data/base/file.h"
#include "data/tensors/safetensors.h"
#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/loop/model_out.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char base_name[] = "best", old_name[] = "best.old";

enum { BEST_PATH = SESSION_PATH + 16 };

static void clean(const struct session *s);

/* True if the model in this folder has the checksum of the best model. That holds in a copied
 * run. */
static int sum_fits(struct session *s, const char *path)
{
    struct safetensors *st = NULL;
    uint32_t            sum;
    int                 fits = settings_scan(s->log, "%" SCNx32, &sum, "best.sum") &&
               !safetensors_open(&st, path, NULL) && st->sum == sum;

    safetensors_close(st);
    return fits;
}

static int refuse(const char *path, struct err *err)
{
    return err_misuse(err, "%s is not this run's best model: move it elsewhere, or leave "
                      "--keep-best out", path);
}

/* Check that RUN/best, if it exists, is this run's. run.db records the folder before it becomes
 * RUN/best. In a copied run, or one of an older version, the record of the best model must suffice.
 * *st: the folder's status; st_mode 0: absent. */
static int ours_check(const struct best *b, struct session *s, struct stat *st, struct err *err)
{
    char path[BEST_PATH];

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    if (lstat(path, st)) {
        *st = (struct stat){ 0 };
        return 0;
    }
    char *made = settings_get(s->log, "best.folder");
    int   ours = S_ISDIR(st->st_mode) &&
               ((made && file_is(path, made)) || (b->any && (!made || sum_fits(s, path))));
    free(made);
    if (!ours)
        return refuse(path, err);
    char *mounted = file_mounted(path); // it would go along with the folder that is replaced
    int   rc = !mounted ? 0 : err_misuse(err, "%.1000s is mounted in the folder of the best model, "
                                         "which training replaces: unmount it first", mounted);
    free(mounted);
    return rc;
}

int best_open(struct best *out, struct session *s, struct err *err)
{
    struct stat st;

    clean(s);
    int rc = best_load(out, s, err);
    return rc || !s->o.keep_best ? rc : ours_check(out, s, &st, err);
}

int best_load(struct best *out, struct session *s, struct err *err)
{
    *out = (struct best){ 0 };
    out->any = settings_scan(s->log, "%" SCNu64, &out->step, "best.step");
    settings_scan(s->log, "%lf", &out->seconds[0], "best.seconds");
    settings_scan(s->log, "%lf", &out->seconds[1], "best.seconds_mm");
    settings_scan(s->log, "%" SCNx32, &out->sum, "best.sum");
    if (out->any && !settings_scan(s->log, "%lf", &out->value, "best.value"))
        return err_set(err, -EBADMSG, "%s/run.db has best.step, but no best.value", s->dir);
    return 0;
}

int best_store(struct best *b, struct session *s, const struct source_values *v, struct err *err)
{
    double              value = v->told.value[0].value;
    char                path[BEST_PATH];
    struct safetensors *st = NULL;

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    int rc = safetensors_open(&st, path, err);
    if (rc)
        return rc;
    *b = (struct best){ 1, v->told.step, value, { v->seconds[0], v->seconds[1] }, st->sum };
    safetensors_close(st);
    return settings_set(s->log, err,
                        "best.step=%" PRIu64 "\nbest.name=%s\nbest.value=%.17g\n"
                        "best.seconds=%.17g\nbest.seconds_mm=%.17g\nbest.sum=%08" PRIx32,
                        b->step, v->told.value[0].name, value, v->seconds[0], v->seconds[1],
                        b->sum);
}

int best_beats(const struct best *b, const struct source_values *v)
{
    double value = v->told.value[0].value;

    return isfinite(value) &&
           (!b->any || (v->larger_better ? value > b->value : value < b->value));
}

/* ---- the folder ---- */

int best_folder(struct hf **out, const struct best *b, const struct session *s, struct err *err)
{
    char         path[BEST_PATH];
    struct watch w = work_begin(s->events, "checking %s/%s", s->dir, base_name);

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    int rc = hf_is_folder(path) ? hf_open(out, path, &w, err)
                                : err_set(err, -ENOENT, "%s is not there any more", path);
    work_end(s->events);
    if (!rc && (arch_total(hf_model(*out)) != arch_total(&s->config) ||
                (b->sum && b->sum != hf_sum(*out)))) {
        hf_close(*out);
        *out = NULL;
        rc = err_set(err, -EBADMSG, "%s is not the model that run.db names as the best one (if "
                     "training was killed while it wrote the best model, --resume writes it "
                     "again)", path);
    }
    if (!rc || err->stopped)
        return rc;
    return err_set(err, rc, "%.600s; the best model of %s was that after step %" PRIu64 ": put a "
                   "copy of that model there; --last takes the parameters after the last step",
                   err->text, s->dir, b->step + 1);
}

/* Restore RUN/best after a kill between two renames. */
static void restore(const struct session *s)
{
    char           best[BEST_PATH], old[BEST_PATH + NAME_MAX];
    struct stat    st;
    DIR           *d = opendir(s->dir);
    struct dirent *e;

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    while (d && lstat(best, &st) && (e = readdir(d))) {
        snprintf(old, sizeof old, "%s/%s", s->dir, e->d_name);
        if (file_new_is(e->d_name, old_name, 1) && rmdir(old)) // an empty folder is not a model
            file_rename_new(old, best, NULL);
    }
    if (d)
        closedir(d);
}

/* When files are carried over. FIRST: before the exchange. SECOND: after it, for files that arrived
 * meanwhile. LEFT: after a kill. BELOW: in a subfolder, where no name is the model's. */
enum carrying { FIRST, SECOND, LEFT, BELOW };

/* Carry other people's files that `to` lacks from `from` to `to`, as a second hard link or, if that
 * fails, a copy. Except for FIRST, they also replace an earlier file of that name. */
static int carry(const char *from, const char *to, enum carrying when, struct err *err)
{
    DIR           *d = opendir(from);
    struct dirent *e;
    int            rc = d ? 0 : err_set(err, -errno, "open %s: %s", from, strerror(errno));

    while (!rc && (e = readdir(d))) {
        char       *a = file_path(err, "%s/%s", from, e->d_name);
        char       *b = file_path(err, "%s/%s", to, e->d_name);
        struct stat there, st;
        int         is_model = when != BELOW && output_is_model(e->d_name);

        if (!a || !b) {
            rc = -ENOMEM;
        } else if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || lstat(a, &st) ||
                   (when == LEFT && is_model)) {
            rc = 0;
        } else if (S_ISDIR(st.st_mode)) {
            rc = (mkdir(b, st.st_mode & 07777) && errno != EEXIST) ||
                         (!geteuid() && lchown(b, st.st_uid, st.st_gid))
                     ? err_set(err, -errno, "mkdir %s: %s", b, strerror(errno))
                     : carry(a, b, when == FIRST ? FIRST : BELOW, err);
        } else if (!lstat(b, &there)) {
            if (when != FIRST && !is_model && there.st_ino != st.st_ino && rename(a, b))
                rc = err_set(err, -errno, "rename %s to %s: %s", a, b, strerror(errno));
        } else if (linkat(AT_FDCWD, a, AT_FDCWD, b, 0)) {
            rc = S_ISREG(st.st_mode) ? file_copy(a, b, UINT64_MAX, err)
                                     : err_set(err, -errno, "link %s to %s: %s", a, b,
                                               strerror(errno));
        }
        free(a);
        free(b);
    }
    if (d)
        closedir(d);
    return rc;
}

/* Remove folders with the name base.new-HEX that killed processes left. A folder that was RUN/best
 * may still hold a file that arrived late; it is carried over first. */
static void clear_left(const struct session *s, const char *base)
{
    char           best[BEST_PATH], path[BEST_PATH], left[BEST_PATH + NAME_MAX];
    char          *made = settings_get(s->log, "best.folder");
    DIR           *d = opendir(s->dir);
    struct dirent *e;
    int            rc = 0;

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    while (d && !rc && (e = readdir(d))) {
        snprintf(left, sizeof left, "%s/%s", s->dir, e->d_name);
        if (file_new_is(e->d_name, base, 1) && made && file_is(best, made)) {
            file_new_clean(left);
            rc = carry(left, best, LEFT, NULL);
        }
    }
    snprintf(path, sizeof path, "%s/%s", s->dir, base);
    if (!rc)
        file_new_clear_left(path, 1);
    if (d)
        closedir(d);
    free(made);
}

static void clean(const struct session *s)
{
    char best[BEST_PATH];

    restore(s);
    clear_left(s, base_name);
    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    if (!access(best, F_OK)) // otherwise the old folder is the only one
        clear_left(s, old_name);
}

static int is_folder(const char *path, const struct stat *asked)
{
    struct stat st;

    return !lstat(path, &st) && st.st_dev == asked->st_dev && st.st_ino == asked->st_ino;
}

/* Replace RUN/best by two renames, if the file system cannot exchange folders. Refuses if the old
 * folder is not the one that was checked. */
static int exchange_by_two(const char *run, const char *next, const char *best,
                           const struct stat *asked, struct err *err)
{
    char            path[BEST_PATH];
    struct file_new old;

    snprintf(path, sizeof path, "%s/%s", run, old_name);
    int rc = file_new_folder(&old, path, err);

    if (rc)
        return rc;
    if (rename(best, old.temp)) // replaces the empty folder old.temp
        rc = err_set(err, -errno, "rename %s to %s: %s", best, old.temp, strerror(errno));
    else if (!is_folder(old.temp, asked)) {
        rc = refuse(best, err);
        file_rename_new(old.temp, best, NULL);
    } else if (rename(next, best)) {
        rc = err_set(err, -errno, "rename %s to %s: %s", next, best, strerror(errno));
        file_rename_new(old.temp, best, NULL);
    } else if (rename(old.temp, next)) // the place where an exchange would leave it
        rc = err_set(err, -errno, "rename %s to %s: %s", old.temp, next, strerror(errno));
    if (rc)
        file_new_keep(&old); // the next training restores RUN/best
    else
        file_new_abort(&old);
    return rc;
}

static int exchange(const struct file_new *f, const char *run, const struct stat *asked,
                    struct err *err)
{
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE))
        return file_lacks_flags(errno) ? exchange_by_two(run, f->temp, f->path, asked, err)
                             : err_set(err, -errno, "rename %s to %s: %s", f->temp, f->path,
                                       strerror(errno));
    if (is_folder(f->temp, asked))
        return 0;
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE))
        file_rename_new(f->temp, f->path, NULL); // somebody removed the new folder
    return refuse(f->path, err);
}

/* Make the folder of f RUN/best, in place of the folder that was checked. */
static int take_place(struct file_new *f, const char *run, const struct stat *asked,
                      struct err *err)
{
    int rc = 0;

    if (!asked->st_mode)
        return file_new_commit(f, err);
    if (fsync(f->fd))
        return err_set(err, -errno, "fsync %s: %s", f->temp, strerror(errno));
    file_new_like_folder(f);
    rc = carry(f->path, f->temp, FIRST, err);
    rc = rc ? rc : exchange(f, run, asked, err);
    rc = rc ? rc : file_sync_dir(run, err);
    rc = rc ? rc : carry(f->temp, f->path, SECOND, err); // files that arrived meanwhile
    if (rc)
        file_new_keep(f);
    return rc; // f->temp is the old folder now
}

static int write_best(struct session *s, const struct params_source *source, struct err *err)
{
    char            best[BEST_PATH], here[FILE_IDENTITY];
    struct best     now;
    struct stat     asked;
    struct file_new f;
    int             rc = best_load(&now, s, err);

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    rc = rc ? rc : ours_check(&now, s, &asked, err); // again: it may have changed during training
    rc = rc ? rc : file_new_folder(&f, best, err);
    if (rc)
        return rc;
    rc = model_out(s, source, f.temp, "writing the best model", err);
    file_identity(f.temp, here);
    rc = rc ? rc : ours_check(&now, s, &asked, err); // again, after the export
    rc = rc ? rc : settings_set(s->log, err, "best.folder=%s", here);
    rc = rc ? rc : take_place(&f, s->dir, &asked, err);
    file_new_abort(&f);
    return rc;
}

int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err)
{
    struct params_source source;

    clean(s);
    int rc = stream_masters(stream, step, &source, err);
    if (rc)
        return rc;
    rc = write_best(s, &source, err);
    if (!rc || rc == -EINTR) { // after a stop, the step is still committed
        struct err why = *err;
        int        ended = stream_masters_end(stream, err);

        if (!ended)
            *err = why;
        rc = ended ? ended : rc;
    }
    clean(s);
    return rc;
}
