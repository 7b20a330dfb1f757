/* image.c: writes, loads and checks the images of mode mem, and keeps their rows in the journal. A
 * file is nothing but floats, block after block, without header or padding. Sizes come from the
 * run's configuration, checksums from the journal.
 *
 * Invariants: a file is complete and, if the run is durable, on stable storage before a row names
 * it. Rows of an area change all together, in one transaction. The area that the newest rows name
 * is never written to. */
#include "offload/devices/image.h"

#include "data/base/crc32c.h"
#include "data/base/file.h"
#include "data/base/round.h"
#include "data/db/ledger.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_FLOATS = 1 << 20 }; // 4 MiB per read or write, large enough for any drive

/* The rows of one area in the journal. */
struct area {
    size_t             found; // number of rows
    struct image_state state; // what the rows say
};

size_t image_block_floats(const struct run_config *cfg, size_t block)
{
    return (size_t)(1 + optim_moments(cfg->optim) + !!cfg->error_feedback) *
           cfg->block_params[block];
}

uint64_t image_block_offset(const struct run_config *cfg, size_t block)
{
    uint64_t bytes = 0;

    for (size_t b = 0; b < block; b++)
        bytes += (uint64_t)image_block_floats(cfg, b) * sizeof(float);
    return bytes;
}

uint64_t image_bytes(const struct run_config *cfg)
{
    return image_block_offset(cfg, run_blocks(cfg));
}

void image_path(const struct run_config *cfg, unsigned area, char *path, size_t size)
{
    snprintf(path, size, "%s/image%u", cfg->dir, area);
}

static int lock_area(const char *path, int shared, int *fd, struct err *err)
{
    int rc = file_lock(*fd, shared);

    if (!rc)
        return 0;
    close(*fd);
    *fd = -1;
    return file_lock_fail(rc, path, ", which has this run open: wait for it to end, or stop it",
                          err);
}

int image_open(const struct run_config *cfg, unsigned area, int *fd, struct err *err)
{
    char path[PATH_MAX];

    image_path(cfg, area, path, sizeof path);
    int rc = file_open_own(path, O_CREAT, fd, err);
    return rc ? rc : lock_area(path, 0, fd, err);
}

int image_present(const struct run_config *cfg, unsigned area, int fd, struct err *err)
{
    char path[PATH_MAX];

    image_path(cfg, area, path, sizeof path);
    return file_names(path, fd)
               ? 0 : err_set(err, -ENODEV, "%s is gone, or another file by now than the one that "
                             "the run was writing to; bring that one back and go on with --resume",
                             path);
}

/* ---- the journal's rows ---- */

/* The checksum behind a row's other numbers. It covers the block's number of parameters, too, which
 * is no column. */
static uint64_t row_sum(const struct run_config *cfg, const uint64_t *row)
{
    uint64_t all[6] = { row[0], row[1], cfg->block_params[row[1]], row[2], row[3], row[4] };

    return ledger_sum(all, 6);
}

int image_commit(const struct run_config *cfg, const struct image_state *state, const uint32_t *crc,
                 struct err *err)
{
    int rc = 0;

    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++) {
        uint64_t row[6] = { state->area, b, state->step, state->applied, crc[b] };

        row[5] = row_sum(cfg, row);
        rc = ledger_put(cfg->log, LEDGER_IMAGES, row, err);
    }
    return rc;
}

/* The rows of both areas, while they are read. */
struct areas {
    const struct run_config *cfg;
    struct area              area[IMAGE_AREAS];
    uint32_t                *crc;    // (IMAGE_AREAS, n_blocks)
    unsigned                 newest; // the committed area
};

