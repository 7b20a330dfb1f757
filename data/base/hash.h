/* hash.h: a 64-bit hash of bytes. It tells apart what is likely to differ; it is no protection
 * against somebody who looks for a second text with the same hash. The values never change, because
 * `prepare --eval-split` chooses documents by them. */
#pragma once

#include <stdint.h>
#include <string.h>

/* Mixes all bits of h: MurmurHash3's last step. */
static inline uint64_t hash_mix(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* Returns the hash of bytes[0..n), little-endian words of 8 bytes first. */
static inline uint64_t hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t             h = hash_mix(n + 0x9e3779b97f4a7c15u), w;

    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    w = 0;
    memcpy(&w, p, n);
    return hash_mix(h ^ w);
}
