/* simd.h: how the kernels come to use the vectors of the CPU they run on. The binary's baseline is
 * x86-64-v3; a function marked SIMD_CLONES is compiled twice, for AVX2 and for AVX-512, and the
 * loader binds the fitting one. Mark plain loops in static functions: a loop body outlined by
 * OpenMP is not cloned, so a kernel is a marked inner function called from an `omp parallel for`.
 * Both clones must give the same bits: sums across elements therefore run in explicit lanes
 * (SIMD_LANES), never in an order that the vector width decides, and products are fused only where
 * fmaf says so. */
#pragma once

/* clang takes the attribute otherwise, and a sanitizer's runtime is not up when the loader
 * resolves. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIMD_CLONES
#else
#define SIMD_CLONES __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif

/* Whether this CPU has AVX2 with fused multiply-adds; the AVX-512 of x86-64-v4; that and products
 * of bf16. */
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

/* Whether vectors multiply bf16 faster than fp32. An AMD core makes two products of bf16 in the
 * time of one of fp32; an Intel core makes half as many as of fp32, and has AMX for them instead
 * (docs/lab/performance.md). */
static inline int simd_fast_bf16(void)
{
    return simd_avx512_bf16() && !__builtin_cpu_is("intel");
}

/* Whether this process may multiply bf16 in AMX's tiles; the first call asks Linux. */
int simd_amx_bf16(void);

/* For small functions that must become part of the caller's vectors. */
#define SIMD_INLINE static inline __attribute__((always_inline))

/* Independent partial sums of a reduction: four AVX-512 registers of floats, eight of AVX2. */
enum { SIMD_LANES = 64 };

/* The sum of all lanes, by halves; `lane` is spent. */
SIMD_INLINE float simd_sum(float lane[SIMD_LANES])
{
    for (int half = SIMD_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}
