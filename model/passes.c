/* passes.c: the order of blocks of any model. */
#include "model/passes.h"

enum { EMBEDDINGS, LAYERS, FINAL, HEAD }; // lanes

/* One run more, behind those that a pass has. */
static void run_add(struct route *o, enum stream_pass pass, size_t lane, enum route_way way,
                    unsigned uses)
{
    struct route_run *r = o->runs[pass];

    while (r->uses)
        r++;
    *r = (struct route_run){ lane, way, uses };
}

/* What all passes read. A tied head in pieces reads them on the way down, so that the last of
 * forward are there still. One that is whole has its gradient added to at once. */
static void forward_add(struct route *o, enum stream_pass pass, const struct model_config *g)
{
    unsigned added = pass == STREAM_TRAIN && arch_pieces(g) == 1 ? ROUTE_ADD : 0;

    run_add(o, pass, EMBEDDINGS, ROUTE_UP, ROUTE_READ);
    run_add(o, pass, LAYERS, ROUTE_UP, ROUTE_READ);
    run_add(o, pass, FINAL, ROUTE_UP, ROUTE_READ);
    if (arch_classifies(g))
        return;
    if (arch_is_tied(g))
        run_add(o, pass, EMBEDDINGS, ROUTE_DOWN, ROUTE_READ | added);
    else
        run_add(o, pass, HEAD, ROUTE_UP, ROUTE_READ | added);
}

struct route passes_of(const struct model_config *g)
{
    const unsigned send = ROUTE_ADD | ROUTE_SEND;
    int      head = !arch_classifies(g), tied = arch_is_tied(g),
             again = head && arch_pieces(g) > 1; // its pieces are read for their gradients
    struct route o = { .lanes = { [EMBEDDINGS] = { arch_pieces(g), { 2, 2 } },
                                  [LAYERS] = { g->n_layer, { 0, 0 } }, [FINAL] = { 1, { 1, 1 } },
                                  [HEAD] = { arch_head_blocks(g), { 2, 2 } } } };

    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        forward_add(&o, p, g);
    run_add(&o, STREAM_TRAIN, FINAL, ROUTE_UP, send);
    if (head && !tied)
        run_add(&o, STREAM_TRAIN, HEAD, ROUTE_DOWN, send | (again ? ROUTE_READ : 0));
    run_add(&o, STREAM_TRAIN, LAYERS, ROUTE_DOWN, send | ROUTE_READ);
    run_add(&o, STREAM_TRAIN, EMBEDDINGS, ROUTE_UP,
            send | (g->arch->encoder || (again && tied) ? ROUTE_READ : 0));
    return o;
}
