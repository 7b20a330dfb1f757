/* newrun_devices.c: whether the devices that a new run names may be made where they are named. */
#include "run/newrun_devices.h"

#include "csd/csd.h"
#include "csd/disk/disk.h"
#include "offload/devices/devices_place.h"
#include "run/folder/output.h"
#include "run/folder/session.h"

#include <sys/stat.h>

/* Check that a device exists, or that its parent folder does. */
static int check_device(const char *path, struct err *err)
{
    char        dir[SESSION_PATH];
    struct stat st;

    if (strchr(path, '\n'))
        return err_misuse(err,
                          "--device: a path without line breaks is expected, but one has a line "
                          "break after %.*s",
                          (int)strcspn(path, "\n"), path);
    if (stat(path, &st) == 0)
        return 0;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (errno == ENOENT && (!slash || stat(dir, &st) == 0))
        return 0;
    return err_misuse(err, "--device %s: %s: a folder, a file or a block device is expected", path,
                      strerror(errno));
}

/* True if device i was already named and is not a folder. */
static int is_twice(const struct opt_strings *devices, size_t i)
{
    const char *name = devices->item[i];
    struct stat st;
    size_t      j = 0;

    while (strcmp(devices->item[j], name))
        j++;
    return j < i && (stat(name, &st) || !S_ISDIR(st.st_mode));
}

int newrun_devices_names(const struct train_opts *o, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = output_check_name("--device", o->device.item[i], err);
    for (size_t i = 0; i < train_opts_acts(o) && !rc; i++)
        rc = output_check_name("--act-device", o->act_device.item[i], err);
    return rc;
}

int newrun_devices_check(const char *dir, const struct train_opts *o, struct err *err)
{
    int stored = o->mode != RUN_MEM && !(csd_at((size_t)o->csd)->flags & CSD_FAKE) &&
                 !(disk_at((size_t)o->disk)->flags & DISK_FAKE);
    int rc = newrun_devices_names(o, err);

    if (!rc && stored && !o->device.n)
        rc = devices_place_check(dir, NULL, o->device_in_ram, err);
    for (size_t i = 0; i < o->device.n && !rc; i++) {
        const char *name = o->device.item[i];

        rc = check_device(name, err);
        if (!rc && is_twice(&o->device, i))
            rc = err_misuse(err, "--device %s was given twice: a file or a drive holds one device, "
                            "a folder any number", name);
        if (!rc && stored)
            rc = devices_place_check(name, "--device", o->device_in_ram, err);
    }
    for (size_t i = 0; i < train_opts_acts(o) && !rc && stored; i++) {
        const struct run_config cfg = { .force_device = o->force_device,
                                        .device_in_ram = o->device_in_ram };

        if (is_twice(&o->act_device, i))
            rc = err_misuse(err, "--act-device %s was given twice: a file or a drive holds one, a "
                            "folder any number", o->act_device.item[i]);
        rc = rc ? rc : devices_act_check(&cfg, o->act_device.item[i], err);
    }
    return rc;
}
