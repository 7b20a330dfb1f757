/* schedule.h: the learning rate of a step and the clip factor, exactly as docs/design.md's Exact
 * meanings have them, in double. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT };

struct schedule {
    enum schedule_kind kind;
    double   lr, min_lr;
    uint64_t warmup, horizon; // steps
};

/* The rate of step `step`, from 0. */
double schedule_lr(const struct schedule *s, uint64_t step);

/* min(1, clip / (norm + 1e-6)); clip <= 0: no clipping, 1. */
double schedule_clip(double clip, double norm);

const char *schedule_name(size_t kind); // NULL behind the last
