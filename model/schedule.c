/* schedule.c: computes the learning rate of a step from its number alone, and the clip factor from
 * the gradient's norm. Nothing is carried from step to step, so a resumed run needs only its step
 * number. */
#include "model/schedule.h"

#include "data/base/table.h"

#include <math.h>

double schedule_lr(const struct schedule *s, uint64_t step)
{
    if (step < s->warmup)
        return s->lr * (double)(step + 1) / (double)s->warmup;
    if (s->kind == SCHEDULE_CONSTANT)
        return s->lr;
    uint64_t first = s->warmup; // of the decay
    if (s->kind == SCHEDULE_WSD && s->horizon > s->decay + s->warmup)
        first = s->horizon - s->decay;
    if (step < first)
        return s->lr;
    double length = s->horizon > first ? (double)(s->horizon - first) : 1.0;
    double f = fmin(1.0, (double)(step - first) / length);
    if (s->kind == SCHEDULE_COSINE)
        return s->min_lr + (s->lr - s->min_lr) * (1.0 + cos(M_PI * f)) / 2.0;
    return s->min_lr + (s->lr - s->min_lr) * (1.0 - f);
}

double schedule_clip(double clip, double norm)
{
    return clip > 0 ? fmin(1.0, clip / (norm + 1e-6)) : 1.0;
}

TABLE_WORDS(schedule_name, [SCHEDULE_COSINE] = "cosine", [SCHEDULE_LINEAR] = "linear",
            [SCHEDULE_CONSTANT] = "constant", [SCHEDULE_WSD] = "wsd")
