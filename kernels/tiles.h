/* tiles.h: the operations on AMX tile registers, for block_amx.c and attention_amx.c. A register
 * has 16 rows of 64 bytes; its number must be a literal. gcc does not know that loads read memory:
 * a function that loads tiles has no ordinary store before its last load. The tests have a header
 * of the same name that computes the operations in plain C. */
#pragma once

#include "kernels/simd.h"

#include <immintrin.h>
#include <stdint.h>

#define TILES __attribute__((target("amx-tile,amx-bf16")))

enum { TILE_SIDE = 16, TILE_ROW = 64 }; // rows; bytes of a row

static inline int tiles_here(void) { return simd_amx_bf16(); }

TILES static inline void tiles_begin(void)
{
    enum { R = TILE_ROW, S = TILE_SIDE };
    static const struct { // the format of LDTILECFG
        uint8_t  palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t  rows[16];
    } config = { .palette = 1, .row_bytes = { R, R, R, R, R, R, R, R },
                 .rows = { S, S, S, S, S, S, S, S } };

    _tile_loadconfig(&config);
}

TILES static inline void tiles_end(void) { _tile_release(); }

#define tile_zero(t)             _tile_zero(t)
#define tile_load(t, at, bytes)  _tile_loadd(t, at, bytes) // rows are `bytes` apart
#define tile_store(t, at, bytes) _tile_stored(t, at, bytes)
#define tile_dot(sum, a, b)      _tile_dpbf16ps(sum, a, b) // fp32 sums += bf16 a times pairs of b
