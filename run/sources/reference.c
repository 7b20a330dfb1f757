/* reference.c: reads and writes the file as a whole. It has 8 bytes an example, which training has
 * in memory anyway. */
#include "run/sources/reference.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "run/folder/settings.h"

#include <unistd.h>

struct header {
    char     magic[8];
    uint32_t version, of; // of: checksum of the examples (examples_header.crc)
    uint64_t rows;
    uint32_t spare, crc;  // crc: of the header up to here, and of all that follows
};

static const char magic[8] = "siTpref";

static uint32_t sum_of(const struct header *h, const double *logp)
{
    return crc32c(crc32c(0, h, offsetof(struct header, crc)), logp, h->rows * sizeof *logp);
}

static struct header header_of(const struct examples *x)
{
    struct header h = { .version = 1, .of = x->h.crc, .rows = x->h.rows };

    memcpy(h.magic, magic, sizeof magic);
    return h;
}

static char *path_of(const struct session *s, const char *name, struct err *err)
{
    return file_path(err, "%s/%s.ref", session_data_dir(s), name);
}

/* *fits: the file has the examples' log-probabilities with this checksum. */
static int fits(double *logp, const char *path, const struct examples *x, uint32_t sum, int *out,
                struct err *err)
{
    struct header h, expected = header_of(x);
    uint64_t      size;
    int           fd, rc = file_open_read(path, &fd, &size, err);

    *out = 0;
    if (rc)
        return rc;
    if (size == sizeof h + x->h.rows * sizeof *logp) {
        rc = file_pread(fd, &h, sizeof h, 0, path, err);
        rc = rc ? rc : file_pread(fd, logp, x->h.rows * sizeof *logp, sizeof h, path, err);
        *out = !rc && !memcmp(&h, &expected, offsetof(struct header, crc)) && h.crc == sum &&
               sum_of(&h, logp) == sum;
    }
    close(fd);
    return rc;
}

int reference_read(double **out, struct session *s, const char *name, const struct examples *x,
                   struct err *err)
{
    char    *path = path_of(s, name, err);
    double  *logp = malloc(x->h.rows * sizeof *logp);
    uint32_t sum;
    int      whole = 0, rc = path && logp ? 0 : err_set(err, -ENOMEM, "%s: out of memory", s->dir);

    *out = NULL;
    if (!rc && settings_scan(s->log, "%" SCNx32, &sum, "%s.ref", name) && file_may_be(path)) {
        rc = fits(logp, path, x, sum, &whole, err);
        if (!rc && !whole)
            rc = err_set(err, -EBADMSG, "%s is not what this run was made with (checksum differs)",
                         path);
    }
    if (!rc && whole) {
        *out = logp;
        logp = NULL;
    }
    free(logp);
    free(path);
    return rc;
}

/* Misuse if the file that is there is not the one that would be written. */
static int is_same(const char *path, const struct examples *x, uint32_t sum, struct err *err)
{
    double *logp = malloc(x->h.rows * sizeof *logp);
    int     same = 0, rc = logp ? fits(logp, path, x, sum, &same, err)
                                : err_set(err, -ENOMEM, "%s: out of memory", path);

    free(logp);
    return rc || same ? rc : err_misuse(err, "%s is not this run's: move it elsewhere", path);
}

int reference_write(struct session *s, const char *name, const struct examples *x,
                    const double *logp, struct err *err)
{
    char            *path = path_of(s, name, err);
    struct header    h = header_of(x);
    struct file_new  f = { 0 };
    size_t           bytes = x->h.rows * sizeof *logp;
    int              rc = path ? file_new_open(&f, path, err) : -ENOMEM;

    if (rc) {
        free(path);
        return rc;
    }
    h.crc = sum_of(&h, logp);
    rc = f.there ? is_same(path, x, h.crc, err) : 0;
    rc = rc ? rc : settings_set(s->log, err, "%s.ref=%08" PRIx32, name, h.crc);
    rc = rc || f.there ? rc : file_pwrite(f.fd, &h, sizeof h, 0, path, err);
    rc = rc || f.there ? rc : file_pwrite(f.fd, logp, bytes, sizeof h, path, err);
    rc = rc || f.there ? rc : file_new_commit(&f, err);
    file_new_abort(&f);
    free(path);
    return rc;
}
