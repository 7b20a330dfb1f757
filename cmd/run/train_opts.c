/* train_opts.c: the rows of the options that training and reading a model share, and the checks
 * that concern two at once. */
#include "cmd/run/train_opts.h"

#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct train_opts, field)

#define WORDS_DTYPE "fp32|bf16"
#define WORDS_BLAS  "auto|openblas|onednn"
#define WORDS_DISK  "uring|sync|null"
#define HELP_DTYPE                                                                                 \
    "what forward and backward read: parameters and inputs of products; sums are fp32"
#define HELP_MEM    "RAM for the whole process, arenas of emulated devices apart; 0: no promise"
#define HELP_BLAS                                                                                  \
    "engine of the products; auto: oneDNN (if built in) where the CPU has AVX-512, else OpenBLAS"
#define HELP_THREAD "threads of the kernels; 0: all cores"
#define MOST_BETA   0.9999999 // in single precision still below 1
#define HELP_DISK   "how devices are read and written; null stores nothing"

const char *const train_mode_names[] = { "mem", "base", "su", "su+o", "su+o+c", NULL };
const char *const train_csd_names[] = { "emu", "null", NULL };
const char *const train_disk_names[] = { "uring", "sync", "null", NULL };

const struct opt_row model_rows[] = {
    { "init", OPT_STRING, offsetof(struct model_opts, init), .arg = "HFDIR",
      .help = "begin with the model of a Hugging Face folder" },
    { "model", OPT_STRING, offsetof(struct model_opts, model), .arg = "NAME",
      .help = "begin with random parameters: gpt2 (124M), gpt2-medium, gpt2-large, gpt2-xl, "
              "gpt2-2.7b" },
    { "n-layer", OPT_UINT, offsetof(struct model_opts, n_layer), .min = 1, .max = 10000,
      .help = "layers of a model of your own" },
    { "n-head", OPT_UINT, offsetof(struct model_opts, n_head), .min = 1, .max = 65536,
      .help = "attention heads; they divide the width" },
    { "n-embd", OPT_UINT, offsetof(struct model_opts, n_embd), .min = 1, .max = 1048576,
      .help = "width" },
    { "vocab", OPT_UINT, offsetof(struct model_opts, vocab), .min = 1, .max = 2147483647,
      .help = "words of the vocabulary; else the tokenizer's, or 50257" },
    { 0 },
};

