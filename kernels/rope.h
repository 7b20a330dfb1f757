/* rope.h: rotary position embeddings (Su et al. 2021) of the rows of queries and keys. In a head of
 * D elements, elements j and j + D/2 are a pair, turned by the angle position * frequency(j): the
 * half-rotated layout of Hugging Face's files; Meta's own interleave the pairs. All D elements are
 * turned, as in Llama, Qwen and Mistral. */
#pragma once

#include "data/base/dtype.h"

/* How frequencies are scaled for contexts longer than the one of pretraining; the names and the
 * formulas are transformers'. linear: Chen et al. 2023; llama3: Llama 3.1; yarn: Peng et al.
 * 2023. */
enum rope_type { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

/* "default", "linear", "llama3", "yarn"; NULL past the last. */
const char *rope_type_name(size_t type);

/* The members are those of config.json's rope_parameters (rope_scaling before transformers 5); one
 * that a type does not name is not read. The caller has checked that theta, factor and original are
 * above 0, theta is not 1, and high_freq_factor is above low_freq_factor. */
struct rope {
    enum rope_type type;
    size_t D;        // elements of a head; even
    double theta;    // rope_theta: all types
    double factor;   // linear, llama3, yarn
    double original; // llama3, yarn: original_max_position_embeddings
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow;              // yarn; 0: 32 and 1
    double attention_factor;                  // yarn; 0: follows from factor and the next two
    double mscale, mscale_all_dim;            // yarn; 0: not given
    int    untruncated;                       // yarn: `truncate` is false
};

/* Of pair j < D/2: radians from one position to the next. */
double rope_frequency(const struct rope *r, size_t j);

/* What queries and keys are multiplied by beside being turned; 1 but for yarn. */
double rope_attention_factor(const struct rope *r);

/* table (T, D): for positions 0..T-1 the cosines of the D/2 pairs, then the sines, times the
 * attention factor. Computed in double and rounded once; transformers has angles in fp32, which at
 * position p are off by about 1e-7 p. Parallel. */
void rope_table(float *table, const struct rope *r, size_t T);

/* Rows of which the first H heads are turned in place: in rows of q, k and v side by side these are
 * the heads of q and k together. Row i stands at position (first + i) % T: a part of (B, T) rows
 * says where it begins; one new token for each of several sequences at position p is T 1, first 0
 * and table + p * D. Or it stands at at[i]. */
struct rope_rows {
    size_t       n, H, D;
    size_t       stride; // elements from a row to the next one; at least H * D
    enum dtype   dt;     // DT_F32 or DT_BF16; arithmetic is fp32, rounded once
    void        *x;
    const float *table; // (T, D) by rope_table
    size_t       T, first;
    const int32_t *at;  // (n): the rows' positions, if they are not those; else NULL
};
void rope_forward(const struct rope_rows *r); // Parallel, as is:

/* x holds gradients of turned rows, and then those of the rows before: each pair is turned back,
 * and multiplied by the attention factor once more. Where that is 1 this is forward's inverse. */
void rope_backward(const struct rope_rows *r);
