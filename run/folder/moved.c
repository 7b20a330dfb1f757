/* moved.c: compares a run's folder with the folder in which it was last written. A value of `place`
 * is file_identity, a space, the path. */
#include "run/folder/moved.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/base/text_made.h"
#include "offload/devices/devices.h"
#include "offload/devices/devices_place.h"
#include "offload/layout/ranks.h"
#include "run/folder/settings.h"

#include <limits.h>
#include <sys/stat.h>

void moved_place(char out[MOVED_PLACE], const char *dir)
{
    char here[FILE_IDENTITY];

    file_folder_identity(dir, here);
    snprintf(out, MOVED_PLACE, "%s %s", here, dir);
}

int moved_store(struct runlog *log, const char *dir, struct err *err)
{
    char place[MOVED_PLACE];

    moved_place(place, dir);
    return runlog_set(log, "place", place, err);
}

const char *moved_path(const char *place)
{
    const char *born = strchr(place, ' '), *path = born ? strchr(born + 1, ' ') : NULL;

    return path ? path + 1 : NULL;
}

/* True if the parent of the path `was` exists, on the file system of `dir`: renaming a folder does
 * not leave its file system. If the parent is gone, `dir` may be on a copy of the file system. */
static int is_near(const char *was, const char *dir)
{
    char        up[PATH_MAX], *slash;
    struct stat at, here;

    snprintf(up, sizeof up, "%s", was);
    if ((slash = strrchr(up, '/')))
        slash[slash == up] = '\0';
    return !stat(up, &at) && !stat(dir, &here) && at.st_dev == here.st_dev;
}

/* True if the path `was` is that of the folder dir, or leads to it. */
static int is_at(const char *was, const char *dir)
{
    struct stat a, b;

    return !strcmp(was, dir) || (!stat(was, &a) && !stat(dir, &b) && file_same(&a, &b));
}

enum moved moved_folder(const char *dir, const char *place)
{
    const char *was = moved_path(place);

    if (!file_is(dir, place))
        return MOVED_WHOLE;
    if (!was || is_at(was, dir))
        return MOVED_NOT;
    // a snapshot keeps inodes, but there the old path is on another file system
    return is_near(was, dir) && file_has_births(dir, place) ? MOVED_RENAMED : MOVED_WHOLE;
}

int moved_is_other(const char *dir, const char *place)
{
    const char *was = moved_path(place);

    return was && !is_at(was, dir) && !file_is(dir, place) &&
           (file_is(was, place) || file_has_births(dir, place));
}

int moved_inherit(struct runlog *log, const char *dir, const char *of, struct err *err)
{
    char *lost, heir[FILE_IDENTITY];
    int   rc = settings_find(&lost, log, err, "place.lost");
    char *all = rc ? NULL : file_path(err, "%s%s%s", lost ? lost : "", lost ? "\n" : "", of);

    rc = rc ? rc : all ? runlog_set(log, "place.lost", all, err) : -ENOMEM;
    file_folder_identity(dir, heir);
    rc = rc ? rc : runlog_set(log, "place.heir", heir, err);
    free(lost);
    free(all);
    return rc;
}

int moved_is_heir(struct runlog *log, const char *dir, const char *of)
{
    const char *was = moved_path(of);
    char       *lost = was && !strcmp(was, dir) ? settings_get(log, "place.lost") : NULL;
    char       *heir = lost ? settings_get(log, "place.heir") : NULL;
    char       *rest = heir && file_is(dir, heir) ? lost : NULL, *line;
    int         is = 0;

    while (!is && (line = strsep(&rest, "\n")))
        is = !strcmp(line, of);
    free(lost);
    free(heir);
    return is;
}

int moved_was_in(struct runlog *log, const char *path)
{
    char       *place = settings_get(log, "place");
    const char *was = place ? moved_path(place) : NULL;
    size_t      n = was ? strlen(was) : 0;
    int         in = n && !strncmp(path, was, n) && path[n] == '/';

    free(place);
    return in;
}

/* The path of device i's file without links, malloced. NULL: it is missing, or a drive. An error
 * if this user may not look there. */
