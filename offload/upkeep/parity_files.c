/* parity_files.c: makes and checks the parity of a snapshot, stripe by stripe, with memory for one.
 * Files are read and written past the cache where their file system can. */
#include "offload/upkeep/parity_files_parts.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "offload/devices/devices.h"
#include "offload/devices/journal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

/* ---- what is protected of a portion ---- */

static int range_add(struct parity_file *f, uint64_t off, uint64_t bytes)
{
    struct parity_range *grown = f->range;

    if (!(f->ranges & (f->ranges - 1))) // a power of 2, or none yet
        grown = realloc(f->range, (f->ranges ? 2 * f->ranges : 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    f->range = grown;
    f->range[f->ranges++] = (struct parity_range){ off, bytes };
    f->bytes += bytes;
    return 0;
}

/* As snapshot.c copies it: a subgroup's committed slot, then its committed residual. */
static int ranges_add(struct parity_files *p, const struct journal *j, size_t i)
{
    const struct store     *st = &p->store;
    const struct store_sub *u = &st->subs[i];
    struct parity_file     *f = &p->file[u->device];
    size_t                  bytes = store_states_of(st, u) + store_wire_bytes(st, u->n_pad);
    int rc = range_add(f, store_slot_off(st, u->class_, j->subs[i].slot),
                       round_up(bytes, PARITY_SECTOR));

    if (rc || !st->error_feedback || !u->trains)
        return rc;
    return range_add(f, store_residual_off(u, j->state.applied), store_residual_bytes(u->n_pad));
}

static int ranges_find(struct parity_files *p, struct err *err)
{
    struct journal j = { 0 };
    int rc = journal_open(&j, p->snapshot->log, p->store.n_subs, p->store.error_feedback, err);

    for (size_t i = 0; i < p->store.n_subs && !rc; i++)
        if ((rc = ranges_add(p, &j, i)))
            err_set(err, rc, "out of memory for the parity of %zu subgroups", p->store.n_subs);
    journal_close(&j);
    return rc;
}

size_t parity_sums_bytes(const struct parity_shape *s)
{
    return round_up(s->stripes * s->devices * sizeof(uint32_t) + 1, PARITY_SECTOR);
}

static uint64_t longest(const struct parity_files *p)
{
    uint64_t most = 0;

    for (size_t d = 0; d < p->store.n_devices; d++)
        if (p->file[d].bytes > most)
            most = p->file[d].bytes;
    return most;
}

int parity_files_bytes(const struct run_config *run, size_t parity, uint64_t bytes[LINK_DIRS],
                       struct err *err)
{
    struct store st;
    uint64_t     held[PARITY_DEVICES] = { 0 }, most = 0;
    int          rc = parity_can(run->n_devices, parity, err);

    bytes[LINK_READ] = bytes[LINK_WRITE] = 0;
    rc = rc ? rc : store_init(&st, run, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < st.n_subs; i++) {
        uint64_t *at = &held[st.subs[i].device];
        *at += round_up(store_sub_held(&st, &st.subs[i]), PARITY_SECTOR);
        most = *at > most ? *at : most;
    }
    struct parity_shape s = parity_shape(run->n_devices, parity, most);
    uint64_t sums = parity_sums_bytes(&s);
    for (size_t d = 0; d < run->n_devices; d++)
        bytes[LINK_WRITE] += parity_bytes(&s, d) + PARITY_SECTOR + sums;
    bytes[LINK_READ] = bytes[LINK_WRITE] + sums; // those of one file are looked at first
    store_release(&st);
    return 0;
}

/* ---- begin and end ---- */

int parity_begin(struct parity_files *p, struct err *err)
{
    size_t n = p->snapshot->n_devices;
    int    rc = parity_can(n, p->parity, err);

    rc = rc ? rc : store_init(&p->store, p->snapshot, err);
    p->file = calloc(n, sizeof *p->file);
    if (!rc && !p->file)
        rc = err_set(err, -ENOMEM, "out of memory for the parity of %zu devices", n);
    for (size_t d = 0; p->file && d < n; d++)
        p->file[d].fd = p->file[d].parity_fd = -1;
    for (size_t d = 0; d < n && !rc; d++)
        p->file[d].portion = p->snapshot->device_paths[d];
    for (size_t d = 0; d < n && !rc; d++)
        p->file[d].unit = beside_unit(&p->store, d);
    rc = rc ? rc : ranges_find(p, err);
    if (rc)
        return rc;
    p->shape = parity_shape(n, p->parity, longest(p));
    p->sums = aligned_alloc(PARITY_SECTOR, parity_sums_bytes(&p->shape));
    p->buffer = aligned_alloc(PARITY_SECTOR, n * p->shape.chunk + PARITY_SECTOR);
    if (!p->sums || !p->buffer)
        return err_set(err, -ENOMEM, "out of memory for the parity of %zu devices", n);
    memset(p->sums, 0, parity_sums_bytes(&p->shape));
    for (size_t i = 0; i < n; i++)
        p->chunk[i] = p->buffer + i * p->shape.chunk;
    p->page = p->buffer + n * p->shape.chunk;
    return 0;
}

void parity_end(struct parity_files *p)
{
    for (size_t d = 0; p->file && d < p->snapshot->n_devices; d++) {
        struct parity_file *f = &p->file[d];

        file_close(f->fd);
        file_close(f->parity_fd);
        free(f->range);
    }
    free(p->file);
    free(p->sums);
    free(p->buffer);
    free(p->wrote);
    store_release(&p->store);
    p->file = NULL;
    p->sums = NULL;
    p->buffer = p->wrote = NULL;
}

void parity_damage(struct parity_files *p, const char *fmt, ...)
{
    char    text[sizeof p->first.text];
    va_list ap;

    if (p->damaged++)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(&p->first, -EBADMSG, "%s", text);
}

int parity_flush(struct parity_files *p, struct err *err)
{
    for (size_t d = 0; d < p->snapshot->n_devices; d++) {
        const struct parity_file *f = &p->file[d];

        if (f->fd >= 0 && fsync(f->fd))
            return err_set(err, -errno, "flush %s: %s", f->portion, strerror(errno));
        if (f->parity_fd >= 0 && fsync(f->parity_fd))
            return err_set(err, -errno, "flush %s: %s", p->paths[d], strerror(errno));
        if (f->fd >= 0)
            posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
        if (f->parity_fd >= 0)
            posix_fadvise(f->parity_fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    return 0;
}

/* ---- transfers ---- */

/* Bytes of a portion, or of the parity file next to it. */
struct part { size_t device; int parity; void *buf; size_t bytes; uint64_t off; };

static int part_move(struct parity_files *p, const struct part *at, enum link_dir dir,
                     struct err *err)
{
    const struct parity_file *f = &p->file[at->device];
    const struct beside_move  m = { f->unit, at->bytes, LINK_HOST, dir };
    const char *path = at->parity ? p->paths[at->device] : f->portion;
    int         fd = at->parity ? f->parity_fd : f->fd;
    uint64_t    over_ns;
    int         rc = beside_begin(p->beside, &m, &over_ns, NULL, err);

    if (!rc)
        rc = dir == LINK_READ ? file_pread(fd, at->buf, at->bytes, at->off, path, err)
                              : file_pwrite(fd, at->buf, at->bytes, at->off, path, err);
    beside_end(p->beside, over_ns);
    p->read += !rc && dir == LINK_READ ? at->bytes : 0;
    return rc;
}

/* ---- headers and sums ---- */

uint32_t *parity_sum_at(const struct parity_files *p, uint64_t stripe, size_t d)
{
    return &p->sums[stripe * p->shape.devices + d];
}

uint64_t parity_sums_off(const struct parity_files *p, size_t d)
{
    return PARITY_SECTOR + parity_bytes(&p->shape, d);
}

void parity_header(const struct parity_files *p, size_t d)
{
    const struct run_config *cfg = p->snapshot;
    char                    *page = (char *)p->page;

    memset(page, 0, PARITY_SECTOR);
    snprintf(page, PARITY_SECTOR, "siTrain parity 1\nrun %s\nowner %s\nstep %" PRIu64 "\n"
             "device %zu of %zu\nparity %zu\nchunk %zu\nstripes %" PRIu64 "\n"
             "sums %08" PRIx32 "\n", cfg->id, cfg->owner ? cfg->owner : "", p->step, d,
             p->shape.devices, p->shape.parity, p->shape.chunk, p->shape.stripes, p->sums_crc);
    uint32_t crc = crc32c(0, page, PARITY_SECTOR - sizeof crc);
    memcpy(page + PARITY_SECTOR - sizeof crc, &crc, sizeof crc);
}

void parity_superblock(const struct parity_files *p, size_t d)
{
    struct superblock s = devices_super(p->snapshot, p->store.device_bytes[d], d);

    superblock_pack(p->page, &s);
}

int parity_tail_write(struct parity_files *p, size_t d, struct err *err)
{
    const struct part sums = { d, 1, p->sums, parity_sums_bytes(&p->shape), parity_sums_off(p, d) },
                      header = { d, 1, p->page, PARITY_SECTOR, 0 };
    int               rc = part_move(p, &sums, LINK_WRITE, err);

    parity_header(p, d);
    return rc ? rc : part_move(p, &header, LINK_WRITE, err);
}

int parity_sums_read(struct parity_files *p, struct err *err)
{
    size_t bytes = parity_sums_bytes(&p->shape);

    for (size_t d = 0; d < p->shape.devices; d++) {
        const struct part sums = { d, 1, p->sums, bytes, parity_sums_off(p, d) };

        if (p->file[d].parity_fd < 0 || part_move(p, &sums, LINK_READ, NULL))
            continue;
        if (crc32c(0, p->sums, bytes) == p->sums_crc)
            return 0;
    }
    return err_set(err, -EBADMSG, "%s: the checksums of the snapshot's parity are damaged in all "
                   "parity files, such as %s", p->snapshot->dir, p->paths[0]);
}

/* ---- chunks ---- */

/* Transfers bytes of a portion: `at` counts those that are protected. Behind the end a read gives
 * zeros, and a write does nothing. */
static int portion_move(struct parity_files *p, size_t d, uint64_t at, unsigned char *buf,
                        enum link_dir dir, struct err *err)
{
    struct parity_file *f = &p->file[d];
    size_t              n = p->shape.chunk;
    int                 rc = 0;

    if (at < f->before)
        f->at = 0, f->before = 0;
    while (n && f->at < f->ranges && !rc) {
        const struct parity_range *r = &f->range[f->at];
        uint64_t                   in = at - f->before;
        size_t                     part;

        if (in >= r->bytes) {
            f->before += r->bytes;
            f->at++;
            continue;
        }
        part = r->bytes - in < n ? (size_t)(r->bytes - in) : n;
        rc = part_move(p, &(struct part){ d, 0, buf, part, r->off + in }, dir, err);
        at += part;
        buf += part;
        n -= part;
    }
    if (dir == LINK_READ)
        memset(buf, 0, n);
    return rc;
}

int parity_chunk_move(struct parity_files *p, uint64_t stripe, size_t d, enum link_dir dir,
                      struct err *err)
{
    size_t         place = parity_place(&p->shape, stripe, d), n = p->shape.chunk;
    uint64_t       before = parity_before(&p->shape, stripe, d);
    unsigned char *buf = p->chunk[place];

    if (place >= p->shape.parity)
        return portion_move(p, d, (stripe - before) * n, buf, dir, err);
    return part_move(p, &(struct part){ d, 1, buf, n, PARITY_SECTOR + before * n }, dir, err);
}

/* ---- make ---- */

static int files_make(struct parity_files *p, struct err *err)
{
    int rc, fd;

    for (size_t d = 0; d < p->shape.devices; d++) {
        struct parity_file *f = &p->file[d];

        if ((rc = file_open_own(p->paths[d], O_CREAT | O_EXCL, &fd, err)))
            return rc;
        file_give_owner(fd, p->paths[d]);
        file_like(fd, f->portion);
        // not past the cache: where a file system cannot allocate, single bytes are written
        rc = file_set_length(fd, p->paths[d], 0,
                             parity_sums_off(p, d) + parity_sums_bytes(&p->shape), err);
        close(fd);
        if (rc)
            return rc;
        f->fd = file_open_uncached(f->portion, O_RDONLY);
        if (f->fd < 0)
            return err_set(err, f->fd, "open %s: %s", f->portion, strerror(-f->fd));
        f->parity_fd = file_open_uncached(p->paths[d], O_RDWR);
        if (f->parity_fd < 0)
            return err_set(err, f->parity_fd, "open %s: %s", p->paths[d], strerror(-f->parity_fd));
    }
    return 0;
}

static int stripe_make(struct parity_files *p, uint64_t stripe, struct err *err)
{
    const struct parity_shape *s = &p->shape;
    int                        rc = 0;

    for (size_t d = 0; d < s->devices && !rc; d++)
        if (parity_place(s, stripe, d) >= s->parity)
            rc = parity_chunk_move(p, stripe, d, LINK_READ, err);
    if (!rc && (rc = parity_encode(s, p->chunk)))
        err_set(err, rc, "out of memory for the parity of %zu devices", s->devices);
    for (size_t d = 0; d < s->devices && !rc; d++) {
        size_t place = parity_place(s, stripe, d);

        *parity_sum_at(p, stripe, d) = crc32c(0, p->chunk[place], s->chunk);
        if (place < s->parity)
            rc = parity_chunk_move(p, stripe, d, LINK_WRITE, err);
    }
    p->done += s->devices * s->chunk;
    return rc ? rc : watch_look(p->watch, p->done, p->total, err);
}

int parity_make(struct parity_files *p, struct err *err)
{
    int rc = parity_begin(p, err);

    rc = rc ? rc : files_make(p, err);
    p->total = p->shape.stripes * p->shape.devices * p->shape.chunk;
    for (uint64_t i = 0; i < p->shape.stripes && !rc; i++)
        rc = stripe_make(p, i, err);
    if (!rc)
        p->sums_crc = crc32c(0, p->sums, parity_sums_bytes(&p->shape));
    for (size_t d = 0; d < p->shape.devices && !rc; d++)
        rc = parity_tail_write(p, d, err);
    rc = rc ? rc : parity_flush(p, err);
    for (size_t d = 0; d < p->shape.devices && !rc; d++)
        rc = file_sync_parent(p->paths[d], err);
    parity_end(p);
    return rc;
}

/* ---- check ---- */

int parity_sums_right(struct parity_files *p, size_t d, struct err *err)
{
    struct part at = { d, 1, p->chunk[0], 0, parity_sums_off(p, d) };
    uint32_t    crc = 0;
    int         rc = 0;
    size_t      left = parity_sums_bytes(&p->shape);

    for (; left && !rc; left -= at.bytes, at.off += at.bytes) {
        at.bytes = size_min(left, beside_slice(p->beside, p->shape.chunk));
        rc = part_move(p, &at, LINK_READ, err);
        crc = rc ? crc : crc32c(crc, at.buf, at.bytes);
    }
    return rc ? rc : crc == p->sums_crc;
}

/* Whether device d's parity file has the header and the sums that it should have. */
static void tail_check(struct parity_files *p, size_t d)
{
    const char *path = p->paths[d];
    struct part page = { d, 1, p->page, PARITY_SECTOR, 0 };
    struct err  why = { 0 };

    parity_header(p, d);
    memcpy(p->chunk[0], p->page, PARITY_SECTOR); // a chunk is as long at least
    int rc = part_move(p, &page, LINK_READ, &why);
    if (rc || memcmp(p->page, p->chunk[0], PARITY_SECTOR))
        parity_damage(p, "%s: %s", path, rc ? why.text : "the header is damaged");
    int right = rc ? rc : parity_sums_right(p, d, &why);
    if (right <= 0)
        parity_damage(p, "%s: %s", path, right ? why.text : "the checksums at its end are damaged");
}

static int stripe_check(struct parity_files *p, uint64_t stripe, struct err *err)
{
    const struct parity_shape *s = &p->shape;
    struct err                 why = { 0 };

    for (size_t d = 0; d < s->devices; d++) {
        size_t place = parity_place(s, stripe, d);
        if (place >= s->parity || p->file[d].parity_fd < 0)
            continue;
        if (parity_chunk_move(p, stripe, d, LINK_READ, &why))
            parity_damage(p, "%s", why.text);
        else if (crc32c(0, p->chunk[place], s->chunk) != *parity_sum_at(p, stripe, d))
            parity_damage(p, "%s: the parity of stripe %" PRIu64 " is damaged", p->paths[d],
                          stripe);
        p->done += s->chunk;
    }
    return watch_look(p->watch, p->done, p->total, err);
}

int parity_check_begin(struct parity_files *p, struct err *err)
{
    int rc = parity_begin(p, err);

    for (size_t d = 0; d < p->shape.devices && !rc; d++) {
        int fd = p->file[d].parity_fd = file_open_uncached(p->paths[d], O_RDONLY);
        if (file_is_unknown(fd))
            rc = err_set(err, fd, "open %s: %s", p->paths[d], strerror(-fd));
        else if (fd < 0)
            parity_damage(p, "open %s: %s", p->paths[d], strerror(-fd));
    }
    rc = rc ? rc : parity_sums_read(p, err);
    if (rc != -EBADMSG)
        return rc;
    parity_damage(p, "%s", err->text);
    free(p->sums); // parity is of no use without them
    p->sums = NULL;
    return 0;
}

int parity_check_some(struct parity_files *p, uint64_t from, uint64_t most, struct err *err)
{
    uint64_t left = p->sums && from < p->shape.stripes ? p->shape.stripes - from : 0;
    uint64_t n = most && most < left ? most : left;
    int      rc = 0;

    p->done = 0;
    p->total = n * p->shape.parity * p->shape.chunk;
    p->more = n < left;
    for (size_t d = 0; d < p->shape.devices && p->sums && !from && !rc; d++) {
        if (p->file[d].parity_fd >= 0)
            tail_check(p, d);
        rc = watch_look(p->watch, 0, p->total, err);
    }
    for (uint64_t i = from; i < from + n && !rc; i++)
        rc = stripe_check(p, i, err);
    return rc;
}

int parity_check(struct parity_files *p, struct err *err)
{
    int rc = parity_check_begin(p, err);

    rc = rc ? rc : parity_check_some(p, 0, 0, err);
    parity_end(p);
    return rc;
}
