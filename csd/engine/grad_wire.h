/* grad_wire.h: the form of a compressed gradient on a device: for each subgroup a header of 64
 * bytes, then its pairs (uint32 index within the subgroup, fp32 value), sorted by index; the rest
 * up to a multiple of 4 KiB is zero. Header and rest are padding in the accounts. The checksum that
 * travels with the job covers header, pairs and rest. */
#pragma once

#include "data/base/err.h"
#include "kernels/topk.h"

enum { GRAD_WIRE_HEADER = 64, GRAD_WIRE_ALIGN = 4096 };

/* Bytes that `pairs` pairs take, rounded up. */
size_t grad_wire_bytes(size_t pairs);

/* Write header, pairs (indices reduced by `first`) and zeros into out[0..grad_wire_bytes(pairs)).
 * n: parameters of the subgroup. */
void grad_wire_pack(void *out, const struct topk_pair *in, size_t pairs, size_t first, size_t n);

/* Check the header against pairs and n, and every index: < n and rising. 0 or -EBADMSG and a
 * sentence. Checks and scatters a chunk at a time: feed consecutive byte pieces of the packed form
 * (multiples of 4 KiB, from the start) into dense[0..n), zeroed by the caller. */
struct grad_wire_reader { size_t n, pairs, seen; int64_t last; };
void grad_wire_begin(struct grad_wire_reader *r, size_t n, size_t pairs);
int  grad_wire_scatter(struct grad_wire_reader *r, float *dense, const void *bytes, size_t n_bytes,
                       struct err *err);
/* -EBADMSG and a sentence: the next pair has this index. */
int  grad_wire_refuse(const struct grad_wire_reader *r, uint32_t index, struct err *err);
