/* image.c: writes, loads and checks the images of mode mem, and keeps their rows in the journal. A
 * file is nothing but floats, block after block, without header or padding. Sizes come from the
 * run's configuration, checksums from the journal.
 *
 * Invariants: a file is complete and, if the run is durable, on stable storage before a row names
 * it. Rows of an area change all together, in one transaction. The area that the newest rows name
 * is never written to. The frozen blocks' area is written when the run is made, and never again. */
#include "offload/devices/image.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/round.h"
#include "data/db/ledger.h"
#include "kernels/elementwise.h"
#include "offload/devices/base_files.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4 << 20 }; // of a read or write, large enough for any drive
enum { FILES = IMAGE_FROZEN + 1 };

static const char *const names[FILES] = { "image0", "image1", "frozen" };

/* The rows of one area in the journal. */
struct named {
    size_t             found; // number of rows
    size_t             next;  // the block that no row was found of yet
    struct image_state state; // what the rows say
};

size_t image_block_floats(const struct run_config *cfg, size_t block)
{
    return run_trains(cfg, block) ? (size_t)(1 + optim_moments(cfg->optim) +
                                             !!cfg->error_feedback) * cfg->block_params[block]
                                  : 0;
}

static int has(const struct run_config *cfg, unsigned area, size_t block)
{
    return run_trains(cfg, block) == (area != IMAGE_FROZEN) && !run_in_place(cfg, block);
}

/* The number of blocks in an area. */
static size_t blocks_in(const struct run_config *cfg, unsigned area)
{
    size_t n = 0;

    for (size_t b = 0; b < run_blocks(cfg); b++)
        n += (size_t)has(cfg, area, b);
    return n;
}

static enum dtype dtype_of(const struct run_config *cfg, unsigned area)
{
    return area == IMAGE_FROZEN ? cfg->wire_dt : DT_F32;
}

static uint64_t block_bytes(const struct run_config *cfg, unsigned area, size_t block)
{
    return area == IMAGE_FROZEN ? (uint64_t)cfg->block_params[block] * dtype_bytes(cfg->wire_dt)
                                : (uint64_t)image_block_floats(cfg, block) * sizeof(float);
}

/* Where a block begins in an area; the area's end for the block after the last. */
static uint64_t block_offset(const struct run_config *cfg, unsigned area, size_t block)
{
    uint64_t bytes = 0;

    for (size_t b = 0; b < block; b++)
        bytes += has(cfg, area, b) ? block_bytes(cfg, area, b) : 0;
    return bytes;
}

uint64_t image_block_offset(const struct run_config *cfg, size_t block)
{
    return block_offset(cfg, 0, block);
}

uint64_t image_bytes(const struct run_config *cfg)
{
    return block_offset(cfg, 0, run_blocks(cfg));
}

int image_area(const struct run_config *cfg, unsigned area, size_t block, struct area *out)
{
    *out = (struct area){ 0 };
    if (!has(cfg, area, block))
        return 0;
    *out = (struct area){ .kind = area == IMAGE_FROZEN ? VERIFY_FROZEN : VERIFY_IMAGE,
                          .file = area, .sub = block, .block = block,
                          .n = cfg->block_params[block], .off = block_offset(cfg, area, block),
                          .bytes = block_bytes(cfg, area, block) };
    return 1;
}

uint64_t image_frozen_bytes(const struct run_config *cfg)
{
    return block_offset(cfg, IMAGE_FROZEN, run_blocks(cfg));
}

void image_path(const struct run_config *cfg, unsigned area, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", cfg->dir, names[area]);
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
    int is = file_names(path, fd);
    if (is < 0)
        return file_unseen(path, is, err);
    return is ? 0 : err_set(err, -ENODEV, "%s is gone, or another file by now than the one that "
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
        if (!has(cfg, state->area, b))
            continue;
        uint64_t row[6] = { state->area, b, state->step, state->applied, crc[b] };

        row[5] = row_sum(cfg, row);
        rc = ledger_put(cfg->log, LEDGER_IMAGES, row, err);
    }
    return rc;
}

/* The rows of all areas, while they are read. */
struct areas {
    const struct run_config *cfg;
    struct named             area[FILES];
    uint32_t                *crc;    // (FILES, n_blocks)
    unsigned                 newest; // the committed area
};

