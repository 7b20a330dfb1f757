/* passes.c: the order of blocks of any model. */
#include "model/passes.h"

enum { EMBEDDINGS, LAYERS, FINAL, HEAD }; // lanes

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
    unsigned added = pass == STREAM_TRAIN && arch_pieces(g) == 1 ? ORDER_ADD : 0;

    run_add(o, pass, EMBEDDINGS, ORDER_UP, ORDER_READ);
    run_add(o, pass, LAYERS, ORDER_UP, ORDER_READ);
    run_add(o, pass, FINAL, ORDER_UP, ORDER_READ);
    if (arch_classifies(g))
        return;
    if (arch_is_tied(g))
        run_add(o, pass, EMBEDDINGS, ORDER_DOWN, ORDER_READ | added);
    else
        run_add(o, pass, HEAD, ORDER_UP, ORDER_READ | added);
}

struct order passes_of(const struct model_config *g)
{
    const unsigned send = ORDER_ADD | ORDER_SEND;
    int      head = !arch_classifies(g), tied = arch_is_tied(g),
             again = head && arch_pieces(g) > 1; // its pieces are read for their gradients
    struct order o = { .lanes = { [EMBEDDINGS] = { arch_pieces(g), { 2, 2 } },
                                  [LAYERS] = { g->n_layer, { 0, 0 } }, [FINAL] = { 1, { 1, 1 } },
                                  [HEAD] = { arch_head_blocks(g), { 2, 2 } } } };

    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        forward_add(&o, p, g);
    run_add(&o, STREAM_TRAIN, FINAL, ORDER_UP, send);
    if (head && !tied)
        run_add(&o, STREAM_TRAIN, HEAD, ORDER_DOWN, send | (again ? ORDER_READ : 0));
    run_add(&o, STREAM_TRAIN, LAYERS, ORDER_DOWN, send | ORDER_READ);
    run_add(&o, STREAM_TRAIN, EMBEDDINGS, ORDER_UP,
            send | (g->arch->encoder || (again && tied) ? ORDER_READ : 0));
    return o;
}
