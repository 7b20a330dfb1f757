/* grad_wire.h: a compressed gradient as devices store it: for each subgroup a header of 64 bytes,
 * then its pairs (uint32 index within the subgroup, fp32 value), sorted by index, then zeros up to
 * a multiple of 4 KiB. Header and zeros count as padding. The job's checksum covers all of it. Pure
 * functions. */
#pragma once

#include "data/base/err.h"
#include "kernels/update/topk.h"

enum { GRAD_WIRE_HEADER = 64, GRAD_WIRE_ALIGN = 4096 };

/* Bytes of so many pairs, with header and padding. */
size_t grad_wire_bytes(size_t pairs);

/* Write header, pairs and zeros into out[0..grad_wire_bytes(pairs)). Indices are reduced by
 * `first`. n: parameters of the subgroup. */
void grad_wire_pack(void *out, const struct topk_pair *in, size_t pairs, size_t first, size_t n);

/* Check and scatter the packed form into dense[0..n), which the caller has zeroed. The caller gives
 * it in consecutive chunks, multiples of 4 KiB, from the start. The header must say pairs and n;
 * indices must rise and be below n. 0, or -EBADMSG and a sentence. */
struct grad_wire_reader { size_t n, pairs, seen; int64_t last; };
void grad_wire_begin(struct grad_wire_reader *r, size_t n, size_t pairs);
int  grad_wire_scatter(struct grad_wire_reader *r, float *dense, const void *bytes, size_t n_bytes,
                       struct err *err);
/* -EBADMSG and a sentence that the next pair has this wrong index. */
int  grad_wire_refuse(const struct grad_wire_reader *r, uint32_t index, struct err *err);
