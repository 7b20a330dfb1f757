/* passes.c: the order of blocks, with the embeddings whole and in pieces. */
#include "model/passes.h"

enum { EMBEDDINGS, LAYERS, FINAL }; // lanes

struct order passes_order(size_t n_layer)
{
    const struct order_run embed = { EMBEDDINGS, ORDER_UP, ORDER_READ };
    const struct order_run layers = { LAYERS, ORDER_UP, ORDER_READ };
    const struct order_run final = { FINAL, ORDER_UP, ORDER_READ };

    return (struct order){
        .lanes = { [EMBEDDINGS] = { 1, { 1, 1 } }, [LAYERS] = { n_layer, { 0, 0 } },
                   [FINAL] = { 1, { 1, 1 } } },
        .runs = {
            [STREAM_TRAIN] = {
                embed, layers, final,
                { EMBEDDINGS, ORDER_UP, ORDER_READ | ORDER_ADD }, // the head
                { FINAL, ORDER_UP, ORDER_ADD | ORDER_SEND },
                { LAYERS, ORDER_DOWN, ORDER_READ | ORDER_ADD | ORDER_SEND },
                { EMBEDDINGS, ORDER_UP, ORDER_ADD | ORDER_SEND },
            },
            [STREAM_EVAL] = { embed, layers, final, embed },
            [STREAM_GENERATE] = { embed, layers, final, embed },
        },
    };
}

/* Embeddings in pieces. The head reads its pieces on the way down, so that the last of forward are
 * there still; their gradients are made on the way up, with those of the embeddings. */
static struct order pieces_order(size_t n_layer, size_t pieces, int classifies)
{
    const struct order_run head = { EMBEDDINGS, ORDER_DOWN, classifies ? 0 : ORDER_READ };
    const unsigned         both = ORDER_ADD | ORDER_SEND;
    struct order           o = passes_order(n_layer);

    o.lanes[EMBEDDINGS] = (struct order_lane){ pieces, { 2, 2 } };
    for (enum stream_pass p = 0; p < STREAM_PASSES; p++)
        o.runs[p][3] = head;
    size_t at = classifies ? 3 : 4;
    o.runs[STREAM_TRAIN][at] = (struct order_run){ FINAL, ORDER_UP, both };
    o.runs[STREAM_TRAIN][at + 1] = (struct order_run){ LAYERS, ORDER_DOWN, both | ORDER_READ };
    o.runs[STREAM_TRAIN][at + 2] = (struct order_run){ EMBEDDINGS, ORDER_UP,
                                                       classifies ? both : both | ORDER_READ };
    if (classifies)
        o.runs[STREAM_TRAIN][at + 3] = (struct order_run){ 0 };
    return o;
}

struct order passes_of(const struct model_config *g)
{
    struct order      out = passes_order(g->n_layer);
    struct order_run *r = out.runs[STREAM_TRAIN];

    if (arch_pieces(g) > 1)
        return pieces_order(g->n_layer, arch_pieces(g), arch_classifies(g));
    while (r[1].uses)
        r++;
    if (g->arch->encoder)
        r->uses |= ORDER_READ;
    return out;
}
