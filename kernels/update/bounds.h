/* bounds.h: updates that cannot overflow. A master or a moment that became infinite or NaN would
 * stay so for ever. Therefore an element that would reach OPTIM_BOUND or NaN stays as it was, with
 * its moments. Each element is judged alone, so it makes no difference where an update is done, or
 * how it is cut.
 *
 * A check of every value would cost as much as the update. So bounds on the values are kept
 * instead: if the bounds after a step are far from OPTIM_BOUND, the step needs no check
 * (bounds_advance). Otherwise, or if bounds are unknown, bounds_update checks, and finds the bounds
 * again. How far a step can take values is said by the optimizer (struct optim). Pure functions. */
#pragma once

#include "kernels/update/optim.h"

#include <math.h>

#define OPTIM_BOUND 0x1.ffp127f // what is not below it bf16 rounds to infinity

#define BOUNDS_UNKNOWN ((struct bounds){ INFINITY, INFINITY, INFINITY, INFINITY })

/* Elements that would have overflowed and stayed as they were: their number, and the first. */
struct overflow { size_t n, first; };
/* Add the overflow of a part that begins at `from`. */
void overflow_add(struct overflow *all, struct overflow part, size_t from);

/* True if a step of values within *r cannot overflow: *r becomes the bounds after the step.
 * Otherwise *r stays. No gradient exceeds g, no weight decay wd. */
int bounds_advance(struct bounds *r, const struct optim_step *s, double wd, double g);

/* optim_update with a check of its results. *r grows to their bounds (begin with zeros); it becomes
 * BOUNDS_UNKNOWN if an element overflowed. r NULL: no check, because bounds_advance was true. */
struct overflow bounds_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                              const struct optim_step *s, struct bounds *r);

/* Values of x[0..n) that are NaN, or not below OPTIM_BOUND; no update makes such a value. */
struct overflow overflow_find(const float *x, size_t n);
