/* file_names.h: notes the files of a folder that is replaced, tells whether they have changed, and
 * removes them, and nothing that came to the folder since.
 *
 *     rc = file_names_take(&names, dir, err);     // before the last look at what it holds
 *     ...                                         // the folder loses its name
 *     left = file_names_remove(&names, dir);
 *     file_names_release(&names);
 *
 * A process that works in the folder, as with `cd`, has it open under any name, and may save a file
 * in it at any moment. */
#pragma once

#include "data/base/err.h"
#include "data/file/file.h"

struct file_names {
    struct file_name { char *name, identity[FILE_IDENTITY]; struct stat st; } *at;
    size_t n;
};

/* Notes the files of a folder, with size, times and file_identity of each: vfat and exFAT change
 * inodes at any time. Returns 0 or -errno. */
int file_names_take(struct file_names *out, const char *dir, struct err *err);
/* Returns the latest change (ctime) of the noted files, in nanoseconds since 1970. 0: none. */
uint64_t file_names_newest(const struct file_names *names);
/* Returns 1 if the folder has the noted files as they were and no others, 0 if not, or -errno.
 * `dir` may be another path to it than before. */
int file_names_same(const struct file_names *names, const char *dir, struct err *err);
/* Removes those that are as they were, and then the folder, whose path may be another one by now.
 * Returns 1 if something else is in it: that, and the folder, stay. */
int  file_names_remove(const struct file_names *names, const char *dir);
void file_names_release(struct file_names *names);
