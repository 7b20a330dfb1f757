/* drives.c: a device's drive is the block device that it is, or that its file lies on. */
#include "cmd/run/drives.h"

#include "cmd/run/settings.h"
#include "offload/devices.h"

#include <libgen.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static int record(struct session *s, size_t device, const char *path, struct err *err)
{
    char       *copy = strdup(path);
    struct stat st;
    int         there = !stat(path, &st) || (copy && !stat(dirname(copy), &st));
    dev_t       at = there ? S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev : 0;

    free(copy);
    return there ? settings_set(s->log, err, "drive.%zu=%u:%u", device, major(at), minor(at)) : 0;
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
