/* acts.h: the activations of a step and the workspaces of its arithmetic, all in one arena that is
 * made at open: a step allocates nothing.
 *
 * Of every block the fp32 input is held, for all micro-batches of the step. Of the last `kept`
 * layers also what backward needs (struct acts_layer); the others share one set, and their backward
 * first computes theirs once more from the input. The same arithmetic twice gives the same bits, so
 * `kept` changes time and memory, nothing else.
 *
 * Nor does `offload`: then what backward needs of the other layers stands in records that are lent,
 * one for each layer and micro-batch (acts_lend): in forward to be filled, in backward filled.
 * Whoever lends brings them to where there is room and back (SSDTrain, DAC 2025). */
#pragma once

#include "data/base/arena.h"
#include "model/products.h"

/* What one layer's forward leaves for its backward, one micro-batch of N = batch x seq tokens. `dt`
 * is the run's dtype. */
struct acts_layer {
    float *x;                   // (N, C): the layer's input, in a record of ACTS_OFFLOAD; else NULL
    float *ln1_mean, *ln1_rstd; // (N)
    void  *qkv;                 // (N, 3C) dt, bias included
    void  *attn;                // (N, C) dt: attention's output, before its projection
    float *lse;                 // (B, H, T)
    float *x_mid;               // (N, C): the residual stream after attention
    float *ln2_mean, *ln2_rstd; // (N)
    void  *fc;                  // (N, 4C) dt: what goes into GELU
};

/* What stands in a micro-batch; rows 0: nothing, it is left out. The arrays of a micro-batch are as
 * large as the largest, of which the first rows x seq tokens are used. */
struct acts_shape { size_t rows, seq; };

/* Workspaces of one layer; R = min(N, CHUNK_ROWS). Those of backward are NULL in an evaluating
 * model. */
struct acts_work {
    struct acts_shape *shape; // (accum)
    int32_t *x, *y;     // (accum, N): tokens and targets; a classifier has no y
    int32_t *last, *label; // (accum, B): a classifier's last positions and classes
    float   *value;     // (accum, B): a regressor's values
    void    *ln;        // (R, C) dt: normalised rows
    float   *proj;      // (R, C): a projection's output, or the gradient of normalised rows
    void    *gelu;      // (R, 4C) dt
    float   *dx;        // (accum, N, C): the gradient of the residual stream
    void    *dy;        // (R, C) dt: a chunk of dx as products take it
    float   *dgelu;     // (R, 4C)
    void    *dfc;       // (R, 4C) dt
    void    *dattn;     // (N, C) dt
    void    *dqkv;      // (N, 3C) dt
    void    *attention; // attention_scratch
    void    *sums;      // colsum_scratch of 4C columns
};

/* A chunk of the head; R = min(N, HEAD_ROWS), P = min(N, LOGIT_ROWS). A classifier's: R = P = B,
 * and n_labels for V. */
struct acts_head {
    float *x, *dx;      // (R, C): a classifier's rows gathered, and their gradient
    void  *ln;          // (R, C) dt
    float *mean, *rstd; // (R)
    float *logits;      // (P, V), in softmax.h's two parts; where dlogits is fp32 (R, V), the same
                        // memory
    void  *dlogits;     // (R, V) dt (a classifier's: fp32)
    float *dln;         // (R, C)
    float *losses;      // (R)
};

struct acts {
    struct acts_work work;
    struct acts_head head;
    /* The rest is acts.c's. */
    struct model_options o; // settled
    struct arena arena;
    char    *inputs;     // (places, accum, N, C): input_place
    char    *kept;
    size_t   kept_micro; // bytes of a kept layer's micro-batch
    struct acts_layer shared;
    size_t   shared_layer, shared_micro; // whose activations the shared set holds; layer 0: none's
    size_t   offloaded;  // ACTS_AUTO: layers
    void    *lent;       // the record of lent_layer, lent_micro; NULL: none
    size_t   lent_layer, lent_micro;
};

/* Bytes of each part, for the memory plan: a pure function of the options (kept does not enter: a
 * kept layer takes kept_per_layer). The arena is inputs + kept x kept_per_layer + work + head.
 * record: of one that is lent, at most; 0 without offload. */
struct acts_sizes { uint64_t inputs, kept_per_layer, work, head, record; };
struct acts_sizes acts_sizes(const struct model_options *o);

int  acts_open(struct acts *a, const struct model_options *o, struct err *err);
static inline void acts_close(struct acts *a) { arena_free(&a->arena); }

/* The residual stream that goes into block `block` (1..n_layer + 1), (N, C). */
float *acts_input(const struct acts *a, size_t block, size_t micro);

/* ACTS_AUTO, between passes: from here on n of the layers that are not kept are offloaded, spread
 * evenly. */
void   acts_offload_layers(struct acts *a, size_t n);
/* Whether in a training pass records are to be lent for layer `layer`. */
int    acts_offloads(const struct acts *a, size_t layer);
/* Use `record` for (layer, micro) until the next call; NULL: none any more. Returns how many bytes
 * of it the micro-batch's shape takes. */
size_t acts_lend(struct acts *a, size_t layer, size_t micro, void *record);

/* Where layer `layer`'s activations stand. They are there for backward if acts_holds; if not,
 * forward computes them again into the same place and says so with acts_hold. */
struct acts_layer acts_layer(const struct acts *a, size_t layer, size_t micro);
int  acts_holds(const struct acts *a, size_t layer, size_t micro);
void acts_hold(struct acts *a, size_t layer, size_t micro);
