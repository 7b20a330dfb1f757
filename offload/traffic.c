/* traffic.c: the table of docs/design.md (run.db) as arithmetic: payload alone, in one step
 * without a crash. What is measured is compared with this, byte for byte, so nothing here may be
 * an estimate. */
#include "offload/traffic.h"

#include "kernels/topk.h"

#include <assert.h>
#include <string.h>

static uint64_t params_total(const struct run_config *c)
{
    uint64_t n = 0;

    for (size_t b = 0; b < c->n_blocks; b++)
        n += c->block_params[b];
    return n;
}

/* As sent: dense fp32, or the pairs of each block. */
static uint64_t gradient_bytes(const struct run_config *c)
{
    uint64_t bytes = 0;

    for (size_t b = 0; b < c->n_blocks; b++)
        bytes += c->compress > 0.0
                     ? sizeof(struct topk_pair) * topk_count(c->block_params[b], c->compress)
                     : sizeof(float) * c->block_params[b];
    return bytes;
}

/* Embeddings and final norm have frames of their own and are read once. A layer is read in
 * forward and in backward, but those that forward used last are still in their frames when
 * backward begins. */
static uint64_t wire_read_bytes(const struct run_config *c)
{
    size_t   layers = c->n_blocks - 2, kept = c->frames < layers ? c->frames : layers;
    uint64_t params = c->block_params[0] + c->block_params[c->n_blocks - 1];

    for (size_t l = 1; l <= layers; l++)
        params += (l <= layers - kept ? 2u : 1u) * (uint64_t)c->block_params[l];
    return params * dtype_bytes(c->wire_dt);
}

void traffic_computed(struct link_meter *out, const struct run_config *c)
{
    enum link_kind update = c->mode == RUN_BASE ? LINK_HOST : LINK_INTERNAL; // its data cross this
    uint64_t       params, states, offloaded = 0;

    assert(c->n_blocks >= 2);
    memset(out, 0, sizeof *out);
    if (c->mode == RUN_MEM)
        return;
    params = params_total(c);
    states = params * (uint64_t)(1 + optim_moments(c->optim)) * sizeof(float);
    out->bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE] = gradient_bytes(c);
    out->bytes[LINK_HOST][CLASS_WIRE][LINK_READ] = wire_read_bytes(c);
    if (c->error_feedback) {
        out->bytes[LINK_HOST][CLASS_RESIDUAL][LINK_WRITE] = params * sizeof(float);
        out->bytes[LINK_HOST][CLASS_RESIDUAL][LINK_READ] =
            c->residual_in_ram ? 0 : params * sizeof(float);
    }
    if (c->acts.n > c->acts.buffers)
        offloaded = (uint64_t)(c->acts.n - c->acts.buffers) * c->acts.bytes;
    out->bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE] = offloaded;
    out->bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ] = offloaded;
    out->bytes[update][CLASS_STATES][LINK_READ] = states;
    out->bytes[update][CLASS_STATES][LINK_WRITE] = states;
    out->bytes[update][CLASS_GRADIENT][LINK_READ] = gradient_bytes(c);
    out->bytes[update][CLASS_WIRE][LINK_WRITE] = params * dtype_bytes(c->wire_dt);
}
