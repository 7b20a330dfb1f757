/* grad_form.h: what training streams do with a complete gradient, as pure functions: its norm and
 * NaN/Inf flag, and Top-K, with error feedback of what steps before did not send, too. */
#pragma once

#include "kernels/topk.h"
#include "offload/stream.h"

/* Bytes of scratch for the largest of some blocks, and of pairs: of the largest, of all. */
struct grad_work { size_t scratch, pairs, all_pairs; };
struct grad_work grad_work(size_t n_blocks, const size_t *block_params, double compress);

/* Add sum of squares and flag of a block's grad[0..n) to *norm; what none of its magnitudes
 * exceeds. */
double grad_norm(struct stream_norm *norm, size_t block, const float *grad, size_t n,
                 void *scratch);

/* The k largest of grad[0..n), by index. With a residual (else NULL) of grad + residual, which goes
 * into `sum` (that may be either); then *most is what no magnitude of them exceeds, and 1 is
 * returned where it is not finite. */
int grad_select(struct topk_pair *pairs, size_t k, const float *grad, const float *residual,
                float *sum, size_t n, void *scratch, double *most);
