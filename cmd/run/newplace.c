/* newplace.c: what a killed creation left is known by its names: a folder without run.db that holds
 * nothing else may be cleared and used. At a device, what is certainly the run's own is removed. */
#include "cmd/run/newplace.h"

#include "cmd/run/settings.h"
#include "data/base/file.h"
#include "offload/devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- may they be used? ---- */

/* A name that creation gives. */
static int is_ours(const char *name)
{
    static const char *const ours[] = { ".",          "..",         "run.lock",    "tokenizer",
                                        "run.db.new*", "data.bin*", "eval.bin*",   "train.ex*",
                                        "dev.ex*",    "dev_mm.ex*", "test.ex*",    "test_mm.ex*",
                                        "dev[0-9]*",  "image[0-9]*" };
    size_t i = 0, n = sizeof ours / sizeof *ours;

    while (i < n && fnmatch(ours[i], name, 0))
        i++;
    return i < n;
}

/* Remove what creation made in dir, the lock file (which is held) left out. */
static void clear_folder(const char *dir, int with_database)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    char           path[SESSION_PATH + 264];

    while (d && (e = readdir(d))) {
        if (*e->d_name == '.' || !strcmp(e->d_name, "run.lock") || !is_ours(e->d_name) ||
            (!with_database && !strncmp(e->d_name, "run.db", 6)))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        file_remove_tree(path);
    }
    if (d)
        closedir(d);
}

/* May dir be made, or used? 0 also for one that a killed creation left. */
static int check_folder(const char *dir, struct err *err)
{
    struct dirent *e;
    int            rc = 0;

    if (session_is_run(dir))
        return err_misuse(err,
                          "%s is a run already: go on with --resume %s, or choose another name",
                          dir, dir);
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return err_misuse(err, "%s: %s: a folder that does not exist is expected", dir,
                          strerror(errno));
    while (!rc && (e = readdir(d)))
        if (!is_ours(e->d_name))
            rc = err_misuse(err, "%s exists and holds %s: choose a folder that does not exist", dir,
                            e->d_name);
    closedir(d);
    return rc;
}

/* A device is there, or can be made as a file in a folder that is there. */
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

/* Is device i named before, and no folder? */
static int is_twice(const struct opt_strings *devices, size_t i)
{
    const char *name = devices->item[i];
    struct stat st;
    size_t      j = 0;

    while (strcmp(devices->item[j], name))
        j++;
    return j < i && (stat(name, &st) || !S_ISDIR(st.st_mode));
}

/* Where the states would be, if they are stored at all; mem's images may be in RAM: they are images
 * of it. */
static int check_devices(const char *dir, const struct train_opts *o, struct err *err)
{
    int stored = o->mode != RUN_MEM && !(csd_at((size_t)o->csd)->flags & CSD_FAKE) &&
                 !(disk_at((size_t)o->disk)->flags & DISK_FAKE);
    int rc = stored && !o->device.n ? devices_place_check(dir, 0, o->device_in_ram, err) : 0;

    for (size_t i = 0; i < o->device.n && !rc; i++) {
        const char *name = o->device.item[i];

        rc = check_device(name, err);
        if (!rc && is_twice(&o->device, i))
            rc = err_misuse(err, "--device %s was given twice: a file or a drive holds one device, "
                            "a folder any number", name);
        if (!rc && stored)
            rc = devices_place_check(name, 1, o->device_in_ram, err);
    }
    return rc;
}

int newplace_check(const char *dir, const struct train_opts *o, struct err *err)
{
    int rc = check_folder(dir, err);

    return rc ? rc : check_devices(dir, o, err);
}

/* ---- taken, given up, kept ---- */

