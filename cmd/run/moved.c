/* moved.c: the folder of a run compared with the one in which it was last written. */
#include "cmd/run/moved.h"

#include "cmd/run/settings.h"
#include "data/base/file.h"
#include "offload/devices_place.h"

int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err)
{
    char *place, *outside;
    int   rc = settings_find(&place, run->log, err, "place");

    if (rc)
        return rc;
    *out = !place ? MOVED_UNKNOWN : file_is(run->dir, place) ? MOVED_NOT : MOVED_WHOLE;
    free(place);
    if (*out != MOVED_WHOLE || (rc = devices_outside(&outside, run, err)) || !outside)
        return rc;
    *out = MOVED_APART;
    if (!named)
        rc = err_set(err, -EXDEV, "%s was copied or moved since it was last used, and its states "
                     "are not in it (%s): if it was moved, go on with --resume and --device PATH "
                     "for each of its devices; if it is a copy, those are the other run's: "
                     "copy them, too, and name the copies", run->dir, outside);
    free(outside);
    return rc;
}

int moved_settle(const struct run_config *run, struct err *err)
{
    char here[FILE_IDENTITY];

    file_identity(run->dir, here);
    return settings_set(run->log, err, "place=%s", here);
}
