/* append.c: writes a new file through a buffer, so that small writes become few. */
#include "data/file/append.h"

#include "data/base/round.h"

int append_open(struct append *a, const char *path, uint64_t off, struct err *err)
{
    *a = (struct append){ .buf = malloc(APPEND_BYTES), .off = off };
    int rc = a->buf ? file_new_open(&a->f, path, err)
                    : err_set(err, -ENOMEM, "no memory to write %s", path);
    if (rc)
        append_close(a);
    return rc;
}

int append_go(struct append *a, const struct file_new *f, uint64_t off, struct err *err)
{
    *a = (struct append){ .f = *f, .buf = malloc(APPEND_BYTES), .off = off };
    return a->buf ? 0 : err_set(err, -ENOMEM, "no memory to write %s", f->path);
}

int append_flush(struct append *a, struct err *err)
{
    int rc = file_pwrite(a->f.fd, a->buf, a->used, a->off, a->f.path, err);

    if (!rc) {
        a->off += a->used;
        a->used = 0;
    }
    return rc;
}

int append_add(struct append *a, const void *bytes, size_t n, struct err *err)
{
    const unsigned char *from = bytes;

    for (size_t part; n > 0; from += part, n -= part) {
        int rc = a->used == APPEND_BYTES ? append_flush(a, err) : 0;

        if (rc)
            return rc;
        part = size_min(n, APPEND_BYTES - a->used);
        memcpy(a->buf + a->used, from, part);
        a->used += part;
    }
    return 0;
}

void append_close(struct append *a)
{
    file_new_abort(&a->f);
    free(a->buf);
    *a = (struct append){ .f.fd = -1 };
}
