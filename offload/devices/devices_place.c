/* devices_place.c: finds the path of a device from the options and the run's name, and checks
 * whether a device may be there. */
#include "offload/devices/devices_place.h"

#include "csd/disk/disk_beneath.h"
#include "csd/disk/disk_file.h"
#include "data/base/machine.h"
#include "data/db/runlog.h"
#include "data/file/file.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths ---- */

const char *devices_layout(const struct run_config *cfg) { return cfg->layout ? cfg->layout : ""; }

void devices_name(char out[DEVICES_NAME], const char *id, const char *layout, size_t i, int older)
{
    snprintf(out, DEVICES_NAME, "sitrain-%.*s%s%s-dev%zu", older ? 8 : 32, id, *layout ? "-" : "",
             layout, i);
}

void devices_name_in_run(char out[DEVICES_NAME], const char *layout, size_t i)
{
    snprintf(out, DEVICES_NAME, "dev%zu/states%s%s", i, *layout ? "-" : "", layout);
}

struct superblock devices_super(const struct run_config *cfg, uint64_t bytes, size_t i)
{
    struct superblock s = { .device = (uint32_t)i, .n_devices = (uint32_t)cfg->n_devices,
                            .bytes = bytes };

    snprintf(s.id, sizeof s.id, "%s", cfg->id);
    snprintf(s.layout, sizeof s.layout, "%s", devices_layout(cfg));
    snprintf(s.owner, sizeof s.owner, "%s", cfg->owner ? cfg->owner : "");
    return s;
}

static char *path_in_given(const char *given, const struct run_config *cfg, size_t i, int older,
                           struct err *err)
{
    char name[DEVICES_NAME];

    devices_name(name, cfg->id, devices_layout(cfg), i, older);
    return file_path(err, "%s/%s", given, name);
}

/* The path RUN/devN/states. With `create` its folder is made. */
static int path_in_run(char **out, const struct run_config *cfg, size_t i, int create,
                       struct err *err)
{
    char        name[DEVICES_NAME];
    struct stat st = { 0 };
    int         rc = 0;

    devices_name_in_run(name, devices_layout(cfg), i);
    *out = file_path(err, "%s/%s", cfg->dir, name);
    if (!*out)
        return -ENOMEM;
    char *slash = strrchr(*out, '/');
    *slash = '\0';
    if (create && file_make_folder(*out) &&
        (errno != EEXIST || lstat(*out, &st) || !S_ISDIR(st.st_mode)))
        rc = errno == EEXIST
                 ? err_misuse(err, "%s is %s, and a device's folder is to be made there: move it "
                              "elsewhere, or name a place with --device", *out,
                              S_ISLNK(st.st_mode) ? "a link" : "no folder")
                 : err_set(err, -errno, "make the device folder %s: %s", *out, strerror(errno));
    *slash = '/';
    return rc;
}

int devices_path(char **out, const struct run_config *cfg, size_t i, int create, struct err *err)
{
    const char *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    struct stat st;

    *out = NULL;
    if (!given)
        return path_in_run(out, cfg, i, create, err);
    int there = stat(given, &st) == 0;
    if (!there && (errno != ENOENT || !create))
        return err_name(err, errno, "--device %s: %s; expected a folder, a file or a block device"
                        "%s", given, strerror(errno),
                        create ? ""
                        : cfg->ranks.size > 1
                            ? " (--resume with --device PATH for each device of each rank names "
                              "where they are now: " RANKS_DEVICES ")"
                            : " (--resume with --device PATH for each names where they are now)");
    if (there && create && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode))
        return err_misuse(err, "--device %s exists; expected a folder, a block device "
                          "or the name of a new file", given);
    if (!there || !S_ISDIR(st.st_mode)) {
        *out = file_path(err, "%s", given);
        return *out ? 0 : -ENOMEM;
    }
    *out = path_in_given(given, cfg, i, 0, err);
    if (!*out || create || access(*out, F_OK) == 0)
        return *out ? 0 : -ENOMEM;
    char *old = path_in_given(given, cfg, i, 1, err);
    if (old && access(old, F_OK) == 0) {
        free(*out);
        *out = old;
    } else {
        free(old);
    }
    return old ? 0 : -ENOMEM;
}

