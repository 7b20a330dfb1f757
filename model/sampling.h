/* sampling.h: choosing the next token from its logits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sampling {
    double   temperature; // 0: greedy, the largest logit, ties to the lower id
    size_t   top_k;       // only the k largest logits (and those equal to the k-th); 0: all
    double   top_p;       // of those the fewest that have this probability together; 0 or 1: all
    uint64_t seed;
    double   penalty; // of tokens that stand in the text (Keskar et al. 2019); 0 or 1: none
    double   min_p;   // of top_p's the ones that have this part of the likeliest one's; 0: all
};

/* Logits of tokens that stand in ids[0..n) are divided by the penalty, or, below 0, multiplied by
 * it, once each, as transformers has it: into out[V]. Ids of V and more are ignored. marks: V
 * bytes, 0 before and after. */
void sampling_penalise(const struct sampling *s, const float *logits, size_t V, const int32_t *ids,
                       size_t n, float *out, unsigned char *marks);

/* A token from softmax(logits / temperature): a function of seed, sequence, position and logits
 * alone. scratch: 2 V floats. */
int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch);