const struct opt_row train_rows[] = {
    { "steps", OPT_UINT, AT(steps), "1000", .min = 1,
      .help = "steps to train; with --resume the run's new end" },
    { "schedule-steps", OPT_UINT, AT(schedule_steps),
      .help = "horizon of the learning rate schedule, if not --steps" },
    { "batch", OPT_UINT, AT(batch), "4", .min = 1, .max = 1048576,
      .help = "rows of a micro-batch" },
    { "seq", OPT_UINT, AT(seq), .max = 1048576,
      .help = "tokens of a row, if not all positions of the model; finetune: the same as "
              "--max-seq" },
    { "grad-accum", OPT_UINT, AT(grad_accum), "1", .min = 1, .max = 1048576,
      .help = "micro-batches of a step" },
    { "lr", OPT_DOUBLE, AT(lr), "3e-4", .max = 1e30, .help = "peak learning rate" },
    { "min-lr", OPT_DOUBLE, AT(min_lr), "0", .max = 1e30,
      .help = "learning rate at the end of the schedule" },
    { "warmup", OPT_WARMUP, AT(warmup), "0", .help = "linear warm-up: steps, or % of the horizon" },
    { "schedule", OPT_WORD, AT(schedule), "cosine", "cosine|linear|constant",
      .help = "learning rate after the warm-up" },
    { "optimizer", OPT_WORD, AT(optimizer), "adamw", "adamw|adam|sgd|adagrad",
      .help = "as PyTorch has them" },
    { "beta1", OPT_DOUBLE, AT(beta1), "0.9", .max = MOST_BETA,
      .help = "first moment's decay; sgd's momentum" },
    { "beta2", OPT_DOUBLE, AT(beta2), "0.999", .max = MOST_BETA, .help = "second moment's decay" },
    { "eps", OPT_DOUBLE, AT(eps), "1e-8", .min = 1e-30, .max = 1e30,
      .help = "added to the root of the second moment" },
    { "weight-decay", OPT_DOUBLE, AT(weight_decay), "0.01", .max = 1e30,
      .help = "decoupled in adamw, added to the gradient elsewhere" },
    { "decay", OPT_WORD, AT(decay), "matrices", "matrices|all", .help = "which tensors decay" },
    { "clip", OPT_DOUBLE, AT(clip), "1", .help = "largest norm of the gradient; 0: no clipping" },
    { "seed", OPT_UINT, AT(seed), "1", .help = "of initial parameters and the order of the data" },
    { "order", OPT_WORD, AT(order), "shuffled", "shuffled|sequential",
      .help = "of the rows of the data" },
    { "dropout", OPT_RATIO, AT(dropout), .max = 0.99,
      .help = "part of the embeddings, attention and branches that a step drops; finetune: "
              "if not given, as config.json says" },
    { "dtype", OPT_WORD, AT(dtype), "bf16", WORDS_DTYPE, .help = HELP_DTYPE },
    { "mode", OPT_WORD, AT(mode), "su+o", "mem|base|su|su+o|su+o+c",
      .help = "where states live and who updates: all in RAM; host with states on drives; devices, "
              "naively; devices, buffers handed over; the same with compressed gradients" },
    { "csd", OPT_WORD, AT(csd), "emu", "emu|null", "xrt", .help = "kind of the devices" },
    { "devices", OPT_UINT, AT(devices), "1", .min = 1, .max = 1024,
      .help = "how many devices, as folders in RUN", .twin = "device" },
    { "device", OPT_STRINGS, AT(device), .arg = "PATH", .max = 1024,
      .help = "a folder, file or block device for one device", .twin = "devices" },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "take block devices that carry a signature or another run" },
    { "device-in-ram", OPT_FLAG, AT(device_in_ram),
      .help = "make device files on a tmpfs, too: beside --host-mem, and gone with the power" },
    { "csd-mem", OPT_SIZE, AT(csd_mem), "4G", .min = 131072,
      .help = "accelerator memory of a device, at most" },
    { "compress", OPT_RATIO, AT(compress), .max = 1,
      .help = "send the largest gradients only: this part of the dense gradient's bytes" },
    { "error-feedback", OPT_FLAG, AT(error_feedback),
      .help = "add what was not sent to the next step's gradient" },
    { "speculate", OPT_FLAG, AT(speculate),
      .help = "base, su+o: update a block before the gradient's norm is known, and again where it "
              "asks for clipping; the same bits, 1.4 times the space on disk" },
    { "link-bw", OPT_SIZE, AT(link_bw),
      .help = "bytes a second of the modelled host link; 0: unlimited" },
    { "csd-read-bw", OPT_SIZE, AT(csd_read_bw),
      .help = "bytes a second that an emulated device reads; 0: unlimited" },
    { "csd-write-bw", OPT_SIZE, AT(csd_write_bw),
      .help = "bytes a second that an emulated device writes; 0: unlimited" },
    { "host-mem", OPT_SIZE, AT(host_mem), .help = HELP_MEM },
    { "activations", OPT_WORD, AT(activations), "keep", "keep|recompute|offload|auto",
      .help = "what backward needs: kept in RAM as far as there is room, and else recomputed; all "
              "recomputed; kept as far as there is room, and else written to the devices and read "
              "back; or that for as many layers as the devices can carry beside their other work, "
              "which one step is measured for" },
    { "blas", OPT_WORD, AT(blas), "auto", WORDS_BLAS, .help = HELP_BLAS },
    { "threads", OPT_UINT, AT(threads), .max = 4096, .help = HELP_THREAD },
    { "disk", OPT_WORD, AT(disk), "uring", WORDS_DISK, .help = HELP_DISK },
    { "io-timeout", OPT_DOUBLE, AT(io_timeout), "60", .max = 1e6,
      .help = "seconds after which a device that gives no sign of life ends the run; 0: never" },
    { "endurance", OPT_SIZE, AT(endurance),
      .help = "bytes that a drive may be written in its life (TBW): training warns where it "
              "would last less than a year" },
    { "durability", OPT_WORD, AT(durability), "step", "step|none",
      .help = "step: every step survives a power cut; none: no flushes" },
    { "commit-every", OPT_UINT, AT(commit_every), "100", .min = 1,
      .help = "steps between commits in mode mem" },
    { "eval-every", OPT_UINT, AT(eval_every),
      .help = "steps between evaluations; 0: only at the end" },
    { "log-every", OPT_UINT, AT(log_every), "1", .min = 1,
      .help = "steps between lines; on a terminal, if above 1, between those that stay" },
    { "max-skipped", OPT_UINT, AT(max_skipped), "100",
      .help = "stop after so many steps in a row that were skipped since the loss or a "
              "gradient was not finite; 0: never" },
    { "keep-best", OPT_FLAG, AT(keep_best),
      .help = "keep the model after the best evaluation in RUN/best, a Hugging Face folder" },
    { "quiet", OPT_FLAG, AT(quiet), .help = "print no line per step" },
    { "topology", OPT_LATER, .help = "use --link-bw, --csd-read-bw and --csd-write-bw" },
    { "trace", OPT_LATER, .help = "query the table spans of run.db" },
    { "tensorboard", OPT_LATER, .help = "use siTrain report RUN --csv" },
    { 0 },
};

