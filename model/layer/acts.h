/* acts.h: the activations of a step and the workspaces of its arithmetic. All of them stand in
 * one arena, which is allocated at open. A step allocates nothing.
 *
 * Backward needs three parts of every micro-batch of a layer: its input, attention's arrays and
 * the MLP's. Each part is kept, recomputed or offloaded (placement.h). Kept parts stand in a pool,
 * whose layout changes with the placement. The residual stream is one array, which every layer
 * updates in place; a layer whose input is kept has an array of its own. Attention's arrays are
 * needed for the whole micro-batch. All layers that do not keep them share one set. The MLP's
 * arrays are needed for one chunk of tokens at a time. */
#pragma once

#include "data/base/arena.h"
#include "kernels/rows/softmax.h"
#include "model/layer/products.h"
#include "offload/layout/act_rule.h"

/* The arrays of a part, in the order of the family's list (arch.h). ACTS_ATTN has the arrays of
 * a micro-batch of N = batch x seq tokens. ACTS_MLP has the arrays of n of its tokens. */
struct acts_set { void *at[ARCH_ARRAYS]; };

/* An item holds offloaded arrays of one chunk of a layer's tokens. ITEM_QKV: queries, keys and
 * values. ITEM_MID: the layer's input and attention's other arrays. ITEM_MLP: the MLP arrays
 * that one product can recompute; they are offloaded only if o.whole is set. ITEM_FC: the input
 * of the MLP's activation function. */
enum item_kind { ITEM_QKV, ITEM_MID, ITEM_MLP, ITEM_FC, ITEMS };

/* The size of a micro-batch; rows 0: it is empty and is skipped. Arrays are allocated for the
 * largest micro-batch. A smaller one uses the first rows x seq tokens. */
struct acts_shape { size_t rows, seq; };

/* Workspaces of one layer. R: tokens of a chunk (products_at_once of CHUNK_ROWS), at most N. Q, A,
 * F and I are the columns of qkv, of attention's output, and of the activation function's input and
 * output. Backward's workspaces are NULL in a model that only evaluates. Generation has only ln,
 * proj, act, attention, rope and matvec (decode.c). */
struct acts_work {
    struct acts_shape *shape; // (accum)
    int32_t *x, *y;     // (accum, N): tokens and targets; a classifier has no y
    int32_t *last, *label; // (accum, B): a classifier's last positions and classes; every encoder
                           // has last
    float   *value;     // (accum, B): a regressor's values
    void    *ln;        // (R, C) dt: normalised rows
    float   *proj;      // (R, C): a projection's output, or the gradient of normalised rows
    void    *act;       // (R, I) dt: the activation's output
    float   *dx;        // (accum, N, C): the gradient of the residual stream
    void    *dy;        // (R, C) dt: a chunk of dx as products take it
    float   *dact;      // (R, I)
    void    *dfc;       // (R, F) dt
    void    *dattn;     // (N, A) dt
    void    *dqkv;      // (N, Q) dt
    void    *attention; // attention_scratch
    void    *sums;      // colsum_scratch of the widest of these
    int32_t *types;     // (accum, N): token types, if the model has them
    int32_t *length;    // (accum, B): lengths of an encoder's rows
    int32_t *begin, *at; // (accum, N), for rows of several texts: the index in the row at which
                         // each token's text begins, and the token's position in its text
    double  *reference; // (accum, B), for pairs (pairs.h): as struct batch's
    float   *weight;    // (accum, N), for pairs: each token's loss, and then the weight of its
                        // gradient
    float   *mean, *rstd; // (R): statistics of the norm of an encoder's embeddings
    float   *rope;      // (seq, head_dim): rope_table, if the model has RoPE
    float   *rope_local; // the table of layers with a window, if there are two kinds
    float   *matvec;    // scratch of model_matvec, for generation
    /* With adapters (adapter.h). r: their rank. W: columns of their widest input or output. O: of
     * their widest output that is a part of a product's. */
    struct acts_adapter {
        void  *in;      // (R, W) dt: input behind dropout; only in training
        float *wide;    // (R, W)
        float *sums;    // (R, r)
        void  *h;       // (R, r) dt
        void  *dh;      // (tensors of a matrix, R, r) dt; only in training
        void  *part;    // (R, O) dt; only in training
    } adapter;
};

