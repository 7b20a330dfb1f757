/* crc32c.c: CRC32C through ISA-L, which streams it at memory speed. */
#include "data/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    unsigned char *p = (unsigned char *)(uintptr_t)bytes; // ISA-L's prototype lacks the const
    unsigned       c = ~crc;

    while (n > 0) {
        size_t part = n < (1u << 30) ? n : (1u << 30); // its length is an int

        c = crc32_iscsi(p, (int)part, c);
        p += part;
        n -= part;
    }
    return ~c;
}
