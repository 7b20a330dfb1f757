/* optim.h: the optimizers, as fixed sequences of single-precision operations. There is no
 * contraction, division and square root are correctly rounded, and subnormal inputs and results
 * are flushed to zero. (FTZ and DAZ are set inside and restored.) Every form (portable, AVX2,
 * AVX-512, and the FPGA's) gives the same bits. The order of operations is stated at
 * the top of optim.c and is part of the contract. It is PyTorch's; weight decay is decoupled in
 * adamw and added to the gradient in the others. kernels/update/bounds.h prevents overflow. */
#pragma once

#include "data/base/dtype.h"

/* Devices and runs record these numbers. */
enum optim_kind { OPTIM_ADAMW, OPTIM_ADAM, OPTIM_SGD, OPTIM_ADAGRAD };

/* The scalars of one step. The host computes them (optim_scalars) and passes them to every
 * updater. */
struct optim_step {
    enum optim_kind kind;
    float lr, beta1, beta2, eps;
    float one_minus_beta1, one_minus_beta2;
    float step_size;    // adam(w): lr / (1 - beta1^t); others: lr
    float bias2_sqrt;   // adam(w): sqrt(1 - beta2^t); others: 1
    float grad_scale;   // the clip factor; the gradient is first multiplied by it
    int   first;        // t == 1: sgd's momentum buffer becomes the gradient itself
};

/* Bounds on the magnitudes of some masters and moments; with two moments also of v and of
 * m / (sqrt(v) + BOUNDS_ROOT). */
struct bounds { double w, m, v, ratio; };
#define BOUNDS_ROOT  1e-15
#define BOUNDS_SLACK (1 + 1e-6) // for what is rounded on the way to a bound

struct optim {
    const char *name;
    int         moments;   // 1: v is unused and may be NULL
    int         corrects;  // the step size and the root of v are corrected for t
    int         decouples; // weight decay multiplies w; otherwise it is added to the gradient
    int         divides;   // by a root, to which eps is added
    void      (*update)(float *restrict w, float *restrict m, float *restrict v,
                        const float *restrict g, size_t n, float wd, struct optim_step s);
    /* Moves the bounds of the moments by one step of gradients up to g. Returns a bound on what
     * step_size is multiplied by. */
    double    (*bounds)(struct bounds *r, const struct optim_step *s, double g);
};
const struct optim *optim_of(enum optim_kind kind);

/* Fills in the derived fields for the t-th applied update (t from 1), in double, rounded once. */
void optim_scalars(struct optim_step *s, enum optim_kind kind, double lr, double beta1,
                   double beta2, double eps, double clip_factor, uint64_t t);

int         optim_moments(enum optim_kind kind);
const char *optim_name(size_t kind); // NULL past the last

/* Moves w[0..n) by one step, in place. m, v: its moments; g: its gradient; wd: weight decay. It
 * runs on the calling thread alone. */
void optim_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                  const struct optim_step *s);
