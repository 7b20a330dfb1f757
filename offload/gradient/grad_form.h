/* grad_form.h: what training streams do with a complete gradient, as pure functions: its norm, its
 * NaN/Inf flag, and Top-K, with error feedback if wanted. */
#pragma once

#include "kernels/update/topk.h"
#include "offload/layout/config.h"

/* The norm of a step's gradients, added up in the order in which they are sent. nonfinite: some
 * value is NaN or infinite, alone or with the residual that error feedback adds; block: the first
 * block with such a value. */
struct norm_sum { double sumsq; int nonfinite; size_t block; };

static inline void norm_sum_flag(struct norm_sum *norm, size_t block)
{
    if (!norm->nonfinite)
        norm->block = block;
    norm->nonfinite = 1;
}

/* Bytes of scratch for the largest block of all ranks that trains; of pairs for the largest such
 * block, and for all such blocks together. */
struct grad_work { size_t scratch, pairs, all_pairs; };
struct grad_work grad_work(const struct run_config *cfg);

/* Add the sum of squares and the flag of a block's grad[0..n) to *norm. Returns a bound that no
 * magnitude exceeds. */
double grad_norm(struct norm_sum *norm, size_t block, const float *grad, size_t n,
                 void *scratch);

/* Select the k largest of grad[0..n), in the order of indices. With a residual, select from grad +
 * residual, which is put into `sum` (it may be either array); *most then bounds its magnitudes, and
 * 1 is returned if a sum is not finite. residual NULL: there is none. */
int grad_select(struct topk_pair *pairs, size_t k, const float *grad, const float *residual,
                float *sum, size_t n, void *scratch, double *most);
