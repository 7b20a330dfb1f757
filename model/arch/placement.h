/* placement.h: where a layer's activations are between its forward and its backward. A layer has
 * three parts (acts.h lists their arrays). The placement of activations gives each part of each
 * layer one of three policies:
 *
 *     kept        it stays in RAM
 *     recomputed  backward computes it again from the layer's input (Chen et al. 2016); the input
 *                 itself cannot be recomputed
 *     offloaded   it goes to the stream's stack of records, and comes back (SSDTrain, DAC 2025)
 *
 * All placements give the same bits. Backward first uses the activations that forward computed
 * last, so the kept layers are the last ones. The offloaded layers are spread evenly over the
 * others, which keeps the drives busy throughout.
 *
 * Who decides: choose_rest (offload/estimate/budget.c), for how many layers there is room;
 * memory_placement (plan/memory.c), the placement that a training begins with; with --activations
 * auto and ssdtrain also adapt.c, which tries other placements between steps (proposed by
 * acts_choice.c). */
#pragma once

#include <stddef.h>

enum acts_part { ACTS_INPUT, ACTS_ATTN, ACTS_MLP, ACTS_PARTS };
enum acts_policy { ACTS_KEPT, ACTS_RECOMPUTED, ACTS_OFFLOADED };

/* Numbers of layers by part and policy; the other layers are recomputed. For inputs, kept +
 * offloaded = n_layer. */
struct placement { struct { size_t kept, offloaded; } of[ACTS_PARTS]; };

/* The policy of a part of layer `layer`, 1..n_layer. */
static inline enum acts_policy placement_of(const struct placement *w, size_t n_layer, size_t layer,
                                            enum acts_part part)
{
    size_t others = n_layer - w->of[part].kept, n = w->of[part].offloaded;

    if (layer > others)
        return ACTS_KEPT;
    return layer * n / others != (layer - 1) * n / others ? ACTS_OFFLOADED : ACTS_RECOMPUTED;
}

/* The last `kept` layers keep all parts. Of the others, placement_recompute keeps the inputs and
 * recomputes the rest. placement_offload offloads all parts. */
static inline struct placement placement_recompute(size_t n_layer, size_t kept)
{
    return (struct placement){ { { n_layer, 0 }, { kept, 0 }, { kept, 0 } } };
}

static inline struct placement placement_offload(size_t n_layer, size_t kept)
{
    size_t others = n_layer - kept;

    return (struct placement){ { { kept, others }, { kept, others }, { kept, others } } };
}

static inline int placement_offloads(const struct placement *w)
{
    return w->of[ACTS_INPUT].offloaded || w->of[ACTS_ATTN].offloaded || w->of[ACTS_MLP].offloaded;
}
