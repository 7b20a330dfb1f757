/* pass.h: the state of a pass over a step's micro-batches, and what passes ask of the stream:
 * parameters, gradients of groups, room for offloaded activations. It records spans for the
 * report. */
#pragma once

#include "model/batch.h"
#include "model/layer/block.h"
#include "model/trainer_parts.h"

/* A pass over the micro-batches that `data` supplies for `number`, the number of a step or an
 * evaluation. */
struct pass {
    uint64_t step;            // step number of its spans
    struct open_span span;    // the one that pass_span_begin opened
    int      evaluates;       // evaluation: all spans are PHASE_EVAL
    uint64_t number;
    size_t   micros, all_micros; // of this rank; of all ranks
    const struct batch_source *data;
    struct batch_counts n;    // counts of all ranks; n.counted is at least 1
    uint64_t scored, scored_before; // tokens or rows with a loss; and before this pass
    uint64_t before_ns;       // time waited for block 0
    double   loss;
    struct pairs_sums pairs; // with model.paired
    struct norm_sum norm;  // norm of the gradients sent
};

/* pass_span_begin opens a span of this phase and block now. pass_span_end records it. */
void pass_span_begin(struct pass *p, enum runlog_phase phase, size_t block);
void pass_span_end(struct trainer *t, const struct pass *p);

/* True if this rank's micro-batch has no rows in this pass. */
int pass_is_empty(const struct trainer *t, size_t micro);

/* The number of the layer that the block is; 0: the block is of the embeddings. */
static inline size_t pass_layer(const struct trainer *t, size_t b)
{
    return b < t->n.layer ? 0 : b - t->n.layer + 1;
}

/* Acquires the parameters of the embeddings or of a layer, with those of its adapter. Waits for
 * their update and their read. Then a span of this phase begins, which pass_release ends. */
int  pass_acquire(struct trainer *t, struct pass *p, enum runlog_phase phase, size_t b,
                  struct block_wires *w, struct err *err);
void pass_release(struct trainer *t, const struct pass *p, size_t b,
                  const struct block_wires *w);

/* Tells the model how many items of activations the pass will offload; an evaluation offloads
 * none. Call it before forward. */
void pass_offload_begin(struct trainer *t, struct pass *p);

/* The gradient of the block is complete: it is sent, if this pass computes one. */
int pass_send(struct trainer *t, struct pass *p, size_t block, struct err *err);

/* The gradient of a block to which a micro-batch adds: the gradient of its group. *grad is NULL
 * if the pass computes none. *fresh becomes 1 if the group begins. Then the first micro-batch of
 * the group that is not empty writes the products' matrices; all other gradients are zero. */
int pass_grad(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
              int *fresh, struct err *err);

/* pass_grad and pass_send for a layer with its adapter. */
int pass_layer_grads(struct trainer *t, struct pass *p, size_t b, size_t micro,
                     struct block_grads *g, struct err *err);
int pass_layer_send(struct trainer *t, struct pass *p, size_t b, struct err *err);
