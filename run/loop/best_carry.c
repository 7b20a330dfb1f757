/* best_carry.c: moves other people's files from the old folder of the best model to the new one. It
 * moves names and copies nothing: a file keeps its inode, so a process that has it open, or works
 * in a folder, is not disturbed. */
#include "run/loop/best_carry.h"

#include "data/base/file.h"
#include "run/folder/output.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

/* The state of moving the files of one folder to another. */
struct carry {
    struct timespec exchanged; // when `from` became the old folder, or a little later
    int             top;       // not in a subfolder, where no name is the model's
    int             killed;
};

static int is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static int refuse(const char *path, const char *why, struct err *err)
{
    return err_misuse(err, "%.1000s, in the folder of the best model, which training replaces, %s",
                      path, why);
}

int best_carry_check(const char *best, struct err *err)
{
    const char    *why = file_fixed(best);
    char          *mounted = why ? NULL : file_mounted(best);
    DIR           *d = why || mounted ? NULL : opendir(best);
    struct dirent *e;
    int            rc = 0;

    if (why)
        rc = err_misuse(err, "%s, the folder of the best model, which training replaces, %s", best,
                        why);
    else if (mounted)
        rc = refuse(mounted, "is mounted: unmount it first", err);
    else if (!d)
        rc = err_set(err, -errno, "open %s: %s", best, strerror(errno));
    while (!rc && (e = readdir(d))) {
        char *path = is_dots(e->d_name) ? NULL : file_path(err, "%s/%s", best, e->d_name);

        if (path && (why = file_fixed(path)))
            rc = refuse(path, why, err);
        free(path);
    }
    file_close_dir(d);
    free(mounted);
    return rc;
}

int best_carry_names(const char *best, const char *next, struct err *err)
{
    DIR           *d = opendir(best);
    struct dirent *e;
    struct stat    st;
    int            rc = d ? 0 : err_set(err, -errno, "open %s: %s", best, strerror(errno));

    while (!rc && (e = readdir(d))) {
        char *a = file_path(err, "%s/%s", best, e->d_name);
        char *b = file_path(err, "%s/%s", next, e->d_name);

        if (!a || !b)
            rc = -ENOMEM;
        else if (!lstat(a, &st) && !S_ISDIR(st.st_mode) && link(a, b))
            errno = 0; // the model's own, or it follows
        free(a);
        free(b);
    }
    file_close_dir(d);
    return rc;
}

static int is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

static int carry_folder(const char *from, const char *to, const struct carry *c, struct err *err);

/* Both folders have the name. */
static int carry_both(const char *a, const struct stat *sa, const char *b, const struct stat *sb,
                      const struct carry *c, struct err *err)
{
    struct carry below = { .exchanged = c->exchanged, .killed = c->killed };

    if (S_ISDIR(sa->st_mode) && S_ISDIR(sb->st_mode))
        return carry_folder(a, b, &below, err);
    if ((sa->st_ino == sb->st_ino && sa->st_dev == sb->st_dev) ||
        is_later(&sb->st_ctim, &c->exchanged) || is_later(&sb->st_mtim, &sa->st_mtim))
        return 0;
    return rename(a, b) ? err_set(err, -errno, "rename %s to %s: %s", a, b, strerror(errno)) : 0;
}

/* `to` does not have the name. A folder in a lower layer of an overlay cannot be renamed, but its
 * files can. */
static int carry_new(const char *a, const struct stat *sa, const char *b, const struct carry *c,
                     struct err *err)
{
    struct carry below = { .exchanged = c->exchanged, .killed = c->killed };
    int          rc = file_rename_new(a, b, err);

    if (rc != -EXDEV || !S_ISDIR(sa->st_mode))
        return rc == -EEXIST ? 0 : rc; // one that came just now stays
    if (mkdir(b, 0700))
        return err_set(err, -errno, "mkdir %s: %s", b, strerror(errno));
    rc = carry_folder(a, b, &below, err);
    file_like_at(b, a);
    return rc;
}

static int carry_folder(const char *from, const char *to, const struct carry *c, struct err *err)
{
    DIR           *d = opendir(from);
    struct dirent *e;
    struct stat    sa, sb;
    int            rc = d ? 0 : err_set(err, -errno, "open %s: %s", from, strerror(errno));

    while (!rc && (e = readdir(d))) {
        int   is_model = c->top && output_is_model(e->d_name);
        char *a = file_path(err, "%s/%s", from, e->d_name);
        char *b = file_path(err, "%s/%s", to, e->d_name);

        if (!a || !b)
            rc = -ENOMEM;
        else if (is_dots(e->d_name) || (is_model && c->killed) || lstat(a, &sa))
            rc = 0;
        else if (lstat(b, &sb))
            rc = carry_new(a, &sa, b, c, err);
        else if (!is_model)
            rc = carry_both(a, &sa, b, &sb, c, err);
        free(a);
        free(b);
    }
    file_close_dir(d);
    return rc;
}

int best_carry_rest(const char *old, const char *best, int killed, struct err *err)
{
    struct carry c = { .top = 1, .killed = killed };
    struct stat  st;

    if (stat(old, &st))
        return err_set(err, -errno, "stat %s: %s", old, strerror(errno));
    c.exchanged = st.st_ctim; // the exchange changed its name
    return carry_folder(old, best, &c, err);
}
