/* file_walk.h: goes over the names in a folder, in no order, without "." and "..".
 *
 *     rc = file_walk_begin(&w, dir, err);
 *     while (!rc && file_walk_next(&w))
 *         rc = look_at(w.path, w.name, err);
 *     rc = file_walk_end(&w, rc, err); */
#pragma once

#include "data/base/err.h"

#include <dirent.h>

struct file_walk {
    DIR        *d;
    const char *dir;   // borrowed
    const char *name;  // until the next call
    char       *path;  // dir/name, until the next call
    int         error; // -errno: it ended before the last name
};

/* Returns 0, or -errno with a sentence. Then there are no names. */
int file_walk_begin(struct file_walk *w, const char *dir, struct err *err);
int file_walk_next(struct file_walk *w); // returns 0 behind the last name
/* Closes the folder. Returns rc. If that is 0 and not all names were gone over, returns -errno with
 * a sentence: the folder may hold more. */
int file_walk_end(struct file_walk *w, int rc, struct err *err);
