/* drives.c: records on which drive each device is: the block device that it is, or that has its
 * file. */
#include "run/folder/drives.h"

#include "data/base/file.h"
#include "offload/devices/devices.h"
#include "run/folder/settings.h"

#include <sys/sysmacros.h>

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
        free(path);
    }
    for (size_t i = 0; i < r->n_act_devices && !rc; i++)
        rc = record(s, r->n_devices + i, r->act_paths[i], err);
    return rc;
}
