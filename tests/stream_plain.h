/* stream_plain.h: the simplest stream there can be, for tests of the model: everything in RAM, a
 * block's wire parameters are made when they are lent and freed when they come back, so that a use
 * outside is seen by a sanitizer; what a pass does is checked against the order that the model says
 * (model/pass_order.h). */
#pragma once

#include "model/arch/arch.h"
#include "offload/stream/stream.h"

struct stream_plain_options {
    struct model_config config;
    enum dtype        wire;
    enum optim_kind   optim;
    float             weight_decay;
    int               decay_all;
    size_t            piece_bytes; // of activations at most; 0: none may be pushed
    const float      *params; // all blocks one after the other; NULL: arch_init_values with seed 1
};

struct stream *stream_plain_open(const struct stream_plain_options *o);

/* All master parameters, all gradients of the last step, blocks one after the other. */
float       *stream_plain_params(struct stream *s);
const float *stream_plain_grads(struct stream *s);
/* The last update asked for. */
const struct stream_step *stream_plain_last(struct stream *s);