static int page_read(char page[SUPERBLOCK_BYTES], const char *path)
{
    int fd = file_open_device(path, O_RDONLY);
    int rc = fd < 0 ? fd : file_pread(fd, page, SUPERBLOCK_BYTES, 0, path, NULL);

    file_close(fd);
    return rc;
}

int devices_gone(const struct run_config *cfg, size_t i)
{
    const char *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    char       *path, page[SUPERBLOCK_BYTES];
    int         gone = given && !file_may_be(given);

    if (gone || devices_path(&path, cfg, i, 0, NULL))
        return gone;
    gone = !file_may_be(path) ||
           (file_is_block(path) && !page_read(page, path) && !superblock_present(page));
    free(path);
    return gone;
}

int devices_cut(const struct run_config *cfg, size_t i, uint64_t bytes)
{
    char       *path;
    struct stat st;
    int cut = !devices_path(&path, cfg, i, 0, NULL) && !stat(path, &st) && S_ISREG(st.st_mode) &&
              (uint64_t)st.st_size < bytes;

    free(path);
    return cut;
}

enum device_whose devices_page_whose(struct superblock *found, const struct run_config *cfg,
                                    size_t i, const void *page)
{
    struct superblock own = devices_super(cfg, 0, i);
    const char       *next = cfg->owner_next;

    if (superblock_read(page, found))
        return DEVICE_NONE;
    if (found->device != i || strcmp(found->id, own.id))
        return DEVICE_OTHER;
    return !strcmp(found->owner, own.owner) || (next && *next && !strcmp(found->owner, next))
               ? DEVICE_OWN
               : DEVICE_TAKEN;
}

int devices_named_once(const struct run_config *cfg, size_t i, struct err *err)
{
    struct stat st;
    char       *path = NULL;
    char       *real = devices_path(&path, cfg, i, 0, NULL) ? NULL : file_real(path);
    int rc = real && !stat(real, &st) && S_ISREG(st.st_mode) ? file_check_own(real, 1, err) : 0;

    free(path);
    free(real);
    return rc;
}

enum device_whose devices_whose(struct superblock *found, const struct run_config *cfg, size_t i,
                               const char *path)
{
    char page[SUPERBLOCK_BYTES];

    return page_read(page, path) ? DEVICE_NONE : devices_page_whose(found, cfg, i, page);
}

int devices_refuse_taken(const struct run_config *cfg, size_t i, const char *path, struct err *err)
{
    char line[RANKS_COMMAND], step[32];

    err_set(err, -EXDEV, "%s was taken by a copy of this run, or is the file of a snapshot or of "
            "an older backup", path);
    // a snapshot is only read: nothing is advised
    if (!err || !cfg->log || !runlog_get(cfg->log, "snapshot", step, sizeof step, NULL))
        return -EXDEV;
    ranks_command(line, cfg->dir, &cfg->ranks, "restore");
    return cfg->device_paths
               ? err_set(err, -EXDEV, "%s; %s --device %zu=PATH makes device %zu in another place, "
                         "from a snapshot; one command must name all such devices", err->text,
                         line, i, i)
               : err_set(err, -EXDEV, "%s; move it aside, and %s makes it again, from a snapshot",
                         err->text, line);
}

int devices_inside(const struct run_config *cfg, const char *path)
{
    char       *at = file_real(path), *run = file_real(cfg->dir);
    size_t      n = run ? strlen(run) : 0;
    int         inside = at && run && !strncmp(at, run, n) && at[n] == '/' && !file_is_block(at) &&
                 file_same_mount(at, run) > 0;

    free(at);
    free(run);
    return inside;
}

/* ---- drives in use ---- */

/* Refuses a page that is the superblock of any run's device. beneath: "", or what `path` is a part
 * of, which has the page. */
static int page_free(const void *page, const char *path, const char *beneath, const char *option,
                     struct err *err)
{
    struct superblock s;
    char               what[128] = "what was the states of a siTrain run";

    if (!superblock_present(page))
        return 0;
    if (!superblock_read(page, &s))
        snprintf(what, sizeof what, "the states of a siTrain run (%s, device %" PRIu32 " of %"
                 PRIu32 ")", s.id, s.device, s.n_devices);
    return err_misuse(err, "%s%s%s%s%s%s holds %s: name another drive; --force-device writes over "
                      "them", option ? option : "", option ? " " : "", path,
                      *beneath ? " is a part of " : "", beneath, *beneath ? ", which" : "", what);
}

