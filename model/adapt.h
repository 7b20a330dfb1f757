/* adapt.h: chooses during training which activations to keep, recompute and offload
 * (--activations auto, ssdtrain). It measures steps, computes the best placement with acts_choice.h
 * and tries it. If steps do not become shorter, it goes back to the best placement measured.
 * acts_choice.h only proposes; the measurement decides.
 *
 *     state       until
 *     searching   the proposed placement promises too little, or was tried before: then it uses the
 *                 best placement measured and is settled
 *     confirming  the new placement was shorter, and the old best one was measured once more, in
 *                 case the machine itself became faster: then it searches on
 *     settled     three windows in a row differ by a fifth, or it is time to look again (after 64
 *                 steps, 128, ... at most 1,024)
 *
 * A window is three steps, after one step that is not counted. Its shortest step is its result,
 * because other work on the machine can only make steps longer. If lengths vary, a window is
 * nine steps, and its result is their median. */
#pragma once

#include "model/acts_choice.h"
#include "model/layer/model.h"

enum adapt_policy { ADAPT_NOT, ADAPT_BEST, ADAPT_SSDTRAIN };

enum { ADAPT_WINDOW = 9, ADAPT_TRIES = 6 };

/* Sums over steps. F: seconds computing forward. B: seconds computing backward, including the
 * head and recomputation. before: seconds until forward began. forward, backward: seconds the
 * devices were busy before and after the head. bytes: bytes that crossed the links. */
struct adapt_sum { double F, B, before, forward, backward, bytes; };

struct adapt {
    enum adapt_policy policy;
    struct model     *model;
    struct stream    *stream;
    struct meter_io   begin, head; // of the current step
    uint64_t          again_ns[ACTS_PARTS], again_tokens[ACTS_PARTS]; // at the start of the window
    double            again[ACTS_PARTS]; // seconds to recompute one token, as last measured; 0:
                                         // never measured
    int               skip;   // number of coming steps that do not count
    size_t            n;      // steps in the window
    size_t            buffers; // buffers for items
    double            each[ADAPT_WINDOW]; // seconds
    struct adapt_sum  sum;
    enum { ADAPT_SEARCHING, ADAPT_CONFIRMING, ADAPT_SETTLED } state;
    int               odd;            // settled: successive windows that were longer or shorter
    uint64_t          look, interval; // settled: step to look again at
    double            scale;          // measured cost of offloading / expected cost
    struct placement  tried[ADAPT_TRIES];
    size_t            n_tried;
    struct adapt_measured {
        struct placement      placement;
        double                seconds;
        struct choice_problem problem;
    } best, other; // other: to be confirmed
};

void adapt_open(struct adapt *a, enum adapt_policy policy, struct model *m, struct stream *s);
/* Call before a step. Chooses the placement of this step; out has the choice and its reason.
 * out->layers 0: nothing changes. */
int  adapt_begin(struct adapt *a, uint64_t step, struct runlog_choice *out, struct err *err);
void adapt_head(struct adapt *a); // call when forward is done
/* Call when all of the step but the update is done. The step began at start_ns, and waited
 * before_ns for the first block. skipped: the step does not update anything. */
void adapt_end(struct adapt *a, uint64_t step, uint64_t start_ns, uint64_t before_ns, int skipped);
/* adapt_end with the step's times as they are given. F, B, before: as in adapt_sum. */
void adapt_count(struct adapt *a, double seconds, double F, double B, double before);
/* Excludes the next step from the measurement. Call if the previous step was skipped, or after
 * an evaluation. */
void adapt_disturb(struct adapt *a);
