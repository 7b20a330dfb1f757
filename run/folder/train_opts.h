/* train_opts.h: the options of training and of reading a model, shared by the commands that have
 * them. Checks that concern two options at once are in train_opts_check. */
#pragma once

#include "data/base/dtype.h"
#include "data/opt/opt.h"
#include "data/task/task.h"
#include "data/text/tokens.h"
#include "model/adapt.h"
#include "model/schedule.h"
#include "offload/layout/config.h"

/* --mode: enum run_mode, or su+o+c, which stands for su+o with --compress. */
enum { TRAIN_SU_O_C = RUN_SUO + 1 };
enum train_decay      { TRAIN_DECAY_MATRICES, TRAIN_DECAY_ALL };
enum train_order      { TRAIN_SHUFFLED, TRAIN_SEQUENTIAL };
enum train_spares     { TRAIN_SPARES_AUTO, TRAIN_SPARES_HALF, TRAIN_SPARES_FEW };
enum train_durability { TRAIN_DURABLE_STEP, TRAIN_DURABLE_NONE };

const char *train_mode_name(size_t mode); // NULL past the last

/* What --activations says. offloads: those that are not kept go to the devices, else they are
 * computed again; adapts: that is chosen while it trains. keep: of how many layers they are kept,
 * as in struct budget_request. Ends with { 0 }. */
struct train_activations { const char *name; int offloads, keep; enum adapt_policy adapts; };
enum { TRAIN_KEEP, TRAIN_RECOMPUTE, TRAIN_OFFLOAD };
extern const struct train_activations train_activations[];

#define TRAIN_COMPRESS 0.02 // what su+o+c sends where --compress does not say: the paper's ratio

/* The largest sizes that their options take. */
enum { TRAIN_MOST_LAYERS = 10000, TRAIN_MOST_HEADS = 65536, TRAIN_MOST_WIDTH = 1 << 20,
       TRAIN_MOST_BATCH = 1 << 20 };

/* Which model, for pretrain and plan: init; or model, some of its sizes others; or sizes. */
struct model_opts {
    const char *init;  // a Hugging Face folder; NULL: none
    const char *model; // gpt2, gpt2-medium, ...; NULL: none
    uint64_t n_layer, n_head, n_embd, vocab; // 0: not given (vocab: from the data or the tokenizer)
    uint64_t n_kv_head, head_dim, n_inner;   // 0: not given
};

/* What a masked language model is asked. */
struct mask_opts {
    double   prob; // of a row's tokens
    uint64_t id;   // that masks them; 0: the tokenizer says it
};

struct train_opts {
    // how long, how much
    uint64_t steps, schedule_steps;         // schedule_steps 0: steps
    uint64_t batch;                         // rows of a micro-batch
    uint64_t seq;                           // tokens of a row; 0: the model's positions
    uint64_t grad_accum;                    // micro-batches of a step
    uint64_t groups;                        // of these (offload/layout/ranks.h); 0: as many as
                                            // ranks
    // the rule
    double   lr, min_lr;
    struct opt_warmup warmup;               // opt_warmup_steps(warmup, horizon)
    int      schedule;                      // enum schedule_kind
    int      optimizer;                     // enum optim_kind
    double   beta1, beta2, eps, weight_decay;
    int      decay;                         // enum train_decay
    double   clip;                          // 0: none
    uint64_t seed;
    int      order;                         // enum train_order
    struct mask_opts mask;
    int      dtype;                         // enum dtype: DT_F32 or DT_BF16
    double            dropout; // 0: none; a classifier's, where not asked for: config.json's
    // where
    int                mode; // enum run_mode, after train_opts_check
    int      csd;                           // as in csd_at
    uint64_t devices;                       // directories in RUN, where no --device is given
    struct opt_strings device, fpga, act_device;
    const char *xclbin;
    int      force_device, device_in_ram;
    uint64_t csd_mem;                       // bytes of accelerator memory a device
    double   compress;                      // fraction of the dense gradient's bytes; 0: none
    int      error_feedback, speculate;
    int      spare_slots;                   // enum train_spares
    // modelled links (topology.h)
    uint64_t         link_bw;                   // bytes a second; 0: unlimited
    struct opt_sizes csd_read_bw, csd_write_bw; // the same: one for all devices, or one for each
    double           csd_latency;               // microseconds
    const char      *topology;                  // a file instead of these; "none"
    // the machine
    uint64_t host_mem;                      // bytes of the whole process; 0: no promise
    int      activations;                   // of train_activations
    int      blas;                          // enum matmul_engine
    uint64_t threads;                       // 0: all cores
    int      disk;                          // as in disk_at
    // what is kept and said
    double   io_timeout; // seconds without a sign of life of a device; 0: for ever
    double   rank_timeout; // seconds without an answer of another rank; 0: for ever
    uint64_t endurance;                     // bytes written in a drive's life; 0: not known
    int      durability;                    // enum train_durability
    uint64_t commit_every;                  // steps, mode mem
    uint64_t eval_every, log_every;         // steps; eval_every 0: only at the end
    uint64_t max_skipped;                   // steps in a row; 0: any number
    int      keep_best;
    const char *tensorboard;                // a folder; "auto": RUN/tensorboard; "none"
    int      quiet;
};

