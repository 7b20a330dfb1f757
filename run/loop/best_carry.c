/* best_carry.c: moves other people's files from the old folder of the best model to the new one. It
 * moves names and copies nothing: a file keeps its inode, so a process that has it open, or works
 * in a folder, is not disturbed. */
#include "run/loop/best_carry.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "run/folder/output.h"

#include <sys/stat.h>
#include <unistd.h>

/* The state of moving the files of one folder to another. */
struct carry {
    struct timespec exchanged; // when `from` became the old folder, or a little later
    int             top;       // not in a subfolder, where no name is the model's
    enum best_carry_from is;
    int             removes; // what is not kept, too: large files take a while, so after all moves
};

static const char is_folder[] = "is a folder with the name of a model's file: rename it";

static int refuse(const char *path, const char *why, struct err *err)
{
    return err_misuse(err, "%s, in the folder of the best model, which training replaces, %s",
                      path, why);
}

/* Whether files of this folder cannot be moved to the one around it, as out of a subvolume. */
static int is_apart(const char *best)
{
    struct stat st, up;
    char       *around = file_path(NULL, "%s/..", best);
    int         apart = around && !stat(best, &st) && !stat(around, &up) && st.st_dev != up.st_dev;

    free(around);
    return apart;
}

int best_carry_check(const char *best, struct err *err)
{
    const char      *why = is_apart(best) ? "is a subvolume: make it an ordinary folder"
                                          : file_fixed(best);
    char            *mounted = NULL;
    struct file_walk w = { 0 };
    struct stat      st;
    int              rc = why ? 0 : file_mounted(&mounted, best, err);

    if (why)
        rc = err_misuse(err, "%s, the folder of the best model, which training replaces, %s", best,
                        why);
    else if (mounted)
        rc = refuse(mounted, "is mounted: unmount it first", err);
    else if (!rc)
        rc = file_walk_begin(&w, best, err);
    while (!rc && file_walk_next(&w))
        if ((why = file_fixed(w.path)))
            rc = refuse(w.path, why, err);
        else if (output_is_model(w.name) && !lstat(w.path, &st) && S_ISDIR(st.st_mode))
            rc = refuse(w.path, is_folder, err);
    free(mounted);
    return file_walk_end(&w, rc, err);
}

static int is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Whether this file had its name for a while when the folder with status `at` was changed. An
 * editor's temporary file had not: it is about to be renamed. In the new folder its second name
 * would be there also for the editor's next save, whose rename would find older bytes. */
static int is_settled(const struct stat *st, const struct stat *at)
{
    struct timespec then = { st->st_ctim.tv_sec + 1, st->st_ctim.tv_nsec };

    return !is_later(&then, &at->st_ctim);
}

/* Gives the file or folder at `path` a second name in the new folder, if it is to have one: the
 * model's own have theirs already, and others follow. A folder cannot follow to a file's name. */
static int carry_second(const char *path, const char *name, const char *second,
                        const struct stat *next, struct err *err)
{
    struct stat st, there;

    if (lstat(path, &st))
        return 0;
    if (S_ISDIR(st.st_mode) && !lstat(second, &there) && !S_ISDIR(there.st_mode))
        return refuse(path, is_folder, err);
    if (!S_ISDIR(st.st_mode) && (output_is_model(name) || is_settled(&st, next)) &&
        link(path, second))
        errno = 0; // the model's own, or it follows
    return 0;
}

int best_carry_names(const char *best, const char *next, struct err *err)
{
    struct file_walk w;
    struct stat      at;
    int              rc = file_walk_begin(&w, best, err);

    if (!rc && stat(next, &at))
        rc = err_set(err, -errno, "open %s: %s", next, strerror(errno));
    while (!rc && file_walk_next(&w)) {
        char *b = file_path(err, "%s/%s", next, w.name);

        rc = b ? carry_second(w.path, w.name, b, &at, err) : -ENOMEM;
        free(b);
    }
    return file_walk_end(&w, rc, err);
}

