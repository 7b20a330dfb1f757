/* line.h: what the kernels of csd/hls pass along: lines of 64 bytes, as wide as a card's memory
 * port, in streams; and the vendor's two headers, for which sim.h stands in where they are not
 * there, so that any C++17 compiler makes a simulation of the very source that is synthesised.
 *
 * Floats travel as their bits: what is no number in one stream may be an index in the next. */
#pragma once

#include <cstdint>
#include <cstring>

#if __has_include(<hls_stream.h>) && __has_include(<hls_vector.h>)
#include <hls_stream.h>
#include <hls_vector.h>
#else
#include "csd/hls/sim.h"
#endif

enum { LANES = 16 }; // floats of a line

typedef hls::vector<uint32_t, LANES> line;
typedef hls::stream<line>            lines;

static inline float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t as_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
