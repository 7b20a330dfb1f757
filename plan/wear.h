/* wear.h: what training writes to its drives, and how long they last that. */
#pragma once

#include "csd/link.h"
#include "offload/run.h"
#include "run/folder/events.h"

/* Bytes that a step writes. */
struct wear {
    double device[LINK_CLASSES]; // to one device, the mean of all
    double total;                // of all classes
    double act_device;           // to one drive of those for activations alone
    double journal;              // to the drive that RUN is on: run.db, an estimate
};

/* From the run's layout, with its frames set; in mem a part of each image. */
int wear_computed(struct wear *w, const struct run_config *run, struct err *err);

/* Bytes a day; and years until a drive that may be written `endurance` is worn out. */
double wear_day(double step_bytes, double step_seconds);
double wear_years(double step_bytes, double step_seconds, double endurance);

/* Tells it if drives of this endurance (0: not known) last less than a year. */
void wear_warn(const struct wear *w, const struct events *events, double step_seconds,
               double endurance);
