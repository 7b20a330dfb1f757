/* attention_tile.h: a head of attention, and its tiles of TILE rows as operands of a form's
 * products (attention_form.h). Private to attention.c. */
#pragma once

#include "kernels/attention/attention_form.h"
#include "kernels/dropout.h"

/* One head: the places of its q, k, v, the keys its queries attend to, and the layout of its
 * tiles. */
struct head {
    const struct attention_form *form;
    const void *q, *k, *v;   // row 0 of each
    size_t     T, hs, width; // T: rows of text; width: hs padded to the form's strip
    size_t     words;        // of a loaded row: width / the form's depth
    size_t     C, stride;    // distance of rows in out and in qkv, in elements
    int        causal;
    size_t     window;       // most keys that a query attends to; 0: no limit
    const int32_t *begin;    // (T): index in the row at which each token's text begins; NULL: one
                             // text
    enum dtype dt;
    float      scale;
    const struct dropout *drop; // NULL: none
    uint64_t   row;             // dropout's row of query 0
};

/* Loads the tile of rows from i0 on of a tensor whose row 0 is x. */
void tile_load(word *rows, const struct head *hd, const void *x, size_t stride, size_t i0);

/* The right operand of a product that sums over the rows of x: `out`, or x itself. */
const word *tile_fold(word *out, const struct head *hd, const word *rows);

/* The left operand with the columns of x, for a product that sums over its rows. It is made in
 * `out`, by way of `folded`, or is x itself. */
struct operand tile_columns(word *out, word *folded, const struct head *hd, const word *rows);
/* The operand that tile_columns made earlier in `columns`. */
struct operand tile_columns_at(const struct head *hd, const word *columns);

/* Stores n elements of each of `rows` rows of x, which are `ld` apart, rounded to dt. */
void tile_store(void *out, enum dtype dt, size_t stride, const float *x, size_t ld, size_t rows,
                size_t n);

/* Stores x (width, TILE) as the rows from i0 on of a tensor of this head whose row 0 is `out`. x is
 * transposed in `scratch`. */
void tile_store_columns(void *out, size_t stride, word *scratch, const float *x,
                        const struct head *hd, size_t i0);

/* Multiplies n elements of each row of x (rows, TILE) by `by`, unless all of these are 1. */
void tile_scale(float *restrict x, const float *restrict by, size_t rows, size_t n);

/* delta (TILE): the products of `rows` rows of x and y, tensors like out; 0 beyond. Lanes are added
 * up in order, for all rows at once. lanes: scratch (TILE, TILE). */
void tile_dot(float *delta, float *lanes, const struct head *hd, const void *x, const void *y,
              size_t rows);

/* Writes zeros to rows [from, to) of this head in a tensor whose row 0 is x. */
void tile_zero(void *x, const struct head *hd, size_t stride, size_t from, size_t to);

/* tile_keys_first: the first key tile that queries from i0 on attend to. tile_keys_end: the end
 * of the keys that queries before `end` attend to. */
size_t tile_keys_first(const struct head *hd, size_t i0);
size_t tile_keys_end(const struct head *hd, size_t end);

/* Sets to -inf the masked scores of a panel of queries i0.. and keys j0... Scores are masked where
 * a window, a text or the row's text ends in the panel. */
void tile_mask(float *s, const struct head *hd, size_t i0, size_t j0, const struct panel *p);

/* Products of tiles. diagonal: a query attends to keys up to its own. tile_scores: the panel's s =
 * rows of `keys` times rows of `queries`, which are given transposed. Where the diagonal masks a
 * strip, s is not written. */
void tile_scores(float *s, const struct head *hd, const word *keys, const word *queries_t,
                 const struct panel *p, int diagonal);

/* out (width, TILE queries) += x times the folded weights of all keys and p's queries; x has
 * columns of the keys' rows. */
void tile_queries_add(float *out, const struct head *hd, struct operand x, const word *weights,
                      const struct panel *p, int diagonal, int fresh);

/* out (keys, width) += rows of the weights times x, folded rows of nq queries. */
void tile_keys_add(float *out, const struct head *hd, const word *weights, const word *x, size_t nq,
                   int diagonal, int fresh);
