/* ways.h: what becomes of a layer's activations between its forward and its backward. A layer has
 * three parts (acts.h says what is in them), and each goes one of three ways:
 *
 *     kept        it stays in RAM
 *     recomputed  backward computes it once more, from the layer's input (Chen et al. 2016); the
 *                 input itself cannot be
 *     offloaded   it goes to the stream's stack of records, and comes back (SSDTrain, DAC 2025)
 *
 * Every way gives the same bits. What is computed last is used first by backward, so the last
 * layers are the kept ones; of the others the offloaded ones are spread evenly, since drives then
 * have their work all along. */
#pragma once

#include <stddef.h>

enum acts_part { ACTS_INPUT, ACTS_ATTN, ACTS_MLP, ACTS_PARTS };
enum acts_way { ACTS_KEPT, ACTS_RECOMPUTED, ACTS_OFFLOADED };

/* How many layers' part goes which way; the rest is recomputed (of inputs: kept + offloaded =
 * n_layer). */
struct acts_ways { struct { size_t kept, offloaded; } of[ACTS_PARTS]; };

/* Of layer `layer`, 1..n_layer. */
static inline enum acts_way ways_of(const struct acts_ways *w, size_t n_layer, size_t layer,
                                    enum acts_part part)
{
    size_t others = n_layer - w->of[part].kept, n = w->of[part].offloaded;

    if (layer > others)
        return ACTS_KEPT;
    return layer * n / others != (layer - 1) * n / others ? ACTS_OFFLOADED : ACTS_RECOMPUTED;
}

/* All of the last `kept` layers stays in RAM; of the others the inputs do (recomputing), or
 * nothing (offloading). */
static inline struct acts_ways ways_recompute(size_t n_layer, size_t kept)
{
    return (struct acts_ways){ { { n_layer, 0 }, { kept, 0 }, { kept, 0 } } };
}

static inline struct acts_ways ways_offload(size_t n_layer, size_t kept)
{
    size_t others = n_layer - kept;

    return (struct acts_ways){ { { kept, others }, { kept, others }, { kept, others } } };
}

static inline int ways_offload_any(const struct acts_ways *w)
{
    return w->of[ACTS_INPUT].offloaded || w->of[ACTS_ATTN].offloaded || w->of[ACTS_MLP].offloaded;
}
