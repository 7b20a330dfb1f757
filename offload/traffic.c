/* traffic.c: the table of docs/design.md (run.db) as arithmetic: payload alone, in one step
 * without a crash. What is measured is compared with this, byte for byte, so nothing here may be
 * an estimate. */
#include "offload/traffic.h"

#include "kernels/topk.h"

void traffic_computed(struct link_meter *out, const struct run_config *c)
{
    enum link_kind update = c->mode == RUN_BASE ? LINK_HOST : LINK_INTERNAL; // its data cross this
    uint64_t       params = 0, gradient = 0;

    memset(out, 0, sizeof *out);
    if (c->mode == RUN_MEM)
        return;
    for (size_t b = 0; b < run_blocks(c); b++) {
        size_t n = c->block_params[b];

        params += n;
        gradient += c->compress > 0.0 ? sizeof(struct topk_pair) * topk_count(n, c->compress)
                                      : sizeof(float) * n; // as sent: pairs, or dense
    }
    uint64_t states = params * (uint64_t)(1 + optim_moments(c->optim)) * sizeof(float);
    out->bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE] = gradient;
    out->bytes[LINK_HOST][CLASS_WIRE][LINK_READ] =
        dtype_bytes(c->wire_dt) *
        order_reads(&c->order, STREAM_TRAIN, c->frames, c->block_params, 0).params;
    if (c->error_feedback)
        out->bytes[LINK_HOST][CLASS_RESIDUAL][LINK_WRITE] = params * sizeof(float);
    if (c->error_feedback && !c->residual_in_ram)
        out->bytes[LINK_HOST][CLASS_RESIDUAL][LINK_READ] = params * sizeof(float);
    out->bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE] = c->acts.written;
    out->bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ] = c->acts.read;
    out->bytes[update][CLASS_STATES][LINK_READ] = states;
    out->bytes[update][CLASS_STATES][LINK_WRITE] = states;
    out->bytes[update][CLASS_GRADIENT][LINK_READ] = gradient;
    out->bytes[update][CLASS_WIRE][LINK_WRITE] = params * dtype_bytes(c->wire_dt);
}
