/* devices.c: finds, opens and checks the devices of a run. */
#include "offload/devices.h"

#include "csd/disk_file.h"
#include "data/base/file.h"
#include "data/base/round.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* A device as far as all of a run's are alike. trains: else it updates nothing. */
static struct csd_config updates_of(const struct run_config *cfg, const struct store *st,
                                    int trains)
{
    return (struct csd_config){
        .disk = disk_find(cfg->disk), .mem = cfg->csd_mem, .moments = st->moments,
        .wire_dt = cfg->wire_dt, .update_params = trains ? st->max_pad : 0,
        .handler = cfg->mode == RUN_SU ? CSD_NAIVE : CSD_HANDED_OVER,
        .update_link = cfg->mode == RUN_BASE ? LINK_HOST : LINK_INTERNAL,
        .timeout_ns = cfg->io_timeout_ns,
    };
}

/* Whether the devices can make the updates of this run. */
static int updates_check(const struct run_config *cfg, const struct store *st, struct err *err)
{
    struct csd_config c = updates_of(cfg, st, 1);

    return csd_caps_check(cfg->csd, &c, cfg->optim, cfg->compress > 0, err);
}

size_t devices_act_part(const struct run_config *cfg, size_t bytes)
{
    return cfg->n_devices ? round_up(div_up(bytes, devices_acts(cfg)), ARENA_IO) : 0;
}

/* A part is less than ARENA_IO longer than its share. */
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

const char *devices_layout(const struct run_config *cfg) { return cfg->layout ? cfg->layout : ""; }

/* What device i's superblock has to say. */
static struct store_super super_of(const struct devices *d, size_t i)
{
    struct store_super s = { .device = (uint32_t)i, .n_devices = (uint32_t)d->n,
                             .bytes = d->store.device_bytes[i] };

    snprintf(s.id, sizeof s.id, "%s", d->cfg.id);
    snprintf(s.layout, sizeof s.layout, "%s", devices_layout(&d->cfg));
    return s;
}

/* RUN/devN/states, whose folder is made where it is to be. */
static int path_in_run(char **out, const struct run_config *cfg, size_t i, int create,
                       struct err *err)
{
    const char *layout = devices_layout(cfg);
    int         rc = 0;

    *out = file_path(err, "%s/dev%zu/states%s%s", cfg->dir, i, *layout ? "-" : "", layout);
    if (!*out)
        return -ENOMEM;
    char *slash = strrchr(*out, '/');
    *slash = '\0';
    if (create && mkdir(*out, 0777) && errno != EEXIST)
        rc = err_set(err, -errno, "make the device folder %s: %s", *out, strerror(errno));
    *slash = '/';
    return rc;
}

int devices_path(char **out, const struct run_config *cfg, size_t i, int create, struct err *err)
{
    const char *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    const char *layout = devices_layout(cfg);
    struct stat st;

    *out = NULL;
    if (!given)
        return path_in_run(out, cfg, i, create, err);
    int there = stat(given, &st) == 0;
    if (!there && (errno != ENOENT || !create))
        return err_name(err, errno, "--device %s: %s; expected a folder, a file or a block device",
                        given, strerror(errno));
    if (there && create && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode))
        return err_misuse(err, "--device %s exists; expected a folder, a block device "
                          "or the name of a new file", given);
    if (there && S_ISDIR(st.st_mode))
        *out = file_path(err, "%s/sitrain-%.8s%s%s-dev%zu", given, cfg->id, *layout ? "-" : "",
                         layout, i);
    else
        *out = file_path(err, "%s", given);
    return *out ? 0 : -ENOMEM;
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

/* What was stored must not go on where nothing is: the journal would name states that nobody wrote.
 */
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
        seen = csd_bell_wait(&d->bell, seen, 1000000000u);
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

/* Of what `lay` says, and registered with the devices; of `bytes` where it is NULL. */
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
            arena_free(&d->buffers[i]); // its row stays, and is empty
}

/* ---- superblocks */

