/* ways.h: where a layer's activations are between its forward and its backward. A layer has
 * three parts (acts.h lists their arrays). Each part goes one of three ways:
 *
 *     kept        it stays in RAM
 *     recomputed  backward computes it again from the layer's input (Chen et al. 2016); the input
 *                 itself cannot be recomputed
 *     offloaded   it goes to the stream's stack of records, and comes back (SSDTrain, DAC 2025)
 *
 * All ways give the same bits. Backward first uses the activations that forward computed last,
 * so the kept layers are the last ones. The offloaded layers are spread evenly over the others,
 * which keeps the drives busy throughout.
 *
 * Who decides: choose_rest (offload/estimate/budget.c), for how many layers there is room;
 * memory_ways (plan/memory.c), the ways that a training begins with; with --activations auto and
 * ssdtrain also adapt.c, which tries other ways between steps (proposed by acts_choice.c). */
#pragma once

#include <stddef.h>

enum acts_part { ACTS_INPUT, ACTS_ATTN, ACTS_MLP, ACTS_PARTS };
enum acts_way { ACTS_KEPT, ACTS_RECOMPUTED, ACTS_OFFLOADED };

/* Numbers of layers by part and way; the other layers are recomputed. For inputs, kept +
 * offloaded = n_layer. */
struct acts_ways { struct { size_t kept, offloaded; } of[ACTS_PARTS]; };

/* The way of a part of layer `layer`, 1..n_layer. */
static inline enum acts_way ways_of(const struct acts_ways *w, size_t n_layer, size_t layer,
                                    enum acts_part part)
{
    size_t others = n_layer - w->of[part].kept, n = w->of[part].offloaded;

    if (layer > others)
        return ACTS_KEPT;
    return layer * n / others != (layer - 1) * n / others ? ACTS_OFFLOADED : ACTS_RECOMPUTED;
}

/* The last `kept` layers keep all parts. Of the others, ways_recompute keeps the inputs and
 * recomputes the rest. ways_offload offloads all parts. */
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