/* Refuses a part of what holds the states of a run as a whole: a partition of a drive, a loop
 * device behind the beginning of a file. A user or a container that has the part alone cannot look
 * beneath it, and takes it. */
static int beneath_free(const char *path, const char *option, struct err *err)
{
    char              page[SUPERBLOCK_BYTES];
    struct disk_bytes at;
    int               rc = disk_bytes_of(&at, path, err);

    while (!rc && disk_bytes_down(&at)) {
        if (*at.path && !page_read(page, at.path))
            rc = page_free(page, path, at.path, option, err);
    }
    return rc;
}

int devices_empty_check(const char *path, const char *option, int force, struct err *err)
{
    char page[SUPERBLOCK_BYTES];
    int  rc = 0, fd;

    if (force || !file_is_block(path))
        return 0;
    fd = file_open_device(path, O_RDONLY);
    if (fd < 0)
        return file_open_fail(path, fd, err);
    if (!file_pread(fd, page, sizeof page, 0, path, NULL)) // a shorter file is refused elsewhere
        rc = page_free(page, path, "", option, err);
    close(fd);
    rc = rc ? rc : beneath_free(path, option, err);
    return rc ? rc : disk_check_signature(path, err);
}

int devices_free_check(const char *path, const char *option, int force, struct err *err)
{
    int rc = file_is_block(path) ? disk_check_idle(path, err) : 0;

    return rc ? rc : devices_empty_check(path, option, force, err);
}

int devices_erase(int fd, const char *path, struct err *err)
{
    static const char zeros[SUPERBLOCK_BYTES];
    struct stat       st;

    if (fstat(fd, &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode))
        return unlink(path) ? err_set(err, -errno, "remove %s: %s", path, strerror(errno))
                            : file_sync_parent(path, err);
    int rc = file_pwrite(fd, zeros, sizeof zeros, 0, path, err);

    return rc || fsync(fd) == 0 ? rc : err_set(err, -errno, "flush %s: %s", path, strerror(errno));
}

/* ---- not in RAM ---- */

/* Whether dir, a path without links, is in /dev. /dev/shm does not count: it is a tmpfs like
 * others. */
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
    int   rc = devices_folder(&dir, place, err); // other checks report a missing folder

    if (dir && is_dev(dir) && access(place, F_OK) == 0)
        rc = err_misuse(err, "%s: files there are in RAM; a folder on a drive, or a drive itself, "
                        "is expected", place);
    else if (dir && is_dev(dir))
        rc = err_misuse(err, "%s %s: there is no such drive (lsblk lists the drives), and a new "
                        "file in its place would be in RAM", option ? option : "--device",
                        place);
    else if (dir && !in_ram && file_in_ram(dir))
        rc = err_misuse(err, "%s%s%s: %s is in RAM (tmpfs), so files there would add to --host-mem "
                        "and be lost at power-off: %s, or allow it with --device-in-ram",
                        option ? option : "", option ? " " : "", place, dir,
                        option ? "name a place on a drive"
                               : "make the run on a drive, or its devices with --device");
    free(dir);
    return rc;
}

/* ---- drives for activations ---- */

/* Whether both names are of one file or drive. Folders hold any number of files. */
static int is_one(const char *a, const char *b)
{
    struct stat x, y;

    if (stat(a, &x) || stat(b, &y))
        return !strcmp(a, b);
    return S_ISBLK(x.st_mode) ? S_ISBLK(y.st_mode) && x.st_rdev == y.st_rdev
                              : !S_ISDIR(x.st_mode) && file_same(&x, &y);
}

int devices_act_check(const struct run_config *cfg, const char *place, struct err *err)
{
    struct stat st;

    for (size_t i = 0; cfg->device_paths && i < cfg->n_devices; i++)
        if (is_one(place, cfg->device_paths[i]))
            return err_misuse(err, "--act-device %s is also the place of device %zu's states: name "
                              "another place; without --act-device (--resume: with none) "
                              "activations are stored behind the states", place, i);
    int   there = stat(place, &st) == 0, rc = 0;
    char *dir = NULL;

    if (there && S_ISBLK(st.st_mode))
        return devices_free_check(place, "--act-device", cfg->force_device, err);
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