static int page_move(struct devices *d, size_t i, enum csd_kind kind, struct err *err)
{
    return devices_run(d, i, &(struct csd_job){ .kind = kind, .cls = CLASS_STATES, .buf = d->page,
                                                .bytes = STORE_SUPERBLOCK }, err);
}

int devices_record(const struct devices *d, struct runlog *log, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < d->n && !rc; i++)
        rc = runlog_device(log, (int)i, d->device[i].path, d->cfg.csd->name, d->cfg.disk,
                           d->store.device_bytes[i], err);
    return rc;
}

int devices_super_write(struct devices *d, size_t i, struct err *err)
{
    struct store_super super = super_of(d, i);

    store_super_pack(d->page, &super);
    return page_move(d, i, CSD_WRITE, err);
}

/* A superblock tells whose device this is; on a block device about to be taken, that it is
 * nobody's. */
static int superblock(struct devices *d, size_t i, int create, struct err *err)
{
    struct store_super want = super_of(d, i);

    if (devices_fake(&d->cfg))
        return 0;
    if (!create || file_is_block(d->device[i].path)) {
        int rc = page_move(d, i, CSD_READ, err);

        if (rc || !create)
            return rc ? rc : store_super_check(d->page, &want, d->device[i].path, err);
        if (store_super_present(d->page) && !d->cfg.force_device)
            return err_misuse(err, "%s already holds the states of a siTrain run; "
                              "--force-device takes it for this one", d->device[i].path);
    }
    return devices_super_write(d, i, err);
}

/* Whose superblock is in the file or block device of device i: 1: this run's, in its place; 0: it
 * could not be read; -errno with a sentence: another's. */
static int superblock_found(struct devices *d, size_t i, struct err *err)
{
    struct store_super want = super_of(d, i);
    int                fd = file_open_device(d->device[i].path, O_RDONLY), found = 0;

    if (fd >= 0 && pread(fd, d->page, STORE_SUPERBLOCK, 0) == STORE_SUPERBLOCK) {
        found = store_super_check(d->page, &want, d->device[i].path, err);
        found = found ? found : 1;
    }
    if (fd >= 0)
        close(fd);
    memset(d->page, 0, STORE_SUPERBLOCK);
    return found;
}

/* ---- files */

int devices_present(const struct devices *d, struct err *err)
{
    for (size_t i = 0; i < d->n && !devices_fake(&d->cfg); i++) {
        const struct device *at = &d->device[i];
        const char          *path = at->path;
        struct stat          st;

        if (stat(path, &st))
            return err_set(err, -ENODEV, "device %zu: %s is gone (%s), and the run was writing to "
                           "it; bring it back and go on with --resume", i, path, strerror(errno));
        if (st.st_dev != at->dev || st.st_ino != at->ino)
            return err_set(err, -ENODEV, "device %zu: %s is another file than the one that the run "
                           "was writing to; bring that one back and go on with --resume", i, path);
        if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < d->store.device_bytes[i])
            return err_set(err, -ENODEV, "device %zu: %s was cut to %" PRIu64 " bytes, this run "
                           "needs %" PRIu64, i, path, (uint64_t)st.st_size,
                           d->store.device_bytes[i]);
    }
    return 0;
}

/* In /dev, but for /dev/shm, which is a tmpfs like others? dir: without links. */
static int is_dev(const char *dir)
{
    return !strcmp(dir, "/dev") || (!strncmp(dir, "/dev/", 5) && strcmp(dir, "/dev/shm") &&
                                    strncmp(dir, "/dev/shm/", 9));
}

int devices_folder(char **out, const char *place, struct err *err)
{
    struct stat st;
    char       *copy = strdup(place);
    int         there = stat(place, &st) == 0;

    *out = NULL;
    errno = copy ? 0 : ENOMEM;
    if (copy && !(there && S_ISBLK(st.st_mode)))
        *out = realpath(there && S_ISDIR(st.st_mode) ? place : dirname(copy), NULL);
    free(copy);
    return *out || errno != ENOMEM ? 0 : err_set(err, -ENOMEM, "out of memory for a path");
}