/* Takes one row. Rows come by area and block. */
static int row_take(void *ctx, const uint64_t *row, struct err *err)
{
    struct areas            *all = ctx;
    const struct run_config *cfg = all->cfg;
    struct area             *a = row[0] < IMAGE_AREAS ? &all->area[row[0]] : NULL;

    if (!a || a->found >= run_blocks(cfg) || row[1] != a->found || row[4] > UINT32_MAX ||
        (a->found && row[2] != a->state.step) || row[5] != row_sum(cfg, row))
        return err_set(err, -EBADMSG, "run.db in %s: row %zu of image%" PRIu64 " in the journal "
                       "is damaged or of another run", cfg->dir, a ? a->found : 0, row[0]);
    a->state = (struct image_state){ .area = (unsigned)row[0], .step = row[2], .applied = row[3] };
    all->crc[row[0] * run_blocks(cfg) + a->found++] = (uint32_t)row[4];
    return 0;
}

/* Reads the rows of both areas. A damaged page could hide rows and let the older image pass for the
 * newest, so SQLite checks the table first. An area without rows has found 0. The caller always
 * frees all->crc. */
static int areas_read(const struct run_config *cfg, struct areas *all, struct err *err)
{
    int64_t n = ledger_check(cfg->log, LEDGER_IMAGES, err);

    *all = (struct areas){ .cfg = cfg,
                           .crc = calloc(IMAGE_AREAS * run_blocks(cfg), sizeof *all->crc) };
    if (!n && !all->crc)
        return err_set(err, -ENOMEM, "out of memory for the journal of images");
    if (!n)
        n = ledger_read(cfg->log, LEDGER_IMAGES, SIZE_MAX, row_take, all, err);
    if (n < 0)
        return (int)n;
    for (unsigned a = 0; a < IMAGE_AREAS; a++) {
        const struct area *of = &all->area[a];

        if (of->found && of->found != run_blocks(cfg))
            return err_set(err, -EBADMSG,
                           "run.db in %s: the journal has %zu of %zu blocks of image%u", cfg->dir,
                           of->found, run_blocks(cfg), a);
        if (of->found && (!all->area[all->newest].found ||
                          of->state.step > all->area[all->newest].state.step))
            all->newest = a;
    }
    return n ? 0 : err_set(err, -ENOENT, "run.db in %s: the journal names no image: this run has "
                           "no committed state", cfg->dir);
}

int image_latest(const struct run_config *cfg, struct image_state *out, struct err *err)
{
    struct areas all;
    int          rc = areas_read(cfg, &all, err);

    if (!rc)
        *out = all.area[all.newest].state;
    free(all.crc);
    return rc;
}

/* ---- reading ---- */

/* Refuses a file that ends before the last block does. */
static int check_size(const struct run_config *cfg, int fd, const char *path, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    for (size_t b = 0; b < run_blocks(cfg); b++) {
        uint64_t end = image_block_offset(cfg, b + 1);

        if ((uint64_t)st.st_size < end)
            return err_set(err, -EBADMSG, "%s: block %zu is cut off at offset %" PRIu64
                           ", it should end at %" PRIu64, path, b, (uint64_t)st.st_size, end);
    }
    return 0;
}

void image_reader_close(struct image_reader *f)
{
    if (f->cfg && f->fd >= 0)
        close(f->fd);
    free(f->buffer);
}

static int reader_open(struct image_reader *f, const struct run_config *cfg, unsigned area,
                       struct err *err)
{
    uint64_t size;

    *f = (struct image_reader){ .cfg = cfg, .fd = -1 };
    image_path(cfg, area, f->path, sizeof f->path);
    int rc = file_open_read(f->path, &f->fd, &size, err);
    return rc ? rc : lock_area(f->path, 1, &f->fd, err);
}

/* Reads one block into `out`, or if that is NULL through the buffer, and compares its checksum. */
static int block_load(const struct image_reader *f, size_t b, uint32_t expected, float *out,
                      struct param_set *beyond, struct err *err)
{
    const struct run_config *cfg = f->cfg;
    size_t                   floats = image_block_floats(cfg, b);
    uint64_t                 off = image_block_offset(cfg, b);
    uint32_t                 crc = 0;

