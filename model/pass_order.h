/* pass_order.h: the order in which a model's passes use its blocks (step.c, decode.c), and the
 * blocks that share frames (offload/layout/route.h). The stream reads ahead along this order. */
#pragma once

#include "model/arch/arch.h"
#include "offload/layout/route.h"

/* The order of forward is embeddings, layers, final norm, and a language model's head. A tied
 * head uses the embeddings' blocks again. An untied head has its own blocks. Backward uses the
 * blocks in reverse. A block that is not in pieces is still in its frame when it is used again.
 * An encoder's backward uses its embeddings' parameters in this way.
 *
 * A head in pieces is read twice, the second time with its gradients. A tied head is read from
 * its last piece to its first. Then it is read from first to last, with the embeddings'
 * gradients. An untied head is read from first to last, and from last to first before backward
 * of the layers.
 *
 * A block without trained parameters (arch_frozen) is only read. Backward stops at the lowest
 * trained block. Streams that hold states of every block do not support such an order yet;
 * route_fault names it. */
struct route pass_order_of(const struct model_config *g);
