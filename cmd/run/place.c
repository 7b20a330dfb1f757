/* place.c: the folder of a run while it is made, in the order that makes a kill harmless: folder,
 * run.db.new with the lock, all else, and last the name run.db. So what a killed creation left is
 * known by its names: a folder without run.db that holds nothing else may be cleared and used. At a
 * device, what is certainly the run's own is removed. */
#include "cmd/run/place.h"

#include "cmd/run/settings.h"
#include "data/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- may it be made? ---- */

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

int place_check(const char *dir, struct err *err)
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

/* ---- taken, given up ---- */

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

int place_claim(struct place *p, struct session *s, const char *dir, struct err *err)
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

void place_give_up(const struct place *p, struct session *s, const char *dir)
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

/* ---- kept ---- */

/* Not the run's database yet. */
static void new_path(char out[SESSION_PATH + 16], const char *dir)
{
    snprintf(out, SESSION_PATH + 16, "%s/run.db.new", dir);
}

int place_close(struct session *s, struct err *err)
{
    char path[SESSION_PATH + 16], wal[SESSION_PATH + 32];
    int  rc = runlog_whole(s->log, err);

    new_path(path, s->dir);
    snprintf(wal, sizeof wal, "%s-wal", path);
    runlog_close(s->log);
    s->log = NULL;
    if (!rc && access(wal, F_OK) == 0)
        rc = err_set(err, -EIO, "%s could not be written completely (its log %s is still there)",
                     path, wal);
    rc = rc ? rc : file_sync_dir(s->dir, err);
    return rc ? rc : file_sync_parent(s->dir, err); // RUN itself
}

int place_name(const char *dir, struct err *err)
{
    char from[SESSION_PATH + 16], to[SESSION_PATH + 16];

    new_path(from, dir);
    snprintf(to, sizeof to, "%s/run.db", dir);
    if (rename(from, to))
        return err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno));
    int rc = file_sync_dir(dir, err);
    if (rc)
        rename(to, from); // it is none
    return rc;
}

int place_finish(const char *dir, const char *id, struct err *err)
{
    char           path[SESSION_PATH + 16];
    struct session s = { 0 };

    new_path(path, dir);
    if (session_is_run(dir) || access(path, F_OK))
        return 0;
    snprintf(s.dir, sizeof s.dir, "%s", dir);
    int rc = runlog_open(&s.log, path, 0, 1, err);
    if (rc)
        return rc;
    char *has = settings_get(s.log, "id");
    if (has && !strcmp(has, id)) {
        rc = place_close(&s, err);
        rc = rc ? rc : place_name(dir, err);
    }
    runlog_close(s.log);
    free(has);
    return rc;
}
