/* optim.c: the optimizers, a row of a table each: the update of a step, and how far the step can
 * take its values. The host, an emulated device and an FPGA must get the same bits, so an update is
 * a sequence of single IEEE operations: this file is compiled with -ffp-contract=off, it has no
 * fmaf, and no sum crosses elements. Vectors of any width then give the same as scalars. Subnormals
 * are flushed because an FPGA's operators do so. */
#include "kernels/simd.h"
#include "kernels/update/optim.h"

#include <assert.h>
#include <math.h>
#include <xmmintrin.h>

enum {
    CSR_DAZ   = 0x0040,
    CSR_MASKS = 0x1f80, // every exception masked
    CSR_ROUND = 0x6000, // 0: to nearest even
    CSR_FTZ   = 0x8000,
};

/* The order of operations, part of the contract; every operation rounds once to single precision:
 *
 *   all:      g = g * grad_scale
 *   adamw:    w = w * decay, decay = 1 - lr * wd in double from the two floats, rounded once
 *   others:   g = g + (wd * w)
 *   adam(w):  m = (beta1 * m) + (one_minus_beta1 * g)
 *             v = (beta2 * v) + ((one_minus_beta2 * g) * g)
 *             d = (sqrt(v) / bias2_sqrt) + eps
 *             w = w - (step_size * (m / d))
 *   sgd:      m = g at the first step, else (beta1 * m) + g
 *             w = w - (step_size * m)
 *   adagrad:  m = m + (g * g)
 *             w = w - (step_size * (g / (sqrt(m) + eps))) */

/* The part of both Adams that follows the gradient. wi and gi include decay already, each where it
 * belongs. */
SIMD_INLINE float adam_move(float wi, float *m, float *v, float gi, const struct optim_step *s)
{
    float mi = s->beta1 * *m + s->one_minus_beta1 * gi;
    float vi = s->beta2 * *v + (s->one_minus_beta2 * gi) * gi;
    float d = sqrtf(vi) / s->bias2_sqrt + s->eps;

    *m = mi;
    *v = vi;
    return wi - s->step_size * (mi / d);
}

#define UPDATE SIMD_CLONES __attribute__((noinline)) static void

UPDATE adamw_update(float *restrict w, float *restrict m, float *restrict v,
                    const float *restrict g, size_t n, float wd, struct optim_step s)
{
    float decay = (float)(1.0 - (double)s.lr * (double)wd);

    for (size_t i = 0; i < n; i++)
        w[i] = adam_move(w[i] * decay, &m[i], &v[i], g[i] * s.grad_scale, &s);
}

UPDATE adam_update(float *restrict w, float *restrict m, float *restrict v,
                   const float *restrict g, size_t n, float wd, struct optim_step s)
{
    for (size_t i = 0; i < n; i++)
        w[i] = adam_move(w[i], &m[i], &v[i], g[i] * s.grad_scale + wd * w[i], &s);
}

UPDATE sgd_update(float *restrict w, float *restrict m, float *restrict v,
                  const float *restrict g, size_t n, float wd, struct optim_step s)
{
    (void)v;
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * s.grad_scale + wd * w[i];
        float mi = s.first ? gi : s.beta1 * m[i] + gi;

        m[i] = mi;
        w[i] = w[i] - s.step_size * mi;
    }
}

UPDATE adagrad_update(float *restrict w, float *restrict m, float *restrict v,
                      const float *restrict g, size_t n, float wd, struct optim_step s)
{
    (void)v;
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * s.grad_scale + wd * w[i];
        float mi = m[i] + gi * gi;

        m[i] = mi;
        w[i] = w[i] - s.step_size * (gi / (sqrtf(mi) + s.eps));
    }
}

/* ---- how far a step can take its values ---- */

/* With m <= ratio sqrt(v), Cauchy and Schwarz give b1 m + (1 - b1) g <= sqrt(b1^2 ratio^2 / b2 +
 * (1 - b1)^2 / (1 - b2)) sqrt(b2 v + (1 - b2) g^2). What v loses when it underflows, less than
 * 1e-37, is little next to the square of BOUNDS_ROOT. */
static double adam_bounds(struct bounds *r, const struct optim_step *s, double g)
{
    double b1 = (double)s->beta1, b2 = (double)s->beta2, c1 = (double)s->one_minus_beta1,
           c2 = (double)s->one_minus_beta2, eps = (double)s->eps;

    r->m = BOUNDS_SLACK * (b1 * r->m + c1 * g);
    r->v = BOUNDS_SLACK * (b2 * r->v + c2 * g * g);
    r->ratio = 1.001 * sqrt(b1 * b1 / b2 * r->ratio * r->ratio + c1 * c1 / c2);
    return fmin(r->m / eps, r->ratio * ((double)s->bias2_sqrt + BOUNDS_ROOT / eps));
}

static double sgd_bounds(struct bounds *r, const struct optim_step *s, double g)
{
    return r->m = BOUNDS_SLACK * ((double)s->beta1 * r->m + g);
}

/* The root holds g itself, unless its square underflows. */
static double adagrad_bounds(struct bounds *r, const struct optim_step *s, double g)
{
    r->m = BOUNDS_SLACK * (r->m + g * g);
    return BOUNDS_SLACK + BOUNDS_ROOT / (double)s->eps;
}

/* ---- the table ---- */

static const struct optim optims[] = {
    [OPTIM_ADAMW] = { "adamw", 2, .corrects = 1, .decouples = 1, .divides = 1,
                      .update = adamw_update, .bounds = adam_bounds },
    [OPTIM_ADAM] = { "adam", 2, .corrects = 1, .divides = 1, .update = adam_update,
                     .bounds = adam_bounds },
    [OPTIM_SGD] = { "sgd", 1, .update = sgd_update, .bounds = sgd_bounds },
    [OPTIM_ADAGRAD] = { "adagrad", 1, .divides = 1, .update = adagrad_update,
                        .bounds = adagrad_bounds },
};

const struct optim *optim_of(enum optim_kind kind) { return &optims[kind]; }

int optim_moments(enum optim_kind kind) { return optims[kind].moments; }

const char *optim_name(size_t kind)
{
    return kind < sizeof optims / sizeof *optims ? optims[kind].name : NULL;
}

void optim_scalars(struct optim_step *s, enum optim_kind kind, double lr, double beta1,
                   double beta2, double eps, double clip_factor, uint64_t t)
{
    int corrects = optims[kind].corrects;

    assert(t > 0);
    *s = (struct optim_step){
        .kind = kind, .lr = (float)lr, .eps = (float)eps,
        .beta1 = (float)beta1, .beta2 = (float)beta2,
        .one_minus_beta1 = (float)(1.0 - beta1), .one_minus_beta2 = (float)(1.0 - beta2),
        .step_size = (float)(corrects ? lr / (1.0 - pow(beta1, (double)t)) : lr),
        .bias2_sqrt = (float)(corrects ? sqrt(1.0 - pow(beta2, (double)t)) : 1.0),
        .grad_scale = (float)clip_factor, .first = t == 1,
    };
}

void optim_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                  const struct optim_step *s)
{
    unsigned csr = _mm_getcsr();

    _mm_setcsr(((csr | CSR_MASKS) & ~(unsigned)CSR_ROUND) | CSR_FTZ | CSR_DAZ);
    optims[s->kind].update(w, m, v, g, n, wd, *s);
    _mm_setcsr(csr);
}
