/* snapshot.c: copies ranges of files between a run and a snapshot. Where a file system shares
 * blocks between files, it is asked to (FICLONERANGE), which takes no time and no room. Otherwise
 * the bytes are read and written past the cache, through one buffer.
 *
 * A run's devices are opened once more, by their paths, and only read: the process that trains has
 * them locked. While a training goes on, it says which subgroup is next, and when (beside.h). On
 * the way back, subgroups are read by their checksums and written as reshard.c does it, since the
 * run may have other devices by then. */
#include "offload/upkeep/snapshot.h"

#include "data/file/file.h"
#include "data/db/ledger.h"
#include "offload/upkeep/parts.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 8 << 20, SECTOR = 4096 };

/* ---- ranges of files ---- */

/* Two open files. shares: the file system has not refused yet to share their blocks. */
struct pair { int from, to, shares; const char *from_path, *to_path; };

struct copying {
    const struct watch *watch;
    struct beside      *beside;
    size_t              unit;   // of the training, that is being copied
    enum link_kind      link[LINK_DIRS]; // from which it is read, and to which it is written
    uint64_t            done, total, shared;
    char               *buffer;
};

/* 1: the range is shared now. 0: this file system does not share. */
static int range_share(struct pair *p, uint64_t off, uint64_t bytes)
{
    struct file_clone_range r = { .src_fd = p->from, .src_offset = off, .src_length = bytes,
                                  .dest_offset = off };

    if (p->shares && ioctl(p->to, FICLONERANGE, &r))
        p->shares = 0;
    return p->shares;
}

/* Reads bytes into the buffer, or writes them from it. */
static int part_move(struct copying *c, const struct pair *p, enum link_dir dir, uint64_t off,
                     size_t n, struct err *err)
{
    const struct beside_move m = { c->unit, n, c->link[dir], dir };
    uint64_t                 over_ns = 0;
    int                      rc = beside_begin(c->beside, &m, &over_ns, c->watch, err);

    if (!rc)
        rc = dir == LINK_READ ? file_pread(p->from, c->buffer, n, off, p->from_path, err)
                              : file_pwrite(p->to, c->buffer, n, off, p->to_path, err);
    beside_end(c->beside, over_ns);
    return rc;
}

/* Copies bytes at the same offset of both files. */
static int range_copy(struct copying *c, struct pair *p, uint64_t off, uint64_t bytes,
                      struct err *err)
{
    int rc = 0;

    if (range_share(p, off, bytes)) {
        c->done += bytes;
        c->shared += bytes;
        return watch_look(c->watch, c->done, c->total, err);
    }
    for (uint64_t at = 0; at < bytes && !rc;) {
        size_t most = beside_slice(c->beside, BUFFER_BYTES);
        size_t n = (size_t)(bytes - at < most ? bytes - at : most);

        rc = part_move(c, p, LINK_READ, off + at, n, err);
        rc = rc ? rc : part_move(c, p, LINK_WRITE, off + at, n, err);
        at += n;
        c->done += n;
        rc = rc ? rc : watch_look(c->watch, c->done, c->total, err);
    }
    return rc;
}

static int copying_begin(struct copying *c, const struct watch *watch, struct beside *beside,
                         uint64_t total, struct err *err)
{
    *c = (struct copying){ .watch = watch, .beside = beside, .total = total,
                           .buffer = aligned_alloc(SECTOR, BUFFER_BYTES) };
    return c->buffer ? 0 : err_set(err, -ENOMEM, "out of memory for copying a snapshot");
}

/* Flushes what was written, and forgets both files' pages: who compares the copy reads it from the
 * drive. */
