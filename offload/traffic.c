/* traffic.c: the table of docs/design.md (run.db) as arithmetic: payload alone, in one step
 * without a crash. What is measured is compared with this, byte for byte, so nothing here may be
 * an estimate. */
#include "offload/traffic.h"

#include "kernels/topk.h"
#include "offload/exchange.h"

/* What of blocks is gathered comes from the ranks that have it, and what they read goes to each
 * other one; of gradients each node of the sum goes, and comes, in the same way. */
static void ranks_computed(struct link_meter *out, const struct run_config *c)
{
    const struct run_ranks *r = &c->ranks;
    struct sum_node         nodes[SUM_NODES_MOST];
    uint64_t own = 0, whole = 0, own_nodes = 0, nodes_all = 0;

    if (r->size < 2)
        return;
    for (size_t b = 0; b < run_blocks(c); b++) {
        own += c->block_params[b] * sizeof(float);
        whole += run_whole(c, b) * sizeof(float);
    }
    for (size_t p = 0; p < r->size; p++) {
        size_t n = exchange_nodes(r, p, nodes);

        own_nodes = p == r->rank ? n : own_nodes;
        nodes_all += n;
    }
    uint64_t reads = order_reads(&c->order, STREAM_TRAIN, c->frames, c->block_params, 0).params,
             all = order_reads(&c->order, STREAM_TRAIN, c->frames, r->whole_params, 0).params;
    uint64_t(*net)[LINK_DIRS] = out->bytes[LINK_NETWORK];
    net[CLASS_WIRE][LINK_READ] = (all - reads) * dtype_bytes(c->wire_dt);
    net[CLASS_WIRE][LINK_WRITE] = reads * dtype_bytes(c->wire_dt) * (r->size - 1);
    net[CLASS_GRADIENT][LINK_READ] = (nodes_all - own_nodes) * own;
    net[CLASS_GRADIENT][LINK_WRITE] = own_nodes * (whole - own);
}

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
    ranks_computed(out, c);
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