/* The RoPE tables of positions 0..T-1: acts_lay_rope allocates them, acts_fill_rope computes
 * them. */
void acts_lay_rope(struct arena *a, struct acts_work *w, const struct model_config *g, size_t T);
void acts_fill_rope(struct acts_work *w, const struct model_config *g, size_t T);

/* acts_lay_adapter allocates the workspaces of adapters for R rows. acts_adapter_matvec: the floats
 * that their products of `rows` single tokens need in `matvec`. */
void   acts_lay_adapter(struct arena *a, struct acts_work *w, const struct model_options *o,
                        size_t R);
size_t acts_adapter_matvec(const struct model_config *g, size_t rows);

/* Arrays of one chunk of the head (products_head_rows). A chunk has at most R tokens
 * (products_at_once of HEAD_ROWS) and P rows of logits (of LOGIT_ROWS). For a classifier R = P = B,
 * and V is n_labels. */
struct acts_head {
    float *x, *dx;      // (R, C): gathered rows of a classifier, or the masked tokens' rows of a
                        // masked language model; and their gradient
    int32_t *masked, *target; // (N): indices of the masked tokens; (R): the targets of a chunk
    void  *narrow;      // (R, C) dt: an encoder's rows, the input of its pooler or of the masked
                        // head's W
    float *pooled;      // (R, C): the output of the pooler, or of W
    float *act;         // (R, C): the output of the activation function
    void  *ln;          // (R, C) dt
    float *mean, *rstd; // (R)
    float *logits;      // (P, V), in softmax.h's two parts; if dlogits is fp32, both share memory
                        // of (R, V)
    void  *dlogits;     // (R, V) dt (a classifier's: fp32), or in tiles (products.h)
    float *dln;         // (R, C)
    float *losses;      // (R)
    /* Only if the vocabulary is in pieces; V is then the size of the largest piece. All
     * micro-batches wait for the last piece, so ln is (accum, N, C), and mean and rstd are
     * (accum, N). */
    struct softmax_so_far *so_far; // (accum, N)
    float *factors;     // (R)
    void  *words;       // (accum, N, C) dt: the targets' rows of the words' matrix
    double *total;      // (C): the sum of all words, with label smoothing in training
};

/* What activations take. It follows from the options alone; placement and pool do not matter. It is
 * computed once, and handed on.
 *
 * The arena has flow + kept + work + head bytes. kept_per_layer and moved_per_layer count all
 * micro-batches. The kept bytes of a part are layers x kept_per_layer. An offloaded part moves
 * moved_per_layer bytes, in items of at most `item` bytes. */
struct acts_sizes {
    uint64_t flow, kept_per_layer[ACTS_PARTS], work, head;
    uint64_t moved_per_layer[ACTS_PARTS], item;
    size_t n_layer, accum, tokens;             // of the options; tokens of a micro-batch
    size_t unit;                               // products_unit
    size_t chunk;                              // rows of a layer's chunk (products_at_once)
    size_t part[ACTS_PARTS];                   // bytes of a micro-batch's part in the pool
    size_t n[ACTS_PARTS];                      // arrays of the part
    size_t at[ACTS_PARTS][ARCH_ARRAYS];        // where each begins in the part
    size_t row[ACTS_PARTS][ARCH_ARRAYS];       // bytes of one token's row of each
    size_t item_row[ACTS_PARTS][ITEMS];        // bytes of one token in an item
};
struct acts_sizes acts_sizes(const struct model_options *o);

/* The layer, micro-batch and first token whose activations a shared set holds. layer 0: none. */
struct acts_held { size_t layer, micro, first; };

struct acts {
    struct acts_work work;
    struct acts_head head;
    struct acts_sizes sizes;
    /* Only acts.c uses the members below. */
    struct model_options o; // settled
    struct arena     arena;
    struct placement placement;
    char            *flow;             // (accum, N, C)
    char            *pool;
    size_t           at[ACTS_PARTS];   // offset of each part's kept layers in the pool
    struct acts_set  shared[ACTS_PARTS]; // used by all layers that do not keep the part; the MLP's:
                                         // (R)
    struct acts_held held[ACTS_PARTS];
};

