/* crc.h: CRC32C (data/base/crc32c.h) of a stream, a line a cycle.
 *
 * A step of the checksum is linear over one bit: the state after 64 bytes is the sum (xor) of what
 * each word of them comes to, the state before being added to the first. So bit r of the new state
 * is the parity of 512 bits under a mask that is known when the kernel is made: some 256 inputs,
 * a tree of xors of four levels of 6-input tables, of which only the 32 bits of the state wait for
 * the line before. */
#pragma once

#include "csd/hls/line.h"

struct crc_masks { uint32_t row[32][LANES]; };

constexpr crc_masks crc_masks_make()
{
    crc_masks m = {};

    for (unsigned word = 0; word < LANES; word++)
        for (unsigned bit = 0; bit < 32; bit++) {
            uint32_t state = 1u << bit;

            for (unsigned step = 0; step < 32 * (LANES - word); step++)
                state = state >> 1 ^ (state & 1 ? 0x82f63b78u : 0u);
            for (unsigned r = 0; r < 32; r++)
                m.row[r][word] |= (state >> r & 1u) << bit;
        }
    return m;
}

struct crc {
    uint32_t state;

    explicit crc(uint32_t sum) : state(~sum) {} // sum: of what came before

    void add(const line &x)
    {
#pragma HLS INLINE
        static constexpr crc_masks masks = crc_masks_make();
        uint32_t                   next = 0;

        for (unsigned r = 0; r < 32; r++) {
#pragma HLS UNROLL
            uint32_t bits = masks.row[r][0] & state;

            for (unsigned word = 0; word < LANES; word++) {
#pragma HLS UNROLL
                bits ^= masks.row[r][word] & x[word];
            }
            for (unsigned half = 16; half > 0; half /= 2) {
#pragma HLS UNROLL
                bits ^= bits >> half;
            }
            next |= (bits & 1u) << r;
        }
        state = next;
    }

    uint32_t sum() const { return ~state; }
};
