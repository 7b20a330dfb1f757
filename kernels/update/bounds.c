/* bounds.c: runs optim_update and, if a value might overflow, checks each slice. If a value did,
 * the slice is restored and updated element by element. The check is a second pass over a slice
 * that is still in the first-level cache, next to a copy of its old values. Updating single
 * elements gives the same bits as vectors. */
#include "kernels/update/bounds.h"

#include "data/base/round.h"
#include "kernels/simd.h"

#include <float.h>
#include <string.h>

enum { SLICE = 512 };

struct states { float *w, *m, *v; }; // v NULL: one moment

static struct states states_at(struct states s, size_t i)
{
    return (struct states){ s.w + i, s.m + i, s.v ? s.v + i : NULL };
}

static void states_copy(struct states to, struct states from, size_t n)
{
    memcpy(to.w, from.w, n * sizeof(float));
    memcpy(to.m, from.m, n * sizeof(float));
    if (from.v)
        memcpy(to.v, from.v, n * sizeof(float));
}

void overflow_add(struct overflow *all, struct overflow part, size_t from)
{
    if (part.n && (!all->n || from + part.first < all->first))
        all->first = from + part.first;
    all->n += part.n;
}

/* Here and in optim.c, the bounds allow for more rounding than there is. */
static const double slack = BOUNDS_SLACK, far = 1e37;

int bounds_advance(struct bounds *r, const struct optim_step *s, double wd, double g)
{
    const struct optim *o = optim_of(s->kind);
    // a gradient's norm bounds its elements, except for squares that underflow
    double scaled = (1.01 * g + 1e-15) * fabs((double)s->grad_scale),
           grad = o->decouples ? scaled : scaled + wd * r->w,
           decay = o->decouples ? fmax(1, fabs(1 - (double)s->lr * wd)) : 1;
    struct bounds to = *r;
    double        rate = o->bounds(&to, s, grad);

    to.w = slack * (r->w * decay + (double)s->step_size * rate);
    // without eps the quotient may be 0 / 0; comparisons with NaN are false
    if ((o->divides && !(s->eps >= FLT_MIN)) || !(s->bias2_sqrt > 1e-10f) || !(grad < far) ||
        !(rate < far) || !(to.m < far) || !(to.v < far) || !(to.w < far))
        return 0;
    *r = to;
    return 1;
}

/* The largest magnitude of x[0..n), as bits. Without their signs, floats compare as integers do;
 * infinities and NaNs are largest. */
SIMD_CLONES __attribute__((noinline)) static uint32_t largest(const float *x, size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

SIMD_CLONES __attribute__((noinline)) static uint32_t largest_ratio(const float *m, const float *v,
                                                                    size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        float    q = fabsf(m[i]) / (sqrtf(v[i]) + (float)BOUNDS_ROOT);
        uint32_t bits;

        memcpy(&bits, &q, sizeof bits);
        most = bits > most ? bits : most;
    }
    return most;
}

static float magnitude(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Whether all values are within the bound. If so, *r is set to bounds that hold. */
static int arrived(struct states s, size_t n, struct bounds *r)
{
    float a = magnitude(largest(s.w, n)), b = magnitude(largest(s.m, n)),
          c = s.v ? magnitude(largest(s.v, n)) : 0;

    if (!(a < OPTIM_BOUND && b < OPTIM_BOUND && c < OPTIM_BOUND))
        return 0;
    *r = (struct bounds){ fmax(r->w, (double)a), fmax(r->m, (double)b), fmax(r->v, (double)c),
                          r->ratio };
    if (s.v)
        r->ratio = fmax(r->ratio, slack * (double)magnitude(largest_ratio(s.m, s.v, n)));
    return 1;
}

/* Restores a slice and updates it element by element, except for elements that would go too far. */
static struct overflow move_singly(struct states all, struct states old, const float *g, size_t n,
                                   float wd, const struct optim_step *step, struct bounds *r)
{
    struct overflow kept = { 0 };

    states_copy(all, old, n);
    for (size_t i = 0; i < n; i++) {
        struct states s = states_at(all, i);

        optim_update(s.w, s.m, s.v, g + i, 1, wd, step);
        if (arrived(s, 1, r))
            continue;
        states_copy(s, states_at(old, i), 1);
        overflow_add(&kept, (struct overflow){ 1, 0 }, i);
    }
    *r = BOUNDS_UNKNOWN;
    return kept;
}

struct overflow bounds_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                              const struct optim_step *step, struct bounds *r)
{
    struct overflow kept = { 0 };
    float             was[3][SLICE];
    struct states     all = { w, m, v }, old = { was[0], was[1], v ? was[2] : NULL };

    if (!r) {
        optim_update(w, m, v, g, n, wd, step);
        return kept;
    }
    for (size_t i = 0, k; i < n; i += k) {
        struct states s = states_at(all, i);

        k = size_min(n - i, SLICE);
        states_copy(old, s, k);
        optim_update(s.w, s.m, s.v, g + i, k, wd, step);
        if (!arrived(s, k, r))
            overflow_add(&kept, move_singly(s, old, g + i, k, wd, step, r), i);
    }
    return kept;
}

struct overflow overflow_find(const float *x, size_t n)
{
    struct overflow found = { 0 };

    for (size_t i = 0, k; i < n; i += k) {
        k = size_min(n - i, SLICE);
        if (magnitude(largest(x + i, k)) < OPTIM_BOUND)
            continue;
        for (size_t j = 0; j < k; j++)
            if (!(fabsf(x[i + j]) < OPTIM_BOUND))
                overflow_add(&found, (struct overflow){ 1, 0 }, i + j);
    }
    return found;
}
