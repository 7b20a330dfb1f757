/* budget.h: the memory plan: what a command will hold, decided before anything is allocated, so
 * that --host-mem is kept or refused. Pure arithmetic: sizes in, a table out. */
#pragma once

#include "offload/config.h"

struct budget_request {
    uint64_t host_mem;        // 0: as much as the machine has available
    uint64_t process;         // the program, its libraries, SQLite
    uint64_t fixed_streams; // embeddings' and final norm's frames and gradients, states in mem mode
    size_t   n_layer;
    int      training;        // 0: no gradients, no kept activations
    int      in_memory;       // mem: all frames and gradients are resident, not a choice
    uint64_t block_inputs;    // residual stream at each block's input, all micro-batches
    uint64_t kept_per_layer;  // activations of one kept layer, all micro-batches
    int      record_optional; // activations are offloaded as far as there is room for two buffers
    uint64_t work;            // activations' workspaces
    uint64_t head;            // head chunk buffers
    uint64_t products;        // engine scratch and JIT
    uint64_t kv_cache;
    uint64_t predictions;     // of the labelled rows that are evaluated
    uint64_t host_update;     // base: update buffers in host memory
    /* What the run allocates. Of it count layer_frame, layer_grad, compress, spans, tables (of
     * subgroups on devices, or in mem of the pieces of an update), arenas (of emulated devices; on
     * top of host_mem), record_buffer (0: no activations are offloaded), and residual_ram,
     * residual_ends and residual_layer (0: no error feedback). */
    struct run_memory run;
    int      keep; // --activations: 1 keep all, 0 recompute all, -1 as many as there is room for
};

struct budget_item { const char *name; uint64_t bytes; char note[96]; };
struct budget {
    struct budget_item items[24];
    size_t   n_items;
    uint64_t total, limit, arenas;
    size_t   frames, grad_buffers, kept; // layer frames, layer gradient buffers, layers whose
                                         // activations are kept
    int      residual_in_ram; // error feedback does not stream
    size_t   record_buffers;  // 0: no activations are offloaded
};

/* Minimum: 2 frames (1 with one layer), 1 gradient buffer, 0 kept; where activations are offloaded
 * 2 buffers for them (record_optional: not needed). Then, while there is room: a second gradient
 * buffer, a third frame, buffers for activations up to 3, what error feedback keeps (it else
 * crosses the host link twice), kept layers, more frames (a cache). If the minimum does not fit:
 * -EINVAL, misuse, a sentence naming the largest part and the smallest --host-mem that would do. */
int budget_plan(struct budget *out, const struct budget_request *r, struct err *err);

/* What the machine has available, less a tenth: the limit where host_mem is 0 (less the arenas,
 * which it has to hold as well). */
uint64_t budget_available(void);

/* The table as text, one line an item, into buf (for `plan` and for refusals). */
void budget_print(const struct budget *b, char *buf, size_t size);
