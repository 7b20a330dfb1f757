/* bounds.h: updates that cannot leave the numbers. A master or a moment that became infinite or NaN
 * would stay so for ever; an update therefore never makes one: an element that would come to
 * OPTIM_BOUND or beyond, or to NaN, stays what it was, moments and all. Each element decides for
 * itself, so that it makes no difference where an update is done, or how it is cut.
 *
 * To look at every value of every update would cost what the update costs. So bounds are kept
 * instead: what is within known bounds can be moved one step by known numbers without a look where
 * the bounds after the step are far from OPTIM_BOUND (bounds_advance). Where they are not known, or
 * not far, bounds_update looks, and they are known again. */
#pragma once

#include "kernels/optim.h"

#include <math.h>

#define OPTIM_BOUND 0x1.ffp127f // what is not below it bf16 rounds to infinity

/* What the magnitudes of some masters and moments do not exceed; with two moments those of v, too,
 * and of m / (sqrt(v) + BOUNDS_ROOT). */
struct bounds { double w, m, v, ratio; };
#define BOUNDS_UNKNOWN ((struct bounds){ INFINITY, INFINITY, INFINITY, INFINITY })
#define BOUNDS_ROOT    1e-15
#define BOUNDS_SLACK   (1 + 1e-6) // for what is rounded on the way to a bound

/* Elements that stayed what they were: how many, and the first of them. */
struct overflow { size_t n, first; };
/* Join those of a part that begins at `from`. */
void overflow_add(struct overflow *all, struct overflow part, size_t from);

/* May a step's update of what is within *r be left to optim_update? Gradients do not exceed g,
 * weight decays wd. If so *r is what holds after it, else it is as it was. */
int bounds_advance(struct bounds *r, const struct optim_step *s, double wd, double g);

/* optim_update with a look at what comes out. *r grows to hold it (begin with zeros); it is unknown
 * where an element stayed. r NULL: bounds_advance has said that no look is needed. */
struct overflow bounds_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                              const struct optim_step *s, struct bounds *r);

/* Values of x[0..n) that no update makes: NaN, or not smaller than OPTIM_BOUND. */
struct overflow overflow_find(const float *x, size_t n);
