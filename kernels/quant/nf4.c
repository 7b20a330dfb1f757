/* nf4.c: packs and unpacks matrices as 4-bit NormalFloat with double quantisation (QLoRA, arXiv
 * 2305.14314), by the formulas of bitsandbytes. A value is the nearest of 16 in a table, times the
 * largest magnitude of its block of 64. These magnitudes, less their mean, are bytes: the nearest
 * of 256 values of a map, times the largest of 256 blocks. Ties go to the lower value. */
#include "kernels/quant/nf4.h"

#include "data/base/round.h"

#include <math.h>

/* The quantiles of the normal distribution as published (quantiles of 0.9677083, evenly spaced to
 * 0.5: eight of positive values, seven of negative ones), divided by the largest. */
const float nf4_code[16] = {
    -1.0f,                  -0.6961928009986877f,  -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f,  -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,   0.16093020141124725f,  0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f,   0.5626170039176941f,   0.7229568362236023f,  1.0f,
};

void nf4_map(float map[256])
{
    double power = 1; // of ten, exact

    for (int e = 0, i = 128; e < 7; e++, power *= 10)
        for (int j = 0, n = 1 << e; j < n; j++, i++) {
            map[i] = (float)(power / 1e6 * (0.1 + 0.9 * (j + 0.5) / n));
            map[254 - i] = -map[i];
        }
    map[127] = 0.0f;
    map[255] = 1.0f;
}

/* The number of the value of a rising table that is nearest to x. */
static unsigned nearest(const float *table, unsigned n, float x)
{
    unsigned low = 0;

    for (unsigned half = n / 2; half; half /= 2)
        if (x > (table[low + half - 1] + table[low + half]) * 0.5f)
            low += half;
    return low;
}

size_t nf4_blocks(size_t n) { return div_up(n, NF4_BLOCK); }

size_t nf4_bytes(size_t n)
{
    size_t blocks = nf4_blocks(n);

    return (1 + div_up(blocks, NF4_SCALES)) * sizeof(float) + round_up(blocks, 4) +
           round_up(div_up(n, 2), 4);
}

/* The parts of a packed matrix of n values. */
struct parts { float *mean, *scales; uint8_t *magnitudes, *values; };
static struct parts parts_of(const void *packed, size_t n)
{
    size_t       blocks = nf4_blocks(n);
    struct parts p = { .mean = (float *)(uintptr_t)packed };

    p.scales = p.mean + 1;
    p.magnitudes = (uint8_t *)(p.scales + div_up(blocks, NF4_SCALES));
    p.values = p.magnitudes + round_up(blocks, 4);
    return p;
}

/* Packs a block of n values, and returns their largest magnitude. */
static float block_pack(uint8_t *out, const float *w, size_t n)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(w[i]));
    for (size_t i = 0; i < n; i++) {
        unsigned q = nearest(nf4_code, 16, most > 0 ? w[i] / most : 0.0f);

        out[i / 2] |= (uint8_t)(i % 2 ? q : q << 4);
    }
    return most;
}

void nf4_pack(void *out, const float *w, size_t n, float *scratch)
{
    size_t       blocks = nf4_blocks(n);
    struct parts p = parts_of(out, n);
    double       sum = 0;
    float        map[256];

    nf4_map(map);
#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < blocks; b++) {
        size_t first = b * NF4_BLOCK;

        scratch[b] = block_pack(p.values + first / 2, w + first,
                                size_min(n - first, NF4_BLOCK));
    }
    for (size_t b = 0; b < blocks; b++)
        sum += (double)scratch[b];
    *p.mean = (float)(sum / (double)blocks);
    for (size_t first = 0; first < blocks; first += NF4_SCALES) {
        size_t end = size_min(first + NF4_SCALES, blocks);
        float  most = 0;

        for (size_t b = first; b < end; b++)
            most = fmaxf(most, fabsf(scratch[b] - *p.mean));
        p.scales[first / NF4_SCALES] = most;
        for (size_t b = first; b < end; b++)
            p.magnitudes[b] =
                (uint8_t)nearest(map, 256, most > 0 ? (scratch[b] - *p.mean) / most : 0.0f);
    }
}

void nf4_unpack(void *out, enum dtype dt, const void *packed, size_t n)
{
    struct parts p = parts_of(packed, n);
    size_t       blocks = nf4_blocks(n);
    float        map[256];

    nf4_map(map);
#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < blocks; b++) {
        float  most = map[p.magnitudes[b]] * p.scales[b / NF4_SCALES] + *p.mean, value[16];
        size_t end = size_min((b + 1) * NF4_BLOCK, n);

        for (int q = 0; q < 16; q++)
            value[q] = nf4_code[q] * most;
        for (size_t i = b * NF4_BLOCK; i < end; i++)
            dtype_put(out, dt, i, value[p.values[i / 2] >> (i % 2 ? 0 : 4) & 15]);
    }
}
