/* passes.c: the order of a GPT-2's blocks. */
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

struct order passes_of(const struct model_config *g)
{
    struct order      out = passes_order(g->n_layer);
    struct order_run *r = out.runs[STREAM_TRAIN];

    while (r[1].uses)
        r++;
    if (g->arch->encoder)
        r->uses |= ORDER_READ;
    return out;
}
