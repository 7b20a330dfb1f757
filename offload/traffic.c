/* traffic.c: the table of docs/design.md (run.db) as arithmetic: payload alone, in one step
 * without a crash. What is measured is compared with this, byte for byte, so nothing here may be
 * an estimate. */
#include "offload/traffic.h"

#include "kernels/topk.h"

#include <assert.h>

void traffic_computed(struct link_meter *out, const struct run_config *c)
{
    enum link_kind update = c->mode == RUN_BASE ? LINK_HOST : LINK_INTERNAL; // its data cross this
    size_t         layers = c->n_blocks - 2;
    uint64_t       params = 0, gradient = 0, wire = 0;

    assert(c->n_blocks >= 2);
    memset(out, 0, sizeof *out);
    if (c->mode == RUN_MEM)
        return;
    for (size_t b = 0; b < c->n_blocks; b++) {
        size_t n = c->block_params[b];
        // embeddings and final norm have frames of their own and are read once; a layer is read in
        // forward and in backward, but the last ones of forward are still there then
        uint64_t reads = b >= 1 && b + c->frames <= layers ? 2 : 1;

        params += n;
        wire += reads * n * dtype_bytes(c->wire_dt);
        gradient += c->compress > 0.0 ? sizeof(struct topk_pair) * topk_count(n, c->compress)
                                      : sizeof(float) * n; // as sent: pairs, or dense
    }
    uint64_t states = params * (uint64_t)(1 + optim_moments(c->optim)) * sizeof(float);
    out->bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE] = gradient;
    out->bytes[LINK_HOST][CLASS_WIRE][LINK_READ] = wire;
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
