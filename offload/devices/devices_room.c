/* devices_room.c: adds up what new devices need on each file system. Without this, the last of
 * several devices would be the first that does not fit. */
#include "offload/devices/devices_room.h"

#include "data/file/file.h"
#include "offload/devices/devices_place.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

struct place { dev_t dev; uint64_t need, free; };

static int drive_check(const char *path, size_t i, uint64_t need, struct err *err)
{
    uint64_t has;
    int      rc = file_block_bytes(path, &has, err);

    return rc || has >= need
               ? rc
               : err_set(err, -EINVAL, "%s is %" PRIu64 " bytes, device %zu needs %" PRIu64 "%s",
                         path, has, i, need, has ? "" : "; is it there, and attached?");
}

/* Adds device i's bytes to its file system's, among n places. *n grows if the file system is
 * new. */
static int place_add(struct place *places, size_t *n, const struct run_config *cfg, size_t i,
                     uint64_t bytes, struct err *err)
{
    const char    *given = cfg->device_paths ? cfg->device_paths[i] : cfg->dir;
    char          *dir;
    struct statvfs fs;
    struct stat    at;
    size_t         p = 0;
    int            rc = devices_folder(&dir, given, err);

    if (!rc && !dir && file_is_block(given))
        return drive_check(given, i, bytes, err);
    if (rc)
        return rc;
    if (!dir || stat(dir, &at) || statvfs(dir, &fs)) {
        rc = err_name(err, errno, "%s: %s; expected a folder for a device", given,
                      strerror(errno));
    } else {
        while (p < *n && places[p].dev != at.st_dev)
            p++;
        if (p == *n)
            places[(*n)++] =
                (struct place){ .dev = at.st_dev, .free = (uint64_t)fs.f_bavail * fs.f_frsize };
        places[p].need += bytes;
        if (places[p].need > places[p].free)
            rc = err_set(err, -ENOSPC, "the file system of %s has %" PRIu64 " bytes free; "
                         "the devices up to %zu of %zu need %" PRIu64
                         " there, beside what the run has now",
                         dir, places[p].free, i + 1, cfg->n_devices, places[p].need);
    }
    free(dir);
    return rc;
}

int devices_room_check(const struct run_config *cfg, const uint64_t *bytes, struct err *err)
{
    struct place *places = calloc(cfg->n_devices, sizeof *places);
    size_t        n = 0;
    int           rc = places ? 0 : err_set(err, -ENOMEM, "out of memory for %zu devices",
                                            cfg->n_devices);

    for (size_t i = 0; i < cfg->n_devices && !rc; i++)
        rc = bytes[i] ? place_add(places, &n, cfg, i, bytes[i], err) : 0;
    free(places);
    return rc;
}
