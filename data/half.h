/* half.h: single precision to and from the two 16-bit formats of model files, rounded
 * to nearest, ties to even. */
#ifndef DATA_HALF_H
#define DATA_HALF_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline float half_from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float    f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t half_to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); // a NaN stays one, whatever its low bits
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float half_from_f16(uint16_t h)
{
    return _cvtsh_ss(h);
}

static inline uint16_t half_to_f16(float f)
{
    return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
}

#endif
