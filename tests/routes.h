/* routes.h: routes for tests of what streams make of them: a GPT-2's, and two that none has. */
#pragma once

#include "model/pass_order.h"

static inline struct route route_gpt2(size_t layers)
{
    return pass_order_of(&(struct model_config){ .arch = &gpt2_arch, .n_layer = layers });
}

/* Embeddings in pieces through two frames, layers, a final norm; the head is tied to the
 * embeddings, or has `head` pieces of its own. The head reads its pieces once where nothing is
 * trained. A tied piece's gradient is made when backward is through, all of it; those of a head of
 * its own on the way back through it, and those of the embeddings without their parameters. */
struct route route_pieces(size_t pieces, size_t layers, size_t head);

/* Frozen embeddings, layers and final norm, and a trained adapter for each layer, used with it. */
struct route route_adapters(size_t layers);
