/* lost.c: finds devices that are gone, and makes them again. */
#include "run/snapshots/lost.h"

#include "data/base/machine.h"
#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "offload/devices/devices.h"
#include "offload/devices/devices_room.h"
#include "offload/devices/image.h"
#include "run/folder/drives.h"
#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/snapshots/damaged.h"
#include "run/snapshots/lost_place.h"
#include "run/snapshots/snapshots.h"

#include <unistd.h>

/* ---- what is gone ---- */

static int image_is_lost(const struct run_config *cfg, unsigned area)
{
    char        path[PATH_MAX];
    struct stat st;

    image_path(cfg, area, path, sizeof path);
    return !file_may_be(path) ||
           (!stat(path, &st) && S_ISREG(st.st_mode) &&
            (uint64_t)st.st_size < (area == IMAGE_FROZEN ? image_frozen_bytes(cfg)
                                                         : image_bytes(cfg)));
}

/* RUN/frozen is made again if it is gone, or proved damaged. */
static int frozen_is_lost(const struct run_config *cfg)
{
    struct image_check found;
    struct err         ignored;

    return image_frozen_bytes(cfg) &&
           (image_is_lost(cfg, IMAGE_FROZEN) ||
            (!image_check(cfg, IMAGE_FROZEN, &found, &ignored) && found.damaged));
}

int lost_count(const struct session *s, size_t *n, struct err *err)
{
    const struct run_config *cfg = &s->run;
    struct image_state       now;
    struct store             st;
    int                      rc;

    *n = 0;
    if (cfg->mode == RUN_MEM) {
        rc = image_latest(cfg, &now, err);
        *n = rc ? 0 : (size_t)image_is_lost(cfg, now.area) +
                          (size_t)(image_frozen_bytes(cfg) && image_is_lost(cfg, IMAGE_FROZEN));
        return rc;
    }
    if (devices_fake(cfg)) // they store nothing
        return 0;
    rc = store_init(&st, cfg, err);
    for (size_t i = 0; i < cfg->n_devices && !rc; i++) {
        struct place p;

        if ((rc = place_look(&p, s, i, st.device_bytes[i], err)))
            break;
        *n += p.found == FOUND_NOTHING || p.found == FOUND_CUT || p.found == FOUND_FILE;
        place_release(&p);
    }
    store_release(&st);
    return rc;
}

int lost_explain(struct session *s, int rc, struct err *err)
{
    struct snapshots list;
    struct err       unsaid;
    size_t           gone;
    char             line[SESSION_LINE];

    if (!rc || err_goes_on(rc, err) || lost_count(s, &gone, &unsaid) || !gone ||
        snapshots_list(&list, s, &unsaid))
        return rc;
    int any = snapshots_newest(&list) || snapshots_any_by_parity(&list) ||
              s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS;
    err_set(err, rc, any ? "%s; if it is lost, %s makes it again and goes back to the newest "
                           "snapshot, from which --resume goes on"
                         : "%s; if it is lost, go on with: %s",
            err->text, session_ranks_line(line, s, "restore"));
    snapshots_free(&list);
    return rc;
}

/* ---- where it is made again ---- */

/* The number of the device in I=PATH, and *path. -1: this is not of that form. */
static long place_of(const struct session *s, const char *text, const char **path)
{
    char    *end;
    uint64_t i = strtoull(text, &end, 10);

    *path = end + 1;
    return end == text || *end != '=' || !end[1] || i >= s->run.n_devices ? -1 : (long)i;
}

static int is_named(const struct session *s, const struct opt_strings *named, size_t i)
{
    const char *path;

    for (size_t k = 0; k < named->n; k++)
        if (place_of(s, named->item[k], &path) == (long)i)
            return 1;
    return 0;
}

/* Whether the run is a copy, or was moved, and the devices that it names may be another run's. */
static int is_apart(const struct session *s)
{
    char *place = s->moved == MOVED_APART ? settings_get(s->log, "place") : NULL;
    int   apart = place && moved_folder(s->dir, place) == MOVED_WHOLE;

    free(place);
    return apart;
}

