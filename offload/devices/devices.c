/* devices.c: finds, opens and checks the devices of a run, takes new ones, and registers buffers
 * with them. */
#include "offload/devices/devices.h"

#include "data/file/file.h"
#include "data/base/round.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* The configuration that all devices of a run share. If `trains` is not set, they update
 * nothing. */
static struct csd_config updates_of(const struct run_config *cfg, const struct store *st,
                                    int trains)
{
    return (struct csd_config){
        .disk = disk_find(cfg->disk), .mem = cfg->csd_mem, .moments = st->moments,
        .wire_dt = cfg->wire_dt, .update_params = trains ? st->update_pad : 0,
        .handler = run_modes[cfg->mode].handler, .timeout_ns = cfg->io_timeout_ns,
        .update_link = run_modes[cfg->mode].update_link,
    };
}

size_t devices_act_part(const struct run_config *cfg, size_t bytes)
{
    return cfg->n_devices ? round_up(div_up(bytes, devices_acts(cfg)), ARENA_IO) : 0;
}

/* The part of an activation on a device is less than ARENA_IO longer than its share. */
uint64_t devices_act_area(const struct run_config *cfg)
{
    size_t n = cfg->acts.n;

    return n ? round_up(div_up(cfg->acts.area, devices_acts(cfg)), ARENA_IO) + n * ARENA_IO : 0;
}

static uint64_t bytes_of(const struct run_config *cfg, const struct store *st, size_t i, int acts)
{
    return st->device_bytes[i] + (acts && !cfg->n_act_devices ? devices_act_area(cfg) : 0);
}

void devices_memory(const struct run_config *cfg, const struct store *st, struct run_memory *out)
{
    struct csd_config c = updates_of(cfg, st, 1);

    if (!cfg->csd->caps->on_card || c.update_link == LINK_HOST)
        out->arenas = cfg->n_devices * cfg->csd->memory(&c);
    for (size_t i = 0; i < cfg->n_devices; i++)
        out->device_bytes += bytes_of(cfg, st, i, 1);
    out->device_bytes += cfg->n_act_devices * devices_act_area(cfg);
}

/* The superblock that device i should have. */
static struct superblock super_of(const struct devices *d, size_t i)
{
    return devices_super(&d->cfg, d->store.device_bytes[i], i);
}

/* Checks that the page that was read is device i's superblock. */
static int super_check(const struct devices *d, size_t i, struct err *err)
{
    struct superblock want = super_of(d, i), found;
    int                rc = superblock_check(d->page, &want, d->device[i].path, err);

    if (!rc)
        return 0;
    if (d->cfg.owner_next && *d->cfg.owner_next) {
        snprintf(want.owner, sizeof want.owner, "%s", d->cfg.owner_next);
        if (!superblock_check(d->page, &want, d->device[i].path, NULL))
            return 0;
    }
    return devices_page_whose(&found, &d->cfg, i, d->page) == DEVICE_TAKEN
               ? devices_refuse_taken(&d->cfg, i, d->device[i].path, err)
               : rc;
}

int devices_fake(const struct run_config *cfg)
{
    return (cfg->csd->flags & CSD_FAKE) || strcmp(cfg->disk, "null") == 0;
}

static int stored_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)values, (void)names;
    *(int *)ctx = 1;
    return 0;
}

/* Refuses to train a stored run on fake devices: the journal would name states that nobody
 * wrote. */
static int refuse_fake(const struct run_config *cfg, struct err *err)
{
    int stored = 0;
    int rc = runlog_query(cfg->log,
                          "SELECT 1 FROM devices WHERE backend != 'null' AND disk != 'null'",
                          stored_row, &stored, err);

    if (!rc && stored)
        rc = err_misuse(err, "%s stores its states on its devices: --csd null and --disk null "
                        "are for runs that were made with them", cfg->dir);
    return rc;
}

int devices_run(struct devices *d, size_t i, struct csd_job *job, struct err *err)
{
    struct csd     *c = d->device[i].csd;
    struct csd_job *done;
    uint64_t        seen = 0;

    c->ops->submit(c, job);
    while (c->ops->reap(c, &done, 1) == 0)
        seen = bell_wait(&d->bell, seen, 1000000000u);
    d->silent |= job->status == -ETIMEDOUT;
    return job->status ? err_set(err, job->status, "%s", job->why) : 0;
}

