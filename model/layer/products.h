/* products.h: every matrix product of a model, by name. matmul needs all shapes at open, and
 * this file has the ONE list of them. A product runs on a number of rows (tokens), which belongs
 * to a class: a whole chunk, or the rest of a micro-batch. If micro-batches vary, the rest is
 * cut into powers of two, so a dozen classes serve every length. */
#pragma once

#include "kernels/product/matmul.h"
#include "model/arch/arch.h"
#include "model/arch/placement.h"

#include <assert.h>

/* The options of a model. Its products and its activations (acts.h) follow from them. */
struct model_options {
    struct model_config  config;
    size_t             batch, seq, grad_accum;
    size_t             micros, first_micro; // micro-batches of a step, of all ranks; this rank
                                            // computes grad_accum of them from first_micro on.
                                            // micros 0: one rank computes all
    enum dtype         dtype;    // DT_F32 or DT_BF16: dtype of wire parameters and products' inputs
    enum matmul_engine engine;
    int                threads;  // OpenMP threads; 0: OpenMP's default
    struct placement   placement; // of activations, until acts_place
    uint64_t           pool;     // bytes for kept activations, if the placement may change;
                                 // 0: as many as this placement needs
    uint64_t           spare;    // additional bytes while nothing is offloaded
    int                whole;    // an offloaded MLP offloads all its arrays; 0: not those that one
                                 // product can recompute
    int                training; // 0: no backward; one input array a micro-batch, nothing kept
    int                varying;  // micro-batches have at most batch x seq tokens (struct batch); 0:
                                 // exactly that
    int                packs_head; // the words of a head in one piece are packed for its products
    int                packed;   // rows have several texts (struct batch's begin)
    int                paired;   // rows are pairs of answers (pairs.h)
    int                generates; // for decode.h: no activations, and no head among the products
    int                doubled;  // chunks have twice as many rows: products_doubles
    struct model_dropout {
        float    embd, attn, resid;
        uint64_t seed;
    } dropout; // training only; probability 0: no dropout
    float smoothing; // label smoothing of a language model's or classifier's loss (softmax.h)
    float neftune;   // training only: size of the noise in the embeddings (block.h); 0: none
};

/* Fixed chunk sizes of the arithmetic: of the rows whose gradients are summed before they are added
 * to others. They never depend on mode, budget or devices, so results do not either. */
enum { CHUNK_ROWS = 1024, HEAD_ROWS = 512, LOGIT_ROWS = 256 };

/* Rows of a chunk that goes through the products at once: these, or twice as many, which siTrain's
 * own products are faster with. They fold sums (struct matmul_shape), so the bits are the same. */
static inline size_t products_at_once(const struct model_options *o, size_t rows)
{
    return o->doubled ? 2 * rows : rows;
}

/* A parameter matrix (the family's, or a head's) has three products: forward (out = in W + b),
 * back (din = dout W'), and gradient (dW from in and dout). */
enum product_kind { PRODUCT_FORWARD, PRODUCT_BACK, PRODUCT_GRADIENT, PRODUCT_KINDS };
enum { PRODUCTS = (ARCH_TRANSFORM + 1) * PRODUCT_KINDS };

/* The products of an adapter (adapter.h), with the rows of a chunk: h = x A', y = h B', and of
 * backward dh = dy B, dx = dh A, and the gradients dA = dh' x and dB = dy' h, which are added. */
enum adapter_product {
    ADAPTER_DOWN, ADAPTER_UP, ADAPTER_BACK_UP, ADAPTER_BACK_DOWN, ADAPTER_DA, ADAPTER_DB,
    ADAPTER_KINDS
};
/* The most tensors with an adapter. */
enum { ADAPTED = 8 };

static inline size_t products_of(size_t matrix, enum product_kind kind)
{
    return matrix * PRODUCT_KINDS + kind;
}
static inline size_t products_adapter(size_t t, enum adapter_product kind)
{
    return PRODUCTS + t * ADAPTER_KINDS + kind;
}
static inline size_t products_matrix(size_t which) { return which / PRODUCT_KINDS; }
static inline enum product_kind products_kind(size_t which)
{
    return (enum product_kind)(which % PRODUCT_KINDS);
}

/* True for the forward product of a language model's head, which gives logits. */
static inline int products_is_logits(size_t which)
{
    size_t matrix = products_matrix(which);

    return (matrix == ARCH_HEAD || matrix == ARCH_HEAD_LAST) &&
           products_kind(which) == PRODUCT_FORWARD;
}

