/* config.h: what a run is, in one struct that its opener derives from the run's stored options each
 * time. Also the questions that every part asks of it: its sizes, the names of its parameters. */
#pragma once

#include "csd/csd.h"
#include "csd/topology.h"
#include "data/base/watch.h"
#include "data/db/runlog.h"
#include "kernels/update/bounds.h"
#include "offload/layout/ranks.h"
#include "offload/layout/route.h"

/* A mode is a row: the word of --mode, the link that the transfers of an update cross, and how a
 * device passes from one update to the next. Mode mem has no devices. */
enum run_mode { RUN_MEM, RUN_BASE, RUN_SU, RUN_SUO };
struct run_mode_row { const char *name; enum link_kind update_link; enum csd_handler handler; };
extern const struct run_mode_row run_modes[]; // by enum run_mode
const char *run_mode_name(size_t mode); // NULL past the last

/* How many spare slots a size class has on a device, in addition to one slot for each of its
 * subgroups (store.c). Fixed when the run is made. It changes no bit of the results.
 *     HALF  half as many as subgroups: a commit covers a quarter of an update
 *     ALL   HALF, and one more for every subgroup outside block 0: --speculate may update them all
 *     FEW   an eighth: 1.75 bytes a parameter with Adam and bf16 instead of 7. Commits come four
 *           times as often. Updates still run ahead while a commit is being written. */
enum run_spares { RUN_SPARES_HALF, RUN_SPARES_ALL, RUN_SPARES_FEW };

struct base_files; // offload/devices/base_files.h

/* The stack of activations (stream.h) that a step may store on the devices. n 0: there is none. */
struct run_acts {
    size_t   n;             // items in a step, at most
    size_t   bytes;         // of one item, at most
    size_t   buffers;       // memory for items under way; with three or more, reads go ahead
    uint64_t area;          // bytes of all items of a step, at most
    uint64_t written, read; // bytes a step, by act_rule_moves; only traffic.h uses them
};

struct run_config {
    const char    *dir;           // the run's folder
    const char    *home;          // the folder's name once the run is complete; NULL: dir
    struct runlog *log;           // run.db, open; borrowed
    const char    *id;            // 32 hex digits, made with the run. Every device carries it
    enum run_mode  mode;
    struct route   route;         // of the model's blocks
    struct run_ranks ranks;       // the ranks that train it together; { 0 }: one process alone
    const size_t  *block_params;  // (n blocks) parameters that this rank's devices hold: its
                                  // portion of each block; of one process alone, the block
    /* Frozen blocks whose elements are bit patterns, with which nothing is computed here
     * (run_bits_put). block_params has their number. */
    struct route_span packed;
    /* A base in place: frozen blocks in [0, base_end) lie in files of their own, and devices hold
     * nothing of them. base_end 0: there is no such base. base_bytes: (n blocks) bytes of those
     * files for this rank's portion of a block, 0 for all other blocks. held: (n blocks) parameters
     * that its devices hold; NULL: block_params. base: the open files; NULL while no parameters of
     * such blocks are read. */
    size_t         base_end;
    const size_t  *base_bytes, *held;
    const struct base_files *base;
    const size_t  *unpacked;      // (n blocks) parameters of whole blocks, as the model has them
                                  // in memory; NULL: run_wholes
    /* The weight decay of parameter i of a block. *count: how many parameters from i on share it,
     * at most n. */
    float (*decay)(void *ctx, size_t block, size_t i, size_t n, size_t *count);
    void          *decay_ctx;
    /* Writes the name of parameter i of a block for a message. NULL: "parameter I of block B". */
    void (*name)(void *ctx, size_t block, size_t i, char *out, size_t size);
    void          *name_ctx;
    enum dtype     wire_dt;       // DT_BF16 or DT_F32
    enum optim_kind optim;
    double         compress;      // 0: dense; otherwise bytes of pairs / bytes of fp32, e.g. 0.02
    int            error_feedback; // with compress: a step adds what earlier steps did not send
    int            residual_in_ram; // with error_feedback: residuals stay in RAM, devices only get
                                    // copies. Changes no bit
    enum run_spares spares;       // of the devices, as they were made
    int            speculate;     // base, su+o: updates begin before the norm is known
                                  // (updates.h). Changes no bit
    size_t         n_devices;     // base, su, su+o
    const char *const *device_paths; // (n_devices) folders, files or block devices; NULL: RUN/dev0,
                                     // RUN/dev1, ...
    /* (n_act_devices) Separate drives for activations: folders, files to be made, or block devices.
     * The run numbers them n_devices, n_devices + 1, ... With n_act_devices 0, activations lie
     * behind the states. */
    size_t         n_act_devices;
    const char *const *act_paths;
    const struct csd_ops *csd;
    const char *const *fpgas;     // (n_devices) accelerator cards (csd_config.fpga), or NULL
    const char    *xclbin;        // file with the cards' logic, or NULL
    const char    *disk;          // "uring", "sync", "null"
    const char    *layout;        // name of the set of devices that the run was moved to
                                  // (reshard.h); NULL or "": the first set
    const char    *owner;         // the word in superblocks that tells the run's devices from a
                                  // copy's (store.h); or NULL or ""
    const char    *owner_next;    // a word that was to replace it, and may be there after a kill;
                                  // or NULL or ""
    int            force_device;  // accept block devices with a signature or another run's states
    int            device_in_ram; // allow device files on a tmpfs
    size_t         csd_mem;       // bytes of memory of each device
    struct topology_config links; // the modelled links
    uint64_t       io_timeout_ns; // a device without a sign of life for so long fails; 0: never
    int            durable;       // --durability step
    uint64_t       commit_every;  // mem: steps between images; 0: one image at the end
    size_t         frames;        // frames of each lane that leaves the number open (route.h)
    size_t         grad_buffers;  // gradient buffers of each such lane
    size_t         read_ahead;    // bytes of parameters read ahead, at least two blocks; 0: 64 MiB.
                                  // Changes no bit
    struct run_acts acts;         // base, su, su+o. Change no bit
    const struct watch *watch;    // progress of making (run_format), loading or checking (mem)
                                  // states; or NULL
};