int devices_flush(struct devices *d, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < d->n && !rc; i++)
        if (d->device[i].csd)
            rc = devices_run(d, i, &(struct csd_job){ .kind = CSD_FLUSH }, err);
    return rc;
}

/* ---- buffers */

/* Allocates a buffer and registers it with the devices. `more->lay` lays it out; without it, it has
 * `bytes`. */
static struct arena *buffer_add(struct devices *d, const struct devices_more *more, size_t bytes,
                                struct err *err)
{
    struct arena *grown = realloc(d->buffers, (d->n_buffers + 1) * sizeof *grown);

    if (!grown) {
        err_set(err, -ENOMEM, "out of memory for a buffer of devices");
        return NULL;
    }
    d->buffers = grown;
    struct arena *a = &grown[d->n_buffers];
    *a = (struct arena){ .align = ARENA_IO };
    if (more)
        more->lay(more->ctx, &d->store, a);
    else
        arena_take(a, bytes);
    if (arena_map(a, "frames and gradient buffers", err))
        return NULL;
    if (more)
        more->lay(more->ctx, &d->store, a);
    d->n_buffers++;
    return a;
}

void *devices_buffer(struct devices *d, size_t bytes)
{
    struct err    ignored;
    struct arena *a = buffer_add(d, NULL, bytes, &ignored);

    return a ? a->base : NULL;
}

void devices_buffer_end(struct devices *d, void *buffer)
{
    for (size_t i = 0; buffer && !d->silent && i < d->n_buffers; i++)
        if (d->buffers[i].base == buffer)
            arena_free(&d->buffers[i]); // its entry stays, and is empty
}

/* ---- superblocks */

static int page_move(struct devices *d, size_t i, enum csd_kind kind, struct err *err)
{
    return devices_run(d, i, &(struct csd_job){ .kind = kind, .cls = CLASS_STATES, .buf = d->page,
                                                .bytes = SUPERBLOCK_BYTES }, err);
}

int devices_record(const struct devices *d, struct runlog *log, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < d->n && !rc; i++) {
        const char *path = d->device[i].path, *home = d->cfg.home;
        size_t      n = strlen(d->cfg.dir);
        char *moved = home && !strncmp(path, d->cfg.dir, n) && path[n] == '/'
                          ? file_path(err, "%s%s", home, path + n) : NULL;

        rc = runlog_device(log, (int)i, moved ? moved : path, d->cfg.csd->name, d->cfg.disk,
                           d->store.device_bytes[i], err);
        free(moved);
    }
    return rc;
}

int devices_super_write(struct devices *d, size_t i, struct err *err)
{
    struct superblock super = super_of(d, i);

    superblock_pack(d->page, &super);
    return page_move(d, i, CSD_WRITE, err);
}

int devices_take(struct devices *d, struct err *err)
{
    int rc = 0;

    d->cfg.owner = d->cfg.owner_next;
    for (size_t i = 0; i < d->n && !rc && !devices_fake(&d->cfg); i++)
        rc = devices_super_write(d, i, err);
    return rc ? rc : devices_flush(d, err);
}

/* Clears the superblock of a drive that devices_open has written to. A drive that does not answer
 * any more keeps it. */
static void super_clear(struct devices *d, size_t i)
{
    memset(d->page, 0, SUPERBLOCK_BYTES);
    if (!d->silent && d->device[i].csd && !page_move(d, i, CSD_WRITE, NULL))
        devices_flush(d, NULL);
}

/* Checks device i's superblock. With `create` it writes the superblock; before, it checks once more
 * that the device is free, because from here on nobody else can open it. */
static int superblock(struct devices *d, size_t i, int create, struct err *err)
{
    if (create) {
        int rc = devices_empty_check(d->device[i].path, "--device", d->cfg.force_device, err);

        d->device[i].made |= !rc;
        return rc ? rc : devices_super_write(d, i, err);
    }
    int rc = page_move(d, i, CSD_READ, err);

    return rc ? rc : super_check(d, i, err);
}

