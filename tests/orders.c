/* orders.c: see orders.h. */
#include "tests/orders.h"

enum { PIECES, LAYERS, FINAL, HEAD }; // lanes

struct order order_pieces(size_t pieces, size_t layers, size_t head)
{
    enum { WHOLE = ORDER_READ | ORDER_ADD | ORDER_SEND };
    const struct order_run embed = { PIECES, ORDER_UP, ORDER_READ },
                           forward = { LAYERS, ORDER_UP, ORDER_READ },
                           norm = { FINAL, ORDER_UP, ORDER_READ },
                           backward = { LAYERS, ORDER_DOWN, WHOLE },
                           norm_grad = { FINAL, ORDER_UP, ORDER_ADD | ORDER_SEND },
                           back = { PIECES, ORDER_DOWN, ORDER_READ },
                           logits = { HEAD, ORDER_UP, ORDER_READ };
    struct order o = {
        .lanes = { { pieces, { 2, 2 } }, { layers, { 0 } }, { 1, { 1, 1 } }, { head, { 2, 2 } } },
        .runs = { [STREAM_TRAIN] = { embed, forward, norm, back, norm_grad, backward,
                                     { PIECES, ORDER_UP, WHOLE } },
                  [STREAM_EVAL] = { embed, forward, norm, back },
                  [STREAM_GENERATE] = { embed, forward, norm, back } },
    };

    if (!head)
        return o;
    o.runs[STREAM_TRAIN][3] = logits;
    o.runs[STREAM_TRAIN][4] = (struct order_run){ HEAD, ORDER_DOWN, WHOLE };
    o.runs[STREAM_TRAIN][5] = norm_grad;
    o.runs[STREAM_TRAIN][6] = backward;
    o.runs[STREAM_TRAIN][7] = (struct order_run){ PIECES, ORDER_DOWN, ORDER_ADD | ORDER_SEND };
    o.runs[STREAM_EVAL][3] = o.runs[STREAM_GENERATE][3] = logits;
    return o;
}