/* What is fine-tuned for, for finetune and plan. */
struct tune_opts {
    const char *task;                               // of GLUE; or
    const char *train_file, *eval_file, *test_file; // one's own rows
    int         regression, predict;
    uint64_t    epochs, max_seq;                    // max_seq 0: 128, or what the model has
    uint64_t    max_train, max_eval, max_predict;   // rows; 0: all
};

/* For eval and generate. */
struct read_opts {
    uint64_t seq, batch;  // seq 0: the model's positions
    int      dtype;       // enum dtype: DT_F32 or DT_BF16; -1: the model's own
    uint64_t host_mem;    // bytes; 0: no promise
    int      blas;        // enum matmul_engine
    uint64_t threads;     // 0: all cores
    int      disk;        // as in disk_at
};

/* Of commands that have files of data: an int, as enum tokens_format. */
#define OPT_DATA_FORMAT_ROW(at)                                                                    \
    { "data-format", OPT_WORD, at, "auto", tokens_format_name,                                     \
      .help = "Format of the data file\n"                                                          \
              "auto: by content; a .bin file without llm.c's header has uint16 ids, or uint32 "    \
              "ids for a vocabulary above 65,536\n"                                                \
              "text: a text, even if it looks like JSON\n"                                         \
              "u16, u32: ids without a header",                                                    \
      .kept = OPT_SOURCE }

/* Which model of a run is read, for export, eval and generate. */
struct which_opts { int best, last; };

// of struct model_opts, train_opts, tune_opts, read_opts, which_opts; column_rows: of task_names
extern const struct opt_row model_rows[], train_rows[], tune_rows[], read_rows[], which_rows[],
    column_rows[];

/* Of the tokens that are trained on, those that the head is asked for. */
double train_opts_asked(const struct train_opts *o, const struct model_config *g);

/* The links that they model; what it points to is theirs. */
struct topology_config train_opts_links(const struct train_opts *o);

/* Drives of --act-device; "none" is none. */
size_t train_opts_acts(const struct train_opts *o);

/* What --help says: for who has no command line. -ENOMEM. The strings in it are malloced, and so is
 * what replaces one: train_opts_release frees them. */
int  train_opts_default(struct train_opts *o, struct err *err);
void train_opts_release(struct train_opts *o);
/* The options as a command line has them that says nothing else. */
struct opt_line train_opts_line(struct train_opts *o);

int read_opts_default(struct read_opts *o, struct err *err); // with the model's own dtype

/* Options that go together: su+o+c becomes su+o with compress 2% (or what was given); min-lr <= lr;
 * warm-up within the horizon; --devices or --device; error feedback needs compress; ... */
int train_opts_check(struct train_opts *o, struct err *err);
/* Do the columns go together? own: there are rows of one's own; without, none may be given. */
int columns_check(const struct task_names *n, int own, struct err *err);
