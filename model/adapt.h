/* adapt.h: which activations a training keeps, recomputes and offloads while it goes on
 * (--activations auto, ssdtrain). It measures steps, has choice.h find the best ways, tries them,
 * and takes them back where steps did not become shorter: what is measured decides, the arithmetic
 * only proposes.
 *
 *     a training is   until
 *     searching       the ways that are proposed promise too little, or were tried before: then it
 *                     has settled on the best one
 *     confirming      ways that were shorter were compared with the best measured once more, since
 *                     the machine may have become faster meanwhile: then it searches on
 *     settled         steps take a fifth more or less than they did, three windows in a row, or it
 *                     is time to look again (after 64 steps, 128, ... at most 1,024)
 *
 * A window is three steps, after one that is not counted, and the shortest of them stands for it:
 * other work on a machine only makes steps longer. Where lengths vary it is nine, and their
 * median. */
#pragma once

#include "model/choice.h"
#include "model/model.h"

enum adapt_policy { ADAPT_NOT, ADAPT_BEST, ADAPT_SSDTRAIN };

enum { ADAPT_WINDOW = 9, ADAPT_TRIES = 6 };

/* Sums over steps: seconds computing forward, computing backward (with the head and what was
 * computed again), until forward began; the devices busy before the head and after it, and what
 * crossed links. */
struct adapt_sum { double F, B, before, forward, backward, bytes; };

struct adapt {
    enum adapt_policy policy;
    struct model     *model;
    struct stream    *stream;
    struct meter_io   begin, head; // of the step under way
    uint64_t          again_ns[ACTS_PARTS], again_tokens[ACTS_PARTS]; // when the window began
    double            again[ACTS_PARTS]; // seconds of a token, as last measured; 0: never was
    int               skip;   // steps to come that do not count
    size_t            n;      // of the window
    size_t            buffers; // that pieces pass through
    double            each[ADAPT_WINDOW]; // seconds
    struct adapt_sum  sum;
    enum { ADAPT_SEARCHING, ADAPT_CONFIRMING, ADAPT_SETTLED } state;
    int               odd;            // settled: windows in a row that were longer or shorter
    uint64_t          look, interval; // settled: step to look again at
    double            scale;          // of what offloading costs: as measured, over as expected
    struct acts_ways  tried[ADAPT_TRIES];
    size_t            n_tried;
    struct adapt_ways { struct acts_ways ways; double seconds; struct choice_problem problem; }
        best, other; // other: that is to be confirmed
};

void adapt_open(struct adapt *a, enum adapt_policy policy, struct model *m, struct stream *s);
/* Before a step: what is chosen for it, and why (out->layers 0: all stays as it is). */
int  adapt_begin(struct adapt *a, uint64_t step, struct runlog_choice *out, struct err *err);
void adapt_head(struct adapt *a); // forward is over
/* All but the update is over. F, B, before as in adapt_sum. */
void adapt_end(struct adapt *a, double seconds, double F, double B, double before);
/* The next step does not count: the one before it was skipped, or an evaluation came between. */
void adapt_disturb(struct adapt *a);
