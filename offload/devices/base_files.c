/* base_files.c: reads parameters from the files of a base, and converts them. A part is read into
 * memory of the caller, then converted to its place. If the file has the wanted format already and
 * the page cache is used, it is read to its place at once. */
#include "offload/devices/base_files.h"

#include "data/base/f16.h"
#include "data/file/file.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"

#include <unistd.h>

/* ---- files that change */

/* Says that a file is not as it was opened. */
static int changed(const struct base_file *f, struct err *err)
{
    return err_set(err, -ESTALE, "%s is a file of the base, and was changed while this run "
                   "used it: put the file back as it was, and go on with --resume", f->path);
}

/* Compares the file's size and time of last writing. */
static int unwritten(const struct base_file *f, struct stat *now, struct err *err)
{
    if (fstat(f->fd, now))
        return err_set(err, -errno, "stat %s: %s", f->path, strerror(errno));
    return file_unwritten(now, &f->was) ? 0 : changed(f, err);
}

int base_files_unchanged(const struct base_files *b, struct err *err)
{
    struct stat now;

    for (size_t i = 0; b && i < b->n; i++) {
        const struct base_file *f = &b->file[i];
        int                     rc = unwritten(f, &now, err), is = rc == 0;

        if (is && file_ns(&now.st_ctim) != file_ns(&f->was.st_ctim))
            is = b->contents ? b->contents(b->ctx, i, &now, err) : 0;
        if (is != 1)
            return rc ? rc : is < 0 ? is : changed(f, err);
    }
    return 0;
}

/* ---- one read */

/* Reads at least `bytes` from byte `off` on, and at most `most`. *read: how many bytes. A file that
 * ends earlier has changed. -EINVAL: no direct read can do this here. */
static int range_read(const struct base_file *f, int fd, void *to, size_t bytes, size_t most,
                      uint64_t off, size_t *read, struct err *err)
{
    for (*read = 0; *read < bytes;) {
        ssize_t n = pread(fd, (char *)to + *read, most - *read, (off_t)(off + *read));

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return err_set(err, -errno, "read %s at byte %" PRIu64 ": %s", f->path,
                           off + *read, strerror(errno));
        if (n == 0)
            return changed(f, err);
        *read += (size_t)n;
        if (*read < bytes && *read % BASE_ALIGN && fd != f->fd)
            return -EINVAL; // at the file's end, or on a file system with smaller units
    }
    return 0;
}

/* Reads n parameters of a piece into the part's buffer. *from: where they begin in it; *read: the
 * bytes that were read for them. */
static int piece_read(const struct base_files *b, const struct base_part *p,
                      const struct base_piece *at, size_t n, char **from, size_t *read,
                      struct err *err)
{
    const struct base_file *f = &b->file[at->file];
    size_t bytes = n * dtype_bytes(at->dt), before = at->off % BASE_ALIGN;
    int    fd = p->direct ? p->direct[at->file] : -1;

    if (fd >= 0) {
        int rc = range_read(f, fd, p->buffer, before + bytes, round_up(before + bytes, BASE_ALIGN),
                            at->off - before, read, err);

        *from = (char *)p->buffer + before;
        if (rc != -EINVAL)
            return rc;
    }
    *from = p->buffer;
    return range_read(f, f->fd, p->buffer, bytes, bytes, at->off, read, err);
}

/* Converts n elements of a file. Those of fp16 are widened first, as an import does it. */
static void piece_convert(void *to, enum dtype dt, const char *from, enum dtype file_dt, size_t n)
{
    float    wide[1024];
    uint16_t half;

    if (file_dt != DT_F16) {
        convert(to, dt, from, file_dt, n);
        return;
    }
    for (size_t i = 0, k; i < n; i += k) {
        k = size_min(n - i, sizeof wide / sizeof *wide);
        for (size_t j = 0; j < k; j++) {
            memcpy(&half, from + (i + j) * sizeof half, sizeof half);
            wide[j] = f16_to_f32(half);
        }
        convert(dtype_at(to, dt, i), dt, wide, DT_F32, k);
    }
}

int base_files_part(const struct base_files *b, const struct base_part *p, size_t *n,
                    struct link_meter *meter, struct err *err)
{
    struct base_piece at = b->piece(b->ctx, p->block, p->first);
    size_t            each = dtype_bytes(at.dt), read;
    int               direct = p->direct && p->direct[at.file] >= 0, rc;
    char             *from = p->to;
    struct stat       now;
    struct err        why;

    *n = size_min(size_min(at.n, p->n), BASE_READ / each);
    size_t bytes = *n * each;
    if (at.dt == p->dt && !direct)
        rc = range_read(&b->file[at.file], b->file[at.file].fd, p->to, bytes, bytes, at.off, &read,
                        &why);
    else
        rc = piece_read(b, p, &at, *n, &from, &read, &why);
    if (rc && rc != -ESTALE)
        return err_set(err, rc, "%s (block %zu)", why.text, p->block);
    rc = rc ? err_set(err, rc, "%s", why.text) : unwritten(&b->file[at.file], &now, err);
    if (rc)
        return rc;
    link_meter_count(meter, LINK_FILES, CLASS_BASE, LINK_READ, bytes, read);
    if (from == p->to)
        return 0;
    if ((uintptr_t)from % each) // a header of odd length
        from = memmove(p->buffer, from, bytes);
    piece_convert(p->to, p->dt, from, at.dt, *n);
    return 0;
}

/* ---- without a stream */

int base_files_read(const struct base_files *b, enum dtype dt, size_t block, size_t first, size_t n,
                    float *out, struct err *err)
{
    enum { PIECE = 8192 };
    uint32_t          raw[PIECE];
    float             rounded[PIECE];
    struct link_meter unused = { 0 };
    struct base_part  p = { .block = block, .to = rounded, .dt = dt, .buffer = raw };

    for (size_t k; n; first += k, out += k, n -= k) {
        p.first = first;
        p.n = size_min(n, PIECE);
        int rc = base_files_part(b, &p, &k, &unused, err);

        if (rc)
            return rc;
        convert(out, DT_F32, rounded, dt, k);
    }
    return 0;
}

uint64_t base_files_bytes(const struct base_files *b, size_t block, size_t first, size_t n)
{
    uint64_t bytes = 0;

    for (size_t k; n; first += k, n -= k) {
        struct base_piece at = b->piece(b->ctx, block, first);

        k = size_min(at.n, n);
        bytes += k * dtype_bytes(at.dt);
    }
    return bytes;
}
