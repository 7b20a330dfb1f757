/* nf4.h: QUANT_NF4 (quant.h). packed is aligned to 4 bytes, and zero before it is packed into.
 * Parallel by blocks. */
#pragma once

#include "data/base/dtype.h"

enum { NF4_BLOCK = 64, NF4_SCALES = 256 }; // values of a block; blocks with one scale

size_t nf4_blocks(size_t n); // blocks of n values
size_t nf4_bytes(size_t n);  // of n packed values, a multiple of 4
void   nf4_pack(void *out, const float *w, size_t n, float *scratch); // scratch: nf4_blocks floats
void   nf4_unpack(void *out, enum dtype dt, const void *packed, size_t n);

/* The table of NF4, and the 256 values of a byte that stands for a block's magnitude (a sign, a
 * decimal exponent, a fraction), both in rising order. */
extern const float nf4_code[16];
void nf4_map(float map[256]);