int lost_places_check(const struct session *s, const struct opt_strings *named, struct err *err)
{
    int none = s->run.mode == RUN_MEM || devices_fake(&s->run), rc = 0;

    for (size_t i = 0; !none && i < s->run.n_devices && !rc; i++) {
        struct place p;

        if ((named && is_named(s, named, i)) || (rc = place_look(&p, s, i, 0, err)))
            continue;
        rc = place_refuse(&p, s, i, err);
        place_release(&p);
    }
    return rc;
}

int lost_apart_check(const struct session *s, const struct opt_strings *named, struct err *err)
{
    char       line[SESSION_LINE];
    enum moved is;
    size_t     n = 0;

    if (!is_apart(s))
        return lost_places_check(s, named, err);
    while (n < s->run.n_devices && is_named(s, named, n))
        n++;
    int rc = n == s->run.n_devices ? 0 : moved_check(&is, &s->run, 0, err);
    return rc != -EXDEV || !s->o.device.n
               ? rc
               : err_set(err, rc, "%s; %s with --device I=PATH for each device makes new ones",
                         err->text, session_ranks_line(line, s, "restore"));
}

/* A run whose devices lie in it: the user may say that the old place is meant. */
static int place_in_run(const struct session *s, const char *text, size_t i, const char *path,
                        struct err *err)
{
    char *at = file_absolute(path, err), *own = file_path(err, "%s/dev%zu", s->dir, i);
    int   rc = !at || !own ? -ENOMEM
               : s->run.mode != RUN_MEM && !strcmp(at, own)
                   ? 0
                   : err_misuse(err, "--device %s: the devices of %s lie in its folder, where they "
                                "are made again: leave --device out", text, s->dir);

    free(at);
    free(own);
    return rc;
}

/* Refuses a file that is there, unless a killed process has made it for device i, and one that is
 * another device's. */
static int refuse_file(const struct session *s, size_t i, const char *path, struct err *err)
{
    struct superblock super;
    struct stat       st;

    for (size_t k = 0; k < s->o.device.n; k++)
        if (k != i && !strcmp(s->o.device.item[k], path) && (stat(path, &st) ||
                                                              !S_ISDIR(st.st_mode)))
            return err_misuse(err, "--device %s is the place of device %zu, too: a file or a drive "
                              "holds one device, a folder any number", path, k);

    if (stat(path, &st) || !S_ISREG(st.st_mode) ||
        devices_whose(&super, &s->run, i, path) == DEVICE_OWN)
        return 0;
    return err_misuse(err, "--device %s exists; expected a folder, a block device or the name of a "
                      "new file", path);
}

/* Whether device i is in its place, so that it gets no other one. */
static int is_there(const struct session *s, size_t i)
{
    struct store st;
    struct place p = { 0 };
    struct err   unsaid;

    if (is_apart(s) || store_init(&st, &s->run, &unsaid))
        return 0;
    int there = !place_look(&p, s, i, st.device_bytes[i], &unsaid) && p.found == FOUND_OWN &&
                !place_refuse(&p, s, i, &unsaid);
    place_release(&p);
    store_release(&st);
    return there;
}

int lost_is(const struct session *s, const char *text)
{
    const char *path;
    long        i = place_of(s, text, &path);

    return i >= 0 && s->run.mode != RUN_MEM && !is_there(s, (size_t)i);
}

