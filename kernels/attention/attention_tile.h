/* attention_tile.h: a head of attention, and its tiles of TILE rows as operands of a form's
 * products (attention_form.h). Private to attention_forward.c and attention_backward.c. */
#pragma once

#include "data/base/arena.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_form.h"

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

size_t heads_of_keys(const struct attention *a);

/* head_make: what all heads share. head_of: head h of sequence b. */
struct head head_make(const struct attention *a);
struct head head_of(const struct head *all, const struct attention *a, size_t b, size_t h);

/* Where head h of sequence b begins in a tensor like out (out_at) and in one like qkv (q_at), and
 * where the keys of head kv begin in the latter (k_at). Its values are KV heads further on. In
 * elements. */
size_t out_at(const struct head *hd, const struct attention *a, size_t b, size_t h);
size_t q_at(const struct head *hd, const struct attention *a, size_t b, size_t h);
size_t k_at(const struct head *hd, const struct attention *a, size_t b, size_t kv);

/* Takes a part of a thread's scratch. A layout is run twice: from NULL for its size, then for its
 * pointers. */
static inline void *words_take(struct arena *all, size_t n)
{
    return arena_take(all, n * sizeof(word));
}

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

/* A tile of queries, n rows from i0 on, and one of keys from j0 on, which they attend to. nq: n
 * padded to the form's strip. fresh: the first keys of these queries. */
struct pair { size_t i0, j0, nq; int diagonal, fresh; };

struct pair pair_of(const struct head *hd, size_t i0, size_t j0);

/* The panel at query `first` and key `key` of a pair; it has no keys if the diagonal masks all. */
struct panel panel_of(const struct head *hd, const struct pair *p, struct panel like, size_t first,
                      size_t key);

/* The panel's scores as softmax takes them. drop: (TILE, TILE) factors of the pair. */
struct tile tile_of(const struct head *hd, const struct pair *p, const struct panel *at,
                    const float *drop);

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
