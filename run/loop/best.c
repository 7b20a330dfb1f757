/* best.c: writes RUN/best under another name (struct file_new) and exchanges it with the existing
 * folder. Files that somebody else put into RUN/best stay in it.
 *
 * What was RUN/best is RUN/best.old.new-HEX from then on, until it is removed. On a file system
 * that cannot exchange two folders, RUN/best is absent for a moment; after a kill, the old folder
 * gets its name back. */
#include "run/loop/best.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "model/file/peft.h"
#include "run/folder/settings.h"
#include "run/loop/best_carry.h"
#include "run/loop/model_out.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char base_name[] = "best", old_name[] = "best.old";

enum { BEST_PATH = SESSION_PATH + 16 };

int best_is_next(struct session *s, uint32_t sum)
{
    uint32_t next;

    return settings_scan(s->log, "%" SCNx32, &next, "best.next") && sum == next;
}

/* *fits: the model in this folder has the checksum of the best model, or of the one that was about
 * to become it when a process was killed. That holds in a copied run, too. -errno if the folder
 * cannot be read; a folder that holds no model, or a damaged one, does not fit. */
static int sum_fits(int *fits, struct session *s, const char *path, struct err *err)
{
    struct err why = { 0 };
    uint32_t   sum, is;
    int        rc = peft_files_sum(&is, path, &why);

    *fits = !rc && ((settings_scan(s->log, "%" SCNx32, &sum, "best.sum") && is == sum) ||
                    best_is_next(s, is));
    if (!file_is_unread(rc))
        return 0;
    *err = why;
    return rc;
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
    int rc = file_stat(path, st, err);
    if (rc <= 0) {
        *st = (struct stat){ 0 };
        return rc;
    }
    char *made = settings_get(s->log, "best.folder");
    int   folder = S_ISDIR(st->st_mode);
    int   same = made && file_is(path, made) && file_has_births(path, made);
    int   ours = folder && (same || (b->any && !made));
    rc = !ours && folder && made ? sum_fits(&ours, s, path, err) : 0;
    free(made);
    return rc ? rc : ours ? best_carry_check(path, err) : refuse(path, err);
}

static int ours_now(struct session *s, struct stat *st, struct err *err)
{
    struct best now;
    int         rc = best_load(&now, s, err);

    return rc ? rc : ours_check(&now, s, st, err);
}

int best_open(struct best *out, struct session *s, struct err *err)
{
    struct stat st;

    int rc = best_load(out, s, err);

    if (rc || !s->o.keep_best)
        return rc;
    rc = file_check_folder(s->dir, err);
    return rc ? rc : ours_check(out, s, &st, err);
}

int best_load(struct best *out, struct session *s, struct err *err)
{
    *out = (struct best){ 0 };
    out->any = settings_scan(s->log, "%" SCNu64, &out->step, "best.step");
    settings_scan(s->log, "%lf", &out->seconds[0], "best.seconds");
    settings_scan(s->log, "%lf", &out->seconds[1], "best.seconds_mm");
    settings_scan(s->log, "%" SCNx32, &out->sum, "best.sum");
    int rc = runlog_unread(s->log, err);
    if (rc)
        return rc;
    if (out->any && !settings_scan(s->log, "%lf", &out->value, "best.value"))
        return err_set(err, -EBADMSG, "%s/run.db has best.step, but no best.value", s->dir);
    return 0;
}

