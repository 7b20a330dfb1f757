/* crc32c.h: the checksum of everything that siTrain stores. It is CRC-32C: Castagnoli
 * polynomial, reflected, initial value and final xor 0xffffffff, as in iSCSI (RFC 3720 B.4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over bytes[0..n). crc32c(crc32c(0, a), b) is the checksum of a
 * followed by b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* Returns the checksum of two byte strings, one after the other, from the checksum of each. The
 * second string has `n` bytes. */
uint32_t crc32c_join(uint32_t first, uint32_t second, size_t n);

/* Returns crc32c(0, bytes, n). All threads of the caller's team share the work if n is large. */
uint32_t crc32c_shared(const void *bytes, size_t n);
