/* drives.c: records on which drive each device is: the block device that it is, or that has its
 * file, and where that is mounted. */
#include "run/folder/drives.h"

#include "data/file/file.h"
#include "offload/devices/devices.h"
#include "run/folder/settings.h"

#include <sys/sysmacros.h>

/* Where the file system is mounted that has the device at this path, malloced: ".", if that is
 * RUN's and the path is in RUN. NULL: a drive, or nothing is there. */
static char *mount_of(const struct session *s, const char *path)
{
    return file_is_block(path)                                        ? NULL
           : !strcmp(path, s->dir) || devices_inside(&s->run, path) ? strdup(".")
                                                                      : file_mount_point(path);
}

int drives_mounted(const struct session *s, size_t device, const char *folder, char was[PATH_MAX])
{
    char *had = settings_get(s->log, "mount.%zu", device), *now = mount_of(s, folder);
    int   rc = had && *had && now ? strcmp(had, now) == 0 : -ENOENT;

    snprintf(was, PATH_MAX, "%s", had ? had : "");
    free(had);
    free(now);
    return rc;
}

static int record_mount(struct session *s, size_t device, const char *path, struct err *err)
{
    char *at = mount_of(s, path);
    int   known = at || file_is_block(path); // a file that is lost at this moment: what was known
    int   rc = known ? settings_set(s->log, err, "mount.%zu=%s", device, at ? at : "") : 0;

    free(at);
    return rc;
}

static int record(struct session *s, size_t device, const char *path, struct err *err)
{
    dev_t at;

    if (file_drive(path, &at)) // only reports need it
        return 0;
    return settings_set(s->log, err, "drive.%zu=%u:%u", device, major(at), minor(at));
}

int drives_record(struct session *s, struct err *err)
{
    const struct run_config *r = &s->run;
    int                      rc = 0;

    if (r->mode == RUN_MEM || devices_fake(r))
        return 0;
    for (size_t i = 0; i < r->n_devices && !rc; i++) {
        char *path = NULL;

        rc = devices_path(&path, r, i, 0, err);
        rc = rc ? rc : record(s, i, path, err);
        rc = rc ? rc : record_mount(s, i, path, err);
        free(path);
    }
    for (size_t i = 0; i < r->n_act_devices && !rc; i++)
        rc = record(s, r->n_devices + i, r->act_paths[i], err);
    return rc;
}
