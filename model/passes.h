/* passes.h: what a model says to its stream: in which order its passes use their blocks (step.c,
 * decode.c), and which of them share frames (offload/layout/route.h). */
#pragma once

#include "model/arch.h"
#include "offload/layout/route.h"

/* The embeddings, the layers, the final norm; then a language model's head, which is the embeddings
 * once more or blocks of its own, and all of them back. What is whole stands in its frame still
 * when it comes again: an encoder reads its embeddings so when it goes back through them. A head
 * in pieces reads them twice, the second time with their gradients: a tied one down, and up with
 * the gradients of the embeddings; one of its own up, and down before the layers.
 *
 * A block of which nothing is trained (arch_frozen) is only read, and backward does not go below
 * the lowest block that is trained. Streams that hold states of every block do not follow such an
 * order yet: route_fault names it. */
struct route passes_of(const struct model_config *g);
