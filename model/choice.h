/* choice.h: which activations to keep, recompute and offload, so that a step is as short as it can
 * be within the memory there is. Pure arithmetic; exact, for what it is told.
 *
 * The objective is the time of a step (offload/estimate/step_time.h has the whole formula; here are
 * its terms in which activations stand), with sums over layers and parts of what goes each way:
 *
 *     max(before + F + push, T(forward + writing))
 *   + max(B + again + fetch, T(backward + reading))
 *
 *     T(move) = max(drive, up, down, host): of what is under way together, the busiest resource
 *     writing, reading: the bytes offloaded, but those that never leave memory
 *     again: what is recomputed;  push, fetch: the processor's part of what is offloaded
 *
 *     subject to: the bytes kept fit into the pool, to which the buffers of what is offloaded are
 *     added where nothing is
 *
 * Layers are alike, so only how many of each part go each way matters: the search goes through all
 * numbers of kept attentions and MLPs, with as many inputs beside them as fit (what is kept costs
 * nothing but memory), and all numbers of offloaded attentions; in the number of offloaded MLPs the
 * objective is convex (a sum of maxima of straight lines). Of choices that take equally long the
 * one that writes least is taken: drives wear. */
#pragma once

#include "model/ways.h"
#include "offload/estimate/step_time.h"

#include <stdint.h>

struct choice_part {
    double kept, moved; // bytes of a layer, all micro-batches: in RAM; over the link, each way
    double again;       // seconds to compute it once more (of inputs: not looked at)
    double push, fetch; // seconds of the processor where it is offloaded: in forward, in backward
};

struct choice_problem {
    size_t             n_layer;
    struct choice_part part[ACTS_PARTS];
    double             pool, spare;       // bytes; spare: more of them where nothing is offloaded
    double             stays;             // bytes that are offloaded but never leave memory
    int                may_offload;       // 0: there is nowhere to offload to
    double             F, B;              // computing forward; backward, the head, nothing again
    double             before;            // until forward may begin: the first update
    struct step_move   forward, backward; // what moves beside, without activations
    struct step_move   write, read;       // of a byte that is offloaded
};

/* Of all layers and parts: bytes kept in RAM, and moved each way; seconds of the processor that are
 * added to forward and to backward. */
struct choice_sums { double kept, moved, push, back; };
struct choice_sums choice_sums(const struct choice_problem *p, const struct acts_ways *w);
double choice_seconds(const struct choice_problem *p, const struct acts_ways *w);

/* The shortest; 0 if any fits: where nothing can be offloaded all inputs must be kept. */
int choice_best(struct acts_ways *out, const struct choice_problem *p);

/* The rule of SSDTrain (DAC 2025, section 3.3), which knows two ways: in forward order layers are
 * offloaded as long as
 *
 *     (bytes of earlier layers + 2 x the layer's) / (3 F - 2 x earlier layers' forward)
 *
 * is at most the bandwidth of writing: then all of them are written before the backward of the last
 * one offloaded. The others are kept; where the pool is too small for them, more are offloaded. */
struct acts_ways choice_ssdtrain(const struct choice_problem *p);
