/* forecast_acts.h: which activations a run will keep, recompute and offload, and what that takes:
 * the plan's, or where they are chosen while it trains (--activations auto, ssdtrain) what the same
 * arithmetic (model/choice.h) chooses from predicted figures. */
#pragma once

#include "plan/machine_time.h"
#include "plan/training_plan.h"

/* What is known of a step before: its computing with nothing computed again (F, B, h), the machine,
 * its links and rates (t: NULL: none are modelled). */
struct forecast_step_so_far {
    const struct machine_file *m;
    const struct machine_work *of;
    const struct step_work    *w;
    const struct topology     *t;
    const struct step_rates   *rates;
    int    first; // where ways are chosen while it trains: those that it begins with
};

struct forecast_acts {
    struct acts_ways ways;
    int              whole; // offloaded MLPs leave whole (struct model_options)
    double           again; // seconds of a step in which backward computes what forward did
    double           last;  // of them before the last layer's gradient
};

/* s: with the plan made. Of its run the pieces are set: what of them crosses links. */
int forecast_acts(struct forecast_acts *out, struct session *s, const struct budget *plan,
                  const struct forecast_step_so_far *so_far, struct err *err);
