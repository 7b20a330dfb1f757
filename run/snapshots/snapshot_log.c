/* snapshot_log.c: makes a copy of run.db the database of a snapshot: which one it is, of what, and
 * where its states lie. */
#include "run/snapshots/snapshot_log.h"

#include "csd/csd.h"
#include "data/file/file.h"
#include "data/db/ledger.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/snapshots/snapshots.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const snapshot_changes[] = { "option.device", "option.devices", "option.fpga",
                                         "option.act-device", "option.csd", "layout", "owner",
                                         NULL };

/* Stores which folder it is: its file_identity, a space, and a path. */
static int store_folder(struct runlog *log, const char *key, const char *folder, const char *path,
                        struct err *err)
{
    char is[FILE_IDENTITY];

    file_folder_identity(folder, is);
    char *value = file_path(err, "%s %s", is, path);
    int   rc = value ? runlog_set(log, key, value, err) : -ENOMEM;

    free(value);
    return rc;
}

int snapshot_log_place(const struct snapshot_log *l, struct err *err)
{
    int rc = store_folder(l->to->log, "place", l->to->dir, l->name, err);

    return rc ? rc : store_folder(l->to->log, "snapshot.of", l->s->dir, l->s->dir, err);
}

/* Says which snapshot it is, of what. Older programs would train it. */
static int mark(const struct snapshot_log *l, struct err *err)
{
    char      taken[32];
    time_t    now = time(NULL);
    struct tm tm;
    int       rc = runlog_raise(l->to->log, l->portions ? FORMAT_PORTIONS : FORMAT_SNAPSHOT, err);

    strftime(taken, sizeof taken, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    rc = rc ? rc : snapshot_log_place(l, err);
    return rc ? rc : settings_set(l->to->log, err, "snapshot=%" PRIu64 "\nsnapshot.n=%" PRIu64
                                  "\nsnapshot.taken=%s", l->step, l->n, taken);
}

/* What the run had of the settings that its snapshot changes: a rank whose folder is lost gets them
 * back (run/ranks/rank_again.h). */
static int keep_settings(const struct snapshot_log *l, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; snapshot_changes[i] && !rc; i++) {
        char *value, key[64];

        rc = settings_find(&value, l->s->log, err, "%s", snapshot_changes[i]);
        snprintf(key, sizeof key, SNAPSHOT_WAS "%s", snapshot_changes[i]);
        if (!rc && value)
            rc = runlog_set(l->to->log, key, value, err);
        free(value);
    }
    return rc;
}

/* Its devices are emulated ones in its own folder, with a word of their own: the run's devices are
 * not taken for them, nor they for the run's. */
int snapshot_log_settle(const struct snapshot_log *l, struct err *err)
{
    static const char *const none[] = { "layout", "owner.next", "reshard.remove",
                                        "snapshot.portions", "snapshot.folders", "snapshot.parity",
                                        "snapshot.times" };

    int rc = keep_settings(l, err);
    rc = rc ? rc : settings_set(l->to->log, err, "option.device=\noption.fpga=\n"
                                "option.act-device=\noption.csd=%s\noption.devices=%zu\nowner=%s",
                                csd_name(0), l->to->n_devices, l->owner);
    for (size_t i = 0; i < sizeof none / sizeof *none && !rc; i++)
        rc = runlog_unset(l->to->log, none[i], err);
    if (!rc && settings_has(l->to->log, "best.folder")) {
        char best[SESSION_PATH + 192], identity[FILE_IDENTITY];

        snprintf(best, sizeof best, "%s/best", l->to->dir);
        file_identity(best, identity);
        rc = settings_set(l->to->log, err, "best.folder=%s", identity);
    }
    return rc ? rc : mark(l, err);
}

/* The rows of the states: where its devices are, and in mode mem only the image that it has. */
int snapshot_log_states(const struct snapshot_log *l, struct err *err)
{
    const struct run_config *to = l->to;
    struct image_state       newest;
    char                     name[DEVICES_NAME];
    struct stat              st;
    int                      rc = runlog_devices_forget(to->log, 0, err);

    for (size_t i = 0; to->mode != RUN_MEM && i < to->n_devices && !rc; i++) {
        devices_name_in_run(name, "", i);
        const char *on = to->device_paths ? to->device_paths[i] : NULL;
        char       *in = on ? file_path(err, "%s", on) : file_path(err, "%s/%s", to->dir, name),
             *at = on ? file_path(err, "%s", on) : file_path(err, "%s/%s", l->name, name);
        rc = !in || !at        ? -ENOMEM
             : lstat(in, &st) ? err_set(err, -errno, "%s: %s", in, strerror(errno))
                              : runlog_device(to->log, (int)i, at, to->csd->name, to->disk,
                                              (uint64_t)st.st_size, err);
        free(in);
        free(at);
    }
    if (rc || to->mode != RUN_MEM)
        return rc ? rc : moved_note(to, err);
    rc = image_latest(to, &newest, err);
    return rc ? rc : ledger_clear_image(to->log, 1 - newest.area, err);
}

/* Flushes a closed run.db, and drops its pages. */
static int flush(const char *db, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(db, &fd, &size, err);

    if (rc)
        return rc;
    if (fsync(fd))
        rc = err_set(err, -errno, "flush %s: %s", db, strerror(errno));
    close(fd);
    file_forget(db);
    return rc;
}

int snapshot_log_close(struct runlog **log, const char *dir, int rc, struct err *err)
{
    char *db = file_path(err, "%s/" RUN_DB, dir), *lock = file_path(err, "%s/" RUN_LOCK, dir);

    rc = rc ? rc : db && lock ? runlog_whole(*log, err) : -ENOMEM;
    runlog_close(*log);
    *log = NULL;
    if (lock)
        unlink(lock);
    rc = rc ? rc : flush(db, err);
    free(db);
    free(lock);
    return rc ? rc : file_sync_dir(dir, err);
}