/* Whether the file or block device of device i has a superblock. 1: this run's, in its place. 0: it
 * could not be read. -errno with a sentence: another one's. */
static int superblock_found(struct devices *d, size_t i, struct err *err)
{
    int fd = file_open_device(d->device[i].path, O_RDONLY), found = 0;

    if (fd >= 0 && pread(fd, d->page, SUPERBLOCK_BYTES, 0) == SUPERBLOCK_BYTES) {
        found = super_check(d, i, err);
        found = found ? found : 1;
    }
    file_close(fd);
    memset(d->page, 0, SUPERBLOCK_BYTES);
    return found;
}

/* ---- files */

int devices_present(const struct devices *d, const char *used, struct err *err)
{
    for (size_t i = 0; i < d->n && !devices_fake(&d->cfg); i++) {
        const struct device *at = &d->device[i];
        const char          *path = at->path;
        struct stat          st;

        if (stat(path, &st))
            return err_set(err, -ENODEV, "device %zu: %s %s (%s), and %s", i, path,
                           file_is_absent(errno) ? "is gone" : "cannot be read", strerror(errno),
                           used);
        if (st.st_dev != at->dev || st.st_ino != at->ino)
            return err_set(err, -ENODEV, "device %zu: %s is another file by now, and %s", i, path,
                           used);
        if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < d->store.device_bytes[i])
            return err_set(err, -ENODEV, "device %zu: %s was cut to %" PRIu64 " bytes, this run "
                           "needs %" PRIu64, i, path, (uint64_t)st.st_size,
                           d->store.device_bytes[i]);
    }
    return 0;
}

/* Makes device i's file. It appears under its name with its superblock in it, so a kill never
 * leaves a file that does not say whose it is. It gets its full length when it is opened. */
static int file_begin(struct devices *d, size_t i, struct err *err)
{
    struct device     *at = &d->device[i];
    struct superblock super = super_of(d, i);
    struct file_new    f;
    struct stat        st;
    int                rc = file_new_open(&f, at->path, err);

    if (!rc && f.there)
        rc = err_set(err, -EEXIST, "create %s: %s", at->path, strerror(EEXIST));
    else if (!rc && (fchmod(f.fd, 0600) || fstat(f.fd, &st)))
        rc = err_set(err, -errno, "create %s: %s", at->path, strerror(errno));
    if (!rc) {
        file_give_owner_of(f.fd, d->cfg.dir);
        superblock_pack(d->page, &super);
        rc = file_pwrite(f.fd, d->page, SUPERBLOCK_BYTES, 0, at->path, err);
    }
    if (rc) {
        file_new_abort(&f);
        return rc;
    }
    at->made = 1;
    at->dev = st.st_dev; // devices_discard removes it even if flushing its folder fails
    at->ino = st.st_ino;
    return file_new_commit(&f, err);
}

/* Finds the path of device i, and checks whether it may be there. */
static int place_find(struct devices *d, size_t i, int create, struct err *err)
{
    const struct run_config *cfg = &d->cfg;
    const char              *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    int                      real = create && !devices_fake(cfg), rc = 0;

    if (real)
        rc = devices_place_check(given ? given : cfg->dir, given ? "--device" : NULL,
                                 cfg->device_in_ram, err);
    rc = rc ? rc : devices_path(&d->device[i].path, cfg, i, create, err);
    return rc || !real ? rc
                       : devices_free_check(d->device[i].path, "--device", cfg->force_device, err);
}

