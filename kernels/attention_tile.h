/* attention_tile.h: a head of attention and its tiles of TILE rows, as operands of a form's
 * products (attention_form.h). Private to attention.c. */
#pragma once

#include "kernels/attention_form.h"
#include "kernels/dropout.h"

/* Where q, k, v of one head stand, what its queries see, and how its tiles are laid out. */
struct head {
    const struct attention_form *form;
    const void *q, *k, *v;   // row 0 of each
    size_t     T, hs, width; // T: rows that are text; width: hs padded to the form's strip
    size_t     C, stride;    // elements from one row of out and of qkv to the next
    int        causal;
    size_t     window;       // keys that a query sees at most; 0: no limit
    const int32_t *begin;    // (T): where in the row each token's text begins; NULL: it is one text
    enum dtype dt;
    float      scale;
    const struct dropout *drop; // NULL: none
    uint64_t   row;             // dropout's for query 0
};

/* The tile of rows from i0 on of a tensor whose row 0 is x. */
void tile_load(word *rows, const struct head *hd, const void *x, size_t stride, size_t i0);

/* The right operand where x's rows are summed over: `out`, or x itself. */
const word *tile_fold(word *out, const struct head *hd, const word *rows);

/* The left operand where x's columns are multiplied, summed over its rows: put into `out`, by way
 * of `folded`, or x itself. */
struct operand tile_columns(word *out, word *folded, const struct head *hd, const word *rows);
/* The same again, of where it was put. */
struct operand tile_columns_at(const struct head *hd, const word *columns);

/* n elements of each of `rows` rows of x, `ld` apart, rounded to dt. */
void tile_store(void *out, enum dtype dt, size_t stride, const float *x, size_t ld, size_t rows,
                size_t n);

/* Zeros into rows [from, to) of this head in a tensor whose row 0 is x. */
void tile_zero(void *x, const struct head *hd, size_t stride, size_t from, size_t to);

/* The first key tile that queries from i0 on see, and behind the last key that queries before `end`
 * see. */
size_t tile_keys_first(const struct head *hd, size_t i0);
size_t tile_keys_end(const struct head *hd, size_t end);

/* Whether any query of the tile from i0 on, before `end`, sees a key of the tile from j0 on; i0 is
 * not before tile_keys_first's of j0. */
int tile_is_seen(const struct head *hd, size_t i0, size_t end, size_t j0);

/* Scores of queries i0.. and keys j0.. to -inf, where a window, a text or the row's text ends in
 * that tile. */
void tile_mask(float *s, const struct head *hd, size_t i0, size_t j0);

/* The products; nq: queries, padded to the form's strip; diagonal: a query sees keys up to its own.
 * s (keys, queries) = rows of `keys` times rows of `queries`, which are given transposed; 0 where
 * the diagonal's mask is. */
void tile_scores(float *s, const struct head *hd, const word *keys, const word *queries_t,
                 size_t nq, int diagonal);

/* out (width, queries) += x, columns of the keys' rows, times the folded weights. */
void tile_queries_add(float *out, const struct head *hd, struct operand x, const word *weights,
                      size_t nq, int diagonal);

/* out (keys, width) += rows of the weights times x, folded rows of the queries. */
void tile_keys_add(float *out, const struct head *hd, const word *weights, const word *x, size_t nq,
                   int diagonal);
