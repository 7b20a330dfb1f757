/* passes.c: the order of blocks of any model. */
#include "model/passes.h"

enum { EMBEDDINGS, READ_LAYERS, LAYERS, FINAL, HEAD }; // lanes; READ_LAYERS: frozen ones

/* One run more, behind those that a pass has. */
static void run_add(struct order *o, enum stream_pass pass, size_t lane, enum order_way way,
                    unsigned uses)
{
    struct order_run *r = o->runs[pass];

    while (r->uses)
        r++;
    *r = (struct order_run){ lane, way, uses };
}

/* What all passes read. A tied head in pieces reads them on the way down, so that the last of
 * forward are there still. One that is whole has its gradient added to at once. */
static void forward_add(struct order *o, enum stream_pass pass, const struct model_config *g)
{
    int      head = !arch_classifies(g);
    unsigned added = pass == STREAM_TRAIN && head && arch_pieces(g) == 1 &&
                     arch_trains(g, arch_head_block(g)) ? ORDER_ADD : 0;

    run_add(o, pass, EMBEDDINGS, ORDER_UP, ORDER_READ);
    if (o->lanes[READ_LAYERS].n)
        run_add(o, pass, READ_LAYERS, ORDER_UP, ORDER_READ);
    run_add(o, pass, LAYERS, ORDER_UP, ORDER_READ);
    run_add(o, pass, FINAL, ORDER_UP, ORDER_READ);
    if (!head)
        return;
    if (arch_is_tied(g))
        run_add(o, pass, EMBEDDINGS, ORDER_DOWN, ORDER_READ | added);
    else
        run_add(o, pass, HEAD, ORDER_UP, ORDER_READ | added);
}

/* What trains, and so what backward passes: down to the embeddings, if they do. */
static void backward_add(struct order *o, const struct model_config *g)
{
    const unsigned send = ORDER_ADD | ORDER_SEND;
    int      head = !arch_classifies(g), tied = arch_is_tied(g),
             again = head && arch_pieces(g) > 1, // its pieces are read for their gradients
             embeds = arch_trains(g, 0);

    if (arch_trains(g, arch_final_block(g)))
        run_add(o, STREAM_TRAIN, FINAL, ORDER_UP, send);
    if (head && !tied && arch_trains(g, arch_head_block(g)))
        run_add(o, STREAM_TRAIN, HEAD, ORDER_DOWN, send | (again ? ORDER_READ : 0));
    run_add(o, STREAM_TRAIN, LAYERS, ORDER_DOWN, send | ORDER_READ);
    if (o->lanes[READ_LAYERS].n && embeds)
        run_add(o, STREAM_TRAIN, READ_LAYERS, ORDER_DOWN, ORDER_READ);
    if (embeds)
        run_add(o, STREAM_TRAIN, EMBEDDINGS, ORDER_UP,
                send | (g->arch->encoder || (again && tied) ? ORDER_READ : 0));
}

/* A lane without blocks is taken out. */
static void lane_drop(struct order *o, size_t lane)
{
    for (size_t i = lane; i < ORDER_LANES; i++)
        o->lanes[i] = i + 1 < ORDER_LANES ? o->lanes[i + 1] : (struct order_lane){ 0 };
    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        for (struct order_run *r = o->runs[p]; r < o->runs[p] + ORDER_RUNS; r++)
            r->lane -= r->lane > lane;
}

struct order passes_of(const struct model_config *g)
{
    size_t frozen = arch_trains(g, arch_layer_block(g, g->n_layer)) ? g->frozen.layers : g->n_layer;
    struct order o = { .lanes = { [EMBEDDINGS] = { arch_pieces(g), { 2, 2 } },
                                  [READ_LAYERS] = { frozen, { 2, 1 } },
                                  [LAYERS] = { g->n_layer - frozen, { 0, 0 } },
                                  [FINAL] = { 1, { 1, 1 } },
                                  [HEAD] = { arch_head_blocks(g), { 2, 2 } } } };

    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        forward_add(&o, p, g);
    backward_add(&o, g);
    if (!frozen)
        lane_drop(&o, READ_LAYERS);
    return o;
}
