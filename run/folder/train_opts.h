/* train_opts.h: the options for training, shared by several commands. train_opts_check checks
 * options that depend on each other. */
#pragma once

#include "data/base/dtype.h"
#include "data/opt/opt.h"
#include "data/text/tokens.h"
#include "model/adapt.h"
#include "model/schedule.h"
#include "offload/layout/config.h"
#include "run/folder/lora_opts.h"

/* Values of --mode: enum run_mode, and su+o+c, which means su+o with --compress. */
enum { TRAIN_SU_O_C = RUN_SUO + 1 };
enum train_decay      { TRAIN_DECAY_MATRICES, TRAIN_DECAY_ALL };
enum train_order      { TRAIN_SHUFFLED, TRAIN_SEQUENTIAL };
enum train_spares     { TRAIN_SPARES_AUTO, TRAIN_SPARES_HALF, TRAIN_SPARES_FEW };
enum train_snapshots  { TRAIN_SNAPSHOTS_DIR, TRAIN_SNAPSHOTS_DEVICES, TRAIN_SNAPSHOTS_HOSTS };
enum train_durability { TRAIN_DURABLE_STEP, TRAIN_DURABLE_NONE };

const char *train_mode_name(size_t mode); // NULL past the last

/* A value of --activations. offloads: activations that are not kept in memory go to the devices;
 * otherwise they are recomputed. adapts: how the choice adapts during training. keep: the layers
 * that are kept, as in struct budget_request. The table ends with { 0 }. */
struct train_activations { const char *name; int offloads, keep; enum adapt_policy adapts; };
enum { TRAIN_KEEP, TRAIN_RECOMPUTE, TRAIN_OFFLOAD };
extern const struct train_activations train_activations[];

#define TRAIN_NO_ACT_DEVICE "none" // the value of --act-device that removes all
#define TRAIN_NO_TOPOLOGY   "none" // and of --topology
#define TRAIN_COMPRESS 0.02 // su+o+c's default for --compress: the paper's ratio

/* Upper limits of the size options. */
enum { TRAIN_MOST_LAYERS = 10000, TRAIN_MOST_HEADS = 65536, TRAIN_MOST_WIDTH = 1 << 20,
       TRAIN_MOST_BATCH = 1 << 20 };

/* Options of masked language models. */
struct mask_opts {
    double   prob; // fraction of a row's tokens to mask
    uint64_t id;   // of the mask token; 0: the tokenizer's
};

