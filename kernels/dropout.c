/* dropout.c: decides which elements stay, with LANES calls of Philox 4x32-10 at a time, and scales
 * them (kernels/rng.c has one call, in full).
 *
 * Columns are in groups of 64. Call number column / 64 * 8 + column % 8 of its row decides element
 * (row, column), by 16 bits: half column / 8 % 2 (0 is the low one) of output word column / 16 % 4.
 * So one call's elements are 8 columns apart, and calls side by side fill neighbouring columns:
 * nothing needs shuffling.
 *
 * The inputs of a call; no two (site, row, number) of a seed have all of them in common:
 *     counter words 0, 3   number, low and high
 *     counter words 1, 2   row, low and high
 *     key                  site ^ Philox(seed, SEED_STREAM, 0): another site has another key,
 *                          another seed an unrelated one
 * An element is dropped if its bits are below round(p x 65536). All of this is integer arithmetic,
 * so every width of vectors gives the same. */
#include "kernels/dropout.h"

#include <assert.h>

#include "data/base/round.h"
#include "kernels/rng.h"
#include "kernels/simd.h"

enum {
    ROUNDS = 10,
    SPAN   = DROPOUT_SPAN,
    CALLS  = SPAN / 8,             // calls that decide a span
    LANES  = 16,                   // calls at once: an AVX-512 register, two of AVX2
    GROUP  = LANES / CALLS * SPAN, // elements that LANES calls decide
};

#define SEED_STREAM 0x64726f706f757400u // a stream of rng.h: "dropout"

/* Values that all calls of one site share. The multipliers and the lanes' numbers are in memory to
 * hide them from gcc. It would turn a known multiplier into ten shifts and additions, and known
 * lanes into scalar products. */
struct mask {
    uint32_t m0, m1, k0[ROUNDS], k1[ROUNDS];
    uint32_t lane[LANES]; // 0, 1, 2...
    uint32_t below;       // an element with 16 bits below this is dropped
    uint32_t keep;        // bits of the float 1 / (1 - p); choosing is an AND
};

static struct mask mask_make(const struct dropout *d)
{
    uint64_t    key = d->site ^ rng_bits(d->seed, SEED_STREAM, 0);
    struct mask m = { .m0 = 0xd2511f53u, .m1 = 0xcd9e8d57u };

    assert(d->p >= 0 && d->p < 1);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        m.k0[r] = (uint32_t)key + r * 0x9e3779b9u;
        m.k1[r] = (uint32_t)(key >> 32) + r * 0xbb67ae85u;
    }
    for (uint32_t l = 0; l < LANES; l++)
        m.lane[l] = l;
    m.below = (uint32_t)(d->p * 65536.0f + 0.5f);
    float keep = 65536.0f / (float)(65536 - m.below); // infinite, and never used, if p rounds to 1
    memcpy(&m.keep, &keep, sizeof keep);
    return m;
}

/* Lane l computes call number + l % across of row l / across, counted from these. */
SIMD_INLINE void draw(uint32_t w[4][LANES], uint64_t row, uint64_t number, const uint32_t across,
                      const struct mask *m)
{
    uint32_t n = (uint32_t)number, n_high = (uint32_t)(number >> 32);
    uint32_t i = (uint32_t)row, i_high = (uint32_t)(row >> 32);

    for (int l = 0; l < LANES; l++) {
        w[0][l] = n + m->lane[l] % across;
        w[1][l] = i + m->lane[l] / across;
        w[2][l] = i_high + (w[1][l] < i); // the carry
        w[3][l] = n_high + (w[0][l] < n);
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int l = 0; l < LANES; l++) {
            uint32_t low0 = m->m0 * w[0][l], high0 = (uint32_t)((uint64_t)m->m0 * w[0][l] >> 32);
            uint32_t low1 = m->m1 * w[2][l], high1 = (uint32_t)((uint64_t)m->m1 * w[2][l] >> 32);

            w[0][l] = high1 ^ w[1][l] ^ m->k0[r];
            w[1][l] = low1;
            w[2][l] = high0 ^ w[3][l] ^ m->k1[r];
            w[3][l] = low0;
        }
}

// Half h of lane l decides f[h][l], the bits of a float.
SIMD_INLINE void spread(uint32_t f[8][LANES], const uint32_t w[4][LANES], const struct mask *m)
{
    for (size_t k = 0; k < 4; k++)
        for (size_t l = 0; l < LANES; l++) {
            f[2 * k][l]     = m->keep & (0u - ((w[k][l] & 0xffffu) >= m->below));
            f[2 * k + 1][l] = m->keep & (0u - (w[k][l] >> 16 >= m->below));
        }
}

// Applies dropout to n <= GROUP elements of a row: two spans, side by side.
SIMD_CLONES static void group_apply(float *out, const float *x, size_t n, uint64_t row,
                                    uint64_t number, const struct mask *m)
{
    uint32_t w[4][LANES], f[8][LANES];
    float    factor[GROUP];

    draw(w, row, number, LANES, m);
    spread(f, w, m);
    for (int q = 0; q < LANES / CALLS; q++)
        for (int h = 0; h < 8; h++)
            memcpy(factor + q * SPAN + h * CALLS, f[h] + q * CALLS, CALLS * sizeof *factor);
    #pragma omp simd // out may be x, which does no harm, but gcc has to be told
    for (size_t j = 0; j < n; j++)
        out[j] = x[j] * factor[j];
}

void dropout_rows(float *out, const float *x, size_t n, size_t C, size_t first,
                  const struct dropout *d)
{
    struct mask m      = mask_make(d);
    size_t      groups = div_up(C, GROUP);

    #pragma omp parallel for schedule(static)
    for (size_t u = 0; u < n * groups; u++) {
        size_t i = u / groups, j = u % groups * GROUP, at = i * C + j;

        group_apply(out + at, x + at, size_min(C - j, GROUP), first + i, j / 8, &m);
    }
}

// Computes the calls with the same number in LANES rows together.
SIMD_CLONES static void tile_factors(float *factor, uint64_t row, uint64_t number,
                                     const struct mask *m)
{
    for (size_t c = 0; c < CALLS; c++)
        for (size_t i = 0; i < SPAN; i += LANES) {
            uint32_t w[4][LANES], f[8][LANES];

            draw(w, row + i, number + c, 1, m);
            spread(f, w, m);
            for (size_t h = 0; h < 8; h++)
                memcpy(factor + (h * CALLS + c) * SPAN + i, f[h], sizeof f[h]);
        }
}

void dropout_tile(float *factor, uint64_t row, size_t column, const struct dropout *d)
{
    struct mask m = mask_make(d);

    assert(column % SPAN == 0);
    tile_factors(factor, row, column / 8, &m);
}
