/* snapshots_plan.c: computes what snapshots cost from the bytes that one moves
 * (offload/upkeep/snapshot_traffic.h). */
#include "plan/snapshots_plan.h"

#include "offload/upkeep/snapshot.h"
#include "offload/upkeep/snapshot_traffic.h"

int snapshots_plan(struct snapshots_plan *out, const struct session *s, struct err *err)
{
    uint64_t bytes;
    size_t   parity = s->o.snapshot_on == TRAIN_SNAPSHOTS_DEVICES ? (size_t)s->o.parity : 0;
    int      kept = s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS;

    *out = (struct snapshots_plan){ .every = s->o.snapshot_every };
    if (!out->every)
        return 0;
    int rc = snapshot_bytes(&s->run, &bytes, err);
    rc = rc ? rc : snapshot_traffic(&out->moved, &s->run, parity, kept, err);
    if (rc)
        return rc;
    out->parity = (double)out->moved.bytes[LINK_HOST][CLASS_PARITY][LINK_WRITE];
    out->each = (double)bytes * (kept ? 2 : 1) + out->parity;
    out->sent = kept ? 2 * (double)bytes : 0;
    if (s->o.keep_best)
        out->each += 4 * (double)arch_total(&s->config);
    return 0;
}

int snapshots_plan_wear(struct wear *w, const struct session *s, struct err *err)
{
    struct snapshots_plan p;
    int                   rc = wear_computed(w, &s->run, err);

    rc = rc ? rc : snapshots_plan(&p, s, err);
    for (int k = 0; k < LINK_CLASSES && !rc && p.every; k++) {
        uint64_t bytes = p.moved.bytes[LINK_HOST][k][LINK_WRITE];
        double   part = (double)bytes / (double)s->run.n_devices / (double)p.every;

        w->device[k] += part;
        w->total += part;
    }
    return rc;
}

static double bytes_over(const struct snapshots_plan *p, enum link_kind link, enum link_dir dir)
{
    return (double)(p->moved.bytes[link][CLASS_SNAPSHOT][dir] +
                    p->moved.bytes[link][CLASS_PARITY][dir]);
}

struct step_bytes snapshots_plan_bytes(const struct snapshots_plan *p, const struct session *s)
{
    struct step_bytes b = { bytes_over(p, LINK_HOST, LINK_READ),
                            bytes_over(p, LINK_HOST, LINK_WRITE), 0, 0 };

    if (!s->o.device.n && !s->o.snapshot_dir.n) { // all of it lies in RUN
        b.read_beneath = bytes_over(p, LINK_FILES, LINK_READ);
        b.write_beneath = bytes_over(p, LINK_FILES, LINK_WRITE);
    }
    return b;
}

double snapshots_plan_seconds(const struct snapshots_plan *p, const struct session *s)
{
    double bytes = bytes_over(p, LINK_HOST, LINK_READ) + bytes_over(p, LINK_FILES, LINK_READ) -
                   p->sent;

    return s->o.snapshot_bw ? bytes / (double)s->o.snapshot_bw : 0;
}
