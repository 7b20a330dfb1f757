/* grad_form.h: what training streams do with a complete gradient, as pure functions: its norm and
 * NaN/Inf flag, and Top-K, with error feedback of what steps before did not send, too. */
#pragma once

#include "kernels/topk.h"

/* Of a step's gradients, in the order in which they were sent. nonfinite: a value is NaN or
 * infinite, or became so with what steps before did not send (error feedback); block: the first
 * with one. */
struct norm_sum { double sumsq; int nonfinite; size_t block; };

static inline void norm_sum_flag(struct norm_sum *norm, size_t block)
{
    if (!norm->nonfinite)
        norm->block = block;
    norm->nonfinite = 1;
}

/* Bytes of scratch for the largest of some blocks, and of pairs: of the largest, of all. */
struct grad_work { size_t scratch, pairs, all_pairs; };
struct grad_work grad_work(size_t n_blocks, const size_t *block_params, double compress);

/* Add sum of squares and flag of a block's grad[0..n) to *norm; what none of its magnitudes
 * exceeds. */
double grad_norm(struct norm_sum *norm, size_t block, const float *grad, size_t n,
                 void *scratch);

/* The k largest of grad[0..n), by index. With a residual (else NULL) of grad + residual, which goes
 * into `sum` (that may be either); then *most is what no magnitude of them exceeds, and 1 is
 * returned where it is not finite. */
int grad_select(struct topk_pair *pairs, size_t k, const float *grad, const float *residual,
                float *sum, size_t n, void *scratch, double *most);
