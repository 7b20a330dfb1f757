/* rerank.c: new subgroups, each put together from the old ones of the ranks that have its
 * parameters. They rise alike, so each old one is read once, or twice where a portion ends. */
#include "offload/upkeep/rerank.h"

#include "data/base/round.h"

struct move { const struct parts *from; const struct run_config *to; };

static int gather(void *ctx, const struct store_sub *u, float *states, float *residual,
                  struct err *err)
{
    const struct move *m = ctx;
    size_t             first = run_first(m->to, u->block) + u->first, n;

    (void)residual;
    for (size_t done = 0; done < u->n; done += n) {
        size_t at = first + done;

        n = u->n - done;
        struct part *p = parts_at(m->from, u->block, &at, &n);
        int          rc = slots_reader_hold(&p->states, u->block, at, err);
        if (rc)
            return rc;
        const struct store     *o = &p->dev.store;
        const struct store_sub *v = &o->subs[p->states.held];
        const float            *held = (const float *)(void *)p->states.buf;

        n = size_min(n, v->first + v->n - at);
        for (size_t k = 0; k < 1 + (size_t)o->moments; k++)
            memcpy(states + k * u->n_pad + done, held + k * v->n_pad + at - v->first, 4 * n);
    }
    return 0;
}

static int rows_put(const struct devices *d, const struct journal *made,
                    const struct run_config *to, struct err *err)
{
    int rc = runlog_begin(to->log, err);

    rc = rc ? rc : journal_format(to->log, made, d->store.n_subs, 1, err);
    rc = rc ? rc : runlog_devices_forget(to->log, 0, err);
    rc = rc ? rc : devices_record(d, to->log, err);
    return runlog_end(to->log, rc, err);
}

int rerank_states(const struct parts *from, const struct run_config *to, const struct watch *watch,
                  struct err *err)
{
    struct run_config plain = *to; // at the drives' own speed
    struct move       m = { from, to };
    struct devices    d = { 0 };
    struct journal    made = { 0 };

    plain.links = (struct topology_config){ 0 };
    int rc = devices_open(&d, &plain, DEVICES_CREATE, NULL, err);
    if (rc)
        return rc;
    rc = slots_make(&d, &(struct slots_source){
                        .fill = gather, .ctx = &m, .watch = watch,
                        .bytes = 2 * store_sub_bytes(&d.store, d.store.max_pad),
                        .version = from->part[0].journal.state.applied }, &made, err);
    rc = rc ? rc : rows_put(&d, &made, to, err);
    journal_close(&made);
    if (rc)
        devices_discard(&d);
    devices_close(&d);
    return rc;
}