    for (size_t i = 0; i < floats; i += BUFFER_FLOATS) {
        size_t n = size_min(floats - i, BUFFER_FLOATS);
        float *to = out ? out + i : f->buffer;
        int    rc = file_pread(f->fd, to, n * sizeof *to, off + (uint64_t)i * sizeof *to,
                               f->path, err);

        if (rc)
            return rc;
        crc = crc32c(crc, to, n * sizeof *to);
        if (beyond) {
            struct overflow part = overflow_find(to, n);

            part.first = (i + part.first) % cfg->block_params[b]; // its parameter
            param_set_add(beyond, b, 0, part);
        }
        rc = watch_look(cfg->watch, off + (uint64_t)(i + n) * sizeof *to, image_bytes(cfg), err);
        if (rc)
            return rc;
    }
    if (crc != expected)
        return err_set(err, -EBADMSG, "%s: block %zu at offset %" PRIu64 " is damaged: "
                       "its checksum is %08x, the journal has %08x", f->path, b, off, crc,
                       expected);
    return 0;
}

/* Reads an area into states[block]. With states NULL it is only checked. If `count` is given,
 * damage is counted and does not end the reading. */
static int area_load(const struct areas *all, unsigned index, float *const *states,
                     struct image_check *count, struct err *err)
{
    const struct run_config *cfg = all->cfg;
    struct image_reader      f;
    int                      rc = reader_open(&f, cfg, index, err);

    if (!rc && !states && !(f.buffer = malloc(BUFFER_FLOATS * sizeof *f.buffer)))
        rc = err_set(err, -ENOMEM, "out of memory for checking %s", f.path);
    if (!rc && !count)
        rc = check_size(cfg, f.fd, f.path, err);
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++) {
        struct param_set beyond = { 0 };

        rc = block_load(&f, b, all->crc[index * run_blocks(cfg) + b], states ? states[b] : NULL,
                        count ? &beyond : NULL, err);
        if (!count || rc == -EINTR)
            continue;
        count->bytes += image_block_floats(cfg, b) * sizeof(float);
        if (!rc)
            param_set_join(&count->beyond, &beyond); // a damaged block has random values
        else if (count->damaged++ == 0)
            count->why = *err;
        rc = 0;
    }
    image_reader_close(&f);
    return rc;
}

/* Adds to the message what is left of the run. Going back silently would lose steps that were
 * reported as committed. */
static int say_what_is_left(const struct areas *all, int rc, struct err *err)
{
    unsigned           other = 1 - all->newest;
    const struct area *a = &all->area[other];
    struct err         ignored;

    if (a->found && area_load(all, other, NULL, NULL, &ignored) == 0)
        return err_set(err, rc, "%.800s; the last whole committed state is that after step %" PRIu64
                       ", in image%u", err->text, a->state.step, other);
    return err_set(err, rc, "%.800s; no other whole committed state is left", err->text);
}

int image_load(const struct run_config *cfg, struct image_state *out, float *const *states,
               struct err *err)
{
    struct areas all;
    int          rc = areas_read(cfg, &all, err);

    if (!rc) {
        *out = all.area[all.newest].state;
        rc = area_load(&all, all.newest, states, NULL, err);
        if (rc && rc != -EBUSY && rc != -ENOLCK && rc != -EINTR && err)
            rc = say_what_is_left(&all, rc, err);
    }
    free(all.crc);
    return rc;
}

int image_check(const struct run_config *cfg, unsigned area, struct image_check *out,
                struct err *err)
{
    struct areas       all;
    const struct area *a = &all.area[area];
    struct err         why;
    int                rc = areas_read(cfg, &all, err);

    *out = (struct image_check){ .named = !rc && a->found, .step = a->state.step };
    if (out->named)
        rc = area_load(&all, area, NULL, out, &why);
    free(all.crc);
    if (!out->named || !rc)
        return rc;
    // an image that is in use or may not be read is not damaged
    if (rc == -EBUSY || rc == -EINTR || rc == -ENOMEM || file_is_denied(rc)) {
        *err = why;
        return rc;
    }
    out->damaged = run_blocks(cfg);
    out->why = why;
    return 0;
}

static int reader_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct image_reader *r = ctx;

    assert(block < run_blocks(r->cfg) && first + n <= r->cfg->block_params[block]);
    return file_pread(r->fd, out, n * sizeof *out,
                      image_block_offset(r->cfg, block) + (uint64_t)first * sizeof *out, r->path,
                      err);
}

