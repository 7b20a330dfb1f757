/* pass_order.c: builds the order in which passes use a model's blocks. */
#include "model/pass_order.h"

enum { EMBEDDINGS, READ_LAYERS, LAYERS, ADAPTERS, FINAL, HEAD }; // lanes; READ_LAYERS: frozen ones

/* Appends a run to those of a pass. Layers with adapters are frozen, each with its adapter, which
 * alone is trained. */
static void run_add(struct route *o, enum stream_pass pass, size_t lane, enum route_way way,
                    unsigned uses)
{
    struct route_run *r = o->runs[pass];

    while (r->uses)
        r++;
    *r = (struct route_run){ .lane = lane, .way = way, .uses = uses };
    if (lane == LAYERS && o->lanes[ADAPTERS].n)
        *r = (struct route_run){ LAYERS, way, ROUTE_READ, ADAPTERS, uses };
}

/* Adds the runs that every pass reads. A tied head in pieces reads the embeddings downwards,
 * because the last pieces are still in their frames. The gradient of a whole head is added to at
 * once. */
static void forward_add(struct route *o, enum stream_pass pass, const struct model_config *g)
{
    int      head = !arch_classifies(g);
    unsigned added = pass == STREAM_TRAIN && head && arch_pieces(g) == 1 &&
                     arch_trains(g, arch_head_block(g)) ? ROUTE_ADD : 0;

    run_add(o, pass, EMBEDDINGS, ROUTE_UP, ROUTE_READ);
    if (o->lanes[READ_LAYERS].n)
        run_add(o, pass, READ_LAYERS, ROUTE_UP, ROUTE_READ);
    run_add(o, pass, LAYERS, ROUTE_UP, ROUTE_READ);
    run_add(o, pass, FINAL, ROUTE_UP, ROUTE_READ);
    if (!head)
        return;
    if (arch_is_tied(g))
        run_add(o, pass, EMBEDDINGS, ROUTE_DOWN, ROUTE_READ | added);
    else
        run_add(o, pass, HEAD, ROUTE_UP, ROUTE_READ | added);
}

/* Adds the runs of backward. They end at the lowest block that trains, the embeddings at most. */
static void backward_add(struct route *o, const struct model_config *g)
{
    const unsigned send = ROUTE_ADD | ROUTE_SEND;
    int      head = !arch_classifies(g), tied = arch_is_tied(g),
             again = head && arch_pieces(g) > 1, // pieces are read again for their gradients
             embeds = arch_trains(g, 0);

    if (arch_trains(g, arch_final_block(g)))
        run_add(o, STREAM_TRAIN, FINAL, ROUTE_UP, send);
    if (head && !tied && arch_trains(g, arch_head_block(g)))
        run_add(o, STREAM_TRAIN, HEAD, ROUTE_DOWN, send | (again ? ROUTE_READ : 0));
    run_add(o, STREAM_TRAIN, LAYERS, ROUTE_DOWN, send | ROUTE_READ);
    if (o->lanes[READ_LAYERS].n && embeds)
        run_add(o, STREAM_TRAIN, READ_LAYERS, ROUTE_DOWN, ROUTE_READ);
    if (embeds)
        run_add(o, STREAM_TRAIN, EMBEDDINGS, ROUTE_UP,
                send | (g->arch->embeds_normed || (again && tied) ? ROUTE_READ : 0));
}

static void lane_drop(struct route *o, size_t lane)
{
    for (size_t i = lane; i < ROUTE_LANES; i++)
        o->lanes[i] = i + 1 < ROUTE_LANES ? o->lanes[i + 1] : (struct route_lane){ 0 };
    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        for (struct route_run *r = o->runs[p]; r < o->runs[p] + ROUTE_RUNS; r++) {
            r->lane -= r->lane > lane;
            r->with -= r->with > lane;
        }
}

struct route pass_order_of(const struct model_config *g)
{
    size_t adapters = g->lora.rank ? g->n_layer : 0, // then all layers are frozen, and backward
           frozen = adapters ? 0                     // passes all
                    : arch_trains(g, arch_layer_block(g, g->n_layer)) ? g->frozen.layers
                                                                      : g->n_layer;
    struct route o = { .lanes = { [EMBEDDINGS] = { arch_pieces(g), { 2, 2 } },
                                  [READ_LAYERS] = { frozen, { 2, 1 } },
                                  [LAYERS] = { g->n_layer - frozen, { 0, 0 } },
                                  [ADAPTERS] = { adapters, { 2, 2 } },
                                  [FINAL] = { 1, { 1, 1 } },
                                  [HEAD] = { arch_head_blocks(g), { 2, 2 } } } };

    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        forward_add(&o, p, g);
    backward_add(&o, g);
    if (!adapters)
        lane_drop(&o, ADAPTERS);
    if (!frozen)
        lane_drop(&o, READ_LAYERS);
    return o;
}