static int device_open(struct devices *d, size_t i, enum devices_how how,
                       const struct devices_more *more, struct err *err)
{
    const struct run_config *cfg = &d->cfg;
    struct device           *at = &d->device[i];
    int create = how == DEVICES_CREATE || (how == DEVICES_REMAKE && devices_gone(cfg, i));
    int found = 0;
    // making a run tests already that an accelerator has enough memory
    int                      trains = how == DEVICES_TRAIN || (create && cfg->csd->usable);
    int                      acts = create || how == DEVICES_TRAIN;
    struct csd_config        c = updates_of(cfg, &d->store, trains);
    struct iovec             buffers = { 0 };
    struct stat              st;
    struct err               why = { 0 };
    int                      rc = place_find(d, i, create, err);

    if (rc)
        return rc;
    if (more->lay)
        buffers = (struct iovec){ d->buffers->base, d->buffers->bytes };
    c.id = (int)i;
    c.path = at->path;
    c.fpga = cfg->fpgas ? cfg->fpgas[i] : NULL;
    c.xclbin = cfg->xclbin;
    c.bytes = bytes_of(cfg, &d->store, i, acts);
    // a training adds and removes room for activations behind the states, if these are this run's
    if (how == DEVICES_TRAIN && !devices_fake(cfg) && superblock_found(d, i, &why) == 1)
        c.keep = d->store.device_bytes[i];
    if (how == DEVICES_REMAKE && devices_cut(cfg, i, c.bytes) && superblock_found(d, i, &why) == 1)
        c.keep = SUPERBLOCK_BYTES;
    if (create && !devices_fake(cfg) && !file_is_block(c.path)) {
        if ((rc = file_begin(d, i, err)))
            return rc;
        c.keep = SUPERBLOCK_BYTES;
    }
    c.read_only = how == DEVICES_READ;
    c.links = topology_ends(d->links, i);
    c.buffers = &buffers;
    c.n_buffers = buffers.iov_len > 0;
    c.bell = &d->bell;
    rc = cfg->csd->open(&at->csd, &c, more->notice, more->notice_size, err);
    if (rc == -ENOSPC && cfg->acts.n && !cfg->n_act_devices)
        err_set(err, rc, "%s (for activations too; --activations keep or recompute needs less)",
                err->text);
    if (rc == -EINVAL && !create) // if the device is another's, say that instead of what it lacks
        found = superblock_found(d, i, &why);
    if (found < 0 && err)
        *err = why;
    if (rc)
        return found < 0 ? found : rc;
    if (devices_fake(cfg))
        return 0;
    if (stat(c.path, &st))
        return err_set(err, -errno, "stat %s: %s", c.path, strerror(errno));
    at->dev = st.st_dev;
    at->ino = st.st_ino;
    return superblock(d, i, create, err);
}

/* ---- drives for activations */

/* A path for device i's file in a folder. No other process uses it, or will while the file is
 * made. */
static int act_name(char **out, const char *given, const struct run_config *cfg, size_t i,
                    struct err *err)
{
    char           *base = file_path(err, "%s/sitrain-%s-acts%zu", given, cfg->id, i);
    struct file_new f;
    int             rc = base ? file_new_open(&f, base, err) : -ENOMEM;

    if (!rc) {
        *out = file_path(err, "%s", f.temp);
        rc = *out ? 0 : -ENOMEM;
        file_new_abort(&f);
    }
    free(base);
    return rc;
}

/* Opens the file or drive for activations. A file keeps its name only while it is opened: nothing
 * in it outlives the process, and a kill leaves nothing. If a kill came in between, its file is
 * removed now. */
static int act_open(struct devices *d, size_t i, const struct devices_more *more, struct err *err)
{
    const struct run_config *cfg = &d->cfg;
    struct device           *at = &d->device[d->n + i];
    const char              *given = cfg->act_paths[i];
    struct csd_config        c = updates_of(cfg, &d->store, 0);
    struct iovec             buffers = { d->buffers->base, d->buffers->bytes };
    struct stat              st;
    int                      fake = devices_fake(cfg);
    int                      in_folder = stat(given, &st) == 0 && S_ISDIR(st.st_mode);
    int                      rc = fake ? 0 : devices_act_check(cfg, given, err);

    if (rc)
        return rc;
    if (in_folder && !fake)
        rc = act_name(&at->path, given, cfg, i, err);
    else
        rc = (at->path = file_path(err, "%s", given)) ? 0 : -ENOMEM;
    if (rc)
        return rc;
    c.id = (int)(d->n + i);
    c.path = at->path;
    c.bytes = devices_act_area(cfg);
    c.create = !file_is_block(c.path);
    c.links = topology_ends(d->links, d->n + i);
    c.buffers = &buffers;
    c.n_buffers = 1;
    c.bell = &d->bell;
    rc = cfg->csd->open(&at->csd, &c, more->notice, more->notice_size, err);
    if (rc == -ENOSPC)
        err_set(err, rc, "%s (for activations; --activations keep or recompute needs none)",
                err->text);
    if (!rc && !fake) // once more: nobody else can open it from here on
        rc = devices_empty_check(given, "--act-device", cfg->force_device, err);
    if (!rc && c.create && !fake && unlink(at->path))
        rc = err_set(err, -errno, "remove the name of %s: %s", at->path, strerror(errno));
    return rc;
}

