/* stdin_spool.c: copies standard input to a file that has no name (O_TMPFILE). Where a file system
 * has no such files, the file is made as any file under way (file_new.c) and loses its name at
 * once. */
#include "data/file/stdin_spool.h"

#include "data/file/file.h"

#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <unistd.h>

enum { SPOOL_BYTES = 1 << 18, LOOK_MS = 200 };

static int spooled;

int stdin_spool_is(void) { return spooled; }

static int spool_open(const char *beside, struct err *err)
{
    struct file_new f = { 0 };
    char           *name = strdup(beside), *path = NULL;
    int             fd = name ? open(dirname(name), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

    free(name);
    if (fd >= 0)
        return fd;
    if (!(path = file_path(err, "%.*s.input", (int)file_trimmed(beside), beside)))
        return -ENOMEM;
    int rc = file_new_open(&f, path, err);

    free(path);
    if (!rc && (fd = fcntl(f.fd, F_DUPFD_CLOEXEC, 0)) < 0)
        rc = err_set(err, -errno, "%s: %s", f.temp, strerror(errno));
    file_new_abort(&f);
    return rc ? rc : fd;
}

/* The next bytes. 0: there are none. Waits no longer than the watch may. */
static ssize_t read_some(char *to, uint64_t done, const struct watch *watch, struct err *err)
{
    struct pollfd p = { STDIN_FILENO, POLLIN, 0 };
    ssize_t       got;
    int           rc;

    for (;;) {
        if ((rc = watch_look(watch, done, 0, err)))
            return rc;
        if (poll(&p, 1, LOOK_MS) <= 0)
            continue;
        got = read(STDIN_FILENO, to, SPOOL_BYTES);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got >= 0 ? got
                            : err_set(err, -errno, "read standard input: %s", strerror(errno));
    }
}

int stdin_spool(const char *beside, const struct watch *watch, struct err *err)
{
    char    *buf = malloc(SPOOL_BYTES);
    int      fd = buf ? spool_open(beside, err) : err_set(err, -ENOMEM, "out of memory for input");
    uint64_t done = 0;
    ssize_t  got = fd < 0 ? fd : 1;
    int      rc;

    while (got > 0 && (got = read_some(buf, done, watch, err)) > 0) {
        if ((rc = file_pwrite(fd, buf, (size_t)got, done, "a copy of standard input", err)))
            got = rc;
        done += (uint64_t)got;
    }
    rc = (int)got;
    if (!rc && dup2(fd, STDIN_FILENO) < 0)
        rc = err_set(err, -errno, "standard input: %s", strerror(errno));
    spooled = !rc;
    file_close(fd);
    free(buf);
    return rc;
}

void stdin_spool_end(void)
{
    int fd = spooled ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
    file_close(fd);
    spooled = 0;
}