static int carry_folder(const char *from, const char *to, const struct carry *c, struct err *err);

/* A name may go while it is carried: then somebody has moved or removed it, and nothing is left to
 * do. */
static int fails(int e, const char *a, const char *b, struct err *err)
{
    struct stat st;

    return e == ENOENT && lstat(a, &st)
               ? 0 : err_set(err, -e, "rename %s to %s: %s", a, b, strerror(e));
}

static int drop(const char *a, const struct carry *c)
{
    if (c->removes)
        unlink(a); // if this fails, the folder stays
    return 0;
}

/* Both folders have the name. The one that is not kept is removed from the old folder. */
static int carry_both(const char *a, const struct stat *sa, const char *b, const struct stat *sb,
                      const struct carry *c, struct err *err)
{
    struct carry below = *c;

    below.top = 0;
    if (S_ISDIR(sa->st_mode) && S_ISDIR(sb->st_mode)) {
        int rc = carry_folder(a, b, &below, err);

        rmdir(a);
        return rc;
    }
    int same = file_same(sa, sb);
    int saved = is_later(&sb->st_ctim, &c->exchanged);
    // `b` is a second name of an earlier file; its times tell where the exchange's is not known
    if (c->is != CARRY_REPLACED_NOW || !is_later(&c->exchanged, &sb->st_ctim))
        saved |= is_later(&sb->st_mtim, &sa->st_mtim);
    if ((same || saved) && !S_ISDIR(sa->st_mode))
        return drop(a, c);
    return rename(a, b) ? fails(errno, a, b, err) : 0;
}

/* `to` does not have the name. A folder in a lower layer of an overlay cannot be renamed, but its
 * files can. */
static int carry_new(const char *a, const struct stat *sa, const char *b, const struct carry *c,
                     struct err *err)
{
    struct carry below = *c;
    struct err   why = { 0 };
    int          rc = file_rename_new(a, b, &why);

    if (rc != -EXDEV || !S_ISDIR(sa->st_mode))
        return !rc || rc == -EEXIST ? 0 : fails(-rc, a, b, err); // one that came just now stays
    if (mkdir(b, 0700))
        return err_set(err, -errno, "mkdir %s: %s", b, strerror(errno));
    below.top = 0;
    rc = carry_folder(a, b, &below, err);
    file_like_at(b, a);
    rmdir(a);
    return rc;
}

static int carry_name(const char *a, const char *b, int may_be_model, const struct carry *c,
                      struct err *err)
{
    struct stat sa, sb;

    if (lstat(a, &sa))
        return 0;
    int is_model = may_be_model && !S_ISDIR(sa.st_mode), there = !lstat(b, &sb);
    if (is_model && (there || c->is == CARRY_PERHAPS_UNFINISHED))
        return drop(a, c);
    return there ? carry_both(a, &sa, b, &sb, c, err) : carry_new(a, &sa, b, c, err);
}

static int carry_folder(const char *from, const char *to, const struct carry *c, struct err *err)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, from, err);

    rc = rc == -ENOENT ? 0 : rc;
    while (!rc && file_walk_next(&w)) {
        char *b = file_path(err, "%s/%s", to, w.name);

        rc = b ? carry_name(w.path, b, c->top && output_is_model(w.name), c, err) : -ENOMEM;
        free(b);
    }
    return file_walk_end(&w, rc, err);
}

int best_carry_rest(const char *old, const char *best, enum best_carry_from is,
                    struct err *err)
{
    struct carry c = { .top = 1, .is = is };
    struct stat  st;

    if (stat(old, &st))
        return err_set(err, -errno, "stat %s: %s", old, strerror(errno));
    c.exchanged = st.st_ctim; // the exchange changed its name
    int rc = carry_folder(old, best, &c, err);
    c.removes = 1;
    rc = rc ? rc : carry_folder(old, best, &c, err);
    if (!rc)
        rmdir(old); // it stays if something came just now: the next training carries that
    return rc;
}
