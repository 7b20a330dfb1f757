/* dtype.h: the number formats of tensors in memory and in files. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype { DT_F32, DT_BF16, DT_F16 };

typedef uint16_t bf16; // the upper half of a float

/* Returns "fp32", "bf16" or "fp16", or NULL past the last dtype. */
static inline const char *dtype_name(size_t d)
{
    static const char *const names[] = { [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16" };

    return d < sizeof names / sizeof *names ? names[d] : NULL;
}

static inline size_t dtype_bytes(enum dtype d) { return d == DT_F32 ? 4 : 2; }

static inline float bf16_to_f32(bf16 h)
{
    uint32_t u = (uint32_t)h << 16;
    float    f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* Rounds to nearest, ties to even. A NaN stays a quiet NaN. Every vector form, on host and
 * device, gives the same bits. */
static inline bf16 bf16_from_f32(float f)
{
    uint32_t u, nearest;

    memcpy(&u, &f, sizeof u);
    nearest = u + 0x7fffu + ((u >> 16) & 1u);
    return (bf16)((f != f ? u | 0x00400000u : nearest) >> 16);
}

/* Returns the address of element i of an array. A caller that only reads assigns it to a const
 * pointer. */
static inline void *dtype_at(const void *p, enum dtype d, size_t i)
{
    return (char *)(uintptr_t)p + i * dtype_bytes(d);
}

/* Returns element i of an array of dtype DT_F32 or DT_BF16. */
static inline float dtype_get(const void *p, enum dtype d, size_t i)
{
    return d == DT_F32 ? ((const float *)p)[i] : bf16_to_f32(((const bf16 *)p)[i]);
}

static inline void dtype_put(void *p, enum dtype d, size_t i, float f)
{
    if (d == DT_F32)
        ((float *)p)[i] = f;
    else
        ((bf16 *)p)[i] = bf16_from_f32(f);
}
