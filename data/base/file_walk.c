/* file_walk.c: reads a folder name by name. */
#include "data/base/file_walk.h"

int file_walk_begin(struct file_walk *w, const char *dir, struct err *err)
{
    *w = (struct file_walk){ .d = opendir(dir), .dir = dir };
    return w->d ? 0 : err_set(err, -errno, "open %s: %s", dir, strerror(errno));
}

int file_walk_next(struct file_walk *w)
{
    struct dirent *e = w->d ? readdir(w->d) : NULL;

    while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")))
        e = readdir(w->d);
    free(w->path);
    w->path = NULL;
    w->ended = e && asprintf(&w->path, "%s/%s", w->dir, e->d_name) < 0;
    w->name = e ? e->d_name : NULL;
    return e && !w->ended;
}

int file_walk_end(struct file_walk *w, int rc, struct err *err)
{
    if (w->d)
        closedir(w->d);
    free(w->ended ? NULL : w->path); // asprintf may leave anything there
    return rc || !w->ended ? rc : err_set(err, -ENOMEM, "no memory for the names in %s", w->dir);
}
