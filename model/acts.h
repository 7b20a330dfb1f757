/* acts.h: the activations of a step and the workspaces of its arithmetic, all in one arena that is
 * made at open: a step allocates nothing.
 *
 * What backward needs of a layer are three parts of every micro-batch, and each goes a way of its
 * own (ways.h). What is kept stands in a pool that is laid anew when the ways change. The residual
 * stream flows through one array, in place, but where a layer's input is kept. What attention
 * leaves is needed whole: what is not kept of it has one set for all layers. What the MLP leaves
 * is only ever needed for a chunk of tokens. */
#pragma once

#include "data/base/arena.h"
#include "kernels/softmax.h"
#include "model/products.h"
#include "offload/layout/act_rule.h"

/* The arrays of a part, as the family lists them (arch.h): of ACTS_ATTN of a micro-batch of
 * N = batch x seq tokens, of ACTS_MLP of n of its tokens. */
struct acts_set { void *at[ARCH_ARRAYS]; };

/* What a piece holds of a chunk of a layer's tokens, of what is offloaded: what attention works on;
 * the layer's input and the rest of what attention leaves; what of the MLP one product makes again,
 * which leaves where o.whole says so; and what its activation takes. */
enum piece_kind { PIECE_QKV, PIECE_MID, PIECE_MLP, PIECE_FC, PIECES };

/* What stands in a micro-batch; rows 0: nothing, it is left out. The arrays of a micro-batch are as
 * large as the largest, of which the first rows x seq tokens are used. */
struct acts_shape { size_t rows, seq; };

/* Workspaces of one layer; R = min(N, CHUNK_ROWS), Q, A, F and I columns of qkv, of what attention
 * gives, of what the activation takes and gives. Those of backward are NULL in an evaluating
 * model. Generation has ln, proj, act, attention, rope and matvec alone (decode.c). */
struct acts_work {
    struct acts_shape *shape; // (accum)
    int32_t *x, *y;     // (accum, N): tokens and targets; a classifier has no y
    int32_t *last, *label; // (accum, B): a classifier's last positions and classes; an encoder has
                           // last in any case
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
    int32_t *types;     // (accum, N): of tokens, where the model has them
    int32_t *length;    // (accum, B): an encoder's rows
    int32_t *begin, *at; // (accum, N), of rows that are several texts: where in its row the text of
                        // each token begins, and the token's position in its text
    float   *mean, *rstd; // (R): of the norm behind an encoder's embeddings
    float   *rope;      // (seq, head_dim): rope_table, where heads are turned,
    float   *rope_local; // and of layers with a window, where there are two kinds
    float   *matvec;    // generation's: model_matvec's
};

/* The tables by which heads are turned at positions 0..T-1: their places, and what stands there. */
void acts_lay_rope(struct arena *a, struct acts_work *w, const struct model_config *g, size_t T);
void acts_fill_rope(struct acts_work *w, const struct model_config *g, size_t T);

/* A chunk of the head, of products_head_rows; R = HEAD_ROWS and P = LOGIT_ROWS of them at most. A
 * classifier's: R = P = B, and n_labels for V. */
struct acts_head {
    float *x, *dx;      // (R, C): a classifier's rows gathered, and their gradient; and a masked
                        // language model's, which are the tokens
    int32_t *masked, *target; // (N), and what those of a chunk were (R)
    void  *narrow;      // (R, C) dt: an encoder's rows as its pooler, or W, takes them,
    float *pooled;      // (R, C): and what that gives;
    float *act;         // (R, C): and the activation
    void  *ln;          // (R, C) dt
    float *mean, *rstd; // (R)
    float *logits;      // (P, V), in softmax.h's two parts; where dlogits is fp32 (R, V), the same
                        // memory
    void  *dlogits;     // (R, V) dt (a classifier's: fp32)
    float *dln;         // (R, C)
    float *losses;      // (R)
    /* Where the words are in pieces, of which the largest has V, all micro-batches wait for the
     * last one: ln is (accum, N, C), mean and rstd are (accum, N), and there are */
    struct softmax_so_far *so_far; // (accum, N)
    float *factors;     // (R)
    void  *words;       // (accum, N, C) dt: the words that are the targets
};

/* Whose activations a shared set holds; layer 0: none's. first: the chunk's first token. */
struct acts_held { size_t layer, micro, first; };