struct train_opts {
    // duration and batch
    uint64_t steps, schedule_steps;         // schedule_steps 0: steps
    uint64_t batch;                         // rows of a micro-batch
    uint64_t seq;                           // tokens of a row; 0: the model's positions
    uint64_t grad_accum;                    // micro-batches of a step
    uint64_t groups;                        // gradient groups (offload/layout/ranks.h); 0: one
                                            // per rank
    // optimizer and schedule
    double   lr, min_lr;
    struct opt_warmup warmup;               // opt_warmup_steps(warmup, horizon)
    int      schedule;                      // enum schedule_kind
    struct opt_warmup decay_steps;          // of wsd (train_opts_schedule); value 0: 10%
    int      optimizer;                     // enum optim_kind
    double   beta1, beta2, eps, weight_decay;
    int      decay;                         // enum train_decay
    double   clip;                          // 0: none
    uint64_t seed;
    int      order;                         // enum train_order
    struct mask_opts mask;
    int      dtype;                         // enum dtype: DT_F32 or DT_BF16
    double   label_smoothing;               // fraction of the loss spread over all classes
    double   neftune_alpha;                 // noise in the embeddings; 0: none
    double            dropout; // 0: none; default of a classifier: config.json's
    struct lora_opts  lora;
    // devices
    int                mode; // enum run_mode, after train_opts_check
    int      csd;                           // as in csd_at
    uint64_t devices;                       // folders in RUN, if there is no --device
    struct opt_strings device, fpga, act_device;
    const char *xclbin;
    int      force_device, device_in_ram;
    uint64_t csd_mem;                       // bytes of accelerator memory per device
    double   compress;                      // fraction of the dense gradient's bytes; 0: none
    int      error_feedback, speculate;
    int      spare_slots;                   // enum train_spares
    // modelled links (topology.h)
    uint64_t         link_bw;                   // bytes/s; 0: unlimited
    struct opt_sizes csd_read_bw, csd_write_bw; // bytes/s: one for all devices, or one each
    double           csd_latency;               // microseconds
    const char      *topology;                  // a file that replaces these; "none"
    // the machine
    uint64_t host_mem;                      // memory limit of the process, bytes; 0: none
    int      activations;                   // index into train_activations
    int      blas;                          // enum matmul_engine
    uint64_t threads;                       // 0: all cores
    int      disk;                          // as in disk_at
    // reliability and output
    double   io_timeout; // seconds without progress of a device; 0: unlimited
    double   rank_timeout; // seconds without an answer of a rank; 0: unlimited
    uint64_t endurance;                     // rated bytes written of a drive; 0: unknown
    int      durability;                    // enum train_durability
    uint64_t commit_every;                  // steps; only mode mem
    uint64_t eval_every, log_every;         // steps; eval_every 0: only at the end
    uint64_t max_skipped;                   // steps in a row; 0: any number
    int      keep_best;
    uint64_t export_every, export_limit;    // steps; folders; 0: none; all
    uint64_t snapshot_every;                // steps; 0: no snapshots
    struct opt_strings snapshot_dir;        // folders; none: RUN/snapshots
    int      snapshot_on;                   // enum train_snapshots
    uint64_t parity;                        // lost drives that it bears
    uint64_t scrub_bw;                      // bytes/s; 0: nothing is read in the background
    uint64_t snapshots;                     // how many are kept
    uint64_t snapshot_bw;                   // bytes/s; 0: as the drives have time to spare
    uint64_t early_stopping;                // evaluations without a better value; 0: any number
    uint64_t time_limit;                    // seconds of this process; 0: unlimited; not stored
    const char *tensorboard;                // a folder; "auto": RUN/tensorboard; "none"
    int      quiet;
};

/* The option row of commands with data files. The value is an int, as enum tokens_format. */
#define OPT_DATA_FORMAT_ROW(at)                                                                    \
    { "data-format", OPT_WORD, at, "auto", tokens_format_name,                                     \
      .help = "Format of the data file\n"                                                          \
              "auto: by content; a .bin file without llm.c's header has uint16 ids, or uint32 "    \
              "ids for a vocabulary above 65,536\n"                                                \
              "text: a text, even if it looks like JSON\n"                                         \
              "u16, u32: ids without a header",                                                    \
      .kept = OPT_SOURCE }

extern const struct opt_row train_rows[];

/* The fraction of the training tokens for which the head computes logits: mask.prob for a masked
 * language model, otherwise 1. */
double train_opts_asked(const struct train_opts *o, const struct model_config *g);

/* The modelled links. The result borrows from o. */
struct topology_config train_opts_links(const struct train_opts *o);

/* True if an option decides what is computed that programs of format 5 do not know
 * (data/db/schema.h). Adapters have a format of their own. */
int train_opts_newer(const struct train_opts *o);

/* The learning rate's schedule. Without --schedule-steps it ends with the training. */
struct schedule train_opts_schedule(const struct train_opts *o);

/* The number of --act-device drives; "none" counts as 0. */
size_t train_opts_acts(const struct train_opts *o);

/* Set the defaults that --help shows, for programs without a command line. -ENOMEM. Strings are
 * malloced; whoever replaces one frees it and stores a malloced one. train_opts_release frees
 * them. */
int  train_opts_default(struct train_opts *o, struct err *err);
void train_opts_release(struct train_opts *o);
/* A command line without any given option, whose options are *o. */
struct opt_line train_opts_line(struct train_opts *o);
/* The i-th option that a run keeps, of train_rows and lora_rows; NULL past the last. */
const struct opt_row *train_opts_row(size_t i);

/* Check options that depend on each other, and complete them. su+o+c becomes su+o with compress 2%
 * (or the given ratio). Examples: min-lr <= lr; warm-up within the horizon; --devices or --device;
 * error feedback needs compress. Otherwise misuse. */
int train_opts_check(struct train_opts *o, struct err *err);
