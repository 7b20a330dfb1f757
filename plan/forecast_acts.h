/* forecast_acts.h: which activations a run will keep, recompute and offload, and what that
 * costs. The memory plan says which, or, if they are chosen during training (--activations auto,
 * ssdtrain), the arithmetic of that choice (model/acts_choice.h) on predicted figures. */
#pragma once

#include "plan/machine_time.h"
#include "plan/training_plan.h"

/* What is known of the step already: its work without any recomputation, the machine, its links
 * (t NULL: no link is modelled) and its rates. */
struct forecast_step_so_far {
    const struct machine_file *m;
    const struct machine_work *of;
    const struct step_work    *w;
    const struct topology     *t;
    const struct step_rates   *rates;
    int    first; // forecast the placement that training begins with, before it chooses
};

struct forecast_acts {
    struct placement placement;
    int              whole; // offloaded MLPs are written whole (struct model_options)
    double           again; // seconds of a step that backward spends on recomputation
    double           last;  // the part of them before the last layer's gradient
};

/* s: a session whose memory plan is made. Sets the activations' chunks in s->run, so that their
 * traffic is known. */
int forecast_acts(struct forecast_acts *out, struct session *s, const struct budget *plan,
                  const struct forecast_step_so_far *so_far, struct err *err);
