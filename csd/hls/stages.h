/* stages.h: the two ends of a kernel's dataflow: consecutive lines of device memory into a stream,
 * and out of one, each with a checksum of all that passed. The loops are as plain as they are so
 * that bursts are made of them: one access a turn, on no condition, to the line after the last. */
#pragma once

#include "csd/hls/command.h"
#include "csd/hls/crc.h"

typedef hls::stream<uint32_t> words;

/* sum: CRC32C of what came before; to `sum_to` that of all. */
static inline void read_lines(const line *from, uint32_t at, uint32_t n, uint32_t sum, lines &to,
                              words &sum_to)
{
#pragma HLS INLINE off
    crc c(sum);

    for (uint32_t i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line x = from[at + i];

        c.add(x);
        to.write(x);
    }
    sum_to.write(c.sum());
}

static inline void write_lines(lines &from, uint32_t n, line *to, uint32_t at, words &sum_to)
{
#pragma HLS INLINE off
    crc c(0);

    for (uint32_t i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line x = from.read();

        c.add(x);
        to[at + i] = x;
    }
    sum_to.write(c.sum());
}

/* A result that says nothing but the version: 0 to whoever asked with another. */
static inline line answer(uint32_t asked)
{
    line out;

    for (unsigned i = 0; i < LANES; i++)
        out[i] = 0;
    out[0] = asked == HLS_VERSION ? HLS_VERSION : 0;
    return out;
}
