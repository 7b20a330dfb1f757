/* file_look.c: whether something is at a path. A look that fails does not show that nothing is. */
#include "data/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int file_is_there(const char *path)
{
    int rc = access(path, F_OK);

    return !rc || (!file_is_absent(errno) && !access(path, F_OK));
}

int file_may_be(const char *path) { return file_is_there(path) || !file_is_absent(errno); }

int file_exists(const char *path, struct err *err)
{
    if (file_is_there(path))
        return 1;
    return file_is_absent(errno) ? 0 : err_set(err, -errno, "%s cannot be read: %s", path,
                                               strerror(errno));
}

int file_stat(const char *path, struct stat *st, struct err *err)
{
    if (!lstat(path, st))
        return 1;
    return file_is_absent(errno) ? 0 : err_set(err, -errno, "%s cannot be read: %s", path,
                                               strerror(errno));
}

int file_statx(struct statx *x, const char *path, int flags, unsigned more)
{
    int rc = -1;

    for (int i = 0; rc && i < 2; i++)
        rc = statx(AT_FDCWD, path, flags, STATX_BASIC_STATS | more, x);
    return rc;
}