int best_store(struct best *b, struct session *s, const struct source_values *v, struct err *err)
{
    double   value = v->told.value[0].value;
    char     path[BEST_PATH];
    uint32_t sum;

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    int rc = peft_files_sum(&sum, path, err);
    if (rc)
        return rc;
    *b = (struct best){ 1, v->told.step, value, { v->seconds[0], v->seconds[1] }, sum };
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

/* Whether the folder that is open is another model than run.db records. */
static int is_other(const struct hf *whole, const struct peft *adapter, const struct best *b,
                    const struct session *s)
{
    if (!adapter && arch_total(hf_model(whole)) != arch_total(&s->config))
        return 1;
    return b->sum && b->sum != (adapter ? peft_sum(adapter) : hf_sum(whole));
}

int best_folder(struct hf **out, struct peft **adapter, const struct params_source *base,
                const struct best *b, const struct session *s, int verified, struct err *err)
{
    const struct peft_base on = { *base, s->config.n_labels, 1 };
    struct hf             *whole = NULL;
    struct peft           *part = NULL;
    char                   path[BEST_PATH];
    int                    adapted = s->config.lora.rank > 0, rc;
    struct watch           w = work_begin(s->events, "checking %s/%s", s->dir, base_name);

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    if (!(adapted ? peft_is_folder(path) : hf_is_folder(path)))
        rc = err_set(err, -ENOENT, file_may_be(path) ? "%s has no %s" : "%s is not there any more",
                     path, adapted ? "adapter_config.json" : "config.json");
    else
        rc = adapted    ? peft_open(&part, &s->config, &on, path, &w, err)
             : verified ? hf_open_known(&whole, path, err)
                        : hf_open(&whole, path, &w, err);
    work_end(s->events);
    if (!rc && is_other(whole, part, b, s)) {
        hf_close(whole);
        peft_close(part);
        rc = err_set(err, -EBADMSG, "%s is not the model that run.db names as the best one (if "
                     "training was killed while it wrote the best model, --resume writes it "
                     "again)", path);
    }
    if (!rc) {
        *out = adapted ? *out : whole;
        *adapter = part;
    }
    if (!rc || err->stopped || file_is_unknown(rc))
        return rc;
    return err_set(err, rc, "%s; the best model of %s was that after step %" PRIu64 ": put a "
                   "copy of that model there; --last takes the parameters after the last step",
                   err->text, s->dir, b->step + 1);
}

/* Restore RUN/best after a kill between two renames. */
static void restore(const struct session *s)
{
    char             best[BEST_PATH];
    struct stat      st;
    struct file_walk w;

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    file_walk_begin(&w, s->dir, NULL);
    while (lstat(best, &st) && file_walk_next(&w))
        if (file_new_is(w.name, old_name, 1) && rmdir(w.path)) // an empty folder is not a model
            file_rename_new(w.path, best, NULL);
    file_walk_end(&w, 0, NULL);
}

/* Remove folders with the name base.new-HEX that killed processes left. A folder that was RUN/best
 * may still hold somebody's file; it is carried over first, and what cannot be carried stays, as
 * where RUN/best is away. */
static int clear_left(const struct session *s, const char *base, enum best_carry_from is,
                      struct err *err)
{
    char             best[BEST_PATH];
    struct file_walk w;
    int              rc = 0;

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    file_walk_begin(&w, s->dir, NULL);
    while (!rc && file_walk_next(&w)) {
        if (!file_new_is(w.name, base, 1))
            continue;
        file_new_clean(w.path, NULL);
        if ((rc = best_carry_rest(w.path, best, is, err)) && err)
            err_set(err, rc, "%s; %s was RUN/best until a better model came, and holds "
                    "files that somebody put there: move them elsewhere, and remove it", err->text,
                    w.path);
    }
    return file_walk_end(&w, rc, err);
}

int best_clean(const struct session *s, struct err *err)
{
    char best[BEST_PATH];

    restore(s);
    int rc = clear_left(s, base_name, CARRY_PERHAPS_UNFINISHED, err);
    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    if (!rc && !access(best, F_OK)) // otherwise the old folder is the only one
        rc = clear_left(s, old_name, CARRY_REPLACED_BEFORE_KILL, err);
    return rc;
}

/* Refuses, in a sentence about `best`, if the folder at this path is not the one that was checked,
 * or if nobody can look. */
static int folder_check(const char *path, const struct stat *asked, const char *best,
                        struct err *err)
{
    struct stat st;
    int         there = file_stat(path, &st, err);

    return there < 0 ? there : there && file_same(&st, asked) ? 0 : refuse(best, err);
}

/* Call the new folder `base`.new-HEX. */
static int call(struct file_new *f, const char *run, const char *base, struct err *err)
{
    char path[BEST_PATH];

    snprintf(path, sizeof path, "%s/%s.new-%s", run, base, strrchr(f->temp, '-') + 1);
    return file_new_rename(f, path, err);
}

/* Replace RUN/best by two renames, if the file system cannot exchange folders. Refuses if the old
 * folder is not the one that was checked. After a failure, the next training restores RUN/best. */
static int exchange_by_two(struct file_new *f, const char *run, const struct stat *asked,
                           struct err *err)
{
    char            path[BEST_PATH];
    const char     *best = f->path;
    struct file_new old;

    snprintf(path, sizeof path, "%s/%s", run, old_name);
    int rc = file_new_aside(&old, best, path, err);

    if (rc)
        return rc;
    rc = folder_check(old.temp, asked, best, err);
    if (!rc && rename(f->temp, best))
        rc = err_set(err, -errno, "rename %s to %s: %s", f->temp, best, strerror(errno));
    if (rc) {
        file_rename_new(old.temp, best, NULL);
    } else { // as after an exchange
        char *temp = f->temp;

        f->temp = old.temp;
        old.temp = temp;
    }
    file_new_keep(&old);
    return rc;
}

/* An overlay renames no folder of its lower layers. */
static int in_layer(const char *best, struct err *err)
{
    return err_set(err, -EXDEV, "%s is in a layer below this overlay, where folders cannot be "
                   "renamed: let mv copy it into the upper layer (mv %s %s.1 && mv %s.1 %s), then "
                   "go on with --resume", best, best, best, best, best);
}

/* f->temp becomes the old folder, RUN/best.old.new-HEX. */
static int exchange(struct file_new *f, const char *run, const struct stat *asked, struct err *err)
{
    int rc = call(f, run, old_name, err);

    if (rc)
        return rc;
    rc = renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE) ? -errno : 0;
    int other = rc ? 0 : folder_check(f->temp, asked, f->path, err);
    if (!rc && !other)
        return 0;
    if (!rc && renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE)) {
        file_rename_new(f->temp, f->path, NULL); // somebody removed the new folder
        return other;
    }
    call(f, run, base_name, NULL);
    return !rc ? other
           : file_lacks_flags(-rc) ? exchange_by_two(f, run, asked, err)
           : rc == -EXDEV ? in_layer(f->path, err)
                          : err_set(err, rc, "rename %s to %s: %s", f->temp, f->path,
                                    strerror(-rc));
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
    rc = best_carry_names(f->path, f->temp, err);
    rc = rc ? rc : exchange(f, run, asked, err);
    rc = rc ? rc : file_sync_dir(run, err);
    rc = rc ? rc : best_carry_rest(f->temp, f->path, CARRY_REPLACED_NOW, err);
    file_new_keep(f); // f->temp is the old folder now, or best_carry_rest has removed it
    return rc;
}

