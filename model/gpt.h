/* gpt.h: what a GPT-2 is: its sizes, and the ONE table of its parameters. Everything that walks
 * over parameters (initial values, weight decay, import, export, gradients) walks this table.
 *
 * Blocks: 0 the embeddings (wte, wpe), 1..n_layer the layers, n_layer + 1 the final norm and, in a
 * classifier, its head. A language model's head is tied to wte. Matrices are stored as Hugging
 * Face's Conv1D has them, (in, out), so that import and export never transpose. Inside a block the
 * tensors stand one after the other without gaps, in the table's order; a block's parameters are
 * one flat range. */
#pragma once

#include "data/base/err.h"
#include "data/base/dtype.h"

struct gpt_config {
    size_t n_layer, n_head, n_embd, vocab, n_positions; // n_positions: rows of wpe
    float  norm_eps; // 1e-5
    size_t n_labels; // 0: a language model; 1: a regressor; more: a classifier of so many classes
    float  drop_embd, drop_attn, drop_resid; // dropout: embd_pdrop, attn_pdrop, resid_pdrop
};

/* Tensors, in order of their blocks. */
enum gpt_tensor {
    GPT_WTE, GPT_WPE,
    GPT_LN1_W, GPT_LN1_B, GPT_QKV_W, GPT_QKV_B, GPT_ATTN_PROJ_W, GPT_ATTN_PROJ_B,
    GPT_LN2_W, GPT_LN2_B, GPT_FC_W, GPT_FC_B, GPT_MLP_PROJ_W, GPT_MLP_PROJ_B,
    GPT_LNF_W, GPT_LNF_B, GPT_SCORE_W,
    GPT_TENSORS
};

enum gpt_block_kind { GPT_EMBEDDINGS, GPT_LAYER, GPT_FINAL };
enum gpt_init { GPT_INIT_NORMAL, GPT_INIT_RESIDUAL, GPT_INIT_ZERO, GPT_INIT_ONE };

struct gpt_param {
    const char *name; // Hugging Face's, without "transformer." and, in layers, without "h.N."
    enum gpt_block_kind block;
    /* A dimension by letter: V vocab, P positions, C width, 3 3C, 4 4C, L labels, 1 one (a vector
     * has rows '1'). */
    char                rows, cols;
    enum gpt_init       init;
    int                 decay; // whether --decay matrices decays it
};
extern const struct gpt_param gpt_params[GPT_TENSORS];

/* Tensors that a model does not have (GPT_SCORE_W of a language model) have size 0. */
static inline size_t gpt_blocks(const struct gpt_config *g) { return g->n_layer + 2; }
enum gpt_block_kind gpt_block_kind(const struct gpt_config *g, size_t block);
size_t gpt_rows(const struct gpt_config *g, enum gpt_tensor t);
size_t gpt_cols(const struct gpt_config *g, enum gpt_tensor t);
size_t gpt_size(const struct gpt_config *g, enum gpt_tensor t);   // rows * cols
size_t gpt_offset(const struct gpt_config *g, enum gpt_tensor t); // of t in its block
size_t gpt_block_size(const struct gpt_config *g, size_t block);  // parameters
size_t gpt_total(const struct gpt_config *g);
/* First and one-past-last tensor of a block. */
void gpt_block_tensors(const struct gpt_config *g, size_t block, enum gpt_tensor *first,
                       enum gpt_tensor *end);

/* Where parameter i of a block stands: its tensor, where in that, and how many are left there. */
struct gpt_place { enum gpt_tensor t; size_t in, left; };
struct gpt_place gpt_place(const struct gpt_config *g, size_t block, size_t i);

/* What a tensor is called: gpt_params' name, in a layer after "h.N.", all after `prefix` but for a
 * classifier's head, which stands beside the transformer. */
void gpt_tensor_name(char *out, size_t size, const char *prefix, size_t block, enum gpt_tensor t);

/* Named sizes: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b. -1 for another name. */
int  gpt_preset(struct gpt_config *g, const char *name);
const char *gpt_preset_name(size_t i); // NULL past the last
/* What can be trained: positive sizes, heads that divide the width, vocab <= 2^31... */
int  gpt_check(const struct gpt_config *g, struct err *err);
/* FLOPs a token of forward and backward: 6 x parameters + 6 x layers x width x seq. */
double gpt_flops_per_token(const struct gpt_config *g, size_t seq);

/* Initial values of parameters [first, first + n) of a block: any part alone, in any order
 * (docs/design.md, Exact meanings). */
void gpt_init_values(float *out, const struct gpt_config *g, size_t block, size_t first, size_t n,
                     uint64_t seed);

/* Does weight decay move parameter i of a block? *count: as many from there on, of n at most, are
 * as it is. */
int gpt_decays(const struct gpt_config *g, size_t block, size_t i, size_t n, int decay_all,
               size_t *count);
