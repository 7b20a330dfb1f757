/* config.h: what a run is, in one struct that cmd/ derives from the run's stored options each time,
 * and what is asked of it everywhere: its sizes in memory, the names of its parameters. */
#pragma once

#include "csd/csd.h"
#include "csd/topology.h"
#include "data/base/watch.h"
#include "data/db/runlog.h"
#include "kernels/bounds.h"
#include "offload/layout/ranks.h"
#include "offload/layout/route.h"

enum run_mode { RUN_MEM, RUN_BASE, RUN_SU, RUN_SUO };
const char *run_mode_name(size_t mode); // "mem", "base", "su", "su+o"; NULL behind the last

/* How many slots of a class on a device are spare, beside one for each of its subgroups (store.c).
 * Fixed when the run is made; it changes no bit.
 *     HALF  half as many as there are subgroups: a commit covers a quarter of an update
 *     ALL   and one more for every subgroup outside block 0: all that --speculate may update
 *     FEW   an eighth: 1.75 bytes a parameter with Adam and bf16 instead of 7, and commits four
 *           times as often; updates still run ahead while one is on its way */
enum run_spares { RUN_SPARES_HALF, RUN_SPARES_ALL, RUN_SPARES_FEW };

/* The stack of activations (stream.h) that a step may leave on the devices, behind their states. n
 * 0: none. */
struct run_acts {
    size_t   n;             // items of a step, at most
    size_t   bytes;         // of an item, at most
    size_t   buffers;       // that items pass through; with three or more reads go ahead
    uint64_t area;          // bytes of all items of a step, at most
    uint64_t written, read; // of them in a step, by act_rule_moves: for the computed traffic alone
};

struct run_config {
    const char    *dir;           // RUN
    const char    *home;          // what it will be called when it is complete; NULL: dir
    struct runlog *log;           // open; borrowed
    const char    *id; // 32 hex digits made at creation: devices of another run are refused by it
    enum run_mode  mode;
    struct route   route;         // of the model's blocks
    struct run_ranks ranks;       // who trains it together; { 0 }: one process alone
    const size_t  *block_params;  // parameters of each block that this rank's devices hold: its
                                  // portions, or alone all
    /* Weight decay of parameter i of a block; *count: of how many from there on, of n at most. */
    float (*decay)(void *ctx, size_t block, size_t i, size_t n, size_t *count);
    void          *decay_ctx;
    /* What parameter i of a block is called in a sentence; NULL: "parameter I of block B". */
    void (*name)(void *ctx, size_t block, size_t i, char *out, size_t size);
    void          *name_ctx;
    enum dtype     wire_dt;       // DT_BF16 or DT_F32
    enum optim_kind optim;
    double         compress;      // 0: dense; else bytes of pairs over bytes of fp32, e.g. 0.02
    int error_feedback; // what is not sent is added to the next step's gradient; with compress
    int            residual_in_ram; // with error_feedback on devices: it stays in RAM and is
                                    // written only. Changes no bit
    enum run_spares spares;       // that the devices were made with
    int            speculate;     // base, su+o: updates begin before the norm is known
                                  // (updates.h). Changes no bit
    size_t         n_devices;     // base, su, su+o
    const char *const *device_paths; // NULL: RUN/dev0, RUN/dev1, ...; else directories, files or
                                     // block devices
    /* Drives of their own for activations: directories, files to be made, or block devices. They
     * are devices n_devices, n_devices + 1, ... of the run; n_act_devices 0: they lie behind the
     * states. */
    size_t         n_act_devices;
    const char *const *act_paths;
    const struct csd_ops *csd;
    const char *const *fpgas;     // NULL, or each device's accelerator card (csd_config.fpga)
    const char    *xclbin;        // what the cards' logic is loaded from, or NULL
    const char    *disk;          // "uring", "sync", "null"
    const char    *layout;        // NULL or "": the devices it was made with; else the name of
                                  // those it was moved to (reshard.h)
    const char    *owner;         // NULL or "", or the word in the devices' superblocks by which
                                  // they are known from a copy's (store.h)
    const char    *owner_next;    // as `owner`: a kill may have left it there, which was to become
                                  // the word
    int            force_device;  // take block devices that carry a signature or another run
    int            device_in_ram; // make device files on a tmpfs, too
    size_t         csd_mem;
    struct topology_config links; // modelled
    uint64_t io_timeout_ns; // a device that gives no sign of life for so long is given up; 0: never
    int            durable;       // --durability step
    uint64_t       commit_every;  // mem: steps between images; 0 only at the end
    size_t         frames;        // layer frames: of lanes that do not say how many (route.h)
    size_t         grad_buffers;  // layer gradient buffers, likewise
    size_t         read_ahead; // bytes of parameters asked for at once, where two blocks are less;
                               // 0: 64 MiB. Changes no bit
    struct run_acts acts;         // base, su, su+o. Change no bit
    const struct watch *watch; // of states being made (run_format), loaded or checked (mem); NULL:
                               // nobody
};

