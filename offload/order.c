/* order.c: the order of a pass. */
#include "offload/order.h"

size_t order_uses(struct order_use *uses, enum stream_pass pass, size_t n_layer, size_t frames)
{
    size_t n = 0;

    for (size_t b = 0; b <= n_layer + 1; b++) // embeddings, layers, final norm
        uses[n++] = (struct order_use){ b, order_frame(b, n_layer, frames) };
    uses[n++] = (struct order_use){ 0, frames }; // the tied head
    for (size_t b = n_layer; pass == STREAM_TRAIN && b >= 1; b--)
        uses[n++] = (struct order_use){ b, order_frame(b, n_layer, frames) };
    return n;
}
