/* moved.c: the folder of a run compared with the one in which it was last written. The value of
 * `place` is its file_identity, and behind another space its path. */
#include "cmd/run/moved.h"

#include "cmd/run/settings.h"
#include "data/base/file.h"
#include "offload/devices_place.h"

#include <sys/stat.h>

int moved_store(struct runlog *log, const char *dir, struct err *err)
{
    char here[FILE_IDENTITY];

    file_identity(dir, here);
    char *place = file_path(err, "%s %s", here, dir);
    int   rc = place ? runlog_set(log, "place", place, err) : -ENOMEM;

    free(place);
    return rc;
}

/* Cuts the text into identity and path; NULL: it has none. */
static char *place_cut(char *place)
{
    char *end = strchr(place, ' ');

    end = end ? strchr(end + 1, ' ') : NULL;
    if (end)
        *end++ = '\0';
    return end;
}

int moved_is_here(const char *dir, const char *place)
{
    char *identity = strdup(place);

    if (identity)
        place_cut(identity);
    int is = identity && file_is(dir, identity);
    free(identity);
    return is;
}

static int is_same_folder(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static enum moved compare(const char *dir, const char *identity, const char *was)
{
    if (!file_is(dir, identity))
        return MOVED_WHOLE;
    if (!was || !strcmp(was, dir))
        return MOVED_NOT;
    // it is still there, and is another one: this is a snapshot of it
    return file_is(was, identity) && !is_same_folder(was, dir) ? MOVED_WHOLE : MOVED_RENAMED;
}

/* The first device that has a path of its own in the folder that RUN was. */
static const char *left_behind(const struct run_config *run, const char *was)
{
    size_t n = strlen(was);

    for (size_t i = 0; run->mode != RUN_MEM && run->device_paths && i < run->n_devices; i++)
        if (!strncmp(run->device_paths[i], was, n) && run->device_paths[i][n] == '/')
            return run->device_paths[i];
    return NULL;
}

static int ask(const char *dir, const char *device, struct err *err)
{
    return err_set(err, -EXDEV, "%s was copied or moved since it was last used, and its states are "
                   "not in it (%s): if it was moved, go on with --resume and --device PATH for "
                   "each of its devices; if it is a copy, those are the other run's: copy them, "
                   "too, and name the copies", dir, device);
}

int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err)
{
    char *place, *outside = NULL;
    int   rc = settings_find(&place, run->log, err, "place");

    *out = MOVED_UNKNOWN;
    if (rc || !place)
        return rc;
    const char *was = place_cut(place), *left = NULL;
    *out = compare(run->dir, place, was);
    if (*out == MOVED_WHOLE)
        rc = devices_outside(&outside, run, err);
    else if (*out == MOVED_RENAMED)
        left = left_behind(run, was);
    if (outside || left)
        *out = MOVED_APART;
    if (*out == MOVED_APART && !named)
        rc = ask(run->dir, outside ? outside : left, err);
    free(outside);
    free(place);
    return rc;
}

int moved_settle(enum moved was, const struct run_config *run, struct err *err)
{
    // what a copy must leave to its original stays listed for as long as it is known to be one
    return was == MOVED_NOT || settings_has(run->log, "reshard.remove")
               ? 0
               : moved_store(run->log, run->dir, err);
}
