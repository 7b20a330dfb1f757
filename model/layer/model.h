/* model.h: the state that the arithmetic of a pass uses: sizes, products and activations. It is
 * shared by training and evaluation. A model holds no parameters; a stream lends them, block by
 * block. Only one thread at a time may use a model. */
#pragma once

#include "data/base/arena.h"
#include "kernels/attention/attention.h"
#include "kernels/dropout.h"
#include "kernels/rows/layernorm.h"
#include "kernels/rows/rmsnorm.h"
#include "model/layer/acts.h"
#include "model/arch/arch.h"
#include "model/layer/products.h"
#include "model/layer/records.h"

struct model {
    struct model_options o;
    struct products *products;
    struct acts      acts;
    struct records   records;       // of the current pass
    struct arena     scratch;       // scratch of products_run
    struct arena     unpacked;      // a layer of a packed base (packed.h), or nothing
    struct arena     sink;          // receives the gradients of frozen vectors
    size_t           lowest;        // lowest layer with a backward; n_layer + 1: none has
    int              dropping;      // true in a training pass with dropout; step is its step
    uint64_t         step;
    /* Totals of recomputation in backward, by part: nanoseconds and tokens. */
    struct { uint64_t ns, tokens; } again[ACTS_PARTS];
};

/* Opens a model, which must be zeroed, and sets OpenMP's number of threads. After an error,
 * model_close must still be called. Returns 0, or an error in err. */
int  model_open(struct model *m, const struct model_options *o, struct err *err);
void model_close(struct model *m);

/* Pointers to tensor t in its block's flat wire parameters, or flat gradient. model_grad of a
 * frozen matrix is NULL. model_grad of a frozen vector is memory that nobody reads. If grad is
 * NULL, all of the block is frozen. */
const void *model_wire(const struct model *m, const void *wire, size_t t);
float      *model_grad(const struct model *m, float *grad, size_t t);

/* Prepares a fresh gradient of a block (offload/stream/stream.h). It zeroes everything that
 * backward adds to, and the frozen parameters. If products is 1, it skips the matrices that
 * model_gradient computes, because the first product of each writes them. */
void model_grad_begin(const struct model *m, size_t block, float *grad, int products);

/* The parameters of a layer as the model computes with them: `wire` itself, or it unpacked. They
 * are there until the next layer's. */
const void *model_unpacked(const struct model *m, size_t block, const void *wire);

/* The forward product (out = in W + b) or the backward product (din = dout W') of a matrix, on
 * `rows` tokens. */
void model_product(const struct model *m, size_t matrix, enum product_kind kind, size_t rows,
                   void *out, const void *in, const void *wire);
/* A language model's logits, from the whole head, or from its piece `matrix`. head_wire: the
 * block with the words. wire: the final norm's block, which also has a masked head's bias. */
void model_logits(const struct model *m, size_t matrix, size_t rows, float *out, const void *in,
                  const void *head_wire, const void *wire);
/* Forward product of single tokens: a row's bits do not depend on the other rows (matvec.h).
 * scratch: rows x arch_widest floats. */
void model_matvec(const struct model *m, size_t matrix, size_t rows, void *out, const void *in,
                  const void *wire, float *scratch);
/* The gradient of a matrix, into its place in `grad`, unless it is frozen. fresh: written;
 * otherwise added. later: NULL: the product runs at once. Otherwise *later gets it where the engine
 * can join it (matmul.h), and the caller runs it. */
void model_gradient(const struct model *m, size_t matrix, size_t rows, float *grad, const void *in,
                    const void *dout, int fresh, struct matmul_call *later);

/* The layernorm with weight tensor `weight`, and the bias that follows it, of x (rows, C). */
struct layernorm model_norm(const struct model *m, size_t weight, const void *wire,
                            size_t rows, float *x, float *mean, float *rstd);
/* The RMSNorm with weight tensor `weight`, of x (rows, C). It has no bias and no mean. */
struct rmsnorm model_rms(const struct model *m, size_t weight, const void *wire, size_t rows,
                         float *x, float *rstd);

// the most tokens of a micro-batch
static inline size_t model_tokens(const struct model *m) { return m->o.batch * m->o.seq; }

/* The parameters of a layer's attention over a micro-batch of this shape; the arrays are not
 * set. */
struct attention model_attention(const struct model_options *o, size_t layer, size_t rows,
                                 size_t seq);

/* The current shape of a micro-batch. */
struct acts_shape model_shape(const struct model *m, size_t micro);

/* The rows of the next chunk when `left` tokens are left; chunk: the most (products_chunk).
 * model_head_chunk: those of the head. */
size_t model_chunk(const struct model *m, size_t left, size_t chunk);
size_t model_head_chunk(const struct model *m, size_t left, size_t chunk);

/* The number of a micro-batch among those of all steps and ranks. */
uint64_t model_micro(const struct model *m, size_t micro);

/* The dropout mask at one place of a layer, or of the embeddings (layer 0). p is 0 in passes
 * without dropout. Recomputation gets the same mask. */
enum model_place { PLACE_EMBED, PLACE_ATTN, PLACE_ATTN_PROJ, PLACE_MLP_PROJ, PLACES };
struct dropout model_dropout(const struct model *m, size_t micro, size_t layer,
                             enum model_place place);

/* The dropout mask of the input of a layer's adapters. That of tensor t has `site` + t. */
struct dropout model_dropout_adapter(const struct model *m, size_t micro, size_t layer);

/* Address of element `i` of an array of the model's dtype. */
static inline void *model_at(const struct model *m, const void *base, size_t i)
{
    return dtype_at(base, m->o.dtype, i);
}
