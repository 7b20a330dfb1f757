/* parity_mend.c: makes again what a snapshot with parity has lost. A chunk is lost if its file is
 * missing, if it cannot be read, or if its checksum is wrong. Each stripe is read whole and
 * decoded, and what was lost of it is written where it belongs. Lengths, superblocks and headers
 * follow from the snapshot's run.db, the sums from another parity file. */
#include "offload/upkeep/parity_files_parts.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "offload/devices/devices.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- files ---- */

/* Before anything is written to a file that was there. */
static int write_check(int fd, const char *path, struct err *err)
{
    struct stat st;

    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return err_set(err, -EROFS, "%s is damaged, and is not mended, because this user may only "
                       "read it", path);
    if (fstat(fd, &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    return file_refuse_links(path, &st, err);
}

static int file_make(const char *path, struct err *err)
{
    int made, rc = file_open_own(path, O_CREAT | O_EXCL, &made, err);

    if (rc)
        return rc;
    file_give_owner(made, path);
    rc = fchmod(made, 0600) ? err_set(err, -errno, "chmod %s: %s", path, strerror(errno)) : 0;
    close(made);
    return rc ? rc : file_sync_parent(path, err);
}

static int empty_open(int *fd, const char *path, struct err *err)
{
    int own, rc = file_open_own(path, 0, &own, err);

    if (rc)
        return rc;
    *fd = file_open_empty(own, path, 1, err);
    close(own);
    return *fd < 0 ? *fd : 0;
}

/* Opens a file for reading, and for writing if that is wanted and this user may. */
static int open_to_mend(const struct parity_files *p, const char *path)
{
    int fd = p->look ? -EROFS : file_open_uncached(path, O_RDWR | O_NOFOLLOW);

    return fd == -EROFS || file_is_denied(fd) ? file_open_uncached(path, O_RDONLY) : fd;
}

/* Opens a file for mending, and makes it if it is not there. */
static int file_begin(struct parity_files *p, int *fd, const char *path, uint64_t bytes,
                      struct err *err)
{
    struct stat st;
    struct err  why;
    int         rc = file_check_own(path, 0, &why); // a link may lead to anybody's file

    *fd = -1;
    if (rc && p->look)
        return parity_damage(p, "%s", why.text), 0;
    if (rc)
        return err_set(err, rc, "%s", why.text);
    *fd = open_to_mend(p, path);
    if (*fd < 0 && p->look && !file_is_unknown(*fd)) {
        parity_damage(p, "open %s: %s", path, strerror(-*fd));
        return 0;
    }
    if (*fd == -ENOENT && (rc = file_make(path, err)))
        return rc;
    if (*fd == -ENOENT || (*fd >= 0 && !p->look && !fstat(*fd, &st) && !st.st_size)) {
        file_close(*fd);
        if ((rc = empty_open(fd, path, err)))
            return rc;
    }
    if (*fd < 0)
        return err_set(err, *fd, "open %s: %s", path, strerror(-*fd));
    if (fstat(*fd, &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    if ((uint64_t)st.st_size == bytes)
        return 0;
    parity_damage(p, "%s has %" PRIu64 " bytes instead of %" PRIu64, path, (uint64_t)st.st_size,
                  bytes);
    return p->look ? 0 : write_check(*fd, path, err);
}

/* All of it is there. Until then a file that was cut, or is new, does not pass for a whole one. */
static int file_end(struct parity_files *p, int fd, const char *path, uint64_t bytes,
                    struct err *err)
{
    struct stat st;

    if (fstat(fd, &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    if ((uint64_t)st.st_size == bytes)
        return 0;
    if (ftruncate(fd, (off_t)bytes))
        return err_set(err, -errno, "set the length of %s: %s", path, strerror(errno));
    p->mended++;
    return 0;
}

static uint64_t parity_file_bytes(const struct parity_files *p, size_t d)
{
    return parity_sums_off(p, d) + parity_sums_bytes(&p->shape);
}

static int files_end(struct parity_files *p, struct err *err)
{
    int rc = 0;

    for (size_t d = 0; d < p->shape.devices && !rc; d++) {
        const struct parity_file *f = &p->file[d];

        rc = file_end(p, f->fd, f->portion, p->store.device_bytes[d], err);
        rc = rc ? rc : file_end(p, f->parity_fd, p->paths[d], parity_file_bytes(p, d), err);
    }
    return rc;
}

/* Whole files that are missing, more than the parity bears: nothing is made then. */
static int missing_check(struct parity_files *p, struct err *err)
{
    char   which[128] = "";
    size_t n = 0, lost = 0;

    for (size_t d = 0; d < p->shape.devices; d++) {
        if (file_may_be(p->file[d].portion) && file_may_be(p->paths[d]))
            continue;
        n += (size_t)snprintf(which + n, n < sizeof which ? sizeof which - n : 0, "%s%zu",
                              lost++ ? ", " : "", d);
    }
    return lost <= p->shape.parity
               ? 0
               : err_set(err, -EBADMSG, "the snapshot after step %" PRIu64 " is lost on devices "
                         "%s, and its parity bears the loss of %zu", p->step, which,
                         p->shape.parity);
}

static int files_open(struct parity_files *p, struct err *err)
{
    int rc = missing_check(p, err);

    for (size_t d = 0; d < p->shape.devices && !rc; d++) {
        struct parity_file *f = &p->file[d];

        rc = file_begin(p, &f->fd, f->portion, p->store.device_bytes[d], err);
        rc = rc ? rc : file_begin(p, &f->parity_fd, p->paths[d], parity_file_bytes(p, d), err);
    }
    return rc;
}

/* ---- pages ---- */

/* Writes p->page to the start of a file, if it has another one. */
static int page_mend(struct parity_files *p, int fd, const char *path, const char *what,
                     struct err *err)
{
    unsigned char *is = p->chunk[0];

    if (!file_pread(fd, is, PARITY_SECTOR, 0, path, NULL) && !memcmp(is, p->page, PARITY_SECTOR))
        return 0;
    parity_damage(p, "%s: the %s is damaged", path, what);
    if (p->look)
        return 0;
    int rc = write_check(fd, path, err);
    rc = rc ? rc : file_pwrite(fd, p->page, PARITY_SECTOR, 0, path, err);
    p->mended += !rc;
    return rc;
}

static int pages_mend(struct parity_files *p, size_t d, struct err *err)
{
    struct parity_file *f = &p->file[d];

    parity_superblock(p, d);
    int rc = page_mend(p, f->fd, f->portion, "superblock", err);
    if (!rc && parity_sums_right(p, d, NULL) <= 0) {
        parity_damage(p, "%s: the checksums at its end are damaged", p->paths[d]);
        rc = p->look ? 0 : write_check(f->parity_fd, p->paths[d], err);
        rc = rc || p->look ? rc : parity_tail_write(p, d, err);
        p->mended += !rc && !p->look;
    }
    parity_header(p, d);
    return rc ? rc : page_mend(p, f->parity_fd, p->paths[d], "header", err);
}

/* ---- stripes ---- */

static int stripe_mend(struct parity_files *p, uint64_t stripe, uint64_t *beyond, struct err *err)
{
    const struct parity_shape *s = &p->shape;
    unsigned char              bad[PARITY_DEVICES] = { 0 };
    size_t                     lost = 0;
    int                        rc = 0;

    for (size_t d = 0; d < s->devices; d++) {
        size_t     place = parity_place(s, stripe, d);
        struct err why = { 0 };
        int        unread = parity_chunk_move(p, stripe, d, LINK_READ, &why);

        bad[place] = unread ||
                     crc32c(0, p->chunk[place], s->chunk) != *parity_sum_at(p, stripe, d);
        lost += bad[place];
        if (bad[place])
            parity_damage(p, "%s%s", unread ? why.text : place < s->parity ? p->paths[d]
                                                                            : p->file[d].portion,
                          unread ? "" : ": a part is damaged");
    }
    if (lost && (rc = parity_decode(s, p->chunk, bad)) == -ENOMEM)
        return err_set(err, rc, "out of memory for the parity of %zu devices", s->devices);
    *beyond += rc == -EBADMSG;
    for (size_t d = 0; d < s->devices && !rc && lost; d++) {
        size_t place = parity_place(s, stripe, d);
        if (!bad[place])
            continue;
        if (crc32c(0, p->chunk[place], s->chunk) != *parity_sum_at(p, stripe, d))
            return err_set(err, -EBADMSG, "stripe %" PRIu64 " of the parity of %s does not fit its "
                           "checksums", stripe, p->snapshot->dir);
        int is_parity = place < s->parity;
        if (!p->look)
            rc = write_check(is_parity ? p->file[d].parity_fd : p->file[d].fd,
                             is_parity ? p->paths[d] : p->file[d].portion, err);
        rc = rc || p->look ? rc : parity_chunk_move(p, stripe, d, LINK_WRITE, err);
        p->wrote[stripe * s->devices + d] = !rc && !p->look;
        p->mended += !rc && !p->look;
    }
    p->done += s->devices * s->chunk;
    return rc && rc != -EBADMSG ? rc : watch_look(p->watch, p->done, p->total, err);
}

/* A drive may take what it does not give back. */
static int read_back(struct parity_files *p, struct err *err)
{
    const struct parity_shape *s = &p->shape;
    uint64_t                   damaged = p->damaged;
    int                        rc = 0;

    for (uint64_t i = 0; i < s->stripes * s->devices && !rc; i++) {
        size_t d = i % s->devices;

        if (!p->wrote[i] || (rc = parity_chunk_move(p, i / s->devices, d, LINK_READ, err)))
            continue;
        const void *is = p->chunk[parity_place(s, i / s->devices, d)];
        if (crc32c(0, is, s->chunk) != p->sums[i])
            rc = err_set(err, -EIO, "%s: what was written there is read back as other bytes",
                         parity_place(s, i / s->devices, d) < s->parity ? p->paths[d]
                                                                        : p->file[d].portion);
        rc = rc ? rc : watch_look(p->watch, p->done, p->total, err);
    }
    p->look = 1;
    for (size_t d = 0; d < s->devices && !rc; d++) {
        rc = pages_mend(p, d, err);
        if (!rc && p->damaged > damaged)
            rc = err_set(err, -EIO, "%s, or the parity file next to it: what was written there is "
                         "read back as other bytes", p->file[d].portion);
    }
    p->look = 0;
    return rc;
}

int parity_mend(struct parity_files *p, struct err *err)
{
    uint64_t beyond = 0;
    int      rc = parity_begin(p, err);

    rc = rc ? rc : files_open(p, err);
    rc = rc ? rc : parity_sums_read(p, err);
    p->total = p->shape.stripes * p->shape.devices * p->shape.chunk;
    if (!rc && !(p->wrote = calloc(p->shape.stripes, p->shape.devices)))
        rc = err_set(err, -ENOMEM, "out of memory for the parity of %zu devices", p->shape.devices);
    for (uint64_t i = 0; i < p->shape.stripes && !rc; i++)
        rc = stripe_mend(p, i, &beyond, err);
    for (size_t d = 0; d < p->shape.devices && !rc; d++)
        rc = p->file[d].fd < 0 || p->file[d].parity_fd < 0 ? 0 : pages_mend(p, d, err);
    rc = rc || p->look || beyond ? rc : files_end(p, err);
    rc = rc || p->look ? rc : parity_flush(p, err);
    rc = rc || !p->mended ? rc : read_back(p, err);
    if (!rc && beyond)
        rc = err_set(err, -EBADMSG, "%" PRIu64 " of %" PRIu64 " stripes of the snapshot after step "
                     "%" PRIu64 " have lost more than their parity bears (%zu of %zu devices)",
                     beyond, p->shape.stripes, p->step, p->shape.parity, p->shape.devices);
    parity_end(p);
    return rc;
}
