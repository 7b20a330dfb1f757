/* grad_form.c: norm, Top-K and checksums of gradients before they leave for the devices. */
#include "offload/grad_form.h"

#include "csd/grad_wire.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

#include <math.h>

double grad_norm(struct stream_norm *norm, size_t block, const float *grad, size_t n,
                  void *scratch)
{
    int nonfinite = 0;

    norm->sumsq += reduce_sumsq(grad, n, &nonfinite, scratch);
    if (nonfinite)
        stream_norm_flag(norm, block);
    return sqrt(norm->sumsq);
}

void grad_dense(struct grad_part *parts, const struct store *s, size_t block, float *grad)
{
    size_t first = s->block_sub[block], end = s->block_sub[block + 1];

#pragma omp parallel for schedule(dynamic)
    for (size_t i = first; i < end; i++) {
        const struct store_sub *u = &s->subs[i];
        struct grad_part      *p = &parts[i - first];

        *p = (struct grad_part){ .bytes = grad + u->first,
                                  .n_bytes = 4 * u->n_pad,
                                  .payload = 4 * u->n };
        p->crc = crc32c(0, p->bytes, p->n_bytes);
    }
}

/* Where the pairs of index >= bound begin in sorted pairs[0..k). */
static size_t pairs_from(const struct topk_pair *pairs, size_t k, size_t bound)
{
    size_t lo = 0, hi = k;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (pairs[mid].index < bound)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* What was sent is no longer owed. */
static void residual_settle(struct grad_part *parts, const struct store *s, size_t block,
                            float *residual, const struct topk_pair *pairs, size_t k)
{
    size_t first = s->block_sub[block], end = s->block_sub[block + 1];

    for (size_t i = 0; i < k; i++)
        residual[pairs[i].index] = 0.0f;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = first; i < end; i++)
        parts[i - first].residual_crc = crc32c(0, residual + s->subs[i].first,
                                               store_residual_bytes(s->subs[i].n_pad));
}

int grad_pairs(struct grad_part *parts, const struct store *s, size_t block, const float *grad,
                float *residual, void *pack, void *scratch, double *most)
{
    size_t            n = s->block_params[block];
    size_t            k = topk_count(n, s->compress);
    struct topk_pair *pairs = scratch;
    char             *to = pack;

    if (residual)
        residual_add(residual, residual, grad, n);
    topk_select(pairs, residual ? residual : grad, n, k, pairs + k);
    if (residual)
        *most = (double)topk_most(pairs, k);
    if (residual && !isfinite(*most))
        return 1;
    for (size_t i = s->block_sub[block]; i < s->block_sub[block + 1]; i++) {
        const struct store_sub *u = &s->subs[i];
        struct grad_part      *p = &parts[i - s->block_sub[block]];
        size_t                  from = pairs_from(pairs, k, u->first);

        p->pairs = pairs_from(pairs, k, u->first + u->n) - from;
        p->payload = p->pairs * sizeof *pairs;
        p->n_bytes = grad_wire_bytes(p->pairs);
        p->bytes = to;
        grad_wire_pack(to, pairs + from, p->pairs, u->first, u->n);
        p->crc = crc32c(0, to, p->n_bytes);
        to += p->n_bytes;
    }
    if (residual)
        residual_settle(parts, s, block, residual, pairs, k);
    return 0;
}

size_t grad_pack_bytes(const struct store *s, size_t first, size_t end)
{
    size_t most = 0;

    for (size_t b = first; s->compress > 0 && b < end; b++) {
        size_t subs = s->block_sub[b + 1] - s->block_sub[b];
        size_t bytes = topk_count(s->block_params[b], s->compress) * sizeof(struct topk_pair) +
                       subs * (GRAD_WIRE_HEADER + GRAD_WIRE_ALIGN);

        bytes = round_up(bytes, GRAD_WIRE_ALIGN);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t grad_scratch(const struct store *s)
{
    size_t most = 0;

    for (size_t b = 0; b < s->n_blocks; b++) {
        size_t n = s->block_params[b], bytes = reduce_scratch(n);

        if (s->compress > 0) {
            size_t k = topk_count(n, s->compress);
            size_t pairs = k * sizeof(struct topk_pair) + topk_scratch(n, k);

            bytes = pairs > bytes ? pairs : bytes;
        }
        most = bytes > most ? bytes : most;
    }
    return most + 64;
}