int image_reader_open(struct image_reader *r, struct params_source *source,
                      const struct run_config *cfg, struct err *err)
{
    struct image_state s;
    int                rc = image_load(cfg, &s, NULL, err);

    *r = (struct image_reader){ 0 };
    *source = (struct params_source){ .read = reader_read, .ctx = r };
    return rc ? rc : reader_open(r, cfg, s.area, err);
}

/* ---- writing ---- */

int image_forget(const struct run_config *cfg, unsigned area, struct err *err)
{
    int rc = runlog_begin(cfg->log, err);

    rc = rc ? rc : ledger_clear_image(cfg->log, area, err);
    return runlog_end(cfg->log, rc, err);
}

/* Writes a block: from states or, if that is NULL, masters from init and zeros, through the
 * buffer. */
static int block_write(const struct image_reader *f, size_t b, const float *states,
                       const struct params_source *init, uint32_t *crc, struct err *err)
{
    const struct run_config *cfg = f->cfg;
    size_t   params = cfg->block_params[b], floats = image_block_floats(cfg, b), n;
    uint64_t off = image_block_offset(cfg, b);
    int      rc = 0;

    *crc = 0;
    for (size_t i = 0; i < floats && !rc; i += n) {
        const float *from = states ? states + i : f->buffer;

        n = size_min((i < params ? params : floats) - i, BUFFER_FLOATS);
        if (!states && i < params)
            rc = init->read(init->ctx, b, i, n, f->buffer, err);
        else if (!states)
            memset(f->buffer, 0, n * sizeof *from);
        rc = rc ? rc
                : file_pwrite(f->fd, from, n * sizeof *from, off + (uint64_t)i * sizeof *from,
                              f->path, err);
        *crc = crc32c(*crc, from, n * sizeof *from);
        if (!rc && !states)
            rc = watch_look(cfg->watch, off + (uint64_t)(i + n) * sizeof *from, image_bytes(cfg),
                            err);
    }
    return rc;
}

int image_write(const struct run_config *cfg, unsigned area, int fd, float *const *states,
                uint32_t *crc, struct err *err)
{
    struct image_reader f = { .cfg = cfg, .fd = fd };
    int                 rc = 0;

    image_path(cfg, area, f.path, sizeof f.path);
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++)
        rc = block_write(&f, b, states[b], NULL, &crc[b], err);
    if (!rc && cfg->durable && fsync(fd) < 0)
        rc = err_set(err, -errno, "flush %s: %s", f.path, strerror(errno));
    if (!rc && cfg->durable)
        rc = file_sync_dir(cfg->dir, err); // the file's name may be new
    return rc;
}

int image_format(const struct run_config *cfg, const struct params_source *init, struct err *err)
{
    struct file_new     new_ = { 0 };
    struct image_reader f = { .cfg = cfg, .buffer = malloc(BUFFER_FLOATS * sizeof *f.buffer) };
    uint32_t           *crc = calloc(run_blocks(cfg), sizeof *crc);

    image_path(cfg, 0, f.path, sizeof f.path);
    int rc = crc && f.buffer ? file_new_open(&new_, f.path, err)
                            : err_set(err, -ENOMEM, "out of memory for making %s", f.path);
    int begun = !rc;
    f.fd = new_.fd;
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++)
        rc = block_write(&f, b, NULL, init, &crc[b], err);
    rc = rc ? rc : file_new_commit(&new_, err);
    file_new_abort(&new_); // removes what was not committed
    if (!rc && !(rc = runlog_begin(cfg->log, err))) {
        rc = ledger_make(cfg->log, LEDGER_IMAGES, err);
        rc = rc ? rc : image_commit(cfg, &(struct image_state){ .area = 0 }, crc, err);
        rc = runlog_end(cfg->log, rc, err);
    }
    if (rc && begun) // it may have its name already
        unlink(f.path);
    free(f.buffer);
    free(crc);
    return rc;
}
