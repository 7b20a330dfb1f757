/* spares.c: chooses spare slots by free space. Devices have almost equal sizes, so each counts as
 * their mean. Devices on one file system share its free space. */
#include "run/folder/spares.h"

#include "data/file/file.h"
#include "model/file/hf_base.h"
#include "offload/devices/devices.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

/* The free bytes for device i. *shared: an equal number for all devices that share them; 0: a drive
 * of its own. Returns 0 if unknown; creating the device will report the reason. */
static int room_find(const struct session *s, size_t i, uint64_t *bytes, dev_t *shared)
{
    const char    *place = s->run.device_paths ? s->run.device_paths[i] : s->dir;
    char          *dir = NULL;
    struct statvfs fs;
    struct stat    st;
    int            found = 0;

    *bytes = *shared = 0;
    if (file_is_block(place))
        return !file_block_bytes(place, bytes, NULL);
    if (devices_folder(&dir, place, NULL) == 0 && dir && statvfs(dir, &fs) == 0 &&
        stat(dir, &st) == 0) {
        *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        *shared = st.st_dev;
        found = 1;
    }
    free(dir);
    return found;
}

size_t spares_room(const struct session *s, size_t i, uint64_t *bytes, int *own)
{
    size_t   sharers = 1;
    uint64_t same;
    dev_t    at, other;
    int      found = room_find(s, i, bytes, &at);

    *own = !at;
    for (size_t j = 0; j < s->run.n_devices && at; j++)
        sharers += j != i && room_find(s, j, &same, &other) && other == at;
    return found ? sharers : 0;
}

int spares_base_beside(const struct session *s)
{
    const struct base_files *files = s->base ? hf_base_files(s->base) : NULL;
    uint64_t                 bytes;
    dev_t                    at;

    for (size_t i = 0; i < s->run.n_devices && files; i++)
        for (size_t f = 0; f < files->n; f++)
            if (room_find(s, i, &bytes, &at) && at == files->file[f].was.st_dev)
                return 1;
    return 0;
}

/* True if devices of `all` bytes in total leave a tenth of the free space everywhere. A drive of
 * its own may be filled completely. */
static int leaves_room(const struct session *s, uint64_t all)
{
    size_t   n = s->run.n_devices;
    double   each = (double)all / (double)n;
    uint64_t bytes;
    int      own;

    for (size_t i = 0; i < n; i++) {
        size_t sharers = spares_room(s, i, &bytes, &own);

        if (sharers && (double)sharers * each > (own ? 1.0 : 0.9) * (double)bytes)
            return 0;
    }
    return 1;
}

int spares_bytes(uint64_t *out, const struct session *s, enum run_spares spares, struct err *err)
{
    struct run_config cfg = s->run;
    struct run_memory m = { 0 };

    cfg.spares = spares;
    int rc = run_memory(&cfg, &m, err);
    *out = m.device_bytes;
    return rc;
}

int spares_choose(struct session *s, int here, struct err *err)
{
    static const enum run_spares by_size[] = { RUN_SPARES_ALL, RUN_SPARES_HALF, RUN_SPARES_FEW };
    enum run_spares              before = s->run.spares;
    int                          asked = s->o.spare_slots, i = s->o.speculate ? 0 : 1, rc = 0;
    uint64_t                     bytes;

    if (asked != TRAIN_SPARES_AUTO)
        i = asked == TRAIN_SPARES_HALF ? 1 : 2;
    here = here && asked == TRAIN_SPARES_AUTO && s->run.mode != RUN_MEM && !devices_fake(&s->run);
    for (; here && by_size[i] != RUN_SPARES_FEW; i++) {
        rc = spares_bytes(&bytes, s, by_size[i], err);
        if (rc || leaves_room(s, bytes - s->run.n_act_devices * devices_act_area(&s->run)))
            break;
    }
    s->spares = s->run.spares = by_size[i];
    return rc ? rc : s->run.spares != before;
}
