/* file.c: prints a report into a new file, which appears under its name when it is complete. */
#include "report/report.h"

#include "data/file/file.h"

#include <unistd.h>

int report_file(const struct output *o, int (*print)(FILE *out, void *ctx, struct err *err),
                void *ctx, struct err *err)
{
    const char     *path = o->path;
    struct file_new f = { 0 };
    int             rc = file_new_open(&f, path, err);

    if (rc)
        return rc;
    int   fd = dup(f.fd); // the lock stays with f
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (!out) {
        rc = err_set(err, -errno, "write %s: %s", path, strerror(errno));
        file_close(fd);
    } else {
        rc = print(out, ctx, err);
        errno = 0;
        int bad = ferror(out) | fflush(out);
        bad |= fclose(out);
        if (bad && !rc)
            rc = err_set(err, errno ? -errno : -EIO, "write %s: %s", path,
                         strerror(errno ? errno : EIO));
    }
    rc = rc ? rc : output_check(o, err); // once more: the path may be in use by now
    if (rc)
        file_new_abort(&f);
    return rc ? rc : file_new_commit(&f, err);
}