static int pair_flush(const struct pair *p, struct err *err)
{
    if (fsync(p->to))
        return err_set(err, -errno, "flush %s: %s", p->to_path, strerror(errno));
    posix_fadvise(p->to, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(p->from, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

static void pair_close(const struct pair *p)
{
    file_close(p->from);
    file_close(p->to);
}

/* Opens `path` without the cache, if its file system can. direct: its ranges are whole sectors. */
static int open_at(const char *path, int direct, struct err *err)
{
    int fd = direct ? file_open_uncached(path, O_RDONLY) : file_open_device(path, O_RDONLY);

    return fd < 0 ? err_set(err, fd, "open %s: %s", path, strerror(-fd)) : fd;
}

/* Opens a file of the run, and makes that of the snapshot. */
static int pair_make(struct pair *p, const char *from, const char *to, int direct, struct err *err)
{
    int made;

    *p = (struct pair){ .from = -1, .to = -1, .shares = 1, .from_path = from, .to_path = to };
    int rc = file_open_own(to, O_CREAT | O_EXCL, &made, err);
    if (rc)
        return rc;
    file_give_owner(made, to);
    if (file_is_block(from))
        rc = fchmod(made, 0600) ? err_set(err, -errno, "chmod %s: %s", to, strerror(errno)) : 0;
    else
        file_like(made, from);
    p->to = rc ? rc : file_open_empty(made, to, direct, err);
    close(made);
    p->from = p->to < 0 ? -1 : open_at(from, direct, err);
    return p->to < 0 ? p->to : p->from < 0 ? p->from : 0;
}

/* ---- devices ---- */

/* The ranges of a subgroup: its committed slot, then its committed residual. */
static uint64_t slot_bytes(const struct store *st, const struct store_sub *u)
{
    return round_up(store_states_of(st, u) + store_wire_bytes(st, u->n_pad), SECTOR);
}

static int sub_copy(struct copying *c, struct pair *p, const struct store *st,
                    const struct journal *j, size_t i, struct err *err)
{
    const struct store_sub *u = &st->subs[i];
    int rc = range_copy(c, p, store_slot_off(st, u->class_, j->subs[i].slot), slot_bytes(st, u),
                        err);

    if (rc || !st->error_feedback || !u->trains)
        return rc;
    return range_copy(c, p, store_residual_off(u, j->state.applied),
                      store_residual_bytes(u->n_pad), err);
}

/* Opens a device of the run, and makes the snapshot's, with its superblock. The caller closes the
 * pair and frees both paths, also after a failure. */
static int device_begin(struct snapshot_take *t, struct copying *c, struct pair *p,
                        const struct store *st, size_t device, struct err *err)
{
    char *from = NULL, *to = NULL;
    int   rc = devices_path(&from, t->run, device, 0, err);

    *p = (struct pair){ .from = -1, .to = -1, .from_path = from };
    rc = rc ? rc : devices_path(&to, t->to, device, 1, err);
    p->to_path = to;
    if (!rc && !t->to->device_paths)
        rc = t->made(t->ctx, to + strlen(t->to->dir) + 1, err);
    rc = rc ? rc : pair_make(p, from, to, 1, err);
    if (!rc && ftruncate(p->to, (off_t)st->device_bytes[device]))
        rc = err_set(err, -errno, "set the length of %s: %s", to, strerror(errno));
    if (rc)
        return rc;
    struct superblock s = devices_super(t->to, st->device_bytes[device], device);
    superblock_pack(c->buffer, &s);
    return file_pwrite(p->to, c->buffer, SUPERBLOCK_BYTES, 0, to, err);
}

/* Copies all subgroups, in the order of the layout, or as the training asks for them. */
static int subs_copy(struct copying *c, struct pair *pairs, const struct store *st,
                     const struct journal *j, struct err *err)
{
    struct stream *trains = c->beside ? c->beside->stream : NULL;
    size_t         i = 0;
    int            rc = 0;

    for (size_t n = 0; !rc && (trains ? stream_held_next(trains, &i) : n < st->n_subs); n++) {
        c->unit = i = trains ? i : n;
        rc = sub_copy(c, &pairs[st->subs[i].device], st, j, i, err);
        if (trains)
            stream_let_go(trains, i);
    }
    return rc;
}

static uint64_t devices_total(const struct store *st)
{
    uint64_t all = 0;

    for (size_t i = 0; i < st->n_subs; i++)
        all += slot_bytes(st, &st->subs[i]) +
               (st->error_feedback && st->subs[i].trains
                    ? store_residual_bytes(st->subs[i].n_pad) : 0);
    return all;
}

static int devices_take_all(struct snapshot_take *t, struct copying *c, struct err *err)
{
    struct run_config run = *t->run;
    struct store      st;
    struct journal    j = { 0 };
    struct pair      *pairs = calloc(size_max(run.n_devices, 1), sizeof *pairs);
    size_t            n = 0;
    int               rc = store_init(&st, &run, err);

    run.log = t->log; // the run's own is the training's
    rc = rc ? rc : pairs ? 0 : err_set(err, -ENOMEM, "out of memory for copying a snapshot");
    rc = rc ? rc : journal_open(&j, t->log, st.n_subs, st.error_feedback, err);
    rc = rc ? rc : slots_half_done(&run, &st, &j, err);
    rc = rc ? rc : copying_begin(c, t->watch, t->beside, devices_total(&st), err);
    c->link[LINK_READ] = LINK_HOST;
    c->link[LINK_WRITE] = t->to->device_paths ? LINK_HOST : LINK_FILES; // on the devices' drives?
    while (n < st.n_devices && !rc)
        rc = device_begin(t, c, &pairs[n], &st, n, err), n++;
    rc = rc ? rc : subs_copy(c, pairs, &st, &j, err);
    for (size_t i = 0; i < n; i++) {
        rc = rc ? rc : pair_flush(&pairs[i], err);
        rc = rc ? rc : file_sync_parent(pairs[i].to_path, err);
        pair_close(&pairs[i]);
        free((void *)(uintptr_t)pairs[i].from_path);
        free((void *)(uintptr_t)pairs[i].to_path);
    }
    free(pairs);
    journal_close(&j);
    store_release(&st);
    return rc;
}

/* ---- images ---- */

static int image_take(struct snapshot_take *t, struct copying *c, unsigned area, uint64_t bytes,
                      struct err *err)
{
    char        from[PATH_MAX], to[PATH_MAX];
    struct pair p = { .from = -1, .to = -1 };

    image_path(t->run, area, from, sizeof from);
    image_path(t->to, area, to, sizeof to);
    int rc = t->made(t->ctx, to + strlen(t->to->dir) + 1, err);
    rc = rc ? rc : pair_make(&p, from, to, 0, err);
    rc = rc ? rc : range_copy(c, &p, 0, bytes, err);
    rc = rc ? rc : pair_flush(&p, err);
    pair_close(&p);
    return rc;
}

/* Frozen blocks never change, so the file of an earlier snapshot is that of this one, unless it is
 * damaged. 1: it is linked. 0: it is to be copied. */
static int frozen_link(struct snapshot_take *t, struct copying *c, uint64_t bytes, struct err *err)
{
    struct run_config  was = *t->run, now = *t->to;
    struct image_check is = { 0 };
    struct beside_move was_read = { c->unit, bytes, LINK_FILES, LINK_READ };
    uint64_t           over_ns = 0;
    char               from[PATH_MAX], to[PATH_MAX];
    struct stat        st;

    was.dir = t->earlier;
    now.log = t->log;
    image_path(&was, IMAGE_FROZEN, from, sizeof from);
    image_path(t->to, IMAGE_FROZEN, to, sizeof to);
    if (!t->earlier || lstat(from, &st) || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != bytes || link(from, to))
        return 0;
    int fd = file_open_device(to, O_RDONLY); // it is read from the drive
    if (fd >= 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    file_close(fd);
    int rc = image_check(&now, IMAGE_FROZEN, &is, err);
    if (rc || !is.named || is.damaged)
        return unlink(to) ? err_set(err, -errno, "unlink %s: %s", to, strerror(errno)) : rc;
    c->done += bytes;
    c->shared += bytes;
    t->linked = 1;
    rc = t->made(t->ctx, to + strlen(t->to->dir) + 1, err);
    rc = rc ? rc : beside_begin(c->beside, &was_read, &over_ns, c->watch, err);
    beside_end(c->beside, over_ns);
    return rc ? rc : 1;
}

static int images_take(struct snapshot_take *t, struct copying *c, struct err *err)
{
    uint64_t           bytes = image_bytes(t->run), frozen = image_frozen_bytes(t->run);
    struct stream     *trains = t->beside ? t->beside->stream : NULL;
    struct run_config  at = *t->run;
    struct image_state s;

    at.log = t->log;
    int rc = image_latest(&at, &s, err);
    rc = rc ? rc : copying_begin(c, t->watch, t->beside, bytes + frozen, err);
    c->link[LINK_READ] = c->link[LINK_WRITE] = LINK_FILES;
    if (trains)
        stream_held_next(trains, &c->unit);
    rc = rc ? rc : image_take(t, c, s.area, bytes, err);
    if (trains)
        stream_let_go(trains, c->unit);
    if (rc || !frozen)
        return rc;
    rc = frozen_link(t, c, frozen, err);
    return rc ? (rc < 0 ? rc : 0) : image_take(t, c, IMAGE_FROZEN, frozen, err);
}

int snapshot_bytes(const struct run_config *run, uint64_t *bytes, struct err *err)
{
    struct store st;

    *bytes = 0;
    if (run->mode == RUN_MEM) {
        *bytes = image_bytes(run) + image_frozen_bytes(run);
        return 0;
    }
    int rc = store_init(&st, run, err);
    *bytes = rc ? 0 : devices_total(&st);
    store_release(&st);
    return rc;
}

int snapshot_take(struct snapshot_take *t, struct err *err)
{
    struct copying c = { 0 };
    int            rc = t->run->mode == RUN_MEM ? images_take(t, &c, err)
                                                : devices_take_all(t, &c, err);

    t->bytes = c.done;
    t->shared = c.shared;
    free(c.buffer);
    return rc ? rc : file_sync_dir(t->to->dir, err);
}

/* ---- the way back: devices ---- */

static int fill(void *ctx, const struct store_sub *u, float *states, float *residual,
                struct err *err)
{
    struct part *from = ctx; // the snapshot

    return slots_reader_copy(&from->states, u->block, u->first, u->n,
                             &(struct slots_copy){ states, residual, u->n_pad, 0 }, err);
}

static int devices_put(struct snapshot_put *p, struct err *err)
{
    struct part       snapshot = { 0 };
    struct run_config from = *p->from, to = *p->to; // at the drives' full speed

    from.links = to.links = (struct topology_config){ 0 };
    int rc = part_open(&snapshot, &from, from.error_feedback, err);
    rc = rc ? rc : slots_half_done(&from, &snapshot.dev.store, &snapshot.journal, err);
    rc = rc ? rc : devices_open(&p->dev, &to, DEVICES_MEND, NULL, err);
    if (!rc)
        rc = slots_make(&p->dev, &(struct slots_source){
                                     .fill = fill, .ctx = &snapshot,
                                     .bytes = 2 * store_sub_bytes(&p->dev.store,
                                                                  p->dev.store.max_pad),
                                     .version = snapshot.journal.state.applied, .watch = p->watch },
                        &p->made, err);
    p->made.state = snapshot.journal.state;
    for (size_t i = 0; i < p->dev.store.n_subs && !rc; i++)
        p->bytes += store_sub_held(&p->dev.store, &p->dev.store.subs[i]);
    part_close(&snapshot);
    return rc;
}

static int devices_put_record(struct snapshot_put *p, struct err *err)
{
    int rc = journal_format(p->to->log, &p->made, p->dev.store.n_subs, 1, err);

    rc = rc ? rc : journal_put_state(p->to->log, &p->made.state, err);
    return rc ? rc : devices_present(&p->dev, "the run was about to go on from it", err);
}

/* ---- the way back: images ---- */

static int image_put(struct snapshot_put *p, struct err *err)
{
    struct image_state now;
    struct copying     c = { 0 };
    char               from[PATH_MAX], to[PATH_MAX];
    int                rc = image_latest(p->to, &now, err);

    rc = rc ? rc : image_latest(p->from, &p->image, err);
    rc = rc ? rc : image_sums(p->from, p->image.area, &p->sums, err);
    if (rc)
        return rc;
    image_path(p->from, p->image.area, from, sizeof from);
    p->image.area = 1 - now.area;
    image_path(p->to, p->image.area, to, sizeof to);
    struct pair files = { .from = -1, .shares = 1, .from_path = from, .to_path = to };
    rc = image_open(p->to, p->image.area, &p->fd, err);
    files.to = p->fd;
    files.from = rc ? -1 : open_at(from, 0, err);
    rc = rc ? rc : files.from < 0 ? files.from : 0;
    rc = rc ? rc : copying_begin(&c, p->watch, NULL, image_bytes(p->to), err);
    rc = rc ? rc : range_copy(&c, &files, 0, image_bytes(p->to), err);
    rc = rc ? rc : pair_flush(&files, err);
    rc = rc ? rc : file_sync_dir(p->to->dir, err);
    p->bytes = c.done;
    file_close(files.from);
    free(c.buffer);
    return rc;
}

static int image_put_record(struct snapshot_put *p, struct err *err)
{
    int rc = 0;

    for (unsigned a = 0; a < IMAGE_AREAS && !rc; a++)
        rc = ledger_clear_image(p->to->log, a, err);
    rc = rc ? rc : image_commit(p->to, &p->image, p->sums, err);
    return rc ? rc : image_present(p->to, p->image.area, p->fd, err);
}

/* ---- by mode ---- */

int snapshot_put(struct snapshot_put *p, struct err *err)
{
    p->bytes = 0;
    p->fd = -1;
    return p->to->mode == RUN_MEM ? image_put(p, err) : devices_put(p, err);
}

int snapshot_put_record(struct snapshot_put *p, struct err *err)
{
    return p->to->mode == RUN_MEM ? image_put_record(p, err) : devices_put_record(p, err);
}

void snapshot_put_end(struct snapshot_put *p)
{
    devices_close(&p->dev);
    journal_close(&p->made);
    if (p->sums) // an image was to be written
        file_close(p->fd);
    free(p->sums);
    p->sums = NULL;
}
