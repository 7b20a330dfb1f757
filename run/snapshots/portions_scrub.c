/* portions_scrub.c: keeps a snapshot's parity files open while it is scrubbed, and counts all bytes
 * that are read of them. */
#include "run/snapshots/portions_scrub.h"

#include "run/folder/settings.h"

enum { STRIPES = 256 }; // of a piece: with 2 parity files to each, 128 MiB

static void count(struct portions_scrub *o)
{
    scrub_took(o->pace, o->files.read - o->counted);
    o->counted = o->files.read;
}

static int keep_pace(void *ctx, uint64_t done, uint64_t total)
{
    struct portions_scrub *o = ctx;

    (void)done, (void)total;
    count(o);
    return scrub_pause(o->pace, NULL);
}

static int files_open(struct portions_scrub *o, const struct session *snapshot, struct err *err)
{
    const struct run_config *cfg = &snapshot->run;
    int                      rc = portions_load(&o->p, snapshot->log, err);

    if (rc || !o->p.n)
        return rc;
    if (o->p.n != cfg->n_devices || !cfg->device_paths)
        return err_set(err, -EBADMSG, "the settings of the snapshot's parity are damaged");
    o->watch = (struct watch){ keep_pace, o };
    o->files = (struct parity_files){ .snapshot = cfg, .watch = &o->watch };
    portions_parity(&o->files, &o->p);
    settings_scan(snapshot->log, "%" SCNu64, &o->files.step, "snapshot");
    return parity_check_begin(&o->files, err);
}

int portions_scrub(struct portions_scrub *o, int *more, struct scrub *s,
                   const struct session *snapshot, uint64_t piece, struct err *err)
{
    int rc = 0;

    *more = 0;
    o->pace = s;
    if (!o->p.n)
        rc = files_open(o, snapshot, err);
    if (!rc && o->p.n)
        rc = parity_check_some(&o->files, piece * STRIPES, STRIPES, err);
    count(o);
    int damaged = o->files.damaged > 0, any = o->p.n > 0;
    if (damaged)
        *err = rc ? *err : o->files.first;
    o->files.damaged = 0; // each piece says its own
    *more = !rc && o->files.more;
    if (rc)
        portions_scrub_close(o);
    return rc ? rc : !any ? SCRUB_NOTHING : damaged ? SCRUB_DAMAGED : SCRUB_WHOLE;
}

void portions_scrub_close(struct portions_scrub *o)
{
    parity_end(&o->files);
    portions_release(&o->p);
    *o = (struct portions_scrub){ 0 };
}
