/* model.h: what the arithmetic of a pass works with: the sizes, the products, the activations. It
 * holds no parameter: those are lent by a stream, block by block. Shared by training and
 * evaluation. One thread uses a model at a time. */
#pragma once

#include "data/base/arena.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"
#include "model/acts.h"
#include "model/arch.h"
#include "model/products.h"
#include "model/records.h"

struct model {
    struct model_options o;
    struct products *products;
    struct acts      acts;
    struct records   records;       // of the pass under way
    struct arena     scratch;       // of products_run
    struct arena     sink;          // for gradients of vectors that are frozen
    size_t           lowest;        // layer, of those that have a backward; behind the last: none
    int              dropping;      // a training pass with dropout, of step
    uint64_t         step;
    /* So far, of parts that were not kept: what backward spent on computing them once more, of
     * how many tokens. */
    struct { uint64_t ns, tokens; } again[ACTS_PARTS];
};

/* Into a model in its zero state; sets OpenMP's number of threads. Also after an error close what
 * there is. */
int  model_open(struct model *m, const struct model_options *o, struct err *err);
void model_close(struct model *m);

/* Tensor t inside its block's flat wire parameters, or flat gradient. Of what is frozen (all of a
 * block where grad is NULL) a matrix has NULL, a vector a place of which nobody asks. */
const void *model_wire(const struct model *m, const void *wire, size_t t);
float      *model_grad(const struct model *m, float *grad, size_t t);

/* A block's gradient came fresh (offload/stream/stream.h): zero all that backward adds to, and what
 * is frozen. Where `products` are to come, the matrices that model_gradient makes are left out: its
 * first one of each writes them. */
void model_grad_begin(const struct model *m, size_t block, float *grad, int products);

/* A matrix's product forward (out = in W + b) or back (din = dout W') on rows tokens. */
void model_product(const struct model *m, size_t matrix, enum product_kind kind, size_t rows,
                   void *out, const void *in, const void *wire);
/* A language model's logits by its head, or the piece `matrix` of one: head_wire has the words,
 * wire is that of the last block, which has a masked head's bias. */
void model_logits(const struct model *m, size_t matrix, size_t rows, float *out, const void *in,
                  const void *head_wire, const void *wire);
/* Forward of single tokens: a row's bits do not depend on the others (matvec.h); scratch:
 * rows x arch_widest floats. */
void model_matvec(const struct model *m, size_t matrix, size_t rows, void *out, const void *in,
                  const void *wire, float *scratch);
/* Its gradient into its place in `grad`, if it is trained. fresh: written, else added to what is
 * there. */
void model_gradient(const struct model *m, size_t matrix, size_t rows, float *grad, const void *in,
                    const void *dout, int fresh);

/* The norm with tensor `weight` and the bias behind it, of x (rows, C). */
struct layernorm model_norm(const struct model *m, size_t weight, const void *wire,
                            size_t rows, float *x, float *mean, float *rstd);
/* The same of a family whose norms are RMSNorm: no bias, no mean. */
struct rmsnorm model_rms(const struct model *m, size_t weight, const void *wire, size_t rows,
                         float *x, float *rstd);

// of a micro-batch, at most
static inline size_t model_tokens(const struct model *m) { return m->o.batch * m->o.seq; }

/* A layer's attention over a micro-batch of rows like these, without its arrays. */
struct attention model_attention(const struct model_options *o, size_t layer, size_t rows,
                                 size_t seq);

/* What stands in a micro-batch now. */
static inline struct acts_shape model_shape(const struct model *m, size_t micro)
{
    return m->acts.work.shape[micro];
}

/* Rows of the next chunk, of `chunk` at most (products_chunk), where `left` tokens are left; and of
 * the head's. */
size_t model_chunk(const struct model *m, size_t left, size_t chunk);
size_t model_head_chunk(const struct model *m, size_t left, size_t chunk);

/* The mask of one use of dropout, in a layer or, 0, the embeddings; p is 0 in passes that drop
 * nothing. Recomputing asks for the same one. */
enum model_place { PLACE_EMBED, PLACE_ATTN, PLACE_ATTN_PROJ, PLACE_MLP_PROJ, PLACES };
struct dropout model_dropout(const struct model *m, size_t micro, size_t layer,
                             enum model_place place);

/* Element `i` of an array of the model's dtype. */
static inline void *model_at(const struct model *m, const void *base, size_t i)
{
    return dtype_at(base, m->o.dtype, i);
}
