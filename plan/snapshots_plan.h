/* snapshots_plan.h: what the snapshots of a planned run cost: space, bytes, wear, and time. */
#pragma once

#include "offload/estimate/step_work.h"
#include "plan/wear.h"
#include "run/folder/session.h"

struct snapshots_plan {
    uint64_t          every;         // steps between two; 0: there are none, and the rest is zero
    double            each, parity;  // bytes of one, its parity and best model included; of parity
    double            sent;          // read at full speed, of copies that ranks send each other
    struct link_meter moved;         // by one
};

int snapshots_plan(struct snapshots_plan *out, const struct session *s, struct err *err);

/* wear_computed, with a step's part of the bytes that snapshots write to devices. */
int snapshots_plan_wear(struct wear *w, const struct session *s, struct err *err);

/* The bytes that a snapshot moves from and to the drives of the devices. */
struct step_bytes snapshots_plan_bytes(const struct snapshots_plan *p, const struct session *s);

/* Seconds that one takes at --snapshot-bw; 0: it has no rate. */
double snapshots_plan_seconds(const struct snapshots_plan *p, const struct session *s);
