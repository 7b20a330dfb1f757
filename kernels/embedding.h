/* embedding.h: token and position embeddings. */
#ifndef KERNELS_EMBEDDING_H
#define KERNELS_EMBEDDING_H

#include "data/base/dtype.h"

/* out (B, T, C) = wte[tokens[b][t]] + wpe[t]; wte (V, C), wpe (T, C) of `dt`; tokens (B, T). */
void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C);

/* dwte[tokens[b][t]] += dout[b][t], dwpe[t] += dout[b][t]; the order of sums is by (b, t), whatever
 * the threads (they share out the columns). */
void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C);

#endif