int lost_place(struct session *s, const char *text, struct err *err)
{
    const char *given;
    char       *path;
    long        i = place_of(s, text, &given);

    if (i < 0)
        return err_misuse(err, "--device %s: expected I=PATH, where I is a device's number, 0 to "
                          "%zu", text, s->run.n_devices - 1);
    if (s->run.mode == RUN_MEM || !s->o.device.n)
        return place_in_run(s, text, (size_t)i, given, err);
    int rc = output_check_name("--device", given, err);
    rc = rc ? rc : opt_place_typed("device", given, err);
    rc = rc ? rc : opt_place(&path, "device", given, err);
    if (rc)
        return rc;
    int apart = is_apart(s);
    if (!apart && !strcmp(path, s->o.device.item[i])) { // it is meant, even if not mounted
        free(path);
        return 0;
    }
    rc = refuse_file(s, (size_t)i, path, err);
    if (!rc && is_there(s, (size_t)i))
        rc = err_misuse(err, "--device %s: device %ld of %s is there, in %s: leave it out (siTrain "
                        "reshard moves devices)", text, i, s->dir, s->o.device.item[i]);
    if (rc) {
        free(path);
        return rc;
    }
    free((char *)(uintptr_t)s->o.device.item[i]);
    s->o.device.item[i] = path;
    if (apart) // a new word for new devices: the original's have another, or none
        rc = machine_hex(s->owner, sizeof s->owner - 1, err);
    rc = rc ? rc : session_config(s, err);
    return rc ? rc
           : !apart || devices_gone(&s->run, (size_t)i)
               ? 1
               : err_misuse(err, "--device %s: a device is there, which may be another run's: name "
                            "a place that has none", text);
}

/* ---- before anything changes ---- */

/* Refuses a place that was a folder and is not there: a file would get its name. */
static int place_check(const struct session *s, size_t i, struct err *err)
{
    const char *given = s->run.device_paths ? s->run.device_paths[i] : s->dir;
    char        was[PATH_MAX];
    size_t      n = file_trimmed(given);
    int         rc = runlog_value(s->log, was, sizeof was, err,
                                  "SELECT path FROM devices WHERE device = %zu", i);

    if (rc || !access(given, F_OK) || strncmp(was, given, n) || was[n] != '/')
        return rc;
    if (!file_is_absent(errno))
        return err_set(err, -errno, "device %zu cannot be made in %s: %s", i, given,
                       strerror(errno));
    return err_misuse(err, "the folder %s of device %zu is not there: mount its drive, or make the "
                      "folder, or name another place with --device %zu=PATH", given, i, i);
}

static int is_empty(const char *folder)
{
    struct file_walk w;
    int              empty = !file_walk_begin(&w, folder, NULL) && !file_walk_next(&w);

    file_walk_end(&w, 0, NULL);
    return empty;
}

/* Refuses the old place if its drive may just not be mounted. A run of an older version does not
 * know where it was mounted; then an empty folder looks like a mount point. */
static int mount_check(const struct session *s, size_t i, const char *folder, struct err *err)
{
    char was[PATH_MAX];
    int  mounted = drives_mounted(s, i, folder, was);

    if (mounted > 0 || (mounted < 0 && (devices_inside(&s->run, folder) || !is_empty(folder))))
        return 0;
    if (!mounted && *was == '.')
        snprintf(was, sizeof was, "%s", s->dir);
    return err_misuse(err, "device %zu of %s is not in %s, and %s%s%s: mount its drive; if it is "
                      "lost, name its place with --device %zu=PATH, this one or another", i,
                      s->dir, folder, mounted ? "that folder is empty, as if its drive were not "
                      "mounted" : "its drive was mounted at ", mounted ? "" : was,
                      mounted ? "" : ", where another file system is now", i);
}

/* Whether this place is that of device i in RUN, which --device may have named. */
static int is_in_run(const struct session *s, size_t i, const char *given)
{
    char own[SESSION_PATH + 32];
    int  n = snprintf(own, sizeof own, "%s/dev%zu/", s->dir, i);

    return !strncmp(given, own, (size_t)n);
}

/* Refuses a place where device i cannot be made. folder: the one that it would be in; NULL: it is a
 * drive, or there is none. */
