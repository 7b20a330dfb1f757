/* routes.c: see routes.h. */
#include "tests/routes.h"

enum { PIECES, LAYERS, FINAL, HEAD }; // lanes

struct route route_pieces(size_t pieces, size_t layers, size_t head)
{
    enum { WHOLE = ROUTE_READ | ROUTE_ADD | ROUTE_SEND };
    const struct route_run embed = { PIECES, ROUTE_UP, ROUTE_READ, 0, 0 },
                           forward = { LAYERS, ROUTE_UP, ROUTE_READ, 0, 0 },
                           norm = { FINAL, ROUTE_UP, ROUTE_READ, 0, 0 },
                           backward = { LAYERS, ROUTE_DOWN, WHOLE, 0, 0 },
                           norm_grad = { FINAL, ROUTE_UP, ROUTE_ADD | ROUTE_SEND, 0, 0 },
                           back = { PIECES, ROUTE_DOWN, ROUTE_READ, 0, 0 },
                           logits = { HEAD, ROUTE_UP, ROUTE_READ, 0, 0 };
    struct route o = {
        .lanes = { { pieces, { 2, 2 } }, { layers, { 0 } }, { 1, { 1, 1 } }, { head, { 2, 2 } } },
        .runs = { [STREAM_TRAIN] = { embed, forward, norm, back, norm_grad, backward,
                                     { PIECES, ROUTE_UP, WHOLE, 0, 0 } },
                  [STREAM_EVAL] = { embed, forward, norm, back },
                  [STREAM_GENERATE] = { embed, forward, norm, back } },
    };

    if (!head)
        return o;
    o.runs[STREAM_TRAIN][3] = logits;
    o.runs[STREAM_TRAIN][4] = (struct route_run){ HEAD, ROUTE_DOWN, WHOLE, 0, 0 };
    o.runs[STREAM_TRAIN][5] = norm_grad;
    o.runs[STREAM_TRAIN][6] = backward;
    o.runs[STREAM_TRAIN][7] =
        (struct route_run){ PIECES, ROUTE_DOWN, ROUTE_ADD | ROUTE_SEND, 0, 0 };
    o.runs[STREAM_EVAL][3] = o.runs[STREAM_GENERATE][3] = logits;
    return o;
}

struct route route_adapters(size_t layers)
{
    enum { EMBEDS, BASE, ADAPTERS, NORM, WHOLE = ROUTE_READ | ROUTE_ADD | ROUTE_SEND };
    const struct route_run embed = { EMBEDS, ROUTE_UP, ROUTE_READ, 0, 0 },
                           up = { BASE, ROUTE_UP, ROUTE_READ, ADAPTERS, ROUTE_READ },
                           down = { BASE, ROUTE_DOWN, ROUTE_READ, ADAPTERS, WHOLE },
                           norm = { NORM, ROUTE_UP, ROUTE_READ, 0, 0 };

    return (struct route){
        .lanes = { { 1, { 1, 1 } }, { layers, { 0 } }, { layers, { 2, 2 } }, { 1, { 1, 1 } } },
        .runs = { [STREAM_TRAIN] = { embed, up, norm, embed, down },
                  [STREAM_EVAL] = { embed, up, norm, embed },
                  [STREAM_GENERATE] = { embed, up, norm, embed } },
    };
}