void devices_folder_remove(const struct run_config *cfg, size_t i)
{
    char dir[PATH_MAX];

    if (!cfg->device_paths && snprintf(dir, sizeof dir, "%s/dev%zu", cfg->dir, i) < (int)sizeof dir)
        rmdir(dir);
}

/* Closes device i again, unless only its superblock is damaged: then the rest of it can be read. */
static void device_forget(struct devices *d, size_t i)
{
    struct csd **c = &d->device[i].csd;

    if (!*c || !superblock_whole(d->page))
        return;
    (*c)->ops->close(*c);
    *c = NULL;
}

int devices_open(struct devices *d, const struct run_config *cfg, enum devices_how how,
                 const struct devices_more *more, struct err *err)
{
    static const struct devices_more none;
    size_t                           opened = 0;

    *d = (struct devices){ .cfg = *cfg, .n = cfg->n_devices };
    size_t acts = how == DEVICES_TRAIN && cfg->acts.n ? cfg->n_act_devices : 0;
    more = more ? more : &none;
    bell_init(&d->bell);
    int rc = how != DEVICES_CREATE && devices_fake(cfg) ? refuse_fake(cfg, err) : 0;
    rc = rc ? rc : store_init(&d->store, cfg, err);
    if (!rc && (how == DEVICES_CREATE || how == DEVICES_TRAIN)) {
        struct csd_config updates = updates_of(cfg, &d->store, 1);

        rc = csd_caps_check(cfg->csd, &updates, cfg->optim, cfg->compress > 0, err);
    }
    d->device = calloc(d->n + acts, sizeof *d->device);
    if (!rc && more->lay && !buffer_add(d, more, 0, err))
        rc = -ENOMEM;
    if (!rc && (!(d->page = devices_buffer(d, SUPERBLOCK_BYTES)) || !d->device))
        rc = err_set(err, -ENOMEM, "out of memory for %zu devices", d->n);
    rc = rc ? rc : topology_open(&d->links, &d->cfg.links, d->n, err);
    for (; !rc && opened < d->n; opened++) {
        rc = device_open(d, opened, how, more, err);
        // a device that is in use or may not be read is not damaged
        if (rc && rc != -EBUSY && !file_is_unknown(rc) && more->each) {
            more->each[opened] = *err;
            device_forget(d, opened);
            rc = 0;
        }
    }
    while (!rc && d->n_acts < acts)
        rc = act_open(d, d->n_acts++, more, err);
    if (!rc)
        return 0;
    if (how == DEVICES_CREATE || how == DEVICES_REMAKE)
        devices_discard(d); // a device that failed has removed what it made, unless it was open
    devices_close(d);
    return rc;
}

void devices_discard(struct devices *d)
{
    for (size_t i = 0; d->device && i < d->n; i++) {
        const struct device *at = &d->device[i];
        struct stat          st;

        if (at->made && file_is_block(at->path))
            super_clear(d, i);
        else if (at->made && !stat(at->path, &st) && st.st_dev == at->dev &&
                 st.st_ino == at->ino && !unlink(at->path))
            file_sync_parent(at->path, NULL); // after a power cut nothing says whose it is
        devices_folder_remove(&d->cfg, i);
    }
}

void devices_close(struct devices *d)
{
    for (size_t i = 0; d->device && i < d->n + d->n_acts; i++) {
        struct device *at = &d->device[i];

        if (at->csd)
            d->silent |= at->csd->ops->close(at->csd);
        free(at->path);
    }
    topology_close(d->links);
    for (size_t i = 0; !d->silent && i < d->n_buffers; i++)
        arena_free(&d->buffers[i]);
    free(d->buffers);
    free(d->device);
    store_release(&d->store);
    if (d->n)
        bell_release(&d->bell);
    *d = (struct devices){ 0 };
}