/* Say in run.db that this folder is RUN/best, or is about to become it. */
static int note(struct session *s, const char *folder, struct err *err)
{
    char     here[FILE_IDENTITY];
    uint32_t sum;
    int      rc = peft_files_sum(&sum, folder, err);

    file_identity(folder, here);
    return rc ? rc
              : settings_set(s->log, err, "best.folder=%s\nbest.next=%08" PRIx32, here, sum);
}

/* Give the complete folder f its place, with a checksum in run.db before. */
static int put_best(struct session *s, struct file_new *f, struct err *err)
{
    struct stat asked;
    int         rc = ours_now(s, &asked, err); // again, after the export

    rc = rc ? rc : note(s, f->temp, err);
    rc = rc ? rc : runlog_flush(s->log, err);
    return rc ? rc : take_place(f, s->dir, &asked, err);
}

static int write_best(struct session *s, const struct params_source *source, struct err *err)
{
    char            best[BEST_PATH];
    struct stat     asked;
    struct file_new f;
    int             rc = ours_now(s, &asked, err); // again: it may have changed during training

    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    rc = rc ? rc : file_new_folder(&f, best, err);
    if (rc)
        return rc;
    rc = model_out(s, source, f.temp, 1, s->config.lora.rank ? "writing the best adapter"
                                                             : "writing the best model", err);
    rc = rc ? rc : put_best(s, &f, err);
    file_new_abort(&f);
    return rc;
}