static int device_file(char **file, const struct run_config *run, size_t i, struct err *err)
{
    char *path;
    int   rc = 0;

    *file = NULL;
    if (!devices_path(&path, run, i, 0, NULL) && !file_is_block(path) &&
        !(*file = file_real(path)) && !file_is_absent(errno))
        rc = err_set(err, -errno, "%s cannot be read: %s", path, strerror(errno));
    free(path);
    return rc;
}

/* Whether run.db names `file` as device i. copied: the run is in another folder than before, so its
 * earlier files are the original's. */
static int file_look(enum moved_file *out, const struct run_config *run, size_t i, const char *file,
                     enum moved moved, int copied, struct err *err)
{
    char *was;
    int   rc = settings_find(&was, run->log, err, "device.%zu", i);
    int   same = was && file_is(file, was), whole = moved == MOVED_WHOLE;
    int   theirs = whole && (!devices_inside(run, file) || (copied && same));
    int   likely = whole ? 1 : was ? !strcmp(was, MOVED_NEW) : moved == MOVED_NOT;

    *out = theirs ? MOVED_STRANGE : same ? MOVED_NAMED : likely ? MOVED_LIKELY : MOVED_STRANGE;
    free(was);
    return rc;
}

int moved_file(enum moved_file *out, const struct run_config *run, size_t i, struct err *err)
{
    char *place, *noted = NULL, *file = NULL;
    int   rc = settings_find(&place, run->log, err, "place");

    *out = MOVED_LIKELY;
    rc = rc || !place ? rc : settings_find(&noted, run->log, err, "device.place");
    rc = rc || !place ? rc : device_file(&file, run, i, err);
    if (!rc && file)
        rc = file_look(out, run, i, file, moved_folder(run->dir, place),
                       !file_is(run->dir, noted ? noted : place), err);
    free(place);
    free(noted);
    free(file);
    return rc;
}

/* The first device that may be another run's: its number and path, malloced; NULL: none. */
struct other { size_t i; char *path; };

static int other_device(struct other *out, const struct run_config *run, enum moved moved,
                        int copied, struct err *err)
{
    *out = (struct other){ 0 };
    for (size_t i = 0; run->mode != RUN_MEM && i < run->n_devices && !out->path; i++) {
        char           *file;
        enum moved_file is = MOVED_LIKELY;
        int             rc = device_file(&file, run, i, err);

        rc = rc || !file ? rc : file_look(&is, run, i, file, moved, copied, err);
        if (rc)
            return free(file), rc;
        // no file: a drive, or not mounted. One that is missing in RUN is no other run's
        if (file ? is != MOVED_STRANGE || (moved != MOVED_WHOLE && devices_inside(run, file))
                 : moved != MOVED_WHOLE || !run->device_paths) {
            free(file);
            continue;
        }
        *out = (struct other){ i, file ? file : strdup(run->device_paths[i]) };
        if (!out->path)
            return err_set(err, -ENOMEM, "out of memory for a path");
    }
    return 0;
}

/* The command that goes on with the run, without its devices. */
static void put_resume(FILE *f, const struct run_config *run)
{
    char run_dir[PATH_MAX], word[PATH_MAX];

    snprintf(run_dir, sizeof run_dir, "%.*s",
             (int)ranks_first_length(run->dir, run->ranks.rank), run->dir);
    fprintf(f, "siTrain %s --resume %s", settings_has(run->log, "task") ? "finetune" : "pretrain",
            machine_word(word, sizeof word, run_dir));
}

/* The form in which that command names the devices: of several ranks each is given its own. */
static void put_form(FILE *f, const struct run_config *run)
{
    if (run->ranks.size > 1)
        fprintf(f, "--device PATH for each device of each rank (" RANKS_DEVICES ")");
    else if (run->n_devices > 1)
        fprintf(f, "--device PATH for each of its %zu devices", run->n_devices);
    else
        fprintf(f, "--device PATH for its device");
}

/* The command that names the devices where the paths lead now. Of several ranks, or of many
 * devices, its form. */
