/* passes.h: what a model says to its stream: in which order its passes use their blocks (step.c,
 * decode.c), and which of them share frames (offload/order.h). */
#pragma once

#include "model/arch.h"
#include "offload/order.h"

/* Of a model with a language model's tied head: block 0 the embeddings, 1..n_layer the layers,
 * n_layer + 1 the final norm. A classifier has the same, though its head needs no embeddings: they
 * are in their frame still. */
struct order passes_order(size_t n_layer);
/* The same of any model: an encoder reads its embeddings once more when it goes back through
 * them, from the frame in which they still stand. Where embeddings are in pieces, a language
 * model's head reads them on the way down, and again with their gradients on the way up. */
struct order passes_of(const struct model_config *g);