int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err)
{
    struct params_source source;

    int rc = best_clean(s, err);

    if (rc || (rc = stream_masters(stream, step, &source, err)))
        return rc;
    rc = write_best(s, &source, err);
    if (!rc || rc == -EINTR) { // after a stop, the step is still committed
        struct err why = *err;
        int        ended = stream_masters_end(stream, err);

        if (!ended)
            *err = why;
        rc = ended ? ended : rc;
    }
    int left = best_clean(s, rc ? NULL : err);
    return rc ? rc : left;
}

/* ---- the best model of a snapshot ---- */

static int copy_files(const char *from, const char *to, struct err *err)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, from, err);

    while (!rc && file_walk_next(&w)) {
        char *file = file_path(err, "%s/%s", to, w.name);

        rc = file ? file_copy_like(w.path, file, err) : -ENOMEM;
        free(file);
    }
    return file_walk_end(&w, rc, err);
}

/* Whether RUN/best is this model and can be opened: a file next to its parameters may be gone. */
static int is_there(struct session *s, const struct best *b)
{
    struct params_source none = { 0 };
    struct model_config  g = lora_base(&s->config);
    struct hf           *whole = NULL;
    struct peft         *part = NULL;
    struct err           unsaid;
    char                 path[BEST_PATH];
    uint32_t             sum;

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    int is = s->config.lora.rank
                 ? !peft_config(&g, path, &unsaid) && !peft_files_sum(&sum, path, NULL) &&
                       sum == b->sum
                 : !best_folder(&whole, &part, &none, b, s, 1, &unsaid);
    hf_close(whole);
    return is;
}

/* The snapshot has no best model, and best.sum is about to go. After a kill before an exchange,
 * RUN/best is known by that alone. */
static int keep_known(struct session *s, struct err *err)
{
    char path[BEST_PATH];
    int  fits = 0, rc = best_clean(s, err);

    snprintf(path, sizeof path, "%s/%s", s->dir, base_name);
    rc = rc ? rc : sum_fits(&fits, s, path, err);
    return rc || !fits ? rc : note(s, path, err);
}

/* *takes: the snapshot has a best model, and RUN/best is another one. */
static int is_taken(int *takes, struct session *s, struct session *snapshot, struct err *err)
{
    struct best then;
    int         rc = best_load(&then, snapshot, err);

    *takes = !rc && then.any && !(then.sum && is_there(s, &then));
    return rc;
}

int best_take_check(struct session *s, struct session *snapshot, struct err *err)
{
    struct stat asked;
    int         takes, rc = is_taken(&takes, s, snapshot, err);

    if (rc || !takes)
        return rc;
    rc = file_check_folder(s->dir, err);
    return rc ? rc : ours_now(s, &asked, err);
}

int best_take(struct session *s, struct session *snapshot, struct err *err)
{
    char            best[BEST_PATH], from[BEST_PATH];
    struct stat     asked;
    struct file_new f;
    int             takes, rc = is_taken(&takes, s, snapshot, err);

    if (rc || !takes)
        return rc || settings_has(snapshot->log, "best.step") ? rc : keep_known(s, err);
    snprintf(best, sizeof best, "%s/%s", s->dir, base_name);
    snprintf(from, sizeof from, "%s/%s", snapshot->dir, base_name);
    rc = best_clean(s, err);
    rc = rc ? rc : ours_now(s, &asked, err);
    rc = rc ? rc : file_new_folder(&f, best, err);
    if (rc)
        return rc;
    rc = copy_files(from, f.temp, err);
    rc = rc ? rc : put_best(s, &f, err);
    file_new_abort(&f);
    int left = best_clean(s, rc ? NULL : err);
    return rc ? rc : left;
}

int best_take_record(struct session *s, struct session *snapshot, struct err *err)
{
    static const char *const keys[] = { "best.step",    "best.name",       "best.value",
                                        "best.seconds", "best.seconds_mm", "best.sum" };
    int rc = 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
        rc = settings_take(s->log, snapshot->log, keys[i], err);
    return rc;
}