int newplace_keep(struct session *s, struct err *err)
{
    char from[SESSION_PATH + 32], to[SESSION_PATH + 32], wal[SESSION_PATH + 40];
    int  rc;

    snprintf(from, sizeof from, "%s/run.db.new", s->dir);
    snprintf(to, sizeof to, "%s/run.db", s->dir);
    snprintf(wal, sizeof wal, "%s-wal", from);
    runlog_close(s->log);
    s->log = NULL;
    if (access(wal, F_OK) == 0)
        return err_set(err, -EIO, "%s could not be written completely (its log %s is still there)",
                       from, wal);
    if (rename(from, to))
        return err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno));
    if ((rc = file_sync_dir(s->dir, err)) || (rc = file_sync_parent(s->dir, err))) // RUN itself
        unlink(to); // what it names will be removed
    return rc;
}

/* What a creation that came to nothing left at a --device: in a folder the file with its id in the
 * name, a file or a block device with its superblock. What is not certainly its own stays. */
static void clear_device(const char *device, const char *id, size_t i)
{
    static const char zeros[STORE_SUPERBLOCK];
    char              path[2 * SESSION_PATH], page[STORE_SUPERBLOCK];
    struct store_super super;
    struct stat        st;

    snprintf(path, sizeof path, "%s/sitrain-%.8s-dev%zu", device, id, i);
    unlink(path);
    if (stat(device, &st))
        return;
    int fd = file_open_device(device, S_ISBLK(st.st_mode) ? O_RDWR | O_EXCL : O_RDONLY);
    if (fd < 0)
        return;
    if (!file_pread(fd, page, sizeof page, 0, device, NULL) && !store_super_read(page, &super) &&
        !strcmp(super.id, id)) {
        if (S_ISREG(st.st_mode))
            unlink(device);
        else
            file_pwrite(fd, zeros, sizeof zeros, 0, device, NULL);
    }
    close(fd);
}

/* run.db.new is there: if its maker is alive, the folder is taken; else it is cleared, and the
 * devices that the maker had. */
static int clear_dead(const char *dir, const char *path, struct err *err)
{
    struct runlog *log = NULL;
    struct err     dead;
    int            rc = runlog_open(&log, path, 0, 0, &dead);
    char          *id = rc ? NULL : settings_get(log, "id"),
                  *devices = rc ? NULL : settings_get(log, "option.device"), *rest = devices;

    for (size_t i = 0; id && rest && *rest; i++)
        clear_device(strsep(&rest, "\n"), id, i);
    free(id);
    free(devices);
    runlog_close(log);
    if (rc == -EBUSY)
        return err_set(err, rc, "%s", dead.text);
    clear_folder(dir, 1);
    return 0;
}

int newplace_claim(struct newplace *p, struct session *s, const char *dir, struct err *err)
{
    char path[SESSION_PATH + 16];
    int  rc = 0;

    p->made = mkdir(dir, 0777) == 0;
    if (!p->made && errno != EEXIST)
        return err_set(err, -errno, "mkdir %s: %s", dir, strerror(errno));
    if (!realpath(dir, s->dir))
        return err_set(err, -errno, "%s: %s", dir, strerror(errno));
    snprintf(path, sizeof path, "%s/run.db.new", s->dir);
    if (access(path, F_OK) == 0)
        rc = clear_dead(s->dir, path, err);
    rc = rc ? rc : runlog_create(&s->log, path, s->o.durability == TRAIN_DURABLE_STEP, err);
    p->claimed = !rc;
    if (!rc)
        clear_folder(s->dir, 0);
    return rc;
}

void newplace_give_up(const struct newplace *p, struct session *s, const char *dir)
{
    char lock[SESSION_PATH + 16];

    if (p->claimed) {
        for (size_t i = 0; i < s->run.n_devices && s->run.device_paths; i++)
            clear_device(s->run.device_paths[i], s->id, i);
        runlog_close(s->log);
        s->log = NULL;
        clear_folder(dir, 1);
    }
    if (p->made) {
        snprintf(lock, sizeof lock, "%s/run.lock", dir);
        unlink(lock);
        rmdir(dir);
    }
}
