/* products.h: every matrix product of a model, by name. matmul wants all shapes at open; here is
 * the ONE list of them. A product runs on a number of rows (tokens), and rows come in classes: a
 * whole chunk, and what remains of a micro-batch; where micro-batches vary, what remains is cut
 * into powers of two, so that a dozen classes serve every length. */
#pragma once

#include "kernels/matmul.h"
#include "model/arch.h"
#include "model/ways.h"

#include <assert.h>

/* What a model is opened with: its products, and its activations (acts.h), follow from it. */
struct model_options {
    struct model_config  config;
    size_t             batch, seq, grad_accum;
    size_t             micros, first_micro; // of a step: grad_accum of them are this rank's, from
                                            // the first one on. micros 0: there are no others
    enum dtype         dtype;    // DT_F32 or DT_BF16: wire parameters and inputs of products
    enum matmul_engine engine;
    int                threads;  // of OpenMP; 0: as many as it has
    struct acts_ways   ways;     // of activations, until acts_set_ways
    uint64_t           pool;     // bytes for those that are kept, where ways may change; else 0:
                                 // what these ways need
    uint64_t           spare;    // more for them as long as nothing is offloaded
    int                whole;    // an offloaded MLP leaves with all that it keeps; else what one
                                 // product makes again does not
    int                training; // 0: no backward; one input a micro-batch, nothing kept
    int                varying;  // micro-batches up to batch x seq (struct batch); else just that
    int                packed;   // rows are several texts each (struct batch's begin)
    int                generates; // decode.h's: neither activations nor a head among the products
    struct model_dropout {
        float    embd, attn, resid;
        uint64_t seed;
    } dropout; // training only; 0: none
};

/* Fixed pieces that arithmetic is done in: never a function of mode, budget or devices. */
enum { CHUNK_ROWS = 1024, HEAD_ROWS = 512, LOGIT_ROWS = 256 };

/* A matrix of parameters (the family's, or a head's) has three products: out = in W + b,
 * din = dout W', and dW from in and dout. */
enum product_kind { PRODUCT_FORWARD, PRODUCT_BACK, PRODUCT_GRADIENT, PRODUCT_KINDS };
enum { PRODUCTS = (ARCH_TRANSFORM + 1) * PRODUCT_KINDS };

static inline size_t products_of(size_t matrix, enum product_kind kind)
{
    return matrix * PRODUCT_KINDS + kind;
}
static inline size_t products_matrix(size_t which) { return which / PRODUCT_KINDS; }
static inline enum product_kind products_kind(size_t which)
{
    return (enum product_kind)(which % PRODUCT_KINDS);
}

/* Of a language model's head: its forward gives logits. */
static inline int products_is_logits(size_t which)
{
    size_t matrix = products_matrix(which);

    return (matrix == ARCH_HEAD || matrix == ARCH_HEAD_LAST) &&
           products_kind(which) == PRODUCT_FORWARD;
}

/* Tokens of this product's whole chunk. */
static inline size_t products_chunk(size_t which)
{
    return products_matrix(which) < ARCH_HEAD ? CHUNK_ROWS
           : products_is_logits(which)        ? LOGIT_ROWS
                                              : HEAD_ROWS;
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

/* Rows of the next chunk where `left` rows are left; unit: products_unit's. */
static inline size_t products_rows(size_t left, size_t chunk, size_t unit)
{
    while (unit && chunk > left)
        chunk /= 2;
    return chunk < left ? chunk : left;
}

/* What every number of tokens is a multiple of where micro-batches vary: the largest power of two,
 * 16 at most, that divides every length a row can have (16, 32, ..., and the longest); 0: they do
 * not vary. */
size_t products_unit(const struct model_options *o);

/* The same of the head, and the most rows that it has of a micro-batch. A masked head's are those
 * of the masked tokens alone, filled up to a multiple of 16. */
size_t products_head_unit(const struct model_options *o);
size_t products_head_rows(const struct model_options *o);

/* What bench calls it. */
static inline const char *products_name(const struct model_config *g, size_t which)
{
    return arch_matrix(g, products_matrix(which)).names[products_kind(which)];
}

enum { ROW_CLASSES = 11, MAX_SHAPES = 2 * PRODUCTS * ROW_CLASSES }; // 1, 2, 4, ..., CHUNK_ROWS

struct products {
    struct matmul *matmul;
    /* All that were announced: a layer's forward, from its end backward, its gradients, the head's.
     * Gradients that are written and those that are added (accumulate) are two. */
    size_t n;
    struct { size_t which, rows, rest; } key[MAX_SHAPES]; // rest: id of a second part
    struct matmul_shape shape[MAX_SHAPES];
    size_t scratch_bytes;       // that products_run works in, 64-byte aligned: what a run needs,
    size_t run_bytes;           // and behind it a layer's packed parameters, while its
    size_t packed_at[PRODUCTS]; // micro-batches pass: where those of a product begin
    int    packed[PRODUCTS];    // it was done since products_begin
};

/* Layers run chunks of CHUNK_ROWS tokens, the head of HEAD_ROWS and, as far as its logits,
 * LOGIT_ROWS. A classifier's head and generation's are not products (softmax.h, matvec.h). */
int  products_open(struct products **out, const struct model_options *o, struct err *err);
void products_close(struct products *p);

/* From here on the parameters are others: a layer's first product with each packs it anew. */
void products_begin(struct products *p);

/* Run product `which` on `rows` rows, one of the numbers that the options announced. */
void products_run(struct products *p, size_t which, size_t rows, void *c, const void *a,
                  const void *b, const void *bias, void *scratch);

/* The same of a gradient of parameters (dW), added to what c has: every one in a step but the
 * first. */
void products_add(struct products *p, size_t which, size_t rows, float *c, const void *a,
                  const void *b, void *scratch);
