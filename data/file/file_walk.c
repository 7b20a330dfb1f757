/* file_walk.c: reads a folder name by name. */
#include "data/file/file_walk.h"

int file_walk_begin(struct file_walk *w, const char *dir, struct err *err)
{
    *w = (struct file_walk){ .d = opendir(dir), .dir = dir };
    return w->d ? 0 : err_set(err, -errno, "open %s: %s", dir, strerror(errno));
}

int file_walk_next(struct file_walk *w)
{
    struct dirent *e;

    do {
        errno = 0;
        e = w->d ? readdir(w->d) : NULL;
    } while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
    w->error = e ? 0 : -errno;
    free(w->path);
    w->path = NULL;
    if (e && asprintf(&w->path, "%s/%s", w->dir, e->d_name) < 0) {
        w->path = NULL; // asprintf may leave anything there
        w->error = -ENOMEM;
    }
    w->name = e ? e->d_name : NULL;
    return e && !w->error;
}

int file_walk_end(struct file_walk *w, int rc, struct err *err)
{
    if (w->d)
        closedir(w->d);
    free(w->path);
    return rc || !w->error ? rc : err_set(err, w->error, "read the names in %s: %s", w->dir,
                                          strerror(-w->error));
}
