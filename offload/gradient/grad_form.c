/* grad_form.c: computes the norm of gradients and selects their Top-K. */
#include "offload/gradient/grad_form.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/update/reduce.h"

#include <math.h>

struct grad_work grad_work(const struct run_config *cfg)
{
    struct grad_work w = { 0 };

    for (size_t b = 0; b < run_blocks(cfg); b++) {
        size_t n = run_whole(cfg, b), k = cfg->compress > 0 ? topk_count(n, cfg->compress) : 0;

        if (!run_trains(cfg, b))
            continue;
        w.scratch = size_max(w.scratch, size_max(reduce_scratch(n), k ? topk_scratch(n, k) : 0));
        w.pairs = size_max(w.pairs, k * sizeof(struct topk_pair));
        w.all_pairs += k * sizeof(struct topk_pair);
    }
    return w;
}

double grad_norm(struct norm_sum *norm, size_t block, const float *grad, size_t n,
                 void *scratch)
{
    int nonfinite = 0;

    norm->sumsq += reduce_sumsq(grad, n, &nonfinite, scratch);
    if (nonfinite)
        norm_sum_flag(norm, block);
    return sqrt(norm->sumsq);
}

int grad_select(struct topk_pair *pairs, size_t k, const float *grad, const float *residual,
                float *sum, size_t n, void *scratch, double *most)
{
    if (residual)
        residual_add(sum, residual, grad, n);
    topk_select(pairs, residual ? sum : grad, n, k, scratch);
    if (residual)
        *most = (double)topk_most(pairs, k);
    return residual && !isfinite(*most);
}