int devices_place_check(const char *place, const char *option, int in_ram, struct err *err)
{
    char *dir;
    int   rc = devices_folder(&dir, place, err); // whatever is wrong with none is said elsewhere

    if (dir && is_dev(dir) && access(place, F_OK) == 0)
        rc = err_misuse(err, "%s: files there are in RAM; a folder on a drive, or a drive itself, "
                        "is expected", place);
    else if (dir && is_dev(dir))
        rc = err_misuse(err, "%s %s: there is no such drive (lsblk lists those that there are), "
                        "and a new file in its place would be in RAM", option ? option : "--device",
                        place);
    else if (dir && !in_ram && file_in_ram(dir))
        rc = err_misuse(err, "%s%s%s: %s is in RAM (tmpfs), so what is stored there would count "
                        "beside --host-mem and be gone with the power: %s, or allow it with "
                        "--device-in-ram", option ? option : "", option ? " " : "", place, dir,
                        option ? "name a place on a drive"
                               : "make the run on a drive, or its devices with --device");
    free(dir);
    return rc;
}

/* Where device i is to be, and whether it may be there. */
static int place_find(struct devices *d, size_t i, int create, struct err *err)
{
    const struct run_config *cfg = &d->cfg;
    const char              *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    int                      real = create && !devices_fake(cfg), rc = 0;

    if (real)
        rc = devices_place_check(given ? given : cfg->dir, given ? "--device" : NULL,
                                 cfg->device_in_ram, err);
    rc = rc ? rc : devices_path(&d->device[i].path, cfg, i, create, err);
    if (!rc && real && !cfg->force_device)
        rc = disk_probe(d->device[i].path, err);
    return rc;
}

static int device_open(struct devices *d, size_t i, enum devices_how how,
                       const struct devices_more *more, struct err *err)
{
    const struct run_config *cfg = &d->cfg;
    struct device           *at = &d->device[i];
    int                      create = how == DEVICES_CREATE, found = 0;
    // that an accelerator has the memory is seen when the run is made
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
    // room for activations comes and goes behind the states, where they are this run's
    if (how == DEVICES_TRAIN && !devices_fake(cfg) && superblock_found(d, i, &why) == 1)
        c.keep = d->store.device_bytes[i];
    c.create = create && !file_is_block(c.path);
    c.read_only = how == DEVICES_READ;
    c.links = topology_ends(d->links, i);
    c.buffers = &buffers;
    c.n_buffers = buffers.iov_len > 0;
    c.bell = &d->bell;
    rc = cfg->csd->open(&at->csd, &c, more->notice, more->notice_size, err);
    if (rc == -ENOSPC && cfg->acts.n && !cfg->n_act_devices)
        err_set(err, rc, "%.900s (for activations too; --activations keep or recompute needs less)",
                err->text);
    if (rc == -EINVAL && !create) // if it is another's, that is said instead of what it lacks
        found = superblock_found(d, i, &why);
    if (found < 0 && err)
        *err = why;
    if (rc)
        return found < 0 ? found : rc;
    if (stat(c.path, &st) == 0) {
        at->dev = st.st_dev;
        at->ino = st.st_ino;
    }
    return superblock(d, i, create, err);
}

/* ---- drives for activations */

