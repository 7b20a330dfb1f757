/* memory.h: the memory plan of a command: what it will hold is asked of those who will allocate it,
 * before anything is allocated. */
#pragma once

#include "cmd/run/session.h"
#include "model/decode.h"
#include "model/model.h"
#include "offload/estimate/budget.h"

struct memory_request {
    uint64_t             host_mem;  // 0: no promise
    struct model_options model;     // ways are not looked at; generation: size and dtype only
    struct run_config   *run;       // training; NULL: reading
    const struct run_config *reads; // reading: whose blocks
    const struct train_activations *acts; // training
    int                  exporting; // training: masters are read between steps
    uint64_t             rows;      // of labelled examples that are evaluated at once, at most
    uint64_t             source_bytes; // reading: what the source itself holds
    // generation, whose cache and workspaces stand for activations; else NULL
    const struct decode_options *decode;
};

/* Make the plan; on success frames, grad_buffers, residual_in_ram and the activations' pieces are
 * set in *r->run. -EINVAL and a sentence if it does not fit: then *out is the minimum that was
 * refused. The sentence names the least that would do and, but for generation, the largest --batch,
 * the largest --seq and the --activations that would fit. */
int memory_plan(struct budget *out, const struct memory_request *r, struct err *err);

/* A plan that is to be carried out by this process, before it is: within ulimit -v and -d, or
 * misuse. What is mapped beside the plan counts: stacks of threads, buffers of OpenBLAS, which
 * tries for ever where it gets none. */
int memory_limits(const struct budget *plan, const struct memory_request *r, struct err *err);

/* Resident size of the program itself: measured at the first call, which a command makes before
 * it opens anything large. */
uint64_t memory_baseline(void);

/* Whether offloaded MLPs leave whole (struct model_options), by what is known before any step:
 * there are buffers enough, and no modelled link takes longer for these bytes, both ways, than the
 * product takes that they save. What is not modelled is taken for fast. */
int memory_whole(const struct budget *plan, const struct run_config *run,
                 const struct model_options *model);

/* The ways of the plan: all, or where they are chosen while it trains the first. */
struct acts_ways memory_ways(const struct budget *plan, const struct model_options *model,
                             const struct train_activations *acts);
