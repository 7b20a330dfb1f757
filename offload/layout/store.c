/* store.c: computes the layout of a run on its devices. */
#include "offload/layout/store.h"

#include "csd/engine/grad_wire.h"

/* Finds device d's class of slots of n_pad parameters, or makes it. */
static size_t class_find(struct store *s, size_t device, size_t n_pad, int trains)
{
    for (size_t c = 0; c < s->n_classes; c++)
        if (s->classes[c].device == device && s->classes[c].n_pad == n_pad &&
            s->classes[c].trains == trains)
            return c;
    s->classes[s->n_classes] =
        (struct store_class){ .device = device, .n_pad = n_pad, .trains = trains };
    return s->n_classes++;
}

/* Cuts the shard [begin, end) of a block into equal subgroups. With s->subs NULL it only counts
 * them. */
static void shard_cut(struct store *s, size_t block, int trains, size_t device, size_t begin,
                      size_t end, size_t max)
{
    size_t shard = end - begin;
    size_t len = store_pad(div_up(shard, div_up(shard, max)));

    if (!s->subs) {
        s->n_subs += div_up(shard, len);
        return;
    }
    size_t class_ = class_find(s, device, len, trains);
    for (size_t first = begin; first < end; first += len) {
        size_t n = size_min(end - first, len), n_pad = store_pad(n);

        s->subs[s->n_subs++] = (struct store_sub){
            .block = block, .device = device, .trains = trains, .first = first, .n = n,
            .packed = block >= s->packed.first && block < s->packed.end, .n_pad = n_pad,
            .class_ = class_, .first_slot = (uint32_t)s->classes[class_].subs++ };
        s->classes[class_].ahead += trains && block != s->last;
        s->n_trained += (size_t)trains;
        s->max_pad = size_max(s->max_pad, n_pad);
        s->update_pad = size_max(s->update_pad, trains ? n_pad : 0);
    }
}

/* Cuts every block into subgroups, in order. */
static void blocks_cut(struct store *s, const struct run_config *cfg, size_t max)
{
    s->n_subs = 0;
    s->max_pad = CSD_ALIGN_PARAMS; // also of a rank whose devices hold nothing
    for (size_t b = 0; b < s->n_blocks; b++) {
        size_t n = run_held(cfg)[b], shard = store_pad(div_up(n, s->n_devices));

        s->block_sub[b] = s->n_subs;
        for (size_t d = 0; d < s->n_devices && d * shard < n; d++)
            shard_cut(s, b, run_trains(cfg, b), d, d * shard, size_min((d + 1) * shard, n),
                      max);
    }
    s->block_sub[s->n_blocks] = s->n_subs;
}

/* Slots that a class has beyond one for each of its subgroups. */
static size_t spares_of(const struct store *s, const struct store_class *k)
{
    if (!k->trains)
        return 0;
    if (s->spares == RUN_SPARES_FEW)
        return size_max(div_up(k->subs, 8), STORE_FEW_SPARES);
    return size_max(div_up(k->subs, 2), STORE_MIN_SPARES) +
           (s->spares == RUN_SPARES_ALL ? k->ahead : 0);
}

/* Computes offsets on each device: the superblock, the slots by class, the gradient and residual
 * areas by subgroup. */
static void places(struct store *s)
{
    for (size_t d = 0; d < s->n_devices; d++)
        s->device_bytes[d] = SUPERBLOCK_BYTES;
    for (size_t c = 0; c < s->n_classes; c++) {
        struct store_class *k = &s->classes[c];

        k->slots = k->subs + spares_of(s, k);
        k->slot_bytes = (k->trains ? store_state_bytes(s, k->n_pad) : 0) +
                        store_wire_bytes(s, k->n_pad);
        k->off = s->device_bytes[k->device];
        s->device_bytes[k->device] += k->slots * k->slot_bytes;
    }
    for (size_t i = 0; i < s->n_subs; i++) {
        struct store_sub *u = &s->subs[i];

        if (!u->trains)
            continue;
        u->grad_bytes = 4 * u->n_pad;
        if (s->compress > 0)
            u->grad_bytes = grad_wire_bytes(size_min(store_pairs(s, u->block), u->n));
        u->grad_off = s->device_bytes[u->device];
        s->device_bytes[u->device] += u->grad_bytes;
        u->residual_off = s->device_bytes[u->device];
        if (s->error_feedback)
            s->device_bytes[u->device] += 2 * store_residual_bytes(u->n_pad);
    }
}

size_t store_pairs(const struct store *s, size_t block)
{
    return size_min(s->groups * topk_count(s->whole_params[block], s->compress),
                    s->block_params[block]);
}

int store_init(struct store *s, const struct run_config *cfg, struct err *err)
{
    struct csd_config update = { .mem = cfg->csd_mem, .moments = optim_moments(cfg->optim),
                                 .wire_dt = cfg->wire_dt, .update_params = CSD_ALIGN_PARAMS };
    size_t max = csd_params_max(cfg->csd, &update, STORE_MAX_SUBGROUP); // parameters of a subgroup

    *s = (struct store){ .n_blocks = run_blocks(cfg), .last = route_last(&cfg->route),
                         .packed = cfg->packed,
                         .block_params = cfg->block_params,
                         .whole_params = run_wholes(cfg),
                         .groups = size_max(cfg->ranks.groups, 1),
                         .n_devices = cfg->n_devices, .moments = update.moments,
                         .wire_dt = cfg->wire_dt, .compress = cfg->compress,
                         .error_feedback = cfg->error_feedback, .spares = cfg->spares };
    if (max == 0)
        return err_misuse(err, "--csd-mem of %zu bytes is too small: an update needs at least %zu "
                          "bytes", cfg->csd_mem, cfg->csd->memory(&update));
    s->block_sub = calloc(s->n_blocks + 1, sizeof *s->block_sub);
    s->device_bytes = calloc(s->n_devices, sizeof *s->device_bytes);
    if (!s->block_sub || !s->device_bytes)
        goto nomem;
    blocks_cut(s, cfg, max);
    if (s->n_subs > STORE_MAX_SUBGROUPS) {
        err_misuse(err, "--csd-mem of %zu bytes is too small for this model (or --n-layer, "
                   "--n-embd and --vocab too large): it makes %zu subgroups, and at most %d are "
                   "expected", cfg->csd_mem, s->n_subs, STORE_MAX_SUBGROUPS);
        store_release(s);
        return -EINVAL;
    }
    s->subs = calloc(s->n_subs + 1, sizeof *s->subs);
    s->classes = calloc(s->n_devices * s->n_blocks, sizeof *s->classes); // at most one a shard
    if (!s->subs || !s->classes)
        goto nomem;
    blocks_cut(s, cfg, max);
    places(s);
    return 0;

nomem:
    store_release(s);
    return err_set(err, -ENOMEM, "out of memory for the layout of %zu blocks", run_blocks(cfg));
}

void store_release(struct store *s)
{
    free(s->block_sub);
    free(s->subs);
    free(s->classes);
    free(s->device_bytes);
    *s = (struct store){ 0 };
}
