/* attention_decode.c: computes attention of one new token per sequence over its cached keys and
 * values: first all scores, then the weighted sum of values. Keys and values pass through a tile of
 * fp32, so that both formats take one path. One thread computes a (b, h): bits depend neither on
 * threads nor on the other sequences. */
#include "kernels/attention/attention.h"

#include <assert.h>
#include <math.h>
#include <omp.h>

#include "data/base/round.h"
#include "kernels/attention/attention_form.h"
#include "kernels/vexp.h"

// Widens n elements of each row of x, and pads with zeros up to ld.
SIMD_CLONES static void rows_widen(float *out, size_t ld, const void *x, enum dtype dt,
                                   size_t stride, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++, out += ld)
        row_widen(out, x, dt, i * stride, n, ld);
}

// s[j] = q . k[j] * scale, in STRIP lanes.
SIMD_CLONES static void tile_scores(float *s, const float *q, const float *k, size_t rows,
                                    size_t width, float scale)
{
    for (size_t j = 0; j < rows; j++, k += width) {
        float lanes[STRIP] = { 0 }, sum = 0.0f;

        for (size_t d = 0; d < width; d += STRIP)
            for (size_t l = 0; l < STRIP; l++)
                lanes[l] = __builtin_fmaf(q[d + l], k[d + l], lanes[l]);
        for (size_t l = 0; l < STRIP; l++)
            sum += lanes[l];
        s[j] = sum * scale;
    }
}

SIMD_CLONES static void tile_values(float *restrict o, const float *restrict p,
                                    const float *restrict v, size_t rows, size_t width)
{
    for (size_t j = 0; j < rows; j++)
        for (size_t d = 0; d < width; d++)
            o[d] = __builtin_fmaf(p[j], v[j * width + d], o[d]);
}

// Turns the scores s[0..n) into probabilities.
SIMD_CLONES static void softmax(float *s, size_t n)
{
    float max = s[0], sum = 0.0f;

    for (size_t j = 1; j < n; j++)
        max = s[j] > max ? s[j] : max;
    for (size_t j = 0; j < n; j++)
        s[j] = vexpf_low(s[j] - max);
    for (size_t j = 0; j < n; j++)
        sum += s[j];
    for (size_t j = 0; j < n; j++)
        s[j] /= sum;
}

/* A head, and a thread's scratch for it. */
struct head {
    size_t     first, T;        // the positions that it sees
    size_t     max_T, stride;   // rows of the cache, and elements from one to the next
    size_t     hs, width;       // width: hs padded to STRIP
    enum dtype dt;
    float     *s, *q, *o, *tile; // (T), (width), (width), (TILE, width)
};

size_t attention_decode_bytes(size_t T, size_t head_size)
{
    size_t width = round_up(head_size, STRIP);

    return round_up(sizeof(float) * (round_up(T, TILE) + 2 * width + TILE * width), 64);
}

/* How many positions from j on are computed together: at most a tile, with neighbouring rows. */
static size_t together(const struct head *hd, size_t j)
{
    return size_min(size_min(hd->T - j, TILE), hd->max_T - j % hd->max_T);
}

/* Computes one head. out, q, and row 0 of k and v are this head's. */
static void head_decode(void *out, const void *q, const void *k, const void *v,
                        const struct head *hd)
{
    float scale = 1.0f / sqrtf((float)hd->hs);

    rows_widen(hd->q, hd->width, q, hd->dt, 0, 1, hd->hs);
    memset(hd->o, 0, sizeof(float) * hd->width);
    for (size_t j = hd->first, n; j < hd->T; j += n) {
        n = together(hd, j);
        rows_widen(hd->tile, hd->width, dtype_at(k, hd->dt, j % hd->max_T * hd->stride), hd->dt,
                   hd->stride, n, hd->hs);
        tile_scores(hd->s + j - hd->first, hd->q, hd->tile, n, hd->width, scale);
    }
    softmax(hd->s, hd->T - hd->first);
    for (size_t j = hd->first, n; j < hd->T; j += n) {
        n = together(hd, j);
        rows_widen(hd->tile, hd->width, dtype_at(v, hd->dt, j % hd->max_T * hd->stride), hd->dt,
                   hd->stride, n, hd->hs);
        tile_values(hd->o, hd->s + j - hd->first, hd->tile, n, hd->width);
    }
    for (size_t j = 0; j < hd->hs; j++)
        dtype_put(out, hd->dt, j, hd->o[j]);
}

void attention_decode(void *out, const struct attention_cached *a)
{
    size_t C = a->C, H = a->H, hs = C / H, width = round_up(hs, STRIP), KV = a->KV ? a->KV : H;
    size_t first = a->window && a->T > a->window ? a->T - a->window : 0, seen = a->T - first;
    size_t floats = attention_decode_bytes(seen, hs) / sizeof(float);

    assert(a->T >= 1 && seen <= a->max_T && hs * H == C && hs <= ATTENTION_HEAD && H % KV == 0);
    #pragma omp parallel for schedule(static)
    for (size_t u = 0; u < a->B * H; u++) {
        size_t b = u / H, h = u % H, row = KV * hs, cache = b * a->max_T * row + h / (H / KV) * hs;
        float *s = dtype_at(a->scratch, DT_F32, (size_t)omp_get_thread_num() * floats);
        float *q = s + round_up(seen, TILE);
        struct head hd = { .first = first, .T = a->T, .max_T = a->max_T, .stride = row, .hs = hs,
                           .width = width, .dt = a->dt, .s = s, .q = q, .o = q + width,
                           .tile = q + 2 * width };

        head_decode(dtype_at(out, a->dt, b * C + h * hs),
                    dtype_at(a->qkv, a->dt, b * (C + 2 * row) + h * hs),
                    dtype_at(a->k, a->dt, cache), dtype_at(a->v, a->dt, cache), &hd);
    }
}
