/* budget.h: the memory plan: what a command will hold, decided before anything is allocated, so
 * that --host-mem is kept or refused. Pure arithmetic: sizes in, a table out. */
#pragma once

#include "data/base/err.h"

struct budget_request {
    uint64_t host_mem;        // 0: as much as the machine has available
    uint64_t process;         // the program, its libraries, SQLite
    uint64_t fixed_streams; // embeddings' and final norm's frames and gradients, states in mem mode
    uint64_t layer_frame, layer_grad; // one frame, one gradient buffer
    size_t   n_layer;
    int      training;        // 0: no gradients, no kept activations
    int      in_memory;       // mem: all frames and gradients are resident, not a choice
    uint64_t block_inputs;    // the residual stream, and layers' inputs that stay in any case, all
                              // micro-batches
    uint64_t kept_per_layer;  // activations of one kept layer, all micro-batches
    uint64_t pool_most;       // of all layers; which are kept is decided while it trains; 0: here
    uint64_t record_buffer;   // activations that are offloaded pass through some of these; 0: none
                              // are
    uint64_t work;            // activations' workspaces
    uint64_t head;            // head chunk buffers
    uint64_t products;        // engine scratch and JIT
    uint64_t compress, spans, kv_cache;
    uint64_t predictions;     // of the labelled rows that are evaluated
    uint64_t tables; // of subgroups on devices: some 4 KiB each; in mem of the pieces of an update
    /* Error feedback: all of it in RAM (mem: always), or the buffers it streams through, the
     * embeddings' and final norm's, and one for each gradient buffer. */
    uint64_t residual_ram, residual_ends, residual_layer;
    uint64_t host_update;     // base: update buffers in host memory
    uint64_t arenas;          // of emulated devices; on top of host_mem
    int      keep; // --activations: 1 keep all, 0 recompute all, -1 as many as there is room for
};

/* Buffers of offloaded activations. With one less no piece could be read while one is used and
 * another is written; with more, drives have more to do at once. */
enum { BUDGET_BUFFERS_LEAST = 3, BUDGET_BUFFERS_MOST = 12 };

struct budget_item { const char *name; uint64_t bytes; char note[96]; };
struct budget {
    struct budget_item items[24];
    size_t   n_items;
    uint64_t total, limit, arenas;
    size_t   frames, grad_buffers, kept; // layer frames, layer gradient buffers, layers whose
                                         // activations are kept
    int      residual_in_ram; // error feedback does not stream
    uint64_t pool;            // bytes for activations; which are kept in it is chosen later
    uint64_t spare;           // of record_buffers: for what is kept as long as none is offloaded
    size_t   record_buffers;  // 0: no activations are offloaded
};

/* Minimum: 2 frames (1 with one layer), 1 gradient buffer, 0 kept; where activations are offloaded
 * 3 buffers for their pieces. Then, while there is room: a second gradient buffer, a third frame,
 * buffers for activations up to 8, what error feedback keeps (it else crosses the host link twice),
 * kept layers or the pool, more frames (a cache). If the minimum does not fit:
 * -EINVAL, misuse, a sentence naming the largest part and the smallest --host-mem that would do. */
int budget_plan(struct budget *out, const struct budget_request *r, struct err *err);

/* What the machine has available, less a tenth: the limit where host_mem is 0 (less the arenas,
 * which it has to hold as well). */
uint64_t budget_available(void);

/* The table as text, one line an item, into buf (for `plan` and for refusals). */
void budget_print(const struct budget *b, char *buf, size_t size);
