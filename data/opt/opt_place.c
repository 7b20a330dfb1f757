// opt_place.c: the paths of drives and folders that a run keeps for other processes
#include "data/opt/opt_row.h"

#include "data/file/file.h"

#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

int opt_place_missing(const struct opt_row *r, const char *text, struct err *err)
{
    if (r->arg && !strcmp(r->arg, "DIR"))
        return err_misuse(err, "--%s %s: nothing here has this name, and an existing folder is "
                          "expected", r->name, text);
    return err_misuse(err, "--%s %s: nothing here has this name. --%s names a drive, a folder or a "
                      "file for one device's %s (siTrain trains on the CPU); ./%s makes a file of "
                      "this name", r->name, text, r->name, r->words ? "activations" : "states",
                      text);
}

/* Whether the path leads through /proc, as /dev/fd/3 and /dev/stdin do. */
static int is_in_proc(const char *path)
{
    char          at[PATH_MAX], to[6];
    struct statfs fs;

    for (size_t n = 1; n < sizeof at; n++) {
        if (path[n] && path[n] != '/')
            continue;
        snprintf(at, sizeof at, "%.*s", (int)n, path);
        if ((!statfs(at, &fs) && fs.f_type == PROC_SUPER_MAGIC) ||
            (readlink(at, to, sizeof to) == sizeof to && !memcmp(to, "/proc/", sizeof to)))
            return 1;
        if (!path[n])
            break;
    }
    return 0;
}

int opt_place(char **out, const char *option, const char *text, struct err *err)
{
    int rc = 0;

    if (!(*out = file_absolute(text, err)))
        return -ENOMEM;
    if (strchr(*out, '\n'))
        rc = err_misuse(err, "--%s: a path without line breaks is expected, because run.db has one "
                        "on each line, but one has a line break after %.*s", option,
                        (int)strcspn(*out, "\n"), *out);
    else if (is_in_proc(*out))
        rc = err_misuse(err, "--%s %s: what is in /proc is another file in each process: give the "
                        "path of the drive, folder or file itself", option, text);
    if (!rc)
        return 0;
    free(*out);
    *out = NULL;
    return rc;
}
