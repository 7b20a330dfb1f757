/* schedule.h: the learning rate of a step and the clip factor, in double. docs/design.md has the
 * formulas (Exact meanings). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT, SCHEDULE_WSD };

struct schedule {
    enum schedule_kind kind;
    double   lr, min_lr;
    uint64_t warmup, horizon; // steps
    uint64_t decay;           // of wsd: its last steps, which end at the horizon
};

/* The learning rate of step `step`, counted from 0. */
double schedule_lr(const struct schedule *s, uint64_t step);

/* The clip factor: min(1, clip / (norm + 1e-6)). If clip <= 0, there is no clipping and the
 * factor is 1. */
double schedule_clip(double clip, double norm);

const char *schedule_name(size_t kind); // NULL past the last