static void put_command(FILE *f, const struct run_config *run)
{
    enum { MANY = 4 };
    char   word[PATH_MAX];
    size_t n = run->n_devices;

    put_resume(f, run);
    if (run->ranks.size > 1 || n > MANY) {
        fprintf(f, " with ");
        put_form(f, run);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        char *path = NULL;

        if (!run->device_paths)
            devices_path(&path, run, i, 0, NULL);
        if (path || run->device_paths)
            fprintf(f, " --device %s",
                    machine_word(word, sizeof word, path ? path : run->device_paths[i]));
        free(path);
    }
}

/* Say what was compared, what differs, and what to type next. */
static int ask(const struct run_config *run, const struct other *other, enum moved moved,
               const char *place, struct err *err)
{
    const char       *was = moved_path(place), *dir = run->dir;
    struct superblock super;
    struct err        taken;
    char             *text = NULL;
    size_t            size;
    FILE             *f = open_memstream(&text, &size);

    if (!f)
        return err_set(err, -ENOMEM, "out of memory for a sentence");
    fprintf(f, "%s was copied or moved since it was last used: ",
            moved == MOVED_WHOLE ? dir : other->path);
    if (moved == MOVED_WHOLE && was && !file_is(dir, place) && file_is(was, place)) {
        fprintf(f, "it is a copy of %s, which is still there and has %s; copy its devices, too, "
                "and name the copies with ", was, other->path);
        put_form(f, run);
        goto out;
    }
    if (!file_may_be(other->path)) {
        fprintf(f, "run.db has device %zu in %s, which is not there: mount its drive or, if it was "
                "moved, too, go on with: ", other->i, other->path);
        put_resume(f, run);
        fprintf(f, " with ");
        put_form(f, run);
        goto out;
    }
    if (moved == MOVED_WHOLE && !file_is(dir, place))
        fprintf(f, "run.db names the folder %s, which has another inode or time of birth; so %s "
                "may be another run's; ", was ? was : "of another run", other->path);
    else if (moved == MOVED_WHOLE && !file_has_births(dir, place))
        fprintf(f, "run.db names the folder %s, and this file system tells no time of birth, by "
                "which a renamed folder is known; so %s may be another run's; ", was, other->path);
    else if (moved == MOVED_WHOLE)
        fprintf(f, "run.db names the folder %s, and the folder around that is not there, or on "
                "another file system; so %s may be another run's; ", was, other->path);
    else
        fprintf(f, "as device %zu of %s run.db names a file with another inode or time of birth; "
                "so this one may be another run's; ", other->i, dir);
    if (devices_whose(&super, run, other->i, other->path) == DEVICE_TAKEN) { // whatever its name
        devices_refuse_taken(run, other->i, other->path, &taken);
        fprintf(f, "%s", taken.text);
        goto out;
    }
    fprintf(f, "if it is this run's, go on with: ");
    put_command(f, run);
    fprintf(f, "; if %s is a copy, copy its devices, too, and name the copies with --device", dir);
out:
    if (fclose(f) || !text)
        err_set(err, -ENOMEM, "out of memory for a sentence");
    else
        err_set(err, -EXDEV, "%s", text);
    free(text);
    return -EXDEV;
}

int moved_original(char out[PATH_MAX], struct runlog *log, const char *dir, struct err *err)
{
    char       *place;
    int         rc = settings_find(&place, log, err, "place");
    const char *was = place ? moved_path(place) : NULL;

    snprintf(out, PATH_MAX, "%s",
             was && strcmp(was, dir) && !file_is(dir, place) && file_is(was, place) ? was : "");
    free(place);
    return rc;
}

int moved_original_rests(const struct run_config *run, struct err *err)
{
    char  was[PATH_MAX], who[128];
    int   rc = moved_original(was, run->log, run->dir, err);
    char *path = rc || !*was ? NULL : file_path(err, "%s/run.db", was);

    if (!rc && *was && !path)
        rc = -ENOMEM;
    if (path && runlog_writer(path, who, sizeof who))
        rc = err_set(err, -EBUSY, "%s is a copy of %s, which is in use by %s. A drive may have "
                     "several names, so the named devices may be those of %s: wait until that has "
                     "ended", run->dir, was, *who ? who : "another process", was);
    free(path);
    return rc;
}

