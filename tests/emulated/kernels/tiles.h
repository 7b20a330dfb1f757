/* tiles.h: AMX tile registers in plain C, as Intel's manual describes the instructions, in the
 * place of kernels/tiles.h: tests/test_product.c proves block_amx.c on every CPU. */
#pragma once

#include "data/base/dtype.h"

#include <math.h>

#define TILES

enum { TILE_SIDE = 16, TILE_ROW = 64 };

static _Thread_local float tile_register[8][TILE_SIDE][TILE_SIDE];
static _Thread_local int   tile_configured;

static inline int tiles_here(void) { return 1; }

static inline void tiles_begin(void) { tile_configured = 1; }

static inline void tiles_end(void) { tile_configured = 0; }

static inline void tile_zero(int t) { memset(tile_register[t], 0, sizeof tile_register[t]); }

static inline void tile_load(int t, const void *at, size_t bytes)
{
    for (size_t i = 0; i < TILE_SIDE; i++)
        memcpy(tile_register[t][i], (const char *)at + i * bytes, TILE_ROW);
}

static inline void tile_store(int t, void *at, size_t bytes)
{
    for (size_t i = 0; i < TILE_SIDE; i++)
        memcpy((char *)at + i * bytes, tile_register[t][i], TILE_ROW);
}

// Subnormal operands and results are zero.
static inline float tile_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

// Element `odd` of the pair in a word of register t.
static inline float tile_half(int t, int row, int col, int odd)
{
    bf16 pair[2];

    memcpy(pair, &tile_register[t][row][col], sizeof pair);
    return tile_flush(bf16_to_f32(pair[odd]));
}

/* TDPBF16PS: the products of even and of odd elements are two chains of fused multiply-adds, whose
 * sum is added to the register. Without a configuration the instruction would fault. */
static inline void tile_dot(int sum, int a, int b)
{
    for (int i = 0; i < TILE_SIDE; i++)
        for (int j = 0; j < TILE_SIDE; j++) {
            float chain[2] = { 0, 0 };

            for (int k = 0; k < TILE_SIDE; k++)
                for (int odd = 0; odd < 2; odd++)
                    chain[odd] = tile_flush(fmaf(tile_half(a, i, k, odd), tile_half(b, k, j, odd),
                                                 chain[odd]));
            tile_register[sum][i][j] =
                tile_configured ? tile_flush(tile_flush(chain[0] + chain[1]) +
                                             tile_flush(tile_register[sum][i][j]))
                                : NAN;
        }
}
