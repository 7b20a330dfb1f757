/* rerank.c: writes the portions of one new rank. Each new subgroup is put together from the old
 * ranks' subgroups that have its parameters. New and old ones are in the same order, so each old
 * one is read once, or twice where a portion ends. */
#include "offload/upkeep/rerank.h"

struct move { const struct parts *from; const struct run_config *to; };

static int gather(void *ctx, const struct store_sub *u, float *states, float *residual,
                  struct err *err)
{
    const struct move *m = ctx;
    size_t             first = run_first(m->to, u->block) + u->first, n;
    int                rc = 0;

    (void)residual;
    for (size_t done = 0; done < u->n && !rc; done += n) {
        size_t       at = first + done;
        struct part *p;

        n = u->n - done;
        p = parts_at(m->from, u->block, &at, &n);
        rc = slots_reader_copy(&p->states, u->block, at, n,
                               &(struct slots_copy){ states, NULL, u->n_pad, done }, err);
    }
    return rc;
}

int rerank_states(const struct parts *from, const struct run_config *to, const struct watch *watch,
                  struct err *err)
{
    struct run_config plain = *to; // without modelled links: at full speed
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
    if (!rc && !(rc = runlog_begin(to->log, err)))
        rc = runlog_end(to->log, slots_record(&d, &made, to->log, err), err);
    journal_close(&made);
    if (rc)
        devices_discard(&d);
    devices_close(&d);
    return rc;
}
