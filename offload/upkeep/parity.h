/* parity.h: parity of several devices' bytes, so that one or two of them may be lost. Pure
 * arithmetic; parity_files.h reads and writes.
 *
 * The bytes of each device are cut into chunks. A stripe has a chunk of each device: in stripe s,
 * devices s, s + 1, ... (modulo their number) have the parity of the others' data chunks. So the
 * parity rotates, and no device has parity of its own data. A device's data chunks, in the order of
 * the stripes, are its bytes in order; behind their end they are zeros.
 *
 * The first parity of a stripe is the exclusive or of its data chunks; the second is the sum of
 * 2^i times data chunk i, in GF(256). Any two chunks of a stripe follow from the others. */
#pragma once

#include "data/base/err.h"

enum { PARITY_MOST = 2, PARITY_DEVICES = 128, PARITY_SECTOR = 4096, PARITY_CHUNK = 256 << 10 };

struct parity_shape {
    size_t   devices, parity; // parity: chunks of a stripe that are parity, 1 or 2
    size_t   chunk;           // bytes, a multiple of PARITY_SECTOR
    uint64_t stripes;
};

/* Refuse a number of devices that is too small for so much parity, or too large. Misuse. */
int parity_can(size_t devices, size_t parity, struct err *err);

/* The shape for devices of which the longest has so many bytes. chunk: PARITY_CHUNK, or less where
 * the devices have little. */
struct parity_shape parity_shape(size_t devices, size_t parity, uint64_t longest);

/* A device's place in a stripe: 0 ... parity - 1: it has that parity chunk; above: data chunk
 * place - parity. */
size_t   parity_place(const struct parity_shape *s, uint64_t stripe, size_t device);
/* How many parity chunks a device has in the stripes before this one. All others are data. */
uint64_t parity_before(const struct parity_shape *s, uint64_t stripe, size_t device);
/* Bytes of parity on a device. */
uint64_t parity_bytes(const struct parity_shape *s, size_t device);

/* chunk: (devices) the chunks of a stripe by their places. encode computes the parity of the data.
 * decode makes those again for which bad[place] is set; -EBADMSG, without a sentence: they are more
 * than the parity bears. -ENOMEM. */
int parity_encode(const struct parity_shape *s, unsigned char **chunk);
int parity_decode(const struct parity_shape *s, unsigned char **chunk, const unsigned char *bad);
