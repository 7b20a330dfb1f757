/* rng.c: Philox 4x32-10, key = seed, counter = (index, stream); and what is made of its bits. */
#include "kernels/rng.h"

#include <assert.h>
#include <math.h>

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

/* Numbers 2 * pair and 2 * pair + 1: one block of Philox, one Box-Muller transform. */
static void normal_pair(float out[2], float std, uint64_t seed, uint64_t stream, uint64_t pair)
{
    struct words r = philox(seed, stream, pair);
    uint64_t     a = (uint64_t)r.w[1] << 32 | r.w[0], b = (uint64_t)r.w[3] << 32 | r.w[2];
    double       u = (double)((a >> 11) + 1) * 0x1p-53; // (0, 1]: its logarithm is finite
    double       angle = (double)(b >> 11) * (0x1p-53 * 6.283185307179586477);
    double       radius = sqrt(-2.0 * log(u)), s, c;

    sincos(angle, &s, &c);
    out[0] = (float)(radius * c * (double)std);
    out[1] = (float)(radius * s * (double)std);
}

void rng_normal(float *out, size_t n, float std, uint64_t seed, uint64_t stream, uint64_t first)
{
    uint64_t end = first + n;

#pragma omp parallel for schedule(static)
    for (uint64_t pair = first / 2; pair < end / 2 + end % 2; pair++) {
        float z[2];

        normal_pair(z, std, seed, stream, pair);
        for (uint64_t i = 0; i < 2; i++)
            if (2 * pair + i >= first && 2 * pair + i < end)
                out[2 * pair + i - first] = z[i];
    }
}

/* A 64-bit finaliser: xor-shifts and odd multipliers. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The network works on the smallest power of two >= n (and >= 256: halves of a bit or two mix
 * badly), in two halves that may differ by a bit; each round changes one half by a function of the
 * other, which is undone by doing it again: a bijection. A walk that starts inside [0, n) comes
 * back inside it, after less than two steps on average where n > 256. */
uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n)
{
    uint64_t key = mix(seed + mix(stream + 0x9e3779b97f4a7c15u));
    int      bits = 8;

    assert(i < n && n <= UINT64_C(1) << 62);
    while (UINT64_C(1) << bits < n)
        bits++;
    do {
        int      low = bits / 2;
        uint64_t l_mask = (UINT64_C(1) << low) - 1, r_mask = (UINT64_C(1) << (bits - low)) - 1;
        uint64_t l = i & l_mask, r = i >> low;

        for (uint64_t round = 0; round < 8; round += 2) {
            l ^= mix(r + key + round * 0x9e3779b97f4a7c15u) & l_mask;
            r ^= mix(l + key + (round + 1) * 0x9e3779b97f4a7c15u) & r_mask;
        }
        i = r << low | l;
    } while (i >= n);
    return i;
}
