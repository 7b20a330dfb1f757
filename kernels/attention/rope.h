/* rope.h: rotary position embeddings (RoPE, Su et al. 2021) of the rows of queries and keys. In
 * a head of D elements, elements j and j + D/2 form a pair. The pair is rotated by the angle
 * position * frequency(j). This half-rotated layout is that of Hugging Face's files; Meta's own
 * files interleave the pairs. All D elements are rotated, as in Llama, Qwen and Mistral. */
#pragma once

#include "data/base/dtype.h"

/* The scaling of frequencies for contexts longer than in pretraining. Names and formulas are
 * those of transformers. linear: Chen et al. 2023; llama3: Llama 3.1; yarn: Peng et al. 2023. */
enum rope_type { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

/* "default", "linear", "llama3", "yarn"; NULL past the last. */
const char *rope_type_name(size_t type);

/* The members are those of config.json's rope_parameters (rope_scaling before transformers 5).
 * Each comment names the types that read the member. The caller has checked that theta, factor
 * and original are above 0, theta is not 1, and high_freq_factor is above low_freq_factor. */
struct rope {
    enum rope_type type;
    size_t D;        // elements of a head; even
    double theta;    // rope_theta: all types
    double factor;   // linear, llama3, yarn
    double original; // llama3, yarn: original_max_position_embeddings
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow;              // yarn; 0: 32 and 1
    double attention_factor;                  // yarn; 0: computed from factor and the next two
    double mscale, mscale_all_dim;            // yarn; 0: not given
    int    untruncated;                       // yarn: `truncate` is false
};

/* The frequency of pair j < D/2: radians per position. */
double rope_frequency(const struct rope *r, size_t j);

/* The factor that also scales queries and keys; 1 except for yarn. */
double rope_attention_factor(const struct rope *r);

/* table (T, D): for each position 0..T-1 the cosines of the D/2 pairs, then the sines, times the
 * attention factor. Values are computed in double and rounded once. transformers computes angles
 * in fp32, with an error of about 1e-7 p at position p. Parallel. */
void rope_table(float *table, const struct rope *r, size_t T);

/* Rows whose first H heads are rotated in place. In rows of q, k and v side by side these are
 * the heads of q and k. If `at` is NULL, row i has position (first + i) % T. A part of (B, T)
 * rows sets first to its first row. For one new token of each of several sequences at position
 * p, use T 1, first 0 and table + p * D. Otherwise row i has position at[i]. */
struct rope_rows {
    size_t       n, H, D;
    size_t       stride; // distance of rows, in elements; at least H * D
    enum dtype   dt;     // DT_F32 or DT_BF16; arithmetic is fp32, rounded once
    void        *x;
    const float *table; // (T, D) by rope_table
    size_t       T, first;
    const int32_t *at;  // (n): positions of the rows; or NULL
};
void rope_forward(const struct rope_rows *r); // Parallel, as is:

/* On entry x holds the gradients of rotated rows, on return the gradients of the rows before
 * rotation. Each pair is rotated back and again multiplied by the attention factor. If that
 * factor is 1, this is the inverse of forward. */
void rope_backward(const struct rope_rows *r);
