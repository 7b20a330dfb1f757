/* scrub_rows.c: says where the areas of a run lie by the rows of its run.db, which another process
 * may write meanwhile. Each look is one statement, so its rows are of one commit. */
#include "offload/upkeep/scrub.h"

#include "offload/devices/image.h"

static int look_device(void *ctx, size_t i, struct area *out, struct err *err)
{
    struct scrub_rows      *r = ctx;
    size_t                  sub = i / AREAS_OF_SUB;
    const struct store_sub *u = &r->store.subs[sub];
    struct journal_look     row;
    int rc = journal_look(&row, r->cfg->log, sub, r->store.error_feedback, err);

    if (!rc && row.sub.slot >= r->store.classes[u->class_].slots)
        rc = err_set(err, -EBADMSG, "%s: the journal gives block %zu slot %" PRIu32 ", which "
                     "device %zu does not have", runlog_path(r->cfg->log), u->block, row.sub.slot,
                     u->device);
    if (!rc)
        *out = area_of(&r->store, sub, area_kind(u, i % AREAS_OF_SUB), &row.sub, row.applied,
                       row.residual);
    return rc;
}

/* Areas of the newest image come first, then those of the frozen blocks. */
static int look_image(void *ctx, size_t i, struct area *out, struct err *err)
{
    struct scrub_rows *r = ctx;
    struct image_state now;
    uint32_t          *sums = NULL;
    size_t             block = i % r->blocks;
    int                rc = image_latest(r->cfg, &now, err);

    *out = (struct area){ 0 };
    if (rc)
        return rc;
    unsigned area = i < r->blocks ? now.area : (unsigned)IMAGE_FROZEN;
    if (!image_area(r->cfg, area, block, out))
        return 0;
    if ((rc = image_sums(r->cfg, area, &sums, err)))
        return rc;
    out->crc = sums[block];
    out->version = i < r->blocks ? now.step : 0;
    free(sums);
    return 0;
}

int scrub_rows_open(struct scrub_rows *r, const struct run_config *cfg, int still, struct err *err)
{
    int rc = 0;

    *r = (struct scrub_rows){ .cfg = cfg, .blocks = run_blocks(cfg) };
    r->source = (struct scrub_source){ .still = still, .ctx = r };
    if (cfg->mode == RUN_MEM) {
        r->source.n = 2 * r->blocks;
        r->source.look = look_image;
        return 0;
    }
    rc = store_init(&r->store, cfg, err);
    r->source.n = r->store.n_subs * AREAS_OF_SUB;
    r->source.look = look_device;
    return rc;
}

void scrub_rows_close(struct scrub_rows *r)
{
    store_release(&r->store);
    *r = (struct scrub_rows){ 0 };
}
