/* optim.h: the optimizers, as fixed sequences of single-precision operations. There is no
 * contraction, division and square root are correctly rounded, and subnormal inputs and results
 * are flushed to zero. (FTZ and DAZ are set inside and restored.) Every form (portable, AVX2,
 * AVX-512, and the FPGA's) gives the same bits. The order of operations is stated above
 * optim_update in optim.c and is part of the contract. It is PyTorch's; weight decay is
 * decoupled in adamw and added to the gradient in the others. kernels/update/bounds.h prevents
 * overflow. */
#pragma once

#include "data/base/dtype.h"

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

/* Fills in the derived fields for the t-th applied update (t from 1), in double, rounded once. */
void optim_scalars(struct optim_step *s, enum optim_kind kind, double lr, double beta1,
                   double beta2, double eps, double clip_factor, uint64_t t);

/* The number of moments of an optimizer: 2 for adamw and adam, 1 for sgd and adagrad (v is
 * unused and may be NULL). */
int optim_moments(enum optim_kind kind);
const char *optim_name(size_t kind); // NULL past the last

/* Moves w[0..n) by one step, in place. m, v: its moments; g: its gradient; wd: weight decay. It
 * runs on the calling thread alone. */
void optim_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                  const struct optim_step *s);