static int place_fits(const struct session *s, size_t i, const char *folder, struct err *err)
{
    const struct run_config *cfg = &s->run;
    const char              *given = cfg->device_paths ? cfg->device_paths[i] : NULL;
    char                    *path = NULL;
    int rc = devices_place_check(given ? given : s->dir, given ? "--device" : NULL,
                                 cfg->device_in_ram, err);

    if (given && !is_in_run(s, i, given)) // it may be a link by now
        rc = rc ? rc : output_check_name("--device", given, err);
    rc = rc || !given ? rc : devices_path(&path, cfg, i, 1, err);
    free(path);
    rc = rc || !given ? rc : devices_free_check(given, "--device", cfg->force_device, err);
    if (rc || !folder)
        return rc;
    if (access(folder, W_OK | X_OK))
        return err_set(err, -errno, "device %zu cannot be made in %s: %s", i, folder,
                       strerror(errno));
    return file_check_folder(folder, err);
}

/* The folder of device i's file, malloced. NULL: a drive, or it is not there. */
static int folder_of(char **out, const struct session *s, size_t i, struct err *err)
{
    const char *given = s->run.device_paths ? s->run.device_paths[i] : NULL;
    char       *own = given ? NULL : file_path(err, "%s/dev%zu", s->dir, i);
    int         rc = given || own ? 0 : -ENOMEM;

    *out = NULL;
    rc = rc ? rc : devices_folder(out, given ? given : own, err);
    free(own);
    return rc;
}

/* Refuses a link at RUN/devI, where a folder is made. */
static int refuse_link(const struct session *s, size_t i, struct err *err)
{
    char       *own = file_path(err, "%s/dev%zu", s->dir, i);
    struct stat st;
    int         rc = own ? 0 : -ENOMEM;

    if (own && !lstat(own, &st) && S_ISLNK(st.st_mode))
        rc = err_misuse(err, "%s is a link: remove it; then the same command makes device %zu in "
                        "%s", own, i, s->dir);
    free(own);
    return rc;
}

/* Looks at device i, which is lost. *bytes: that it needs. */
static int check_one(const struct session *s, size_t i, const struct place *p, int named,
                     uint64_t *bytes, struct err *err)
{
    struct stat st;
    char       *folder;
    const char *fixed;
    int         gone = p->found == FOUND_NOTHING, rc = gone ? place_check(s, i, err) : 0;

    if (rc || (rc = folder_of(&folder, s, i, err)))
        return rc;
    if (p->found == FOUND_CUT && !stat(p->path, &st))
        *bytes -= (uint64_t)st.st_size < *bytes ? (uint64_t)st.st_size : *bytes;
    if (p->found == FOUND_FILE && (fixed = file_fixed(p->path))) // put_aside
        rc = err_misuse(err, "%s %s", p->path, fixed);
    if (!rc && p->found != FOUND_CUT && !s->run.device_paths)
        rc = refuse_link(s, i, err);
    if (gone && !named && folder)
        rc = mount_check(s, i, folder, err);
    rc = rc || !gone ? rc : place_fits(s, i, folder, err);
    free(folder);
    return rc;
}

int lost_check(const struct session *s, const struct opt_strings *named, struct err *err)
{
    const struct run_config *cfg = &s->run;
    struct store             st = { 0 };
    int                      rc = cfg->mode == RUN_MEM ? 0 : store_init(&st, cfg, err);

    for (size_t i = 0; i < st.n_devices && !rc; i++) {
        struct place p;

        if ((rc = place_look(&p, s, i, st.device_bytes[i], err)))
            break;
        if (p.found != FOUND_FILE)
            rc = devices_named_once(cfg, i, err);
        if (!rc && p.found != FOUND_OWN)
            rc = check_one(s, i, &p, is_named(s, named, i), &st.device_bytes[i], err);
        else if (!cfg->device_paths || !file_is_block(cfg->device_paths[i]))
            st.device_bytes[i] = 0; // a drive that has no medium now is not lost, but too small
        place_release(&p);
    }
    rc = rc || cfg->mode == RUN_MEM ? rc : devices_room_check(cfg, st.device_bytes, err);
    store_release(&st);
    return rc;
}

