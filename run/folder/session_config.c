/* session_config.c: derives run_config, by which offload/ knows a run, from the run's model and
 * options. It is derived at each open, so these are its only source. */
#include "run/folder/session.h"

#include "csd/csd.h"
#include "model/file/hf_base.h"
#include "model/lora/in_place.h"
#include "model/pass_order.h"
#include "run/folder/settings.h"

static float run_decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    const struct session *s = ctx;
    int                   all = s->o.decay == TRAIN_DECAY_ALL;

    i += run_first(&s->run, block);
    return arch_decays(&s->config, block, i, n, all, count) ? (float)s->o.weight_decay : 0.0f;
}

static void param_name(void *ctx, size_t block, size_t i, char *out, size_t size)
{
    const struct session *s = ctx;

    arch_tensor_name(&s->config, out, size, "", block,
                     arch_place(&s->config, block, run_first(&s->run, block) + i).t);
}

int session_config(struct session *s, struct err *err)
{
    const struct train_opts *o = &s->o;
    size_t                   n = arch_blocks(&s->config);
    int                      together = s->ranks.size > 1;

    free(s->block_params);
    s->block_params = malloc(5 * n * sizeof *s->block_params);
    for (size_t b = 0; b < n && s->block_params; b++)
        s->block_params[b] = packed_size(&s->config, b, (enum dtype)o->dtype);
    if (!s->block_params)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    for (size_t b = 0; b < n; b++)
        s->block_params[2 * n + b] = arch_block_size(&s->config, b);
    if (!ranks_portions(s->block_params + n, &s->ranks, s->block_params, n))
        return err_misuse(err, "the model is too small for %zu ranks: rank %zu would have nothing "
                          "of it", s->ranks.size, s->ranks.rank);
    s->ranks.groups = o->groups;
    s->ranks.whole_params = together ? s->block_params : NULL;
    s->run = (struct run_config){
        .dir = s->dir,
        .log = s->log,
        .id = s->id,
        .mode = (enum run_mode)o->mode,
        .route = pass_order_of(&s->config),
        .ranks = s->ranks,
        .block_params = s->block_params + (together ? n : 0),
        .packed = packed_blocks(&s->config, (enum dtype)o->dtype),
        .unpacked = s->block_params + 2 * n,
        .decay = run_decay,
        .decay_ctx = s,
        .name = param_name,
        .name_ctx = s,
        .wire_dt = (enum dtype)o->dtype,
        .optim = (enum optim_kind)o->optimizer,
        .compress = o->compress,
        .error_feedback = o->error_feedback,
        .n_devices = o->device.n ? o->device.n : o->devices,
        .device_paths = o->device.n ? o->device.item : NULL,
        .n_act_devices = train_opts_acts(o),
        .act_paths = o->act_device.item,
        .csd = csd_at((size_t)o->csd),
        .fpgas = o->fpga.n ? o->fpga.item : NULL,
        .xclbin = o->xclbin,
        .disk = disk_name((size_t)o->disk),
        .csd_mem = o->csd_mem,
        .spares = s->spares,
        .speculate = o->speculate,
        .layout = s->layout,
        .owner = s->owner,
        .owner_next = s->owner_next,
        .force_device = o->force_device,
        .device_in_ram = o->device_in_ram,
        .links = train_opts_links(o),
        .io_timeout_ns = (uint64_t)(o->io_timeout * 1e9),
        .durable = o->durability == TRAIN_DURABLE_STEP,
        .commit_every = o->commit_every,
        .frames = s->config.n_layer < 2 ? s->config.n_layer : 2,
        .grad_buffers = 1,
    };
    if (o->lora.in_place && s->config.lora.rank) {
        char *bytes = s->log ? settings_get(s->log, "base.bytes") : NULL;

        in_place_config(&s->run, &s->config, hf_base_files(s->base), bytes,
                        s->block_params + 3 * n);
        free(bytes);
    }
    return 0;
}