static inline size_t run_blocks(const struct run_config *cfg) { return route_blocks(&cfg->route); }

/* (n blocks) The parameters of whole blocks, of all ranks together. */
static inline const size_t *run_wholes(const struct run_config *cfg)
{
    return cfg->ranks.whole_params ? cfg->ranks.whole_params : cfg->block_params;
}

static inline size_t run_whole(const struct run_config *cfg, size_t block)
{
    return run_wholes(cfg)[block];
}

/* Groups of a step's micro-batches that this rank computes (ranks.h): at least 1. */
static inline size_t run_groups(const struct run_config *cfg)
{
    size_t ranks = cfg->ranks.size > 1 ? cfg->ranks.size : 1;

    return cfg->ranks.groups > 1 ? cfg->ranks.groups / ranks : 1;
}

/* True if the compressed gradient is a sum over several groups (pair_sum.h). */
static inline int run_pair_sums(const struct run_config *cfg)
{
    return cfg->compress > 0 && cfg->ranks.groups > 1;
}

/* False: the block is frozen. It has wire parameters alone, which are never written again. */
static inline int run_trains(const struct run_config *cfg, size_t block)
{
    return route_trains(&cfg->route, block);
}

/* True if a block lies in the files of a base in place. */
static inline int run_in_place(const struct run_config *cfg, size_t block)
{
    return block < cfg->base_end && !run_trains(cfg, block);
}

/* (n blocks) The parameters that this rank's devices hold. */
static inline const size_t *run_held(const struct run_config *cfg)
{
    return cfg->held ? cfg->held : cfg->block_params;
}

/* True if a block's elements are bit patterns. A source of parameters gives them as floats: all
 * bits of an fp32 element, or the upper half for bf16. run_bits_put makes n elements of them. */
static inline int run_packed(const struct run_config *cfg, size_t block)
{
    return block >= cfg->packed.first && block < cfg->packed.end;
}
void run_bits_put(void *out, enum dtype dt, const float *x, size_t n);

/* The number of trained parameters, of all ranks together. */
size_t run_trained(const struct run_config *cfg);

/* The first parameter of a block that this rank's devices hold. */
static inline size_t run_first(const struct run_config *cfg, size_t block)
{
    return cfg->ranks.size > 1 ? ranks_first(run_whole(cfg, block), cfg->ranks.rank,
                                             cfg->ranks.size)
                               : 0;
}

/* A source of parameters: read puts [first, first + n) of a block into out, as fp32. 0 or -errno.
 */
struct params_source {
    int (*read)(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err);
    void *ctx;
};

/* Bytes of host memory that a training allocates, by part, for the memory plan (budget.h). The
 * first line's parts add up; arenas are those of emulated devices. */
struct run_memory {
    uint64_t frames, grads, states, compress, spans, tables, arenas;
    uint64_t layer_frame, layer_grad, device_bytes;
    /* Error feedback, which the other parts do not include. Both ways are given, whatever cfg says:
     * residual_ram is all of it in RAM. Otherwise it streams through residual_ends (embeddings and
     * final norm) and through residual_layer for each gradient buffer of a layer. mem has only
     * residual_ram. */
    uint64_t residual_ram, residual_ends, residual_layer;
    uint64_t base;    // reads of a base in place; no part of the others
    uint64_t image;   // mem: one image, of device_bytes
    uint64_t masters; // while stream_masters lends them; no part of the others
    uint64_t record_buffer; // one buffer of offloaded activations; no part of the others
};

/* A set of parameters: their number, and the first of them, parameter `first` of `block`. */
struct param_set { size_t n, block, first; };
/* Add what was found in a part that begins at parameter `from` of a block. */
void param_set_add(struct param_set *all, size_t block, size_t from, struct overflow part);
void param_set_join(struct param_set *all, const struct param_set *part);
/* Adds those of x[0..n), parameters `from` on of a block, that are not finite. */
void param_set_look(struct param_set *all, size_t block, size_t from, const void *x, enum dtype dt,
                    size_t n);
/* run_name gives the name of a parameter (cfg->name). run_overflow gives the error that ends a
 * training if the update of the step before next_step overflowed (stream.h): -EDOM. */
enum { RUN_NAME = 160 };
const char *run_name(const struct run_config *cfg, size_t block, size_t i, char out[RUN_NAME]);
int         run_overflow(const struct run_config *cfg, uint64_t next_step,
                         const struct param_set *overflow, struct err *err);
