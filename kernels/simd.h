/* simd.h: how kernels use the vector instructions of the CPU they run on. The binary's baseline
 * is x86-64-v3. A function marked SIMD_CLONES is compiled for AVX2 and for AVX-512, and the
 * loader binds the suitable clone. Mark plain loops in static functions. A loop body that OpenMP
 * outlines is not cloned, so a kernel is a marked inner function called from an `omp parallel
 * for`. Both clones must give the same bits. Sums across elements therefore run in explicit
 * lanes (SIMD_LANES), never in an order that depends on the vector width. Products are fused
 * only by fmaf. */
#pragma once

#include <stddef.h>

/* clang handles the attribute differently. A sanitizer's runtime is not yet initialised when the
 * loader resolves clones. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIMD_CLONES
#else
#define SIMD_CLONES __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif

/* True if this CPU has: AVX2 with fused multiply-adds; the AVX-512 of x86-64-v4; that AVX-512
 * and products of bf16. */
static inline int simd_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline int simd_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static inline int simd_avx512_bf16(void)
{
    return simd_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* True if vectors multiply bf16 faster than fp32. An AMD core computes two bf16 products in the
 * time of one in fp32. An Intel core computes half as many in bf16 as in fp32; its fast unit for
 * bf16 is AMX (docs/lab/performance.md). */
static inline int simd_fast_bf16(void)
{
    return simd_avx512_bf16() && !__builtin_cpu_is("intel");
}

/* True if this process may multiply bf16 in AMX tiles. The first call asks Linux for permission. */
int simd_amx_bf16(void);

/* For small functions that must be inlined into the caller's vector code. */
#define SIMD_INLINE static inline __attribute__((always_inline))

/* Before a loop over an array of vectors. Otherwise gcc unrolls the loop too late to keep the
 * elements in registers, and stores each sum to the stack at each step (gcc 12; with AVX2 half the
 * speed). */
#define SIMD_UNROLL _Pragma("GCC unroll 16")

/* Independent partial sums of a reduction: four AVX-512 registers of floats, eight of AVX2. */
enum { SIMD_LANES = 64 };

/* The sum of all lanes, by halves. `lane` is overwritten. */
SIMD_INLINE float simd_sum(float lane[SIMD_LANES])
{
    for (int half = SIMD_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* The sum of x[0..n), added up in lanes. */
SIMD_INLINE float simd_total(const float *x, size_t n)
{
    float  lane[SIMD_LANES] = {0};
    size_t i = 0;

    for (; i + SIMD_LANES <= n; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++)
        lane[l] += x[i + l];
    return simd_sum(lane);
}
