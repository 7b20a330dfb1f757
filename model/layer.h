/* layer.h: rows (tokens) of a layer at work, as a family's functions get them (arch.h). Training
 * makes them of a chunk of a micro-batch (block.c), generation of a chunk of a text or of single
 * tokens of many (decode.c): the family has one forward for both. */
#pragma once

#include "kernels/layernorm.h"
#include "model/model.h"

struct layer {
    struct model *m;
    const void   *wire;    // the layer's parameters
    float        *grad;    // backward only: their gradient; NULL: they are frozen;
    int           fresh;   // whose matrices are written first
    size_t        n;       // rows
    int           local;   // it is one of those with a window, where there are two kinds
    size_t        padded;  // rows that the products run on, all of which have room; 0: single
                           // tokens, whose bits do not depend on how many they are
    size_t        first;   // which row of its micro-batch, or of a pass, the first one is
    /* Row i stands at position from + (first + i) % T; or, where that is not NULL, at at[i]. */
    size_t         T, from;
    const int32_t *at;
    float        *x, *x_out, *dx;  // (n, C): the residual stream in and out, and backward its
                                   // gradient; x_out may be x
    struct acts_set attn, mlp;     // what they leave for backward
    void           *dattn, *dqkv;  // (n, ..) of the work's, backward only
    const struct acts_work *w;     // the rest of the work's is for these rows alone
    struct dropout drop_attn_proj, drop_mlp_proj;
};

/* Tokens that are embedded: B texts of T, the first of each at position `at`. */
struct embed {
    struct model  *m;
    size_t         block;  // whose parameters are here: all, or a piece's
    const void    *wire;
    const int32_t *tokens; // (B, T)
    size_t         B, T, at;
    const int32_t *types;  // (B, T), where the model has them
    const int32_t *positions; // (B, T), where rows are several texts; else NULL
    float         *sums;   // (B, T, width), backward: free to be written to
};

/* x (n, C), embeddings that are whole, or gradients of them: times what the family has for them. */
void layer_embed_scale(const struct model_config *g, float *x, size_t n);

/* out (B, T, width) = words + positions of the family's tensors of these, each whole in the block;
 * and the gradient dout, added to theirs. Dropout and norms are the caller's. */
void layer_embed(float *out, const struct embed *e, size_t words, size_t positions);
void layer_embed_backward(float *grad, const float *dout, const struct embed *e, size_t words,
                          size_t positions);

/* out (n, columns) = in W + b, of the family's matrix `which`. */
void layer_product(const struct layer *l, size_t which, void *out, const void *in);
/* MLP_FC, from the rows that `mid` left. */
void layer_fc(const struct layer *l);
/* din = dout W'. */
void layer_back(const struct layer *l, size_t which, void *din, const void *dout);
/* W's gradient from these rows. */
void layer_gradient(const struct layer *l, size_t which, const void *in, const void *dout);

/* Heads of queries and keys in rows of both and values are turned by their positions: x (n,
 * DIM_QKV), or with rope_backward its gradient. */
void layer_turn(const struct layer *l, void *x, void (*turn)(const struct rope_rows *));

/* A tensor's gradient. */
static inline float *layer_grad(const struct layer *l, size_t t)
{
    return model_grad(l->m, l->grad, t);
}

/* w->proj = a projection of `in` and its dropout, which is to be added to the residual stream. */
void layer_proj(const struct layer *l, size_t which, const void *in, const struct dropout *drop);

/* dx behind a projection's dropout, as the products take it; its sums go to the projection's
 * bias. */
const void *layer_proj_back(const struct layer *l, size_t bias, const struct dropout *drop);
