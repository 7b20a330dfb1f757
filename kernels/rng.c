/* rng.c: computes Philox 4x32-10 with key = seed and counter = (index, stream), and turns its bits
 * into uniform and normal numbers. */
#include "kernels/rng.h"

#include <math.h>
#include <string.h>

struct words { uint32_t w[4]; };

static struct words philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xd2511f53ull * c0, p1 = 0xcd9e8d57ull * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u; // golden ratio
        k1 += 0xbb67ae85u; // sqrt(3) - 1
    }
    return (struct words){ { c0, c1, c2, c3 } };
}

uint64_t rng_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct words r = philox(seed, stream, index);

    return (uint64_t)r.w[1] << 32 | r.w[0];
}

float rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(rng_bits(seed, stream, index) >> 40) * 0x1p-24f;
}

/* One call for two numbers. */
void rng_uniform_add(float *x, size_t n, float reach, uint64_t seed, uint64_t stream)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits = rng_bits(seed, stream, i / 2);

        x[i] += ((float)(bits >> 40) * 0x1p-23f - 1) * reach;
        if (i + 1 < n)
            x[i + 1] += ((float)((uint32_t)bits >> 8) * 0x1p-23f - 1) * reach;
    }
}

/* ---- normals: one block of Philox, one Box-Muller transform, two numbers
 *
 * Many pairs are computed at once, each line as a loop that compilers vectorise, because making a
 * large model's states is mostly this. Logarithm, sine and cosine are fdlibm's polynomials, below
 * one ulp of a double on their reduced ranges, so that the floats are the same with every C
 * library. */

enum { PAIRS = 512 }; // at a time: their arrays fit into the first-level cache

/* The upper 53 bits of (high, low) as a double. Exact: each half is put into the low bits of
 * 2^52. */
static double top53(uint32_t high, uint32_t low)
{
    const uint64_t two52 = 0x4330000000000000u;
    uint64_t       h = two52 | high, l = two52 | low >> 11;
    double         a, b;

    memcpy(&a, &h, sizeof a);
    memcpy(&b, &l, sizeof b);
    return (a - 0x1p52) * 0x1p21 + (b - 0x1p52);
}

/* ln u for u in [2^-53, 1]: u = 2^k m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1). */
static double logarithm(double u)
{
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    uint32_t high = (uint32_t)(bits >> 32) + (0x3ff00000 - 0x3fe6a09e);
    int32_t  k = (int32_t)(high >> 20) - 1023;
    double   m, e = (double)k;

    bits = (uint64_t)((high & 0xfffff) + 0x3fe6a09e) << 32 | (uint32_t)bits;
    memcpy(&m, &bits, sizeof m);
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    double even = w * (3.999999999940941908e-01 +
                       w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double odd = z * (6.666666666666735130e-01 +
                      w * (2.857142874366239149e-01 +
                           w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double half = 0.5 * f * f;
    return e * 6.93147180369123816490e-01 -
           ((half - (s * (half + even + odd) + e * 1.90821492927058770002e-10)) - f);
}

/* Sine and cosine of an angle in [0, 2 pi]. q quarters are subtracted, which leaves at most pi / 4.
 * pi / 2 is in three parts, of which the first has few enough bits to be multiplied by q
 * exactly. */
static void circle(double angle, double *sine, double *cosine)
{
    double  quarters = angle * 6.36619772367581382433e-01;
    int32_t q = (int32_t)(quarters + 0.5);
    double  n = (double)q;
    double  r = ((angle - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) -
                n * 2.02226624879595063154e-21;
    double  z = r * r;
    double  s = r + r * z * (-1.66666666666666324348e-01 +
                             z * (8.33333333332248946124e-03 +
                                  z * (-1.98412698298579493134e-04 +
                                       z * (2.75573137070700676789e-06 +
                                            z * (-2.50507602534068634195e-08 +
                                                 z * 1.58969099521155010221e-10)))));
    double  tail = z * z * (4.16666666666666019037e-02 +
                           z * (-1.38888888888741095749e-03 +
                                z * (2.48015872894767294178e-05 +
                                     z * (-2.75573143513906633035e-07 +
                                          z * (2.08757232129817482790e-09 +
                                               z * -1.13596475577881948265e-11)))));
    double  h = 0.5 * z, one = 1.0 - h;
    double  c = one + (((1.0 - one) - h) + tail);
    double  a = q & 1 ? c : s, b = q & 1 ? s : c;

    *sine = q & 2 ? -a : a;
    *cosine = (q + 1) & 2 ? -b : b;
}

/* Computes numbers 2 * pair and 2 * pair + 1 of n pairs, from `pair` on. n is at most PAIRS. */
static void normal_pairs(float *out, size_t n, double std, uint64_t seed, uint64_t stream,
                         uint64_t pair)
{
    uint32_t w[4][PAIRS];
    double   radius[PAIRS], angle[PAIRS];

    for (size_t i = 0; i < n; i++) {
        struct words r = philox(seed, stream, pair + i);

        for (int k = 0; k < 4; k++)
            w[k][i] = r.w[k];
    }
    for (size_t i = 0; i < n; i++) {
        double u = (top53(w[1][i], w[0][i]) + 1.0) * 0x1p-53; // (0, 1]: its logarithm is finite

        radius[i] = sqrt(-2.0 * logarithm(u));
        angle[i] = top53(w[3][i], w[2][i]) * (0x1p-53 * 6.283185307179586477);
    }
    for (size_t i = 0; i < n; i++) {
        double s, c;

        circle(angle[i], &s, &c);
        out[2 * i] = (float)(radius[i] * c * std);
        out[2 * i + 1] = (float)(radius[i] * s * std);
    }
}

void rng_normal(float *out, size_t n, float std, uint64_t seed, uint64_t stream, uint64_t first)
{
    uint64_t end = first + n, begin = first / 2, pairs = end / 2 + end % 2 - begin;

#pragma omp parallel for schedule(static)
    for (uint64_t at = 0; at < pairs; at += PAIRS) {
        size_t   count = pairs - at < PAIRS ? (size_t)(pairs - at) : PAIRS;
        uint64_t from = 2 * (begin + at), to = from + 2 * count;
        float    z[2 * PAIRS];

        normal_pairs(z, count, (double)std, seed, stream, begin + at);
        uint64_t keep = from < first ? first : from, last = to > end ? end : to;
        memcpy(out + (keep - first), z + (keep - from), (size_t)(last - keep) * sizeof *z);
    }
}