const struct opt_row read_rows[] = {
    { "seq", OPT_UINT, offsetof(struct read_opts, seq), .max = 1048576,
      .help = "tokens of a row, if not all positions of the model" },
    { "batch", OPT_UINT, offsetof(struct read_opts, batch), "4", .min = 1, .max = 1048576,
      .help = "rows that go through together" },
    { "dtype", OPT_WORD, offsetof(struct read_opts, dtype), "bf16", WORDS_DTYPE,
      .help = HELP_DTYPE },
    { "host-mem", OPT_SIZE, offsetof(struct read_opts, host_mem), .help = HELP_MEM },
    { "blas", OPT_WORD, offsetof(struct read_opts, blas), "auto", WORDS_BLAS, .help = HELP_BLAS },
    { "threads", OPT_UINT, offsetof(struct read_opts, threads), .max = 4096, .help = HELP_THREAD },
    { "disk", OPT_WORD, offsetof(struct read_opts, disk), "uring", WORDS_DISK, .help = HELP_DISK },
    { 0 },
};

int train_opts_default(struct train_opts *o, struct err *err)
{
    static const struct opt_part    parts[] = { { "Training", train_rows, 0 }, { 0 } };
    static const struct opt_command none = {
        .name = "run", .usage = "", .summary = "", .parts = parts, .size = sizeof *o
    };
    char *argv[] = { (char *)(uintptr_t)"run", NULL };

    return opt_parse(&none, 1, argv, o, NULL, err);
}

int train_opts_check(struct train_opts *o, struct err *err)
{
    uint64_t horizon = o->schedule_steps ? o->schedule_steps : o->steps;
    uint64_t warmup = opt_warmup_steps(o->warmup, horizon);

    if (o->mode == TRAIN_SU_O_C) {
        o->mode = TRAIN_SU_O;
        if (!(o->compress > 0))
            o->compress = TRAIN_COMPRESS;
    }
    if (o->min_lr > o->lr)
        return err_misuse(err, "--min-lr %g is above --lr %g; it is where the schedule ends",
                          o->min_lr, o->lr);
    if (warmup > horizon)
        return err_misuse(err, "--warmup of %llu steps is longer than the schedule of %llu steps",
                          (unsigned long long)warmup, (unsigned long long)horizon);
    if (o->error_feedback && !(o->compress > 0))
        return err_misuse(err, "--error-feedback needs compressed gradients: give --compress (2%% "
                          "is the paper's) too, or leave it out");
    if (o->speculate && o->mode != TRAIN_BASE && o->mode != TRAIN_SU_O)
        return err_misuse(err, "--speculate is for --mode base, su+o and su+o+c, not %s: %s",
                          train_mode_names[o->mode],
                          o->mode == TRAIN_MEM ? "in mem nothing waits for the norm"
                                               : "su updates naively, after the norm is known");
    if (o->activations == TRAIN_OFFLOAD && o->mode == TRAIN_MEM)
        return err_misuse(err, "--activations offload writes to the devices, and --mode mem has "
                               "none: give keep or recompute, or another mode");
    if (o->device.n && o->devices > 1 && o->devices != o->device.n)
        return err_misuse(err,
                          "--devices %llu and %zu times --device disagree; give one of the two",
                          (unsigned long long)o->devices, o->device.n);
    if (o->device.n)
        o->devices = o->device.n;
    if (o->mode == TRAIN_MEM && o->device.n)
        return err_misuse(err, "--mode mem keeps everything in RAM and its images in RUN: leave "
                          "--device out");
    return 0;
}

int model_opts_check(const struct model_opts *o, struct err *err)
{
    int sizes = o->n_layer || o->n_head || o->n_embd, ways = !!o->init + !!o->model + sizes;

    if (!ways)
        return err_misuse(err, "which model? give --init HFDIR, or --model NAME, or --n-layer, "
                          "--n-head and --n-embd");
    if (ways > 1)
        return err_misuse(err, "%s both say which model; give one of them",
                          o->init && o->model ? "--init and --model"
                          : o->init           ? "--init and --n-layer, --n-head, --n-embd"
                                              : "--model and --n-layer, --n-head, --n-embd");
    if (sizes && !(o->n_layer && o->n_head && o->n_embd))
        return err_misuse(err,
                          "%s is missing; a model of your own needs --n-layer, --n-head and "
                          "--n-embd",
                          !o->n_layer  ? "--n-layer"
                          : !o->n_head ? "--n-head"
                                       : "--n-embd");
    if (o->vocab && o->init)
        return err_misuse(err, "--vocab %llu and --init disagree: the folder says how large the "
                          "vocabulary is", (unsigned long long)o->vocab);
    return 0;
}

int train_opt_may_change(const char *name)
{
    static const char *const free_names[] = {
        "steps",        "host-mem",    "activations",  "disk",         "durability",
        "commit-every", "eval-every",  "log-every",    "quiet",        "keep-best",
        "max-skipped",  "io-timeout",  "endurance",    "force-device", "device-in-ram",
        "link-bw",      "csd-read-bw", "csd-write-bw", "speculate"
    };

    for (size_t i = 0; i < sizeof free_names / sizeof *free_names; i++)
        if (!strcmp(free_names[i], name))
            return 1;
    return 0;
}
