/* real_bits.h: the bits of a double as checksums use them. They match what SQLite returns: any
 * NaN is NULL, and zero has no sign. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint64_t real_bits(double x)
{
    uint64_t bits;

    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits : UINT64_MAX;
}

static inline double bits_real(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}
