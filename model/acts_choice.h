/* acts_choice.h: finds which activations to keep, recompute and offload, so that a step is as short
 * as possible within the given memory. It is pure arithmetic, and exact for the given numbers.
 *
 * The objective is the time of a step. offload/estimate/step_time.h has the whole formula; these
 * are the terms that depend on activations. Sums go over layers and parts, by the policy of each:
 *
 *     max(before + F + push, T(forward + writing))
 *   + max(B + again + fetch, T(backward + reading))
 *
 *     T(move) = max(drive, up, down, host): concurrent moves take as long as the busiest resource
 *     writing, reading: the offloaded bytes, without the bytes that never leave memory
 *     again: time to recompute;  push, fetch: the processor's time for offloaded activations
 *
 *     subject to: the kept bytes fit into the pool; if nothing is offloaded, the pool also has the
 *     memory of the offload buffers
 *
 * All layers are alike, so only the number of layers per part and policy matters. The search tries
 * all numbers of kept attentions and MLPs, each with as many kept inputs as fit, because keeping
 * costs only memory. It tries all numbers of offloaded attentions. In the number of offloaded
 * MLPs the objective is convex (a sum of maxima of straight lines). Among choices that take
 * equally long, the search takes the one that writes least, because drives wear. */
#pragma once

#include "model/arch/placement.h"
#include "offload/estimate/step_time.h"

#include <stdint.h>

struct choice_part {
    double kept, moved; // bytes of a layer, all micro-batches: in RAM; over the link, each way
    double again;       // seconds to recompute it (unused for inputs)
    double push, fetch; // the processor's seconds to offload it, in forward; to fetch it, in
                        // backward
};

struct choice_problem {
    size_t             n_layer;
    struct choice_part part[ACTS_PARTS];
    double             pool, spare;       // bytes; spare: additional bytes if nothing is offloaded
    double             stays;             // offloaded bytes that never leave memory
    int                may_offload;       // 0: there is no device to offload to
    double             F, B;              // seconds computing forward; backward and head, without
                                          // recomputation
    double             before;            // seconds until forward may begin: the first update
    struct step_move   forward, backward; // other moves, without activations
    struct step_move   write, read;       // per offloaded byte
};

/* Sums over all layers and parts. kept: bytes in RAM. moved: offloaded bytes, each way. push,
 * back: the processor's seconds added to forward and to backward. */
struct choice_sums { double kept, moved, push, back; };
struct choice_sums choice_sums(const struct choice_problem *p, const struct placement *w);
double choice_seconds(const struct choice_problem *p, const struct placement *w);

/* The placement with the shortest step. Returns 0 if any placement fits. If nothing can be
 * offloaded, all inputs must be kept. */
int choice_best(struct placement *out, const struct choice_problem *p);

/* The rule of SSDTrain (DAC 2025, section 3.3), which only keeps or offloads. In forward order,
 * it offloads layers as long as
 *
 *     (bytes of earlier layers + 2 x the layer's) / (3 F - 2 x earlier layers' forward)
 *
 * is at most the write bandwidth. Then all of them are written before the backward of the last
 * offloaded layer begins. The other layers are kept. If the pool is too small for them, more
 * layers are offloaded. */
struct placement choice_ssdtrain(const struct choice_problem *p);
