/* softmax.h: losses. Softmax with cross-entropy and its gradient, in one pass over each row; and
 * the products and squared errors of classifiers and regressors. */
#pragma once

#include "data/base/dtype.h"

struct softmax_xent {
    size_t         n, V;
    const float   *logits;  // columns [0, split) as (n, split), followed by the others as (n, V -
                            // split)
    size_t         split;
    const int32_t *targets; // (n): a negative target is ignored: loss 0, gradient row 0
    float         *losses;  // (n): -log softmax(logits)[target]
    void          *dlogits; // (n, V) dt: (softmax - onehot) * scale; NULL: losses only
    enum dtype     dt;
    int            tiled;   // dlogits, of bf16, is written in tiles (kernels/tiled.h)
    float          scale;
    const float   *weights; // (n): multiply the gradient of each row; NULL: 1
    /* Label smoothing e: instead of onehot the target's weight is 1 - e + e / V, and that of every
     * other column e / V. The loss is the cross-entropy with these weights, as PyTorch's. */
    float          smoothing;
};

/* dlogits may be `logits` if dt is DT_F32 and split is V. If it is tiled, split is a multiple of
 * TILED_COLS, or V. */
void softmax_xent(const struct softmax_xent *s);

/* Losses over a vocabulary in pieces; each piece has some columns of the logits. softmax_so_far
 * is the state of a row: its largest logit (top), the sum of exp(logit - top), and its target's
 * logit; with label smoothing, the mean of all logits by their weights. */
struct softmax_so_far { double sum; float top, of_target; };

struct softmax_piece {
    size_t         n, V;
    const float   *logits;  // (n, V), split as softmax_xent's
    size_t         split;
    const int32_t *targets; // (n): ids in the whole vocabulary; a row with a negative target is
                            // ignored
    size_t         first;   // the piece has the words [first, first + V)
    struct softmax_so_far *so_far; // (n)
    void          *out;     // (n, V) dt; may be `logits` as in softmax_xent; NULL: no output
    enum dtype     dt;
    int            tiled;   // as softmax_xent's
    const float   *weights; // (n): only softmax_gradient reads them; as softmax_xent's
    float          smoothing; // as softmax_xent's
    size_t         all;       // columns of the whole vocabulary; read if smoothing > 0
};

/* Initialises so_far, before the first piece. */
void softmax_begin(struct softmax_so_far *so_far, size_t n);
/* Adds a piece; pieces may come in any order. It updates so_far and writes exp(logit - top) to
 * out. factors (n): multiply sums that used the weights of earlier pieces by these, because top
 * may have grown. Ignored rows have weights and factors 0. */
void softmax_add(const struct softmax_piece *p, float *factors);
/* After all pieces: out is the gradient of this piece, (softmax - onehot) * scale. */
void softmax_gradient(const struct softmax_piece *p, float scale);
/* The loss of a row; 0 if it is ignored. */
float softmax_loss(const struct softmax_so_far *so_far, int32_t target);

/* The gradient of x (n, C), where the logits are x w'. softmax_rows_add: sums (n, C) = sums
 * times the rows' factors, plus `more`, the piece's weights times its words. softmax_rows_end:
 * out = (sums / sum - the target's word) * scale, after all pieces; with label smoothing, instead
 * of the target's word the mean of all words by their weights. words (n, C) dt: the word vector of
 * each row's target. softmax_words_add: total (C) += the n words of a piece, in their order. */
void softmax_rows_add(float *sums, const float *factors, const float *more, size_t n, size_t C);
struct softmax_rows {
    size_t         n, C;
    const float   *sums;    // (n, C)
    const struct softmax_so_far *so_far;
    const int32_t *targets; // (n): the gradient of a negative target is 0
    const void    *words;   // (n, C) dt
    enum dtype     dt;
    float          scale;
    const float   *weights; // (n): as softmax_xent's
    float          smoothing; // as softmax_xent's
    const double  *total;   // (C): the sum of all words' vectors; read if smoothing > 0
    size_t         all;     // their number
};
void softmax_words_add(double *total, const void *words, enum dtype dt, size_t n, size_t C);
void softmax_rows_end(float *out, const struct softmax_rows *r);

/* A classifier's head. It has few outputs per row, so a plain loop replaces the products. */
struct score {
    size_t      n, L, C;
    enum dtype  dt;
    const void *x; // (n, C) dt
    const void *w; // (L, C) dt
};

/* logits (n, L) = x w', with fp32 sums in a fixed order. */
void score_forward(float *logits, const struct score *s);

/* logits (n, L) += bias (L) of `dt`, if the head has a bias. */
void score_bias(float *logits, const void *bias, enum dtype dt, size_t n, size_t L);

/* Writes dx (n, C) = dlogits w, and adds dlogits' x to dw (L, C), rows in order. dlogits (n, L). */
void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s);

/* losses (n): (predicted - value)^2. dpredicted (n): the gradient times scale; may be NULL or
 * `predicted`. A row with label < 0 does not count: both are 0. */
void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale);
