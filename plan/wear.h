/* wear.h: the bytes that training writes to its drives, and how long the drives last. */
#pragma once

#include "csd/link.h"
#include "offload/run.h"
#include "run/folder/events.h"

/* Bytes that a step writes. */
struct wear {
    double device[LINK_CLASSES]; // to one device (mean of all), by class
    double total;                // to one device, all classes
    double act_device;           // to one drive that holds activations alone (--act-device)
    double journal;              // to the drive of RUN, for run.db: an estimate
};

/* Computed from the run's layout; its frames must be set. Mode mem: a step's part of each image. */
int wear_computed(struct wear *w, const struct run_config *run, struct err *err);

/* Bytes a day, and years until a drive is worn out that may be written `endurance` bytes. */
double wear_day(double step_bytes, double step_seconds);
double wear_years(double step_bytes, double step_seconds, double endurance);

/* Tells a notice if drives of this endurance (0: not known) last less than a year. */
void wear_warn(const struct wear *w, const struct events *events, double step_seconds,
               double endurance);
