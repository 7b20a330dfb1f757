/* permute.c: computes a permutation with a Feistel network and cycle walking.
 *
 * The network works on a power of two >= n. It divides a number into two parts. Each round changes
 * one part by a function of the other; doing it again undoes it, so it is a bijection. A walk that
 * starts inside [0, n) comes back inside it. With the smallest power this takes less than two steps
 * on average, with the next one less than four. */
#include "data/base/permute.h"

#include <assert.h>

#define GOLDEN 0x9e3779b97f4a7c15u

enum { ROUNDS = 8 };

/* A part of a number: `bits` bits from bit `at` on. */
struct part { unsigned at, bits; };

/* A 64-bit finaliser: xor-shifts and odd multipliers. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned bits_of(uint64_t n, unsigned least)
{
    unsigned bits = least;

    while (UINT64_C(1) << bits < n)
        bits++;
    return bits;
}

/* Walks from i until inside [0, n). Even rounds change part `first`, odd rounds the other one. */
static uint64_t walk(const uint64_t keys[ROUNDS], struct part first, struct part other, uint64_t i,
                     uint64_t n)
{
    uint64_t a_mask = (UINT64_C(1) << first.bits) - 1, b_mask = (UINT64_C(1) << other.bits) - 1;

    assert(i < n && n <= UINT64_C(1) << 62);
    do {
        uint64_t a = i >> first.at & a_mask, b = i >> other.at & b_mask;

        for (int round = 0; round < ROUNDS; round += 2) {
            a ^= mix(b + keys[round]) & a_mask;
            b ^= mix(a + keys[round + 1]) & b_mask;
        }
        i = a << first.at | b << other.at;
    } while (i >= n);
    return i;
}

/* Works on at least 256 numbers, because parts of a bit or two mix badly. The parts may differ by a
 * bit. */
uint64_t permute(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n)
{
    uint64_t key = mix(seed + mix(stream + GOLDEN)), keys[ROUNDS];
    unsigned bits = bits_of(n, 8), low = bits / 2;

    for (uint64_t round = 0; round < ROUNDS; round++)
        keys[round] = key + round * GOLDEN;
    return walk(keys, (struct part){ 0, low }, (struct part){ low, bits - low }, i, n);
}

/* The two parts have the same number of bits. */
uint64_t permute_rows(uint64_t seed, uint64_t epoch, uint64_t i, uint64_t n)
{
    uint64_t key = mix(mix(seed + GOLDEN) + epoch), keys[ROUNDS];
    unsigned half = (bits_of(n, 2) + 1) / 2;

    for (uint64_t round = 0; round < ROUNDS; round++)
        keys[round] = mix(key + round * GOLDEN);
    return walk(keys, (struct part){ half, half }, (struct part){ 0, half }, i, n);
}
