/* optim.c: computes the updates of all optimizers. The host, an emulated device and an FPGA must
 * get the same bits, so an update is a sequence of single IEEE operations: this file is compiled
 * with -ffp-contract=off, it has no fmaf, and no sum crosses elements. Vectors of any width then
 * give the same as scalars. Subnormals are flushed because an FPGA's operators do so. */
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

void optim_scalars(struct optim_step *s, enum optim_kind kind, double lr, double beta1,
                   double beta2, double eps, double clip_factor, uint64_t t)
{
    int adam = kind == OPTIM_ADAMW || kind == OPTIM_ADAM;

    assert(t > 0);
    *s = (struct optim_step){
        .kind = kind, .lr = (float)lr, .eps = (float)eps,
        .beta1 = (float)beta1, .beta2 = (float)beta2,
        .one_minus_beta1 = (float)(1.0 - beta1), .one_minus_beta2 = (float)(1.0 - beta2),
        .step_size = (float)(adam ? lr / (1.0 - pow(beta1, (double)t)) : lr),
        .bias2_sqrt = (float)(adam ? sqrt(1.0 - pow(beta2, (double)t)) : 1.0),
        .grad_scale = (float)clip_factor, .first = t == 1,
    };
}

int optim_moments(enum optim_kind kind)
{
    return kind == OPTIM_ADAMW || kind == OPTIM_ADAM ? 2 : 1;
}

const char *optim_name(size_t kind)
{
    static const char *const names[] = {
        [OPTIM_ADAMW] = "adamw", [OPTIM_ADAM] = "adam", [OPTIM_SGD] = "sgd",
        [OPTIM_ADAGRAD] = "adagrad", NULL,
    };

    return names[kind];
}

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
                    const float *restrict g, size_t n, float decay, struct optim_step s)
{
    for (size_t i = 0; i < n; i++)
        w[i] = adam_move(w[i] * decay, &m[i], &v[i], g[i] * s.grad_scale, &s);
}

UPDATE adam_update(float *restrict w, float *restrict m, float *restrict v,
                   const float *restrict g, size_t n, float wd, struct optim_step s)
{
    for (size_t i = 0; i < n; i++)
        w[i] = adam_move(w[i], &m[i], &v[i], g[i] * s.grad_scale + wd * w[i], &s);
}

UPDATE sgd_update(float *restrict w, float *restrict m, const float *restrict g, size_t n,
                  float wd, struct optim_step s)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * s.grad_scale + wd * w[i];
        float mi = s.first ? gi : s.beta1 * m[i] + gi;

        m[i] = mi;
        w[i] = w[i] - s.step_size * mi;
    }
}

UPDATE adagrad_update(float *restrict w, float *restrict m, const float *restrict g, size_t n,
                      float wd, struct optim_step s)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * s.grad_scale + wd * w[i];
        float mi = m[i] + gi * gi;

        m[i] = mi;
        w[i] = w[i] - s.step_size * (gi / (sqrtf(mi) + s.eps));
    }
}

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
 *             w = w - (step_size * (g / (sqrt(m) + eps)))
 */
void optim_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                  const struct optim_step *s)
{
    unsigned csr = _mm_getcsr();

    _mm_setcsr(((csr | CSR_MASKS) & ~(unsigned)CSR_ROUND) | CSR_FTZ | CSR_DAZ);
    switch (s->kind) {
    case OPTIM_ADAMW:
        adamw_update(w, m, v, g, n, (float)(1.0 - (double)s->lr * (double)wd), *s);
        break;
    case OPTIM_ADAM:
        adam_update(w, m, v, g, n, wd, *s);
        break;
    case OPTIM_SGD:
        sgd_update(w, m, g, n, wd, *s);
        break;
    case OPTIM_ADAGRAD:
        adagrad_update(w, m, g, n, wd, *s);
        break;
    }
    _mm_setcsr(csr);
}
