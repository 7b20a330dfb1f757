/* variant.h: the toy's run in one variant of mode, devices, memory and interruptions, from its
 * creation to its last step; and whether two variants end with the same bits. */
#pragma once

#include "tests/toy_run.h"

enum { LAYERS = 4, BLOCKS = LAYERS + 2, STEPS = 6 };

/* Whether updates wait for the norm; if not, on devices that were made with slots for it, or have
 * to do with the few there are. */
enum speculation { WAIT, SPECULATE, SPECULATE_FEW, SPECULATIONS };

/* What is left out is the simplest: bf16, AdamW, dense, from its first step to its last. */
struct variant {
    enum run_mode   mode;
    size_t          devices, csd_mem, frames, grad_buffers;
    const char     *disk;
    int             fp32;
    enum optim_kind optim;
    double          compress;
    int             stop_every;  // close without drain after so many steps, and reopen
    int             poison_step; // 0: none
    enum { SENT_IS_ALL, STREAMED, IN_RAM } feedback; // what is not sent: forgotten, or kept where
    int             cards;      // on cards of the software SmartSSD; without one: skipped
    size_t          quit_block; // before each of these stops half a step is made, to the gradient
                                // of this block; 0: no
};

/* In memory, to which the others are compared. */
extern const struct variant variant_mem;

/* What a run ends with. */
struct trained { double loss[STEPS]; uint32_t params; };

/* A run of v, just made. */
void variant_make(struct toy *t, const struct variant *v, enum speculation speculation);

/* All its steps. Where no step was interrupted, each has moved what was computed, to the byte. */
struct trained variant_run(const struct variant *v);

/* Every way to speculate ends as `want` does; evals: with passes that only read after each step. */
void variant_same(const struct variant *v, const struct trained *want);
void variant_same_evals(const struct variant *v, const struct trained *want, int evals);

/* What a step moved is what was computed, to the byte: it. */
struct link_meter variant_traffic(struct toy *t, uint64_t step);
