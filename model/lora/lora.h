/* lora.h: adapters (LoRA, Hu et al. 2021): which matrices of a model have them, how they are named,
 * what they make of the model's own parameters, and how they are merged into these.
 *
 * The matrix of an adapted tensor gives out = x W + scale (dropout(x) A') B'. W is frozen, as are
 * all other parameters of the model, except the head of a classifier, which is trained whole. The
 * adapters of a layer are one block, ARCH_ADAPTER (arch.h). Its tensors are A and B of each
 * adapted tensor, in the order of the family's table: arch_a(t) and arch_b(t). */
#pragma once

#include "model/arch/arch.h"

enum { LORA_MOST_RANK = 1 << 16 };

/* Gives the model adapters, and freezes what they freeze. Call it after all sizes are set, n_labels
 * among them. rank 0 takes the adapters away, and freezes nothing. Misuse: a rank, scale or dropout
 * that no adapter can have, or no target. Returns 0, or an error in err. */
int lora_set(struct model_config *g, const struct arch_lora *lora, struct err *err);

/* alpha / rank, or alpha / sqrt(rank) with rs (rank-stabilised). */
float lora_scale(const struct arch_lora *lora);

/* The same model without adapters, as its folder describes it: nothing is frozen. lora_base_block:
 * the block of the model without adapters that is `block` of g; SIZE_MAX: an adapter. */
struct model_config lora_base(const struct model_config *g);
size_t lora_base_block(const struct model_config *g, size_t block);

/* Number of parameters that are trained: of the adapters and a classifier's head, or all. */
size_t lora_trained(const struct model_config *g);

/* True if tensor t of the family's table may have an adapter: a matrix of a layer. */
int lora_may(const struct arch *arch, size_t t);
/* True if tensor t is of a classifier's head, which is trained whole (PEFT's modules_to_save).
 * lora_saved writes the head's module, "score" or "classifier"; "" for a language model. */
int  lora_is_whole(const struct model_config *g, size_t t);
void lora_saved(const struct model_config *g, char *out, size_t size);

/* Sets *targets to the tensors that these words name. words: separated by commas. A word is the
 * path of a module in a layer, or what such paths end with behind a dot, as PEFT matches them:
 * q_proj, attention.output.dense, c_proj (which is two matrices of GPT-2). `attention`, `mlp` and
 * `all` are groups of modules. NULL or "": PEFT's choice for the family. Misuse: a word that names
 * no matrix of the family's layers, or also matrices outside layers. */
int lora_targets_named(const struct arch *arch, const char *words, uint64_t *targets,
                       struct err *err);
/* Writes the path of tensor t's module in a layer, "self_attn.q_proj". lora_is_named: true if the
 * path is the word of n characters, or ends with it behind a dot, as PEFT finds modules. */
void lora_module(const struct arch *arch, size_t t, char *out, size_t size);
int  lora_is_named(const struct arch *arch, size_t t, const char *word, size_t n);

/* out[i] = element first + i of tensor t with its adapter merged, W + scale B A, or its transpose
 * where tensors are (in, out). w[i]: element first + i of W; out may be w. a and b: all of A and B.
 * Sums in double precision, so no bit depends on threads. Parallel. */
void lora_merged(float *out, const struct model_config *g, size_t t, size_t first, size_t n,
                 const float *w, const float *a, const float *b);
