/* memory.h: the memory plan of a command. Every part of the program that will allocate memory is
 * asked for its size before anything is allocated. */
#pragma once

#include "model/decode.h"
#include "model/layer/model.h"
#include "offload/estimate/budget.h"

struct memory_request {
    uint64_t             host_mem;  // 0: no promise
    struct model_options model;     // without the placement of activations; generation: size, dtype
    struct run_config   *run;       // training; NULL: reading
    const struct run_config *reads; // reading: the run whose blocks are read
    const struct train_activations *acts; // training
    int                  exporting; // training: masters are read between steps
    uint64_t             rows;      // most labelled examples that one evaluation has; of a
                                    // language model: all its conversations
    uint64_t             source_bytes; // reading: bytes that the source of parameters holds
    // generation: its cache and workspaces are planned in place of activations; else NULL
    const struct decode_options *decode;
};

/* Make the plan. On success it sets frames, grad_buffers, residual_in_ram and the activations'
 * chunks in *r->run. Returns -EINVAL with a sentence if the plan does not fit; *out is then the
 * smallest plan that there is. The sentence names the least memory that would be enough and, except
 * for generation, the largest --batch, the largest --seq and the --activations that would fit. */
int memory_plan(struct budget *out, const struct memory_request *r, struct err *err);

/* Check that a plan fits into ulimit -v and ulimit -d, before this process carries it out;
 * misuse if it does not. Mappings that the plan does not have are counted, too: the stacks of
 * threads, and the buffers of OpenBLAS, which retries for ever if it gets none. */
int memory_limits(const struct budget *plan, const struct memory_request *r, struct err *err);

/* Resident size of the program itself, in bytes, measured at the first call. A command makes that
 * call before it opens anything large. */
uint64_t memory_baseline(void);

/* Whether an offloaded MLP is written with everything that its backward pass reads (struct
 * model_options). True if there are enough buffers, and if no modelled link takes longer to move
 * these bytes out and back than the matrix product that they save. Drives and links without a model
 * count as fast. */
int memory_whole(const struct budget *plan, const struct run_config *run,
                 const struct model_options *model);

/* Which layers keep, recompute and offload their activations by the plan. If that is chosen during
 * training: those that training begins with. */
struct placement memory_placement(const struct budget *plan, const struct model_options *model,
                                  const struct train_activations *acts);