/* Takes one row. Rows come by area and block. */
static int row_take(void *ctx, const uint64_t *row, struct err *err)
{
    struct areas            *all = ctx;
    const struct run_config *cfg = all->cfg;
    struct named            *a = row[0] < FILES ? &all->area[row[0]] : NULL;
    size_t                   n = run_blocks(cfg);

    while (a && a->next < n && !has(cfg, (unsigned)row[0], a->next))
        a->next++;
    if (!a || a->next >= n || row[1] != a->next || row[4] > UINT32_MAX ||
        (a->found && row[2] != a->state.step) || row[5] != row_sum(cfg, row))
        return err_set(err, -EBADMSG, "run.db in %s: row %zu of %s in the journal "
                       "is damaged or of another run", cfg->dir, a ? a->found : 0,
                       a ? names[row[0]] : "an unknown image");
    a->state = (struct image_state){ .area = (unsigned)row[0], .step = row[2], .applied = row[3] };
    all->crc[row[0] * n + a->next++] = (uint32_t)row[4];
    a->found++;
    return 0;
}

/* Reads the rows of all areas. A damaged page could hide rows and let the older image pass for the
 * newest, so SQLite checks the table first. An area without rows has found 0. The caller always
 * frees all->crc. */
static int areas_read(const struct run_config *cfg, struct areas *all, struct err *err)
{
    int64_t n = ledger_check(cfg->log, LEDGER_IMAGES, err);

    *all = (struct areas){ .cfg = cfg,
                           .crc = calloc(FILES * run_blocks(cfg), sizeof *all->crc) };
    if (!n && !all->crc)
        return err_set(err, -ENOMEM, "out of memory for the journal of images");
    if (!n)
        n = ledger_read(cfg->log, LEDGER_IMAGES, SIZE_MAX, row_take, all, err);
    if (n < 0)
        return (int)n;
    for (unsigned a = 0; a < FILES && n; a++) {
        const struct named *of = &all->area[a];

        if ((of->found || a == IMAGE_FROZEN) && of->found != blocks_in(cfg, a))
            return err_set(err, -EBADMSG,
                           "run.db in %s: the journal has %zu of %zu blocks of %s", cfg->dir,
                           of->found, blocks_in(cfg, a), names[a]);
        if (of->found && a != IMAGE_FROZEN && (!all->area[all->newest].found ||
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

int image_sums(const struct run_config *cfg, unsigned area, uint32_t **out, struct err *err)
{
    size_t       bytes = run_blocks(cfg) * sizeof **out;
    struct areas all;
    int          rc = areas_read(cfg, &all, err);

    *out = rc ? NULL : malloc(bytes);
    if (!rc && !*out)
        rc = err_set(err, -ENOMEM, "out of memory for the journal of images");
    if (!rc)
        memcpy(*out, all.crc + area * run_blocks(cfg), bytes);
    free(all.crc);
    return rc;
}

/* ---- reading ---- */

/* Refuses a file that ends before the last block does. */
static int check_size(const struct image_file *f, struct err *err)
{
    struct stat st;

    if (fstat(f->fd, &st) < 0)
        return err_set(err, -errno, "stat %s: %s", f->path, strerror(errno));
    for (size_t b = 0; b < run_blocks(f->cfg); b++) {
        uint64_t end = block_offset(f->cfg, f->area, b + 1);

        if ((uint64_t)st.st_size < end)
            return err_set(err, -EBADMSG, "%s: block %zu is cut off at offset %" PRIu64
                           ", it should end at %" PRIu64, f->path, b, (uint64_t)st.st_size, end);
    }
    return 0;
}

static void reader_close(struct image_file *f)
{
    if (f->cfg && f->fd >= 0)
        close(f->fd);
    free(f->buffer);
}

static int reader_open(struct image_file *f, const struct run_config *cfg, unsigned area,
                       struct err *err)
{
    uint64_t size;

    *f = (struct image_file){ .cfg = cfg, .area = area, .fd = -1 };
    image_path(cfg, area, f->path, sizeof f->path);
    int rc = file_open_read(f->path, &f->fd, &size, err);
    return rc ? rc : lock_area(f->path, 1, &f->fd, err);
}

/* Reads one block into `out`, or if that is NULL through the buffer, and compares its checksum. */
static int block_load(const struct image_file *f, size_t b, uint32_t expected, char *out,
                      struct param_set *beyond, struct err *err)
{
    const struct run_config *cfg = f->cfg;
    enum dtype               dt = dtype_of(cfg, f->area);
    uint64_t off = block_offset(cfg, f->area, b), bytes = block_bytes(cfg, f->area, b),
             all = block_offset(cfg, f->area, run_blocks(cfg));
    uint32_t crc = 0;

    for (uint64_t i = 0; i < bytes; i += BUFFER_BYTES) {
        size_t n = (size_t)(bytes - i < BUFFER_BYTES ? bytes - i : BUFFER_BYTES);
        void  *to = out ? out + i : f->buffer;
        int    rc = file_pread(f->fd, to, n, off + i, f->path, err);

        if (rc)
            return rc;
        crc = crc32c(crc, to, n);
        if (beyond && !run_packed(cfg, b)) {
            struct param_set part = { 0 };

            param_set_look(&part, b, i / dtype_bytes(dt), to, dt, n / dtype_bytes(dt));
            part.first %= cfg->block_params[b]; // its parameter
            param_set_join(beyond, &part);
        }
        rc = watch_look(cfg->watch, off + i + n, all, err);
        if (rc)
            return rc;
    }
    if (crc != expected)
        return err_set(err, -EBADMSG, "%s: block %zu at offset %" PRIu64 " is damaged: "
                       "its checksum is %08x, the journal has %08x", f->path, b, off, crc,
                       expected);
    return 0;
}

/* Reads an area into stored[block]. With stored NULL it is only checked. If `count` is given,
 * damage is counted and does not end the reading. */
static int area_load(const struct areas *all, unsigned index, void *const *stored,
                     struct image_check *count, struct err *err)
{
    const struct run_config *cfg = all->cfg;
    struct image_file        f;
    int                      rc = reader_open(&f, cfg, index, err);

    if (!rc && !stored && !(f.buffer = malloc(BUFFER_BYTES)))
        rc = err_set(err, -ENOMEM, "out of memory for checking %s", f.path);
    if (!rc && !count)
        rc = check_size(&f, err);
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++) {
        struct param_set beyond = { 0 };

        if (!has(cfg, index, b))
            continue;
        rc = block_load(&f, b, all->crc[index * run_blocks(cfg) + b], stored ? stored[b] : NULL,
                        count ? &beyond : NULL, err);
        if (!count || rc == -EINTR)
            continue;
        count->n++;
        count->bytes += block_bytes(cfg, index, b);
        if (!rc)
            param_set_join(&count->beyond, &beyond); // a damaged block has random values
        else if (count->damaged++ == 0)
            count->why = *err;
        rc = 0;
    }
    reader_close(&f);
    return rc;
}

/* Reads the frozen blocks, if there are any. Nothing else has their parameters. */
static int frozen_load(const struct areas *all, void *const *stored, struct err *err)
{
    int rc = all->area[IMAGE_FROZEN].found ? area_load(all, IMAGE_FROZEN, stored, NULL, err) : 0;

    return rc != -EBADMSG || !err
               ? rc : err_set(err, rc, "%s; the run has these parameters nowhere else: "
                              "make it again from the model that it began with", err->text);
}

/* Adds to the message what is left of the run. Going back silently would lose steps that were
 * reported as committed. */
static int say_what_is_left(const struct areas *all, int rc, struct err *err)
{
    unsigned           other = 1 - all->newest;
    const struct named *a = &all->area[other];
    struct err         ignored;

    if (a->found && area_load(all, other, NULL, NULL, &ignored) == 0)
        return err_set(err, rc, "%s; the last whole committed state is that after step %" PRIu64
                       ", in image%u", err->text, a->state.step, other);
    return err_set(err, rc, "%s; no other whole committed state is left", err->text);
}

int image_load(const struct run_config *cfg, struct image_state *out, void *const *stored,
               struct err *err)
{
    struct areas all;
    int          rc = areas_read(cfg, &all, err);

    if (!rc) {
        *out = all.area[all.newest].state;
        rc = area_load(&all, all.newest, stored, NULL, err);
        if (rc && rc != -EBUSY && rc != -ENOLCK && rc != -EINTR && err)
            rc = say_what_is_left(&all, rc, err);
        rc = rc ? rc : frozen_load(&all, stored, err);
    }
    free(all.crc);
    return rc;
}

int image_check(const struct run_config *cfg, unsigned area, struct image_check *out,
                struct err *err)
{
    struct areas       all;
    const struct named *a = &all.area[area];
    struct err         why;
    int                rc = areas_read(cfg, &all, err);

    *out = (struct image_check){ .named = !rc && a->found, .step = a->state.step };
    if (out->named)
        rc = area_load(&all, area, NULL, out, &why);
    free(all.crc);
    if (!out->named || !rc)
        return rc;
    // an image that is in use or may not be read is not damaged
    if (rc == -EBUSY || rc == -EINTR || file_is_unknown(rc)) {
        *err = why;
        return rc;
    }
    out->damaged = blocks_in(cfg, area);
    out->why = why;
    return 0;
}

/* Reads parameters of a frozen block, and widens them. */
static int frozen_read(const struct image_file *f, size_t block, size_t first, size_t n, float *out,
                       struct err *err)
{
    enum dtype dt = f->cfg->wire_dt;
    char       wire[64 << 10];
    uint64_t   off = block_offset(f->cfg, IMAGE_FROZEN, block) + first * dtype_bytes(dt);
    int        rc = 0;

    for (size_t i = 0, k; i < n && !rc; i += k) {
        k = size_min(n - i, sizeof wire / dtype_bytes(dt));
        rc = file_pread(f->fd, wire, k * dtype_bytes(dt), off + i * dtype_bytes(dt), f->path, err);
        if (!rc)
            convert(out + i, DT_F32, wire, dt, k);
    }
    return rc;
}

static int reader_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct image_reader *r = ctx;
    const struct image_file   *f = &r->newest;

    assert(block < run_blocks(f->cfg) && first + n <= f->cfg->block_params[block]);
    if (run_in_place(f->cfg, block))
        return base_files_read(f->cfg->base, f->cfg->wire_dt, block, first, n, out, err);
    if (!run_trains(f->cfg, block))
        return frozen_read(&r->frozen, block, first, n, out, err);
    return file_pread(f->fd, out, n * sizeof *out,
                      image_block_offset(f->cfg, block) + (uint64_t)first * sizeof *out, f->path,
                      err);
}

int image_reader_open(struct image_reader *r, struct params_source *source,
                      const struct run_config *cfg, struct err *err)
{
    struct image_state s;
    int                rc = image_load(cfg, &s, NULL, err);

    *r = (struct image_reader){ 0 };
    *source = (struct params_source){ .read = reader_read, .ctx = r };
    if (!rc && blocks_in(cfg, IMAGE_FROZEN))
        rc = reader_open(&r->frozen, cfg, IMAGE_FROZEN, err);
    return rc ? rc : reader_open(&r->newest, cfg, s.area, err);
}

void image_reader_close(struct image_reader *r)
{
    reader_close(&r->newest);
    reader_close(&r->frozen);
}

/* ---- writing ---- */

int image_forget(const struct run_config *cfg, unsigned area, struct err *err)
{
    int rc = runlog_begin(cfg->log, err);

    rc = rc ? rc : ledger_clear_image(cfg->log, area, err);
    return runlog_end(cfg->log, rc, err);
}

/* Puts n elements of a block's first state into the buffer: its parameters from init, of which
 * there are so many, then zeros. */
static int first_read(const struct image_file *f, size_t b, size_t i, size_t n,
                      const struct params_source *init, struct err *err)
{
    enum dtype dt = dtype_of(f->cfg, f->area);
    float     *wide = (float *)(void *)((char *)f->buffer + (dt == DT_F32 ? 0 : BUFFER_BYTES));
    int        rc = 0;

    if (i < f->cfg->block_params[b])
        rc = init->read(init->ctx, b, i, n, wide, err);
    else
        memset(wide, 0, n * sizeof *wide);
    if (!rc && dt != DT_F32 && run_packed(f->cfg, b))
        run_bits_put(f->buffer, dt, wide, n);
    else if (!rc && dt != DT_F32)
        convert(f->buffer, dt, wide, DT_F32, n);
    return rc;
}

/* Writes a block: as it is stored or, if that is NULL, as it begins, through the buffer. */
static int block_write(const struct image_file *f, size_t b, const char *stored,
                       const struct params_source *init, uint32_t *crc, struct err *err)
{
    const struct run_config *cfg = f->cfg;
    size_t   each = dtype_bytes(dtype_of(cfg, f->area)), params = cfg->block_params[b], n;
    size_t   all = block_bytes(cfg, f->area, b) / each; // elements
    uint64_t off = block_offset(cfg, f->area, b), end = block_offset(cfg, f->area, run_blocks(cfg));
    int      rc = 0;

    *crc = 0;
    for (size_t i = 0; i < all && !rc; i += n) {
        const void *from = stored ? stored + i * each : f->buffer;

        n = size_min((i < params ? params : all) - i, BUFFER_BYTES / sizeof(float));
        if (!stored)
            rc = first_read(f, b, i, n, init, err);
        rc = rc ? rc : file_pwrite(f->fd, from, n * each, off + i * each, f->path, err);
        *crc = crc32c(*crc, from, n * each);
        if (!rc && !stored)
            rc = watch_look(cfg->watch, off + (i + n) * each, end, err);
    }
    return rc;
}

int image_write(const struct run_config *cfg, unsigned area, int fd, void *const *stored,
                uint32_t *crc, struct err *err)
{
    struct image_file f = { .cfg = cfg, .area = area, .fd = fd };
    int               rc = 0;

    image_path(cfg, area, f.path, sizeof f.path);
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++)
        rc = has(cfg, area, b) ? block_write(&f, b, stored[b], NULL, &crc[b], err) : 0;
    if (!rc && cfg->durable && fsync(fd) < 0)
        rc = err_set(err, -errno, "flush %s: %s", f.path, strerror(errno));
    if (!rc && cfg->durable)
        rc = file_sync_dir(cfg->dir, err); // the file's name may be new
    return rc;
}

/* Makes an area's file as it begins. *made: it may have its name, also after a failure. */
static int area_make(const struct run_config *cfg, unsigned area, const struct params_source *init,
                     uint32_t *crc, int *made, struct err *err)
{
    struct file_new   new_ = { 0 };
    struct image_file f = { .cfg = cfg, .area = area, .buffer = malloc(2 * BUFFER_BYTES) };

    image_path(cfg, area, f.path, sizeof f.path);
    int rc = f.buffer ? file_new_open(&new_, f.path, err)
                      : err_set(err, -ENOMEM, "out of memory for making %s", f.path);
    *made = !rc;
    f.fd = new_.fd;
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++)
        rc = has(cfg, area, b) ? block_write(&f, b, NULL, init, &crc[b], err) : 0;
    rc = rc ? rc : file_new_commit(&new_, err);
    file_new_abort(&new_); // removes what was not committed
    free(f.buffer);
    return rc;
}

int image_format(const struct run_config *cfg, const struct params_source *init, struct err *err)
{
    static const unsigned areas[] = { IMAGE_FROZEN, 0 };
    uint32_t             *crc = calloc(run_blocks(cfg), sizeof *crc); // a block is in one of them
    int                   made[2] = { 0 }, rc = 0;
    char                  path[PATH_MAX];

    if (!crc)
        rc = err_set(err, -ENOMEM, "out of memory for making images in %s", cfg->dir);
    for (int i = 0; i < 2 && !rc; i++)
        if (areas[i] == 0 || blocks_in(cfg, areas[i]))
            rc = area_make(cfg, areas[i], init, crc, &made[i], err);
    if (!rc && !(rc = runlog_begin(cfg->log, err))) {
        rc = ledger_make(cfg->log, LEDGER_IMAGES, err);
        for (int i = 0; i < 2 && !rc; i++)
            rc = image_commit(cfg, &(struct image_state){ .area = areas[i] }, crc, err);
        rc = runlog_end(cfg->log, rc, err);
    }
    for (int i = 0; i < 2 && rc; i++) {
        image_path(cfg, areas[i], path, sizeof path);
        if (made[i])
            unlink(path);
    }
    free(crc);
    return rc;
}
