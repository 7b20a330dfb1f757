/* file_names.c: notes the files of a folder, and finds or removes those that are as they were. */
#include "data/file/file_names.h"

#include "data/base/round.h"
#include "data/base/table.h"
#include "data/file/file_walk.h"

#include <unistd.h>

static int add(struct file_names *f, const struct file_walk *w, struct err *err)
{
    struct stat st;
    int         rc = file_stat(w->path, &st, err);

    if (rc <= 0 || !S_ISREG(st.st_mode))
        return rc < 0 ? rc : 0;
    struct file_name *more = realloc(f->at, (f->n + 1) * sizeof *more);
    if (more)
        f->at = more;
    char *name = more ? strdup(w->name) : NULL;
    if (!name)
        return err_set(err, -ENOMEM, "no memory for the names in %s", w->dir);
    f->at[f->n] = (struct file_name){ .name = name, .st = st };
    file_identity(w->path, f->at[f->n].identity);
    if (*f->at[f->n].identity) {
        f->n++;
        return 0;
    }
    int errnum = errno;
    free(name);
    return file_is_absent(errnum) ? 0 : err_set(err, -errnum, "%s cannot be read: %s", w->path,
                                                strerror(errnum));
}

int file_names_take(struct file_names *out, const char *dir, struct err *err)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, dir, err);

    *out = (struct file_names){ 0 };
    while (!rc && file_walk_next(&w))
        rc = add(out, &w, err);
    return file_walk_end(&w, rc, err);
}

uint64_t file_names_newest(const struct file_names *names)
{
    uint64_t newest = 0;

    for (size_t i = 0; i < names->n; i++)
        newest = size_max(newest, file_ns(&names->at[i].st.st_ctim));
    return newest;
}

/* The path of the file in `dir`, malloced, if the file is there as it was noted; otherwise NULL. */
static char *as_noted(const struct file_name *f, const char *dir)
{
    struct stat st;
    char       *path = file_path(NULL, "%s/%s", dir, f->name);

    if (path && !lstat(path, &st) && file_is(path, f->identity) && file_unwritten(&st, &f->st))
        return path;
    free(path);
    return NULL;
}

static int has(const struct file_names *names, const struct file_name *f)
{
    const struct file_name *known = table_find(names->at, names->n, sizeof *names->at, f->name);

    return known && !strcmp(known->identity, f->identity) && file_unwritten(&known->st, &f->st);
}

int file_names_same(const struct file_names *names, const char *dir, struct err *err)
{
    struct file_names now;
    int               rc = file_names_take(&now, dir, err), same = now.n == names->n;

    for (size_t i = 0; i < names->n && same; i++)
        same = has(&now, &names->at[i]);
    file_names_release(&now);
    return rc ? rc : same;
}

int file_names_remove(const struct file_names *names, const char *dir)
{
    for (size_t i = 0; i < names->n; i++) {
        char *path = as_noted(&names->at[i], dir);

        if (path)
            unlink(path); // if this fails, it stays, and the folder with it
        free(path);
    }
    return rmdir(dir) && errno != ENOENT;
}

void file_names_release(struct file_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i].name);
    free(names->at);
    *names = (struct file_names){ 0 };
}
