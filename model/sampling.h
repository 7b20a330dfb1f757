/* sampling.h: chooses the next token from its logits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sampling {
    double   temperature; // 0: greedy: the largest logit, with ties to the lower id
    size_t   top_k;       // keep the k largest logits, and all equal to the k-th; 0: all
    double   top_p;       // then keep the fewest tokens whose probabilities sum to top_p; 0 or 1:
                          // all
    uint64_t seed;
    double   penalty; // repetition penalty of tokens in the text (Keskar et al. 2019); 0 or 1: none
    double   min_p;   // then keep tokens with at least min_p x the highest probability; 0: all
};

/* Writes logits to out[V] with the repetition penalty applied, as transformers does. The logits
 * of tokens in ids[0..n) are divided by the penalty; negative ones are multiplied. Each token is
 * penalised once. Ids of V and more are ignored. marks: V bytes, 0 before and after the call. */
void sampling_penalise(const struct sampling *s, const float *logits, size_t V, const int32_t *ids,
                       size_t n, float *out, unsigned char *marks);

/* Samples a token from softmax(logits / temperature). The result depends only on seed, sequence,
 * position and logits. scratch: 2 V floats. */
int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch);
