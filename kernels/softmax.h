/* softmax.h: losses: softmax with cross-entropy and its gradient, in one pass over each row; a
 * classifier's products and squared errors. */
#pragma once

#include "data/base/dtype.h"

struct softmax_xent {
    size_t         n, V;
    const float   *logits;  // columns [0, split) as (n, split), behind them (n, V - split)
    size_t         split;
    const int32_t *targets; // (n): below 0 it is ignored: loss 0, gradient row 0
    float         *losses;  // (n): -log softmax(logits)[target]
    void          *dlogits; // (n, V) dt: (softmax - onehot) * scale; NULL: losses only
    enum dtype     dt;
    float          scale;
};

/* dlogits may be `logits` where dt is DT_F32 and split is V. */
void softmax_xent(const struct softmax_xent *s);

/* Losses over a vocabulary in pieces, of which each gives some columns of logits. What is known of
 * each row so far: its largest logit, the sum of exp(logit - largest), and its target's logit. */
struct softmax_so_far { double sum; float top, of_target; };

struct softmax_piece {
    size_t         n, V;
    const float   *logits;  // (n, V), split as softmax_xent's
    size_t         split;
    const int32_t *targets; // (n), among all words; below 0 the row is ignored
    size_t         first;   // the words [first, first + V) are here
    struct softmax_so_far *so_far; // (n)
    void          *out;     // (n, V) dt; may be `logits` as softmax_xent's may; NULL: nothing
    enum dtype     dt;
};

/* so_far of rows of which no piece was seen. */
void softmax_begin(struct softmax_so_far *so_far, size_t n);
/* One more piece, in any order: so_far is brought up to date, out is exp(logit - largest so far);
 * factors (n): what was made with the weights of earlier pieces is to be multiplied with them, as
 * their largest was another. Rows that are ignored have weights and factors 0. */
void softmax_add(const struct softmax_piece *p, float *factors);
/* When all were seen: out is the gradient, (softmax - onehot) * scale, of this piece. */
void softmax_gradient(const struct softmax_piece *p, float scale);
/* Its loss; 0 where the row is ignored. */
float softmax_loss(const struct softmax_so_far *so_far, int32_t target);

/* The gradient of the rows that the logits were made of, x (n, C) of logits x w': sums (n, C) times
 * the factors of their rows, plus `more`, what the weights of a piece made of its words; at last
 * out = (sums / sum - the target's word) * scale. words (n, C) dt: each row's target's. */
void softmax_rows_add(float *sums, const float *factors, const float *more, size_t n, size_t C);
struct softmax_rows {
    size_t         n, C;
    const float   *sums;    // (n, C)
    const struct softmax_so_far *so_far;
    const int32_t *targets; // (n): below 0 the gradient is 0
    const void    *words;   // (n, C) dt
    enum dtype     dt;
    float          scale;
};
void softmax_rows_end(float *out, const struct softmax_rows *r);

/* A classifier's head: few outputs a row, a plain loop for what is too small for the products. */
struct score {
    size_t      n, L, C;
    enum dtype  dt;
    const void *x; // (n, C) dt
    const void *w; // (L, C) dt
};

/* logits (n, L) = x w'; sums in fp32, of a fixed order. */
void score_forward(float *logits, const struct score *s);

/* logits (n, L) += bias (L) of `dt`, where the head has one. */
void score_bias(float *logits, const void *bias, enum dtype dt, size_t n, size_t L);

/* dx (n, C) = dlogits w, written; dw (L, C) += dlogits' x, rows in order. dlogits (n, L). */
void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s);

/* losses (n): (predicted - value)^2; dpredicted (n): its gradient times scale, or NULL; may be
 * `predicted`. A row of label < 0 does not count: 0 and 0. */
void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale);
