/* products.h: every matrix product of a model, by name. matmul wants all shapes at open; here is
 * the ONE list of them. A product runs on a number of rows (tokens), and rows come in classes: a
 * whole chunk, and what remains of a micro-batch; where micro-batches vary, what remains is cut
 * into powers of two, so that a dozen classes serve every length. */
#ifndef MODEL_PRODUCTS_H
#define MODEL_PRODUCTS_H

#include "kernels/matmul.h"
#include "model/gpt.h"

#include <assert.h>

/* Fixed pieces that arithmetic is done in: never a function of mode, budget or devices. */
enum { CHUNK_ROWS = 1024, HEAD_ROWS = 512, LOGIT_ROWS = 256 };

enum product {
    PRODUCT_QKV,
    PRODUCT_ATTN_PROJ,
    PRODUCT_FC,
    PRODUCT_MLP_PROJ, // forward: y = x W + b
    PRODUCT_D_GELU,
    PRODUCT_D_LN2,
    PRODUCT_D_ATTN,
    PRODUCT_D_LN1, // dx = dy W'
    PRODUCT_D_MLP_PROJ_W,
    PRODUCT_D_FC_W,
    PRODUCT_D_ATTN_PROJ_W,
    PRODUCT_D_QKV_W, // dW = x' dy
    PRODUCT_LOGITS,
    PRODUCT_D_LNF,
    PRODUCT_D_WTE, // the tied head
    PRODUCTS
};

/* Tokens of this product's whole chunk. */
static inline size_t products_chunk(enum product which)
{
    return which < PRODUCT_LOGITS ? CHUNK_ROWS : which < PRODUCT_D_LNF ? LOGIT_ROWS : HEAD_ROWS;
}

static_assert(HEAD_ROWS % LOGIT_ROWS == 0, "tokens % LOGIT_ROWS remain of the last chunk");

/* PRODUCT_LOGITS gives columns [0, split) and behind them the others, as softmax.h takes them: in
 * bf16 rows of 50,257 columns take half as long again as rows of whole cache lines
 * (docs/performance.md). */
static inline size_t products_split(size_t vocab, enum dtype dt)
{
    enum { COLUMNS = 64 };

    return dt == DT_F32 || vocab < COLUMNS ? vocab : vocab / COLUMNS * COLUMNS;
}

struct products_options {
    struct gpt_config  gpt;
    enum dtype         dtype;
    enum matmul_engine engine;
    int                threads;
    int                training;      // 0: forward only
    size_t tokens; // of a micro-batch: layers run chunks of CHUNK_ROWS of them, the head of
                   // HEAD_ROWS and, as far as its logits, LOGIT_ROWS
    int    no_head; // a classifier's and generation's are not products (score.h, matvec.h)
    size_t micros;  // micro-batches of a step, at most: a layer's parameters serve all of them in
                    // turn
    size_t unit;    // micro-batches vary: every number of tokens is a multiple of this; 0: fixed
};

/* Rows of the next chunk where `left` rows are left; unit as in the options. */
static inline size_t products_rows(size_t left, size_t chunk, size_t unit)
{
    size_t rows = chunk;

    if (left >= chunk)
        return chunk;
    if (!unit)
        return left;
    while (rows > left)
        rows /= 2;
    return rows;
}

struct products; // opaque

int  products_open(struct products **out, const struct products_options *o, struct err *err);
void products_close(struct products *p);
struct matmul *products_matmul(const struct products *p);

/* The i-th of all that were announced, in the order of enum product; NULL past the end. Gradients
 * that are written and those that are added (accumulate) are two. */
const struct matmul_shape *products_shape(const struct products *p, size_t i, enum product *which,
                                          size_t *rows);
const char *products_name(enum product which); // "qkv", "attn_proj", ... "d_wte"

/* The matrix that it multiplies with or whose gradient it makes; whether the bias that stands
 * behind it in its block is added. */
enum gpt_tensor products_weight(enum product which);
enum dtype      products_result(enum product which, enum dtype dt); // of a run in dt
static inline int products_has_bias(enum product which) { return which <= PRODUCT_MLP_PROJ; }

/* Memory that products_run works in, 64-byte aligned; a layer's packed parameters stand in it too,
 * while its micro-batches pass. */
size_t products_scratch(const struct products *p);

/* From here on the parameters are others: a layer's first product with each packs it anew. */
void products_begin(struct products *p);

/* Run product `which` on `rows` rows, one of the numbers that the options announced. */
void products_run(struct products *p, enum product which, size_t rows, void *c, const void *a,
                  const void *b, const void *bias, void *scratch);

/* The same of a gradient of parameters (dW), added to what c has: every one in a step but the
 * first. */
void products_add(struct products *p, enum product which, size_t rows, float *c, const void *a,
                  const void *b, void *scratch);

#endif
