/* bench_places.c: where bench measures: the folders that it makes and removes, and block devices
 * that it writes over if nobody else's data are on them. */
#include "bench/bench.h"

#include "csd/disk/disk_file.h"
#include "data/file/file_walk.h"
#include "offload/devices/devices.h"
#include "run/folder/settings.h"

#include <fcntl.h>
#include <unistd.h>

int bench_is_block(const struct bench *b, size_t device)
{
    return b->n_devices && file_is_block(b->devices[device]);
}

char *bench_file(const struct bench *b, size_t device, const char *name)
{
    const char *in = b->n_devices ? b->devices[device] : b->scratch;

    return bench_is_block(b, device) ? strdup(in) : file_path(NULL, "%s/%s", in, name);
}

/* Whether this folder has the run with this id, or a folder below has. If a run's maker was killed,
 * the run is in a folder of its own there. */
static int holds_run(const char *dir, const char *id, int depth)
{
    struct file_walk w;
    int              found = 0;

    file_walk_begin(&w, dir, NULL);
    while (!found && file_walk_next(&w)) {
        struct runlog *log = NULL;
        char          *own = NULL;

        if (!strcmp(w.name, "run.db") || !strcmp(w.name, "run.db.new")) {
            if (!runlog_open(&log, w.path, 1, 0, NULL))
                own = settings_get(log, "id");
            found = own && !strcmp(own, id);
        } else if (*w.name != '.' && depth) {
            found = holds_run(w.path, id, depth - 1);
        }
        runlog_close(log);
        free(own);
    }
    file_walk_end(&w, 0, NULL);
    return found;
}

/* Whether the first bytes of a device are of a run that bench made. */
static int is_own(const char *page, const char *scratch)
{
    struct superblock s;

    return !superblock_read(page, &s) && holds_run(scratch, s.id, 2);
}

int bench_device_ask(const struct bench *b, size_t device, struct err *err)
{
    const char *path = b->n_devices ? b->devices[device] : NULL;
    char        page[SUPERBLOCK_BYTES];
    int         fd, own;

    if (!bench_is_block(b, device))
        return 0;
    if ((fd = file_open_device(path, O_RDONLY)) < 0)
        return err_set(err, fd, "open %s: %s", path, strerror(-fd));
    own = !file_pread(fd, page, sizeof page, 0, path, NULL) && is_own(page, b->scratch);
    close(fd);
    return own ? 0 : devices_empty_check(path, "--device", b->o->train.force_device, err);
}

/* Erases the states of a run that bench made, so that the next user of the drive needs no
 * --force-device. States of any other run stay, even if it came in between. */
static void drive_clear(const char *path, const char *scratch)
{
    char page[SUPERBLOCK_BYTES];
    int  fd;

    if (disk_check_idle(path, NULL) || (fd = file_open_device(path, O_RDWR | O_EXCL)) < 0)
        return;
    if (!file_pread(fd, page, sizeof page, 0, path, NULL) && is_own(page, scratch))
        devices_erase(fd, path, NULL);
    close(fd);
}

void bench_device_clear(const struct bench *b, size_t device)
{
    if (bench_is_block(b, device))
        drive_clear(b->devices[device], b->scratch);
}

int bench_places_make(struct bench_places *p, struct bench *b, struct err *err)
{
    const struct opt_strings *d = &b->o->train.device;
    int                       rc = 0;

    *p = (struct bench_places){ 1 + d->n, calloc(1 + d->n, sizeof *p->path),
                                calloc(1 + d->n, sizeof *p->made) };
    if (!p->path || !p->made)
        return err_set(err, -ENOMEM, "out of memory");
    b->devices = d->n ? d->item : NULL;
    b->n_devices = d->n;
    for (size_t i = 0; i < p->n && !rc; i++) {
        const char *dir = i ? d->item[i - 1] : b->o->dir;
        int         block = i && bench_is_block(b, i - 1);
        char       *path = block ? NULL : file_path(err, "%s/.siTrain-bench", dir);

        if (path && (rc = file_new_scratch(&p->made[i], path, err)))
            err_set(err, rc, "make a folder in %s: %s; one that can be written is expected", dir,
                    strerror(-rc));
        rc = path || block ? rc : -ENOMEM;
        free(path);
        p->path[i] = block ? dir : p->made[i].temp;
    }
    b->scratch = p->path[0];
    b->devices = d->n ? p->path + 1 : NULL;
    return rc;
}

void bench_places_remove(struct bench_places *p)
{
    for (size_t i = p->made ? p->n : 0; i-- > 0;) { // the first has the runs: removed last
        if (i && p->path[i] && !p->made[i].temp)
            drive_clear(p->path[i], p->path[0]);
        file_new_abort(&p->made[i]);
    }
    free(p->made);
    free(p->path);
}
