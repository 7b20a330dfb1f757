/* crc32c.c: computes CRC32C with ISA-L, as fast as the CPU's instruction for it allows, and joins
 * two checksums. Joining is arithmetic with polynomials over one bit, modulo the checksum's
 * polynomial: n more bytes behind the first checksum multiply it by x^(8 n). */
#include "data/base/crc32c.h"

#include <isa-l/crc.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    unsigned char *p = (unsigned char *)(uintptr_t)bytes; // ISA-L's prototype lacks the const
    unsigned       c = ~crc;

    while (n > 0) {
        size_t part = n < (1u << 30) ? n : (1u << 30); // ISA-L takes the length as int

        c = crc32_iscsi(p, (int)part, c);
        p += part;
        n -= part;
    }
    return ~c;
}

/* Bit 31 - k of a word is the coefficient of x^k. */
static uint32_t times(uint32_t a, uint32_t b)
{
    const uint32_t polynomial = 0x82f63b78;
    uint32_t       product = 0;

    for (; a; a <<= 1, b = b >> 1 ^ (b & 1 ? polynomial : 0))
        if (a >> 31)
            product ^= b;
    return product;
}

uint32_t crc32c_join(uint32_t first, uint32_t second, size_t n)
{
    uint32_t power = 1u << 23; // x^8, then its squares

    for (; n; n >>= 1, power = times(power, power))
        if (n & 1)
            first = times(first, power);
    return first ^ second;
}

uint32_t crc32c_shared(const void *bytes, size_t n)
{
    enum { PART = 1 << 20, MOST = 32 }; // for fewer bytes, starting all threads takes as long
    uint32_t sum[MOST];
    size_t   parts = n / PART < 2 ? 1 : n / PART < MOST ? n / PART : MOST, each = n / parts;

#pragma omp parallel for schedule(static) if (parts > 1)
    for (size_t i = 0; i < parts; i++)
        sum[i] = crc32c(0, (const char *)bytes + i * each, i + 1 < parts ? each : n - i * each);
    for (size_t i = 1; i < parts; i++)
        sum[0] = crc32c_join(sum[0], sum[i], i + 1 < parts ? each : n - i * each);
    return sum[0];
}
