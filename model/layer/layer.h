/* layer.h: rows (tokens) of a layer, as the functions of a family get them (arch.h). Training
 * passes a chunk of a micro-batch (block.c). Generation passes a chunk of one text, or single
 * tokens of many texts (decode.c). Both use the family's one forward. */
#pragma once

#include "model/layer/adapter.h"
#include "model/layer/model.h"

struct layer {
    struct model *m;
    const void   *wire;    // the layer's parameters
    float        *grad;    // backward only: their gradient; NULL: frozen
    int           fresh;   // the gradient's matrices are written, not added to
    /* Backward of a micro-batch's last chunk: the gradient product of arch->fc is put here, where
     * the engine can join it. block.c runs it in attention's backward, on threads that have no
     * head. Its operands are the workspace's ln and dfc. NULL: it runs at once. */
    struct matmul_call *later;
    struct adapter adapter; // the layer's; wire NULL: none
    size_t        n;       // rows
    int           local;   // the layer has a window, in a model with two kinds of layers
    size_t        padded;  // rows of the products, all allocated; 0: single tokens, whose bits do
                           // not depend on the number of tokens
    size_t        first;   // index of the first row in its micro-batch, or in a pass
    /* Row i has position at[i], or from + (first + i) % T if at is NULL. */
    size_t         T, from;
    const int32_t *at;
    float        *x, *x_out, *dx;  // (n, C): input and output of the residual stream; in backward,
                                   // its gradient; x_out may be x
    struct acts_set attn, mlp;     // activations for backward
    void           *dattn, *dqkv;  // (n, ..): these rows of the workspace's, backward only
    const struct acts_work *w;     // all its other arrays are for these rows
    struct dropout drop_attn_proj, drop_mlp_proj;
};

/* Tokens to embed: B texts of T tokens. The first token of each text has position `at`. */
struct embed {
    struct model  *m;
    size_t         block;  // block of these parameters: all embeddings, or a piece
    const void    *wire;
    const int32_t *tokens; // (B, T)
    size_t         B, T, at;
    const int32_t *types;  // (B, T); NULL if the model has no token types
    const int32_t *positions; // (B, T) if rows have several texts; otherwise NULL
    float         *sums;   // (B, T, width): scratch for backward
    float          noise_size; // of the noise in this pass; 0: none
    uint64_t       noise;  // the noise's stream: another one for each micro-batch of each step
};

/* Adds NEFTune's noise to the words' embeddings x (B, T, width). Recomputation adds the same. A
 * family that normalises its embeddings calls this before the norm; for the others block.c does. */
void layer_embed_noise(float *x, const struct embed *e);

/* Multiplies x (n, C) by the family's factor for embeddings. x has complete embeddings, or their
 * gradients. */
void layer_embed_scale(const struct model_config *g, float *x, size_t n);

/* layer_embed: out (B, T, width) = words + positions. words and positions are tensors of the
 * family, each whole in the block. layer_embed_backward adds the gradient dout to the gradients
 * of both. The caller applies dropout and norms. */
void layer_embed(float *out, const struct embed *e, size_t words, size_t positions);
void layer_embed_backward(float *grad, const float *dout, const struct embed *e, size_t words,
                          size_t positions);

/* out (n, columns) = in W + b, for the family's matrix `which`, with the adapters of its
 * tensors. So are the products below. */
void layer_product(const struct layer *l, size_t which, void *out, const void *in);
/* Computes MLP_FC from the rows that `mid` computed. */
void layer_fc(const struct layer *l);
/* din = dout W'. */
void layer_back(const struct layer *l, size_t which, void *din, const void *dout);
/* Adds or writes (fresh) the gradient of W from these rows. layer_back of the same matrix and rows
 * runs before it. */
void layer_gradient(const struct layer *l, size_t which, const void *in, const void *dout);

/* Applies RoPE to the heads of queries and keys in x (n, DIM_QKV), by their positions. With
 * rope_backward as `rotate`, x is the gradient. */
void layer_rotate(const struct layer *l, void *x, void (*rotate)(const struct rope_rows *));

/* The gradient of tensor t. */
static inline float *layer_grad(const struct layer *l, size_t t)
{
    return model_grad(l->m, l->grad, t);
}

/* w->proj = dropout(projection of `in`). The caller adds it to the residual stream. */
void layer_proj(const struct layer *l, size_t which, const void *in, const struct dropout *drop);

/* Returns dx behind a projection's dropout, in the dtype of the products. Adds its column sums
 * to the gradient of the projection's bias. */
const void *layer_proj_back(const struct layer *l, size_t bias, const struct dropout *drop);