/* ---- making ---- */

/* A file without the run's superblock is not certainly its own: it stays, under another name.
 * *made: device i is a new file, which a failure removes again. */
static int put_aside(struct session *s, size_t i, uint64_t bytes, int *made, struct err *err)
{
    const struct run_config *cfg = &s->run;
    struct place             p;
    char                    *to = NULL;
    int                      rc = place_look(&p, s, i, bytes, err);

    if (rc)
        return rc;
    if (p.found == FOUND_NOTHING)
        *made &= !cfg->device_paths || !file_is_block(cfg->device_paths[i]);
    else if (p.found != FOUND_OWN)
        *made = 0;
    rc = place_refuse(&p, s, i, err);
    if (!rc && p.found == FOUND_FILE && !(rc = file_put_aside(&to, p.path, "cut", err)))
        rc = session_notice(s, err, "%s is not certainly device %zu of this run: it is %s now",
                            p.path, i, to);
    place_release(&p);
    free(to);
    return rc;
}

/* *made: only new files are to be made. */
static int put_aside_all(struct session *s, int *made, struct err *err)
{
    struct store st;
    int          rc = store_init(&st, &s->run, err);

    *made = 1;
    for (size_t i = 0; i < s->run.n_devices && !rc; i++)
        rc = put_aside(s, i, st.device_bytes[i], made, err);
    store_release(&st);
    return rc;
}

/* After a kill a file with its superblock in such a place is this run's. */
static int note_new(struct session *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->run.n_devices && !rc; i++)
        if (devices_gone(&s->run, i))
            rc = settings_set(s->log, err, "device.%zu=" MOVED_NEW, i);
    return rc;
}

/* A run that gets new devices, since its own may be another run's: from now on it is a run of its
 * own, whose devices are gone. After a kill the same command makes them as any others. */
static int settle_apart(struct session *s, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    rc = session_store_options(s, 1, err);
    rc = rc ? rc : runlog_set(s->log, "owner", s->owner, err);
    rc = rc ? rc : runlog_unset(s->log, "owner.next", err);
    rc = rc ? rc : session_settle(s, err);
    return runlog_end(s->log, rc, err);
}

static int record(struct session *s, const struct devices *d, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    rc = session_store_options(s, 1, err);
    rc = rc ? rc : devices_record(d, s->log, err);
    rc = rc ? rc : session_settle(s, err);
    rc = rc ? rc : drives_record(s, err);
    return runlog_end(s->log, rc, err);
}

int lost_make(struct session *s, const struct session *snapshot, int *untouched, struct err *err)
{
    struct run_config cfg = s->run;
    struct devices    d = { 0 };
    int               only_new, wrote;
    char              from[PATH_MAX], to[PATH_MAX];
    int               rc;

    *untouched = 0;
    if (cfg.mode == RUN_MEM) {
        image_path(&snapshot->run, IMAGE_FROZEN, from, sizeof from);
        image_path(&cfg, IMAGE_FROZEN, to, sizeof to);
        if (!frozen_is_lost(&cfg))
            return 0;
        rc = file_copy_like(from, to, err);
        *untouched = rc != 0;
        return rc;
    }
    cfg.links = (struct topology_config){ 0 };
    if ((rc = put_aside_all(s, &only_new, err)) ||
        (rc = is_apart(s) ? settle_apart(s, err) : 0) || (rc = note_new(s, err)))
        return rc;
    rc = damaged_open_up(s, &wrote, err);
    rc = rc ? rc : devices_open(&d, &cfg, DEVICES_REMAKE, NULL, err);
    rc = rc ? rc : devices_flush(&d, err);
    if ((rc = rc ? rc : record(s, &d, err)))
        devices_discard(&d);
    *untouched = rc && only_new && !wrote;
    devices_close(&d);
    return rc;
}
