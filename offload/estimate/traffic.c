/* traffic.c: computes the bytes that one step without a crash moves: the table of docs/design.md
 * (run.db) as arithmetic, payload alone. Measured bytes are compared with these and must be equal,
 * so nothing here may be an estimate. */
#include "offload/estimate/traffic.h"

#include "data/base/round.h"
#include "kernels/update/topk.h"

/* The most pairs that groups together can have of n parameters of a block. */
static uint64_t pairs_most(const struct run_config *c, size_t block, size_t groups, size_t n)
{
    uint64_t most = (uint64_t)groups * topk_count(run_whole(c, block), c->compress);

    return sizeof(struct topk_pair) * (most < n ? most : n);
}

/* Bytes that rank `to` gets of the gradients of rank `from`. */
static uint64_t exchanged(const struct run_config *c, size_t from, size_t to)
{
    const struct run_ranks *r = &c->ranks;
    struct sum_node         nodes[SUM_NODES_MOST];
    size_t                  n_nodes = ranks_nodes(r, from, nodes);
    uint64_t                all = 0;

    for (size_t b = 0; b < run_blocks(c); b++)
        for (size_t k = 0; k < n_nodes && run_trains(c, b); k++) {
            size_t whole = run_whole(c, b), groups = sum_end(nodes[k], r->groups) -
                                                     sum_first(nodes[k]);
            size_t n = ranks_first(whole, to + 1, r->size) - ranks_first(whole, to, r->size);

            all += run_pair_sums(c) ? sizeof(uint64_t) + pairs_most(c, b, groups, n)
                                    : sizeof(float) * n;
        }
    return all;
}

/* Bytes between ranks. Parameters are gathered from the ranks that hold them: each rank sends what
 * it reads to every other one. Of gradients each node of the sum is sent and received in the same
 * way. */
static void ranks_computed(struct link_meter *out, const struct run_config *c)
{
    const struct run_ranks *r = &c->ranks;

    if (r->size < 2)
        return;
    uint64_t reads = route_reads(&c->route, STREAM_TRAIN, c->frames, c->block_params, 0).params,
             all = route_reads(&c->route, STREAM_TRAIN, c->frames, r->whole_params, 0).params;
    uint64_t(*net)[LINK_DIRS] = out->bytes[LINK_NETWORK];
    net[CLASS_WIRE][LINK_READ] = (all - reads) * dtype_bytes(c->wire_dt);
    net[CLASS_WIRE][LINK_WRITE] = reads * dtype_bytes(c->wire_dt) * (r->size - 1);
    for (size_t p = 0; p < r->size; p++) {
        net[CLASS_GRADIENT][LINK_READ] += p == r->rank ? 0 : exchanged(c, p, r->rank);
        net[CLASS_GRADIENT][LINK_WRITE] += p == r->rank ? 0 : exchanged(c, r->rank, p);
    }
}

void traffic_computed(struct link_meter *out, const struct run_config *c)
{
    enum link_kind update = run_modes[c->mode].update_link;
    uint64_t       params = 0, gradient = 0; // of what trains

    memset(out, 0, sizeof *out);
    if (c->mode == RUN_MEM)
        return;
    for (size_t b = 0; b < run_blocks(c); b++) {
        size_t n = run_trains(c, b) ? c->block_params[b] : 0; // of a frozen block only reads

        params += n;
        gradient += c->compress > 0.0 ? pairs_most(c, b, size_max(c->ranks.groups, 1), n)
                                      : sizeof(float) * n; // pairs or dense values, as sent
    }
    uint64_t states = params * (uint64_t)(1 + optim_moments(c->optim)) * sizeof(float);
    out->bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE] = gradient;
    out->bytes[LINK_HOST][CLASS_WIRE][LINK_READ] =
        dtype_bytes(c->wire_dt) *
        route_reads(&c->route, STREAM_TRAIN, c->frames, run_held(c), 0).params;
    if (c->base_end)
        out->bytes[LINK_FILES][CLASS_BASE][LINK_READ] =
            route_reads(&c->route, STREAM_TRAIN, c->frames, c->base_bytes, 0).params;
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