/* The fixed chunk size of this product. */
static inline size_t products_fold(size_t which)
{
    return products_matrix(which) < ARCH_HEAD ? CHUNK_ROWS
           : products_is_logits(which)        ? LOGIT_ROWS
                                              : HEAD_ROWS;
}

/* Tokens in a whole chunk of this product. */
static inline size_t products_chunk(const struct model_options *o, size_t which)
{
    return products_at_once(o, products_fold(which));
}

static_assert(HEAD_ROWS % LOGIT_ROWS == 0, "tokens % LOGIT_ROWS remain of the last chunk");

/* The logits' product gives columns [0, split) and behind them the others, as softmax.h takes them:
 * in bf16 rows of 50,257 columns take half as long again as rows of whole cache lines
 * (docs/lab/performance.md). */
static inline size_t products_split(size_t vocab, enum dtype dt)
{
    enum { COLUMNS = 64 };

    return dt == DT_F32 || vocab < COLUMNS ? vocab : vocab / COLUMNS * COLUMNS;
}

/* The rows of the next chunk when `left` rows are left. unit: products_unit's. */
static inline size_t products_rows(size_t left, size_t chunk, size_t unit)
{
    while (unit && chunk > left)
        chunk /= 2;
    return chunk < left ? chunk : left;
}

/* If micro-batches vary, every number of tokens is a multiple of this unit. It is the largest
 * power of two, at most 16, that divides every row length (16, 32, ..., and the longest). 0:
 * micro-batches do not vary. */
size_t products_unit(const struct model_options *o);

/* products_head_unit: the unit of the head's rows. products_head_rows: the most rows of the head
 * in a micro-batch. A masked head has only the masked tokens' rows, padded to a multiple of 16. */
size_t products_head_unit(const struct model_options *o);
size_t products_head_rows(const struct model_options *o);

/* The product's name in bench. */
static inline const char *products_name(const struct model_config *g, size_t which)
{
    return arch_matrix(g, products_matrix(which)).names[products_kind(which)];
}

enum { ROW_CLASSES = 12 }; // 1, 2, 4, ..., 2 CHUNK_ROWS
enum { MAX_SHAPES = (2 * PRODUCTS + ADAPTED * ADAPTER_KINDS) * ROW_CLASSES };

struct products {
    struct matmul *matmul;
    /* All announced shapes: a layer's forward, its backward from the last product to the first,
     * its gradients, and the head's. A gradient that is written and one that is added to
     * (accumulate) are two shapes. */
    size_t n;
    struct { size_t which, rows, rest; } key[MAX_SHAPES]; // rest: id of the second part
    struct matmul_shape shape[MAX_SHAPES];
    int    tiled;               // the products with a language model's dlogits want them in tiles
    size_t scratch_bytes;       // that products_run works in, 64-byte aligned: what a run needs,
    size_t run_bytes;           // and behind it a layer's packed parameters, while its
    size_t packed_at[PRODUCTS]; // micro-batches pass: where those of a product begin
    int    packed[PRODUCTS];    // packed since products_begin
};

/* True if these products can have doubled chunks, and there are rows for them: siTrain's engine
 * runs them. */
int products_doubles(const struct model_options *o);

/* Opens the products of a model. Layers use chunks of CHUNK_ROWS tokens. The head uses chunks of
 * HEAD_ROWS, and of LOGIT_ROWS for logits. With `doubled`, all have twice as many. The heads of
 * classifiers and of generation are not products (softmax.h, matvec.h). products_close frees them.
 * Returns 0, or an error in err. */
int  products_open(struct products **out, const struct model_options *o, struct err *err);
void products_close(struct products *p);

/* Finds scratch_bytes and tiled as products_open would, for one thread that plans. The last few
 * lists of shapes are remembered: a plan tries many sizes, and to open products takes long, because
 * their code is generated. */
int products_scratch(size_t *bytes, int *tiled, const struct model_options *o, struct err *err);

/* Call when the parameters change: the first product with each matrix of a layer then packs it
 * again. */
void products_begin(struct products *p);

/* Runs product `which` on `rows` rows, which must be one of the announced numbers. */
void products_run(struct products *p, size_t which, size_t rows, void *c, const void *a,
                  const void *b, const void *bias, void *scratch);

/* Runs a gradient product (dW) that adds to c. Every gradient product of a step but the first
 * adds. */
void products_add(struct products *p, size_t which, size_t rows, float *c, const void *a,
                  const void *b, void *scratch);

/* A gradient product that adds to c, or writes it, for whoever runs it. */
struct matmul_call products_gradient(const struct products *p, size_t which, size_t rows, int adds,
                                     float *c, const void *a, const void *b, void *scratch);