struct acts {
    struct acts_work work;
    struct acts_head head;
    /* The rest is acts.c's. */
    struct model_options o; // settled
    struct arena     arena;
    struct acts_ways ways;
    char            *flow;             // (accum, N, C)
    char            *pool;
    size_t           at[ACTS_PARTS];   // where a part's kept layers begin in the pool
    struct acts_set  shared[ACTS_PARTS]; // by all layers that do not keep theirs; the MLP's (R)
    struct acts_held held[ACTS_PARTS];
};

/* Bytes of each part, for the memory plan: a pure function of the options (ways and pool do not
 * enter). The arena is flow + kept + work + head; kept: layers x kept_per_layer of each part, all
 * micro-batches. Offloaded, a layer's part is cut into pieces of
 * `piece` bytes at most, all together moved_per_layer of all micro-batches. */
struct acts_sizes {
    uint64_t flow, kept_per_layer[ACTS_PARTS], work, head;
    uint64_t moved_per_layer[ACTS_PARTS], piece;
};
struct acts_sizes acts_sizes(const struct model_options *o);
/* The pieces of a step whose micro-batches are full, in the order in which they are pushed; out
 * NULL: how many, where lengths vary at most. */
size_t            acts_list(const struct model_options *o, const struct acts_ways *w,
                            struct act_item *out);
/* What act_rule_moves says of these pieces, with so many buffers; all: their bytes. */
struct acts_moves { uint64_t written, read, all; };
int               acts_moves(struct acts_moves *out, const struct model_options *o,
                             const struct acts_ways *w, size_t buffers, struct err *err);
/* Bytes of them that never leave memory where they pass through so many buffers, at least: pieces
 * of all sizes stay in those that are not needed for what comes (act_rule.h). */
double            acts_stay(const struct model_options *o, size_t buffers);

int  acts_open(struct acts *a, const struct model_options *o, struct err *err);
static inline void acts_close(struct acts *a) { arena_free(&a->arena); }

/* Between passes: from here on. They fit into the pool, of which the rest takes no memory. */
void          acts_set_ways(struct acts *a, const struct acts_ways *w);
enum acts_way acts_way(const struct acts *a, size_t layer, enum acts_part part);

/* The residual stream that goes into block `block` (1..n_layer + 1), (N, C): a layer's own where
 * it is kept; else it stands in the flow, where the next layer writes over it. */
float *acts_input(const struct acts *a, size_t block, size_t micro);

/* Where a part of (layer, micro) stands, from token `first` on: kept, or shared, where the MLP is
 * only ever that of one chunk. It is there for backward if acts_holds; if not, whoever puts it
 * there says so with acts_hold; layer 0: what is shared holds none's whole. ATTN_LSE has an order
 * of its own: it is taken from token 0. */
struct acts_set acts_at(const struct acts *a, enum acts_part part, size_t layer, size_t micro,
                        size_t first);
int  acts_holds(const struct acts *a, enum acts_part part, size_t layer, size_t micro,
                size_t first);
void acts_hold(struct acts *a, enum acts_part part, size_t layer, size_t micro, size_t first);

/* Bytes of an array's row: of one token. */
size_t acts_row_bytes(const struct model_options *o, enum acts_part part, size_t array);
/* Whether an offloaded MLP may leave whole: where no norm needs what its last product gives. And
 * bytes of a token's row of PIECE_MLP, if it does. */
int    acts_can_whole(const struct model_options *o);
size_t acts_rest_bytes(const struct model_options *o);
/* A part of N tokens, taken array by array. */
void   acts_lay(struct arena *a, struct acts_set *s, const struct model_options *o,
                enum acts_part part, size_t N);

/* ---- what is offloaded ---- */

/* Whether the inputs of a layer are popped before all else, since its attention is computed again.
 * Then its micro-batch is one record: these, and behind them the MLP's pieces chunk by chunk. Else
 * it is up to two: attention's PIECE_QKV of all chunks; and chunk by chunk the others, which
 * backward takes first. */
int    acts_inputs_first(const struct acts_ways *w, size_t n_layer, size_t layer);
/* How many records a layer's micro-batch is. */
size_t acts_records(const struct model_options *o, const struct acts_ways *w, size_t layer);
/* How many pieces a chunk of it is. */
size_t acts_pieces(const struct acts *a, size_t layer);
/* A piece's arrays of one row a token, from token `first` on. Returns how many there are, of
 * ACTS_ROWS at most; 0: it is not offloaded. */
enum { ACTS_ROWS = ARCH_ARRAYS + 1 };
struct acts_rows { char *base; size_t bytes; };
size_t acts_rows(const struct acts *a, size_t layer, size_t micro, enum piece_kind piece,
                 size_t first, struct acts_rows out[ACTS_ROWS]);
