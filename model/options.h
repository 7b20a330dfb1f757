/* options.h: what a model is opened with. Its activations (acts.h) and its products (products.h)
 * follow from it. */
#ifndef MODEL_OPTIONS_H
#define MODEL_OPTIONS_H

#include "kernels/matmul.h"
#include "model/gpt.h"

/* Which layers' activations leave memory while a step goes on. */
enum acts_offload {
    ACTS_STAY,    // of no layer
    ACTS_OFFLOAD, // of all that are not kept, their inputs too: of these only three stay
    ACTS_AUTO,    // of as many as acts_offload_layers says, at first none; inputs stay
};

struct model_options {
    struct gpt_config  gpt;
    size_t             batch, seq, grad_accum;
    enum dtype         dtype;    // DT_F32 or DT_BF16: wire parameters and inputs of products
    enum matmul_engine engine;
    int                threads;  // of OpenMP; 0: as many as it has
    size_t             kept;     // of the last layers: their activations stay in RAM (acts.h)
    enum acts_offload  offload;  // the others' go to the stream's records and come back
    int                training; // 0: no backward; one input a micro-batch, nothing kept
    int                varying;  // micro-batches up to batch x seq (struct batch); else just that
    struct model_dropout {
        float    embd, attn, resid;
        uint64_t seed;
    } dropout; // training only; 0: none
};

#endif