static inline size_t run_blocks(const struct run_config *cfg) { return route_blocks(&cfg->route); }

/* All parameters of blocks, and of one the first that this rank's devices hold. */
static inline const size_t *run_wholes(const struct run_config *cfg)
{
    return cfg->ranks.whole_params ? cfg->ranks.whole_params : cfg->block_params;
}

static inline size_t run_whole(const struct run_config *cfg, size_t block)
{
    return run_wholes(cfg)[block];
}

/* Groups of a step's micro-batches that this rank computes (ranks.h). */
static inline size_t run_groups(const struct run_config *cfg)
{
    size_t ranks = cfg->ranks.size > 1 ? cfg->ranks.size : 1;

    return cfg->ranks.groups > 1 ? cfg->ranks.groups / ranks : 1;
}

/* Whether what is sent of a gradient are pairs of several groups, added up (pair_sum.h). */
static inline int run_pair_sums(const struct run_config *cfg)
{
    return cfg->compress > 0 && cfg->ranks.groups > 1;
}

static inline size_t run_first(const struct run_config *cfg, size_t block)
{
    return cfg->ranks.size > 1 ? ranks_first(run_whole(cfg, block), cfg->ranks.rank,
                                             cfg->ranks.size)
                               : 0;
}

/* Where values come from: [first, first + n) of a block, as fp32. */
struct params_source {
    int (*read)(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err);
    void *ctx;
};

/* Bytes of host memory that a training allocates, by part (for the memory plan), and the arenas of
 * emulated devices. */
struct run_memory {
    uint64_t frames, grads, states, compress, spans, tables, arenas;
    uint64_t layer_frame, layer_grad, device_bytes;
    /* Error feedback, either way (whatever cfg says) and beside the others: all of it in RAM; or
     * the buffers that it streams through, the embeddings' and final norm's and that of one layer
     * gradient. mem: residual_ram alone. */
    uint64_t residual_ram, residual_ends, residual_layer;
    uint64_t masters; // beside the others: what stream_masters holds between its calls
    uint64_t record_buffer; // one, beside the others too
};

/* Parameters that something is said of: how many, and the first, parameter `first` of `block`. */
struct param_set { size_t n, block, first; };
/* Add those of a part that begins at parameter `from` of block. */
void param_set_add(struct param_set *all, size_t block, size_t from, struct overflow part);
void param_set_join(struct param_set *all, const struct param_set *part);
/* The name of a parameter (cfg->name), and the sentence that ends a training whose update left
 * elements as they were (stream.h), of the step before next_step: -EDOM. */
enum { RUN_NAME = 160 };
const char *run_name(const struct run_config *cfg, size_t block, size_t i, char out[RUN_NAME]);
int         run_overflow(const struct run_config *cfg, uint64_t next_step,
                         const struct param_set *overflow, struct err *err);
