/* int8.h: QUANT_INT8 (quant.h). out and packed are aligned to 4 bytes, and out is zero before it is
 * packed into. Parallel by rows. */
#pragma once

#include "data/base/dtype.h"

void int8_pack(void *out, const float *w, size_t rows, size_t cols);
void int8_unpack(void *out, enum dtype dt, const void *packed, size_t rows, size_t cols);
