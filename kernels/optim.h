/* optim.h: the optimizers, as written sequences of single-precision operations: no contraction,
 * correctly rounded division and square root, subnormal inputs and results flushed to zero (FTZ and
 * DAZ are set inside and restored). Every form (portable, AVX2, AVX-512, and the FPGA's) gives the
 * same bits. The order of operations is stated above optim_update in optim.c and is part of the
 * contract: PyTorch's, with weight decay decoupled in adamw and added to the gradient elsewhere.
 * What would leave the numbers is kept back around it (kernels/bounds.h). */
#pragma once

#include "data/base/dtype.h"

enum optim_kind { OPTIM_ADAMW, OPTIM_ADAM, OPTIM_SGD, OPTIM_ADAGRAD };

/* The numbers of one step; computed by the host (optim_scalars), handed to whoever updates. */
struct optim_step {
    enum optim_kind kind;
    float lr, beta1, beta2, eps;
    float one_minus_beta1, one_minus_beta2;
    float step_size;    // adam(w): lr / (1 - beta1^t); else lr
    float bias2_sqrt;   // adam(w): sqrt(1 - beta2^t); else 1
    float grad_scale;   // the clip factor: the gradient is multiplied by it first
    int   first;        // t == 1: sgd's momentum buffer becomes the gradient itself
};

/* Fill the derived fields for the t-th applied update (t from 1), in double, rounded once. */
void optim_scalars(struct optim_step *s, enum optim_kind kind, double lr, double beta1,
                   double beta2, double eps, double clip_factor, uint64_t t);

/* Moments of an optimizer: adamw, adam 2; sgd, adagrad 1 (v is unused and may be NULL). */
int optim_moments(enum optim_kind kind);
const char *optim_name(size_t kind); // NULL behind the last

/* Move w[0..n) one step, in place; m, v its moments, g its gradient; weight decay `wd`. Runs on the
 * calling thread alone. */
void optim_update(float *w, float *m, float *v, const float *g, size_t n, float wd,
                  const struct optim_step *s);
