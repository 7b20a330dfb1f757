/* crc32c.h: the one checksum of everything siTrain stores (Castagnoli polynomial,
 * reflected, initial value and final xor 0xffffffff, as in iSCSI, RFC 3720 B.4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to begin) over bytes[0..n): crc32c(crc32c(0, a), b) is that of a, then b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The checksum of two runs of bytes, one after the other, from those of each; the second has `n`
 * bytes. */
uint32_t crc32c_join(uint32_t first, uint32_t second, size_t n);

/* crc32c(0, bytes, n) by all threads of the caller's team, where there is much. */
uint32_t crc32c_shared(const void *bytes, size_t n);