/* Lists the items of a step with full micro-batches, in the order in which forward pushes them.
 * Returns their number. If out is NULL, it only returns an upper bound on the number, which also
 * holds where lengths vary. */
size_t            acts_list(const struct acts_sizes *s, const struct placement *w,
                            struct act_item *out);
/* Computes with act_rule_moves the bytes of these items that are written and read with so many
 * buffers. all: the bytes of all items. 0, or an error if memory is short. */
struct acts_moves { uint64_t written, read, all; };
int               acts_moves(struct acts_moves *out, const struct acts_sizes *s,
                             const struct placement *w, size_t buffers, struct err *err);
/* A lower bound on the offloaded bytes that stay in memory if there are so many buffers. A
 * buffer that no coming item needs keeps its item (act_rule.h). */
double            acts_stay(const struct acts_sizes *s, size_t buffers);

int  acts_open(struct acts *a, const struct model_options *o, struct err *err);
static inline void acts_close(struct acts *a) { arena_free(&a->arena); }

/* Sets the placement of all coming passes; call it between passes. The kept parts must fit into the
 * pool. The unused rest of the pool is given back to the system. */
void          acts_place(struct acts *a, const struct placement *w);
enum acts_policy acts_policy(const struct acts *a, size_t layer, enum acts_part part);

/* The residual stream that is the input of block `block` (1..n_layer + 1), (N, C). It is the
 * layer's own array if the input is kept. Otherwise it is the shared array, which the next layer
 * overwrites. */
float *acts_input(const struct acts *a, size_t block, size_t micro);

/* acts_at returns the arrays of a part of (layer, micro) from token `first` on, kept or shared.
 * The shared arrays of the MLP hold only one chunk. acts_holds is true if the arrays hold these
 * activations, ready for backward. Whoever computes activations into shared arrays calls
 * acts_hold. With layer 0, acts_hold marks the shared arrays as empty. ATTN_LSE is not ordered
 * by tokens: read it with first = 0. */
struct acts_set acts_at(const struct acts *a, enum acts_part part, size_t layer, size_t micro,
                        size_t first);
int  acts_holds(const struct acts *a, enum acts_part part, size_t layer, size_t micro,
                size_t first);
void acts_hold(struct acts *a, enum acts_part part, size_t layer, size_t micro, size_t first);

/* Bytes of one token's row of an array. */
size_t acts_row_bytes(const struct model_options *o, enum acts_part part, size_t array);
/* acts_can_whole: whether all arrays of an offloaded MLP may be offloaded. They may unless a
 * norm follows the MLP's last product. acts_rest_bytes: bytes of one token's row of ITEM_MLP. */
int    acts_can_whole(const struct model_options *o);
size_t acts_rest_bytes(const struct model_options *o);
/* Takes the arrays of a part of N tokens from the arena, one after the other. */
void   acts_lay(struct arena *a, struct acts_set *s, const struct model_options *o,
                enum acts_part part, size_t N);

/* ---- what is offloaded ---- */

/* True if backward reads a layer's inputs first, because it recomputes the attention. The
 * micro-batch is then one record: inputs, then MLP chunks. Otherwise there are up to two
 * records. The first has the QKV items of all chunks, the second has the other items, chunk by
 * chunk. Backward reads the second record first. */
int    acts_inputs_first(const struct placement *w, size_t n_layer, size_t layer);
/* The number of records of a layer's micro-batch. */
size_t acts_records(const struct acts_sizes *s, const struct placement *w, size_t layer);
/* The number of items of one chunk of a layer. */
size_t acts_items(const struct acts *a, size_t layer);
/* Lists an item's arrays, from token `first` on; each has one row a token. Returns their number,
 * at most ACTS_ROWS; 0: the item is not offloaded. */
enum { ACTS_ROWS = ARCH_ARRAYS + 1 };
struct acts_rows { char *base; size_t bytes; };
size_t acts_rows(const struct acts *a, size_t layer, size_t micro, enum item_kind item,
                 size_t first, struct acts_rows out[ACTS_ROWS]);
