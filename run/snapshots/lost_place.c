/* lost_place.c: looks at the places of devices that are to be written again. */
#include "run/snapshots/lost_place.h"

#include "offload/devices/devices_place.h"
#include "run/folder/moved.h"
#include "run/folder/output.h"

#include <sys/stat.h>

int place_look(struct place *p, const struct session *s, size_t i, uint64_t bytes, struct err *err)
{
    const struct run_config *cfg = &s->run;
    enum moved_file          file;
    struct stat              st;

    *p = (struct place){ .found = devices_gone(cfg, i) ? FOUND_NOTHING : FOUND_OWN };
    if (p->found == FOUND_NOTHING || devices_path(&p->path, cfg, i, 0, NULL))
        return 0; // who opens it says why
    enum device_whose whose = devices_whose(&p->super, cfg, i, p->path);
    if (whose == DEVICE_TAKEN || whose == DEVICE_OTHER) {
        p->found = whose == DEVICE_TAKEN ? FOUND_TAKEN : FOUND_OTHER;
        return 0;
    }
    if (stat(p->path, &st) || !S_ISREG(st.st_mode))
        return 0;
    int rc = moved_file(&file, cfg, i, err), cut = (uint64_t)st.st_size < bytes;
    if (whose == DEVICE_NONE && (cut || file != MOVED_NAMED))
        p->found = FOUND_FILE;
    else if (whose == DEVICE_OWN && file == MOVED_STRANGE)
        p->found = FOUND_STRANGE;
    else if (cut)
        p->found = FOUND_CUT;
    if (rc)
        place_release(p);
    return rc;
}

void place_release(struct place *p)
{
    free(p->path);
    *p = (struct place){ 0 };
}

/* Refuses a link from the place into another run's folder: that run's device is there. */
static int inside_check(const struct session *s, size_t i, const char *path, struct err *err)
{
    struct err unsaid;
    char      *real = file_real(path);
    size_t     n = strlen(s->dir);
    int        own = real && !strncmp(real, s->dir, n) && real[n] == '/', rc = 0;

    if (real && !own && output_check_name(NULL, real, &unsaid))
        rc = err_misuse(err, "%s leads to %s, a part of another run: remove the link; then the "
                        "same command makes device %zu again", path, real, i);
    free(real);
    return rc;
}

int place_refuse(const struct place *p, const struct session *s, size_t i, struct err *err)
{
    struct superblock want = devices_super(&s->run, 0, i);
    char              what[SUPERBLOCK_WHAT];
    int               rc = p->path ? inside_check(s, i, p->path, err) : 0;

    if (rc)
        return rc;
    if (p->found == FOUND_STRANGE)
        return moved_refuse_file(&s->run, i, p->path, err);
    if (p->found == FOUND_TAKEN)
        return devices_refuse_taken(&s->run, i, p->path, err);
    if (p->found != FOUND_OTHER)
        return 0;
    if (superblock_swapped(what, &p->super, &want))
        return err_misuse(err, "%s holds %s", p->path, what);
    return err_misuse(err, "%s holds the states of another run (%s, device %" PRIu32 "): name "
                      "another place with --device %zu=PATH", p->path, p->super.id,
                      p->super.device, i);
}
