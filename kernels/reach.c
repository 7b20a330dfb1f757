/* reach.c: the look is a second pass over a piece that is still in the first-level cache, beside a
 * copy of what it was: where something went too far the piece is put back and moved an element at a
 * time, which gives the bits that the vectors give. */
#include "kernels/reach.h"
#include "kernels/simd.h"

#include <float.h>
#include <string.h>

enum { PIECE = 512 };
struct piece { float w[PIECE], m[PIECE], v[PIECE]; };

void reach_kept_add(struct reach_kept *all, struct reach_kept part, size_t from)
{
    if (part.n && (!all->n || from + part.first < all->first))
        all->first = from + part.first;
    all->n += part.n;
}

/* Rounding is allowed for, here and below, with more than it takes. */
static const double slack = 1 + 1e-6, far = 1e37;

/* A gradient's norm bounds its elements but for squares that underflow. */
static double grad_reach(const struct reach *r, const struct optim_step *s, double wd, double g)
{
    double scaled = (1.01 * g + 1e-15) * fabs((double)s->grad_scale);

    return s->kind == OPTIM_ADAMW ? scaled : scaled + wd * r->w;
}

static double decayed(const struct optim_step *s, double wd)
{
    return s->kind == OPTIM_ADAMW ? fmax(1, fabs(1 - (double)s->lr * wd)) : 1;
}

/* Moments after a step of both Adams, and how far their quotient goes. With m <= ratio sqrt(v) it
 * is by Cauchy and Schwarz b1 m + (1 - b1) g <= sqrt(b1^2 ratio^2 / b2 + (1 - b1)^2 / (1 - b2))
 * sqrt(b2 v + (1 - b2) g^2); what v loses where it underflows, less than 1e-37, is little beside
 * the square of REACH_ROOT. */
static double adam_reach(struct reach *r, const struct optim_step *s, double g)
{
    double b1 = (double)s->beta1, b2 = (double)s->beta2, c1 = (double)s->one_minus_beta1,
           c2 = (double)s->one_minus_beta2, eps = (double)s->eps;

    r->m = slack * (b1 * r->m + c1 * g);
    r->v = slack * (b2 * r->v + c2 * g * g);
    r->ratio = 1.001 * sqrt(b1 * b1 / b2 * r->ratio * r->ratio + c1 * c1 / c2);
    return fmin(r->m / eps, r->ratio * ((double)s->bias2_sqrt + REACH_ROOT / eps));
}

static double sgd_reach(struct reach *r, const struct optim_step *s, double g)
{
    r->m = slack * ((double)s->beta1 * r->m + g);
    return r->m;
}

/* The root holds g itself, unless its square underflows. */
static double adagrad_reach(struct reach *r, const struct optim_step *s, double g)
{
    r->m = slack * (r->m + g * g);
    return slack + REACH_ROOT / (double)s->eps;
}

int reach_calm(struct reach *r, const struct optim_step *s, double wd, double g)
{
    double       grad = grad_reach(r, s, wd, g), rate;
    struct reach to = *r;

    rate = s->kind == OPTIM_SGD       ? sgd_reach(&to, s, grad)
           : s->kind == OPTIM_ADAGRAD ? adagrad_reach(&to, s, grad)
                                      : adam_reach(&to, s, grad);
    to.w = slack * (r->w * decayed(s, wd) + (double)s->step_size * rate);
    // without an eps the quotient may be 0 / 0; NaNs are not below anything
    if (!(s->eps >= FLT_MIN || s->kind == OPTIM_SGD) || !(s->bias2_sqrt > 1e-10f) ||
        !(grad < far) || !(rate < far) || !(to.m < far) || !(to.v < far) || !(to.w < far))
        return 0;
    *r = to;
    return 1;
}

/* The largest magnitude of x[0..n), as bits: as such floats without their sign order as they do as
 * numbers, and infinities and NaNs come last. */
SIMD_CLONES __attribute__((noinline))
static uint32_t largest(const float *x, size_t n)
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

SIMD_CLONES __attribute__((noinline))
static uint32_t largest_ratio(const float *m, const float *v, size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        float    q = fabsf(m[i]) / (sqrtf(v[i]) + (float)REACH_ROOT);
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

/* Have w, m and v (NULL: one moment) arrived within the bound? Then *r holds them. */
static int arrived(const float *w, const float *m, const float *v, size_t n, struct reach *r)
{
    float a = magnitude(largest(w, n)), b = magnitude(largest(m, n)),
          c = v ? magnitude(largest(v, n)) : 0;

    if (!(a < OPTIM_BOUND && b < OPTIM_BOUND && c < OPTIM_BOUND))
        return 0;
    *r = (struct reach){ fmax(r->w, (double)a), fmax(r->m, (double)b), fmax(r->v, (double)c),
                         r->ratio };
    if (v)
        r->ratio = fmax(r->ratio, slack * (double)magnitude(largest_ratio(m, v, n)));
    return 1;
}

static void piece_copy(float *w, float *m, float *v, const float *w0, const float *m0,
                       const float *v0, size_t n)
{
    memcpy(w, w0, n * sizeof *w);
    memcpy(m, m0, n * sizeof *m);
    if (v && v0)
        memcpy(v, v0, n * sizeof *v);
}

/* An element at a time, from *old. */
static struct reach_kept move_singly(float *w, float *m, float *v, const float *g, size_t n,
                                     float wd, const struct optim_step *s, const struct piece *old,
                                     struct reach *r)
{
    struct reach_kept kept = { 0 };

    piece_copy(w, m, v, old->w, old->m, old->v, n);
    for (size_t i = 0; i < n; i++) {
        float *vi = v ? v + i : NULL;

        optim_update(w + i, m + i, vi, g + i, 1, wd, s);
        if (arrived(w + i, m + i, vi, 1, r))
            continue;
        piece_copy(w + i, m + i, vi, old->w + i, old->m + i, old->v + i, 1);
        reach_kept_add(&kept, (struct reach_kept){ 1, 0 }, i);
    }
    *r = REACH_UNKNOWN;
    return kept;
}

struct reach_kept reach_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                               const struct optim_step *s, struct reach *r)
{
    struct reach_kept kept = { 0 };
    struct piece      old;

    for (size_t i = 0, k; i < n; i += k) {
        float *vi = v ? v + i : NULL;

        k = n - i < PIECE ? n - i : PIECE;
        piece_copy(old.w, old.m, v ? old.v : NULL, w + i, m + i, vi, k);
        optim_update(w + i, m + i, vi, g + i, k, wd, s);
        if (!arrived(w + i, m + i, vi, k, r))
            reach_kept_add(&kept, move_singly(w + i, m + i, vi, g + i, k, wd, s, &old, r), i);
    }
    return kept;
}

struct reach_kept reach_beyond(const float *x, size_t n)
{
    struct reach_kept found = { 0 };

    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < PIECE ? n - i : PIECE;
        if (magnitude(largest(x + i, k)) < OPTIM_BOUND)
            continue;
        for (size_t j = 0; j < k; j++)
            if (!(fabsf(x[i + j]) < OPTIM_BOUND))
                reach_kept_add(&found, (struct reach_kept){ 1, 0 }, i + j);
    }
    return found;
}
