/* budget.h: the memory plan: how much memory each part of a command gets. It is made before
 * anything is allocated, so that --host-mem is kept or refused. Pure arithmetic: sizes in, a table
 * out. */
#pragma once

#include "data/base/err.h"

struct budget_request {
    uint64_t host_mem;        // the limit; 0: what the machine has available
    uint64_t process;         // the program, its libraries, SQLite
    uint64_t fixed_streams;   // frames and gradients of embeddings and final norm; states in mem
    uint64_t layer_frame, layer_grad; // one frame, one gradient buffer
    size_t   n_layer;
    int      training;        // false: no gradients, no kept activations
    int      in_memory;       // mem: every layer has a frame and a gradient; there is no choice
    uint64_t block_inputs;    // the residual stream, and layer inputs that always stay in memory;
                              // all micro-batches
    uint64_t kept_per_layer;  // activations of one kept layer, all micro-batches
    uint64_t pool_most;       // activations of all layers, if training decides which layers are
                              // kept; 0: budget_plan decides
    uint64_t record_buffer;   // one buffer for offloaded activations; 0: none are offloaded
    uint64_t work;            // workspaces of activations
    uint64_t head;            // buffers of the head's chunks
    uint64_t products;        // scratch and JIT of the product engine
    uint64_t compress, spans, kv_cache;
    uint64_t predictions;     // of the labelled rows that are evaluated
    uint64_t order;           // of the rows of conversations
    uint64_t tables;          // of subgroups, about 4 KiB each; in mem, of slices of the update
    /* Error feedback: all of it in RAM (always in mem); or the buffers that it streams through,
     * those of embeddings and final norm, and one for each gradient buffer. */
    uint64_t residual_ram, residual_ends, residual_layer;
    uint64_t host_update;     // base: update buffers in host memory
    uint64_t base;            // reads of a base in place
    uint64_t arenas;          // of emulated devices, in addition to host_mem
    int      keep;            // --activations: 1: keep as many layers as fit; 0: recompute all
};

/* The number of buffers for offloaded activations. With fewer than three, no item could be read
 * while one is used and another is written. More buffers give drives more to do at once. */
enum { BUDGET_BUFFERS_LEAST = 3, BUDGET_BUFFERS_MOST = 12 };

struct budget_item { const char *name; uint64_t bytes; char note[96]; };
struct budget {
    struct budget_item items[24];
    size_t   n_items;
    uint64_t total, limit, arenas;
    size_t   frames, grad_buffers; // of layers
    size_t   kept;            // layers whose activations are kept
    int      residual_in_ram; // true: error feedback stays in RAM
    int      packs_head;      // there is room to pack the head's words (memory.c)
    int      doubled;         // there is room for doubled chunks of tokens (memory.c)
    uint64_t pool;            // bytes for activations that training chooses
    uint64_t spare;           // bytes of record_buffers, free for kept activations while nothing is
                              // offloaded
    size_t   record_buffers;  // 0: no activations are offloaded
};

/* Divides the limit. The minimum is 2 frames (1 with one layer), 1 gradient buffer, no kept layer,
 * and BUDGET_BUFFERS_LEAST buffers if activations are offloaded. What is left goes, in this order,
 * to a second gradient buffer, a third frame, up to 8 buffers for activations, residuals of error
 * feedback (which otherwise cross the host link twice), kept layers or the pool, more frames (a
 * cache). If the minimum does not fit: -EINVAL as misuse, with a sentence that names the largest
 * part and the smallest --host-mem that would do. */
int budget_plan(struct budget *out, const struct budget_request *r, struct err *err);

/* Bytes of memory that the machine has available, less a tenth. If host_mem is 0, this less the
 * arenas is the limit. */
uint64_t budget_available(void);

/* Writes the table into buf, one line an item, for `siTrain plan` and for refusals. */
void budget_print(const struct budget *b, char *buf, size_t size);