/* Of no one's: unlike a file of states there is nothing in one to come back to. */
static int act_block_check(const char *path, struct err *err)
{
    char page[STORE_SUPERBLOCK];
    int  rc = disk_probe(path, err), fd = rc ? -1 : file_open_device(path, O_RDONLY);

    if (!rc && fd < 0)
        return err_set(err, fd, "open %s: %s", path, strerror(-fd));
    if (!rc && !file_pread(fd, page, sizeof page, 0, path, NULL) && store_super_present(page))
        rc = err_misuse(err, "--act-device %s holds the states of a siTrain run; --force-device "
                        "takes it for activations", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

int devices_act_check(const struct run_config *cfg, const char *place, struct err *err)
{
    struct stat st;
    int         there = stat(place, &st) == 0, rc = 0;
    char       *dir = NULL;

    if (there && S_ISBLK(st.st_mode))
        return cfg->force_device ? 0 : act_block_check(place, err);
    if (there && !S_ISDIR(st.st_mode))
        return err_misuse(err, "--act-device %s exists; expected a folder, a block device or the "
                          "name of a new file", place);
    if (!there && (rc = devices_folder(&dir, place, err)))
        return rc;
    if (!there && !dir)
        return err_name(err, errno, "--act-device %s: %s; expected a folder, a block device or the "
                        "name of a new file (--resume with --act-device none goes on without)",
                        place, strerror(errno));
    free(dir);
    return devices_place_check(place, "--act-device", cfg->device_in_ram, err);
}

/* Its file has no name for longer than it takes to open it: nothing in it outlives the process,
 * and nothing is left of one that was killed. What one left that was killed just then goes. */
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
    at->path = in_folder ? file_path(err, "%s/sitrain-%.8s-acts%zu", given, cfg->id, i)
                         : file_path(err, "%s", given);
    if (!at->path)
        return -ENOMEM;
    if (in_folder && !fake)
        unlink(at->path);
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
        err_set(err, rc, "%.900s (for activations; --activations keep or recompute needs none)",
                err->text);
    if (!rc && c.create && !fake && unlink(at->path))
        rc = err_set(err, -errno, "remove the name of %s: %s", at->path, strerror(errno));
    return rc;
}

/* Remove RUN/devN, if nothing is in it. */
static void folder_remove(const struct run_config *cfg, size_t i)
{
    char dir[PATH_MAX];

    if (!cfg->device_paths && snprintf(dir, sizeof dir, "%s/dev%zu", cfg->dir, i) < (int)sizeof dir)
        rmdir(dir);
}

/* Close device i again, unless only its superblock is damaged: what else is on it can be read. */
static void device_forget(struct devices *d, size_t i)
{
    struct csd **c = &d->device[i].csd;

    if (!*c || !store_super_whole(d->page))
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
    csd_bell_init(&d->bell);
    int rc = how != DEVICES_CREATE && devices_fake(cfg) ? refuse_fake(cfg, err) : 0;
    rc = rc ? rc : store_init(&d->store, cfg, err);
    if (!rc && (how == DEVICES_CREATE || how == DEVICES_TRAIN))
        rc = updates_check(cfg, &d->store, err);
    d->device = calloc(d->n + acts, sizeof *d->device);
    if (!rc && more->lay && !buffer_add(d, more, 0, err))
        rc = -ENOMEM;
    if (!rc && (!(d->page = devices_buffer(d, STORE_SUPERBLOCK)) || !d->device))
        rc = err_set(err, -ENOMEM, "out of memory for %zu devices", d->n);
    rc = rc ? rc : topology_open(&d->links, &d->cfg.links, d->n, err);
    for (; !rc && opened < d->n; opened++) {
        rc = device_open(d, opened, how, more, err);
        if (rc && rc != -EBUSY && more->each) { // who uses a device has not damaged it
            more->each[opened] = *err;
            device_forget(d, opened);
            rc = 0;
        }
    }
    while (!rc && d->n_acts < acts)
        rc = act_open(d, d->n_acts++, more, err);
    if (!rc)
        return 0;
    // one that failed removes what it made itself, unless it was open
    for (size_t i = 0; how == DEVICES_CREATE && i < opened; i++) {
        if (d->device[i].csd && !file_is_block(d->device[i].path) && !devices_fake(cfg))
            unlink(d->device[i].path);
        folder_remove(cfg, i);
    }
    devices_close(d);
    return rc;
}

void devices_remove(const struct run_config *cfg)
{
    for (size_t i = 0; i < cfg->n_devices; i++) {
        char *path = NULL;

        if (devices_path(&path, cfg, i, 0, NULL) == 0 && !file_is_block(path))
            unlink(path);
        free(path);
        folder_remove(cfg, i);
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
        csd_bell_release(&d->bell);
    *d = (struct devices){ 0 };
}