int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err)
{
    char        *place, *noted = NULL;
    struct other other = { 0 };
    int          rc = settings_find(&place, run->log, err, "place");

    *out = MOVED_UNKNOWN;
    if (rc || !place)
        return rc;
    rc = settings_find(&noted, run->log, err, "device.place");
    enum moved folder = moved_folder(run->dir, place);
    *out = folder;
    rc = rc ? rc : other_device(&other, run, folder, !file_is(run->dir, noted ? noted : place),
                                err);
    if (other.path)
        *out = MOVED_APART;
    if (*out == MOVED_APART && !named)
        rc = ask(run, &other, folder, place, err);
    free(place);
    free(noted);
    free(other.path);
    return rc;
}

/* The command that goes on with the run, malloced. named: with its devices. */
static char *command_text(const struct run_config *run, int named)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    if (f)
        named ? put_command(f, run) : put_resume(f, run);
    return text_made(f, &text, 0);
}

int moved_refuse_restore(const struct run_config *run, uint64_t mended, struct err *err)
{
    char *command = command_text(run, 1);
    int   rc = !command
                   ? err_set(err, -ENOMEM, "out of memory for a sentence")
                   : err_misuse(err, "no device of %s is gone: the states were read where --device "
                                "says%s; go on with: %s", run->dir,
                                mended ? ", and its snapshots with parity are whole again" : "",
                                command);

    free(command);
    return rc;
}

int moved_refuse_file(const struct run_config *run, size_t i, const char *path, struct err *err)
{
    char *command = command_text(run, run->device_paths != NULL), other[64] = "";

    if (run->device_paths)
        snprintf(other, sizeof other, "name another place with --device %zu=PATH, or ", i);
    int rc = !command ? err_set(err, -ENOMEM, "out of memory for a sentence")
                      : err_set(err, -EXDEV, "%s is not the file that %s was trained with, and may "
                                "be another run's, as a copy's or a backup's: if it holds the "
                                "states of %s, go on with: %s; if not, %smove it aside (mv), and "
                                "the same command makes device %zu again", path, run->dir,
                                run->dir, command, other, i);

    free(command);
    return rc;
}

int moved_note(const struct run_config *run, struct err *err)
{
    char folder[FILE_IDENTITY] = "";
    int  rc;

    file_folder_identity(run->dir, folder);
    rc = settings_set(run->log, err, "device.place=%s", folder);
    for (size_t i = 0; run->mode != RUN_MEM && i < run->n_devices && !rc; i++) {
        char  here[FILE_IDENTITY] = "";
        char *file;

        rc = device_file(&file, run, i, err);
        if (file)
            file_identity(file, here);
        free(file);
        rc = rc ? rc : settings_set(run->log, err, "device.%zu=%s", i, here);
    }
    return rc;
}

int moved_settle(enum moved was, const struct run_config *run, struct err *err)
{
    int rc = moved_note(run, err);

    // a copy stays known as one while reshard.remove lists files of its original
    return rc || was == MOVED_NOT || settings_has(run->log, "reshard.remove")
               ? rc
               : moved_store(run->log, run->dir, err);
}

/* ---- devices that were named ---- */

/* Draw a new word, unless one was drawn before a kill: some devices may have it. */
static int draw(struct runlog *log, char next[SUPERBLOCK_WORD], struct err *err)
{
    int rc = *next ? 0 : machine_hex(next, SUPERBLOCK_WORD - 1, err);

    return rc ? rc : runlog_set(log, "owner.next", next, err);
}

static int store(struct runlog *log, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
                 struct err *err)
{
    snprintf(owner, SUPERBLOCK_WORD, "%s", next);
    *next = '\0';
    int rc = runlog_set(log, "owner", owner, err);
    return rc ? rc : runlog_unset(log, "owner.next", err);
}

int owner_take(struct devices *d, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               int (*settle)(void *ctx, struct err *err), void *ctx, struct err *err)
{
    struct runlog *log = d->cfg.log;
    int            rc = draw(log, next, err);

    d->cfg.owner_next = next;
    if (rc || (rc = devices_take(d, err)) || (rc = runlog_begin(log, err)))
        return rc;
    rc = settle(ctx, err);
    rc = rc ? rc : store(log, owner, next, err);
    return runlog_end(log, rc, err);
}
