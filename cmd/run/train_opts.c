/* train_opts.c: the rows of the options that training and reading a model share, and the checks
 * that concern two at once. */
#include "cmd/run/train_opts.h"

#include "cmd/run/output.h"
#include "cmd/run/tensorboard.h"
#include "csd/csd.h"
#include "kernels/matmul.h"
#include "kernels/optim.h"
#include "model/arch.h"

#define AT(field) offsetof(struct train_opts, field)

#define HELP_DTYPE                                                                                 \
    "what forward and backward read: parameters and inputs of products; sums are fp32"
#define HELP_MEM   "RAM for the whole process, arenas of emulated devices apart; 0: no promise"
#define HELP_BLAS  \
    "engine of the products; auto: oneDNN (if built in) where the CPU has AVX-512, and for bf16 " \
    "its bf16 products; else OpenBLAS"
#define HELP_DISK    "how devices are read and written; null stores nothing"
#define HELP_THREADS "threads of the kernels; 0: all cores that the process may use (mpirun "     \
                     "without --bind-to none may leave it one or two); last bits depend on them"
#define MOST_BETA    0.9999999 // in single precision still below 1

/* ---- words ---- */

const char *train_mode_name(size_t mode)
{
    return mode == TRAIN_SU_O_C ? "su+o+c" : run_mode_name(mode);
}

const struct train_activations train_activations[] = {
    [TRAIN_KEEP] = { "keep", 0, -1, ADAPT_NOT },
    [TRAIN_RECOMPUTE] = { "recompute", 0, 0, ADAPT_NOT },
    [TRAIN_OFFLOAD] = { "offload", 1, -1, ADAPT_NOT },
    { "auto", 1, -1, ADAPT_BEST },
    { "ssdtrain", 1, -1, ADAPT_SSDTRAIN },
    { 0 },
};

static const char *activations_name(size_t i) { return train_activations[i].name; }

/* fp16 is for files alone. */
static const char *dtype_word(size_t dtype) { return dtype <= DT_BF16 ? dtype_name(dtype) : NULL; }

#define NO_TOPOLOGY "none"
#define NO_ACT_DEVICE "none"

OPT_WORDS(topology_words, NO_TOPOLOGY)
OPT_WORDS(act_device_words, NO_ACT_DEVICE)
OPT_WORDS(tensorboard_words, TENSORBOARD_NONE, TENSORBOARD_AUTO)
OPT_WORDS(spares_words, [TRAIN_SPARES_AUTO] = "auto", [TRAIN_SPARES_HALF] = "half",
          [TRAIN_SPARES_FEW] = "few")
OPT_WORDS(decay_words, [TRAIN_DECAY_MATRICES] = "matrices", [TRAIN_DECAY_ALL] = "all")
OPT_WORDS(order_words, [TRAIN_SHUFFLED] = "shuffled", [TRAIN_SEQUENTIAL] = "sequential")
OPT_WORDS(durability_words, [TRAIN_DURABLE_STEP] = "step", [TRAIN_DURABLE_NONE] = "none")

/* ---- rows ---- */

const struct opt_row model_rows[] = {
    { "init", OPT_PATH, offsetof(struct model_opts, init), .arg = "HFDIR", .file = OPT_FILES_MODEL,
      .help = "begin with the model of a Hugging Face folder", .kept = OPT_SOURCE },
    { "model", OPT_STRING, offsetof(struct model_opts, model), .words = arch_preset_name,
      .arg = "NAME", .kept = OPT_SOURCE,
      .help = "begin with random parameters of this size, or of its family with the sizes that "
              "follow: gpt2 (124M), gpt2-medium, gpt2-large, "
              "gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, "
              "llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, "
              "gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, "
              "roberta-large" },
    { "n-layer", OPT_UINT, offsetof(struct model_opts, n_layer), .min = 1,
      .max = TRAIN_MOST_LAYERS, .help = "layers of a model of your own: a GPT-2 where there is "
      "no --model", .kept = OPT_SOURCE },
    { "n-head", OPT_UINT, offsetof(struct model_opts, n_head), .min = 1,
      .max = TRAIN_MOST_HEADS, .help = "attention heads; they divide the width",
      .kept = OPT_SOURCE },
    { "n-kv-head", OPT_UINT, offsetof(struct model_opts, n_kv_head), .min = 1,
      .max = TRAIN_MOST_HEADS, .help = "heads of keys and values, which divide these; of --model's "
      "family, if it has that", .kept = OPT_SOURCE },
    { "head-dim", OPT_UINT, offsetof(struct model_opts, head_dim), .min = 1,
      .max = TRAIN_MOST_WIDTH, .help = "columns of a head, if not width / heads; the same",
      .kept = OPT_SOURCE },
    { "n-embd", OPT_UINT, offsetof(struct model_opts, n_embd), .min = 1,
      .max = TRAIN_MOST_WIDTH, .help = "width", .kept = OPT_SOURCE },
    { "n-inner", OPT_UINT, offsetof(struct model_opts, n_inner), .min = 1,
      .max = 4 * TRAIN_MOST_WIDTH, .help = "width of the MLP; the same", .kept = OPT_SOURCE },
    { "vocab", OPT_UINT, offsetof(struct model_opts, vocab), .min = 1, .max = 2147483647,
      .help = "words of the vocabulary; else the tokenizer's, or 50257", .kept = OPT_SOURCE },
    { 0 },
};

const struct opt_row train_rows[] = {
    { "steps", OPT_UINT, AT(steps), "1000", .min = 1,
      .help = "steps to train; with --resume the run's new end", .kept = OPT_CHANGES },
    { "schedule-steps", OPT_UINT, AT(schedule_steps),
      .help = "horizon of the learning rate schedule, if not --steps; with --resume the new one, "
              "by which the rate is computed from there on", .kept = OPT_CHANGES },
    { "batch", OPT_UINT, AT(batch), "4", .min = 1, .max = TRAIN_MOST_BATCH,
      .help = "rows of a micro-batch", .kept = OPT_FIXED },
    { "seq", OPT_UINT, AT(seq), .max = 1048576,
      .help = "tokens of a row, if not all positions of the model (1024 of Llama's and its kin's); "
              "finetune: the same as --max-seq",
      .kept = OPT_FIXED },
    { "grad-accum", OPT_UINT, AT(grad_accum), "1", .min = 1, .max = 1048576,
      .help = "micro-batches of a step, of all processes that share it", .kept = OPT_FIXED },
    { "groups", OPT_UINT, AT(groups), "0", .max = 1048576,
      .help = "number of gradient groups of a step's micro-batches; bits depend on it, not on how "
              "many processes share the groups; 0: one for each process, so that other numbers of "
              "processes give other last bits",
      .kept = OPT_FIXED },
    { "lr", OPT_DOUBLE, AT(lr), "3e-4", .max = 1e30, .help = "peak learning rate",
      .kept = OPT_FIXED },
    { "min-lr", OPT_DOUBLE, AT(min_lr), "0", .max = 1e30,
      .help = "learning rate at the end of the schedule", .kept = OPT_FIXED },
    { "warmup", OPT_WARMUP, AT(warmup), "0", .help = "linear warm-up: steps, or % of the horizon",
      .kept = OPT_FIXED },
    { "schedule", OPT_WORD, AT(schedule), "cosine", schedule_name,
      .help = "learning rate after the warm-up", .kept = OPT_FIXED },
    { "optimizer", OPT_WORD, AT(optimizer), "adamw", optim_name, .help = "as PyTorch has them",
      .kept = OPT_LAYOUT },
    { "beta1", OPT_DOUBLE, AT(beta1), "0.9", .max = MOST_BETA,
      .help = "first moment's decay; sgd's momentum", .kept = OPT_FIXED },
    { "beta2", OPT_DOUBLE, AT(beta2), "0.999", .max = MOST_BETA, .help = "second moment's decay",
      .kept = OPT_FIXED },
    { "eps", OPT_DOUBLE, AT(eps), "1e-8", .min = 1e-30, .max = 1e30,
      .help = "added to the root of the second moment", .kept = OPT_FIXED },
    { "weight-decay", OPT_DOUBLE, AT(weight_decay), "0.01", .max = 1e30,
      .help = "decoupled in adamw, added to the gradient elsewhere", .kept = OPT_FIXED },
    { "decay", OPT_WORD, AT(decay), "matrices", decay_words, .help = "which tensors decay",
      .kept = OPT_FIXED },
    { "clip", OPT_DOUBLE, AT(clip), "1", .help = "largest norm of the gradient; 0: no clipping",
      .kept = OPT_FIXED },
    { "seed", OPT_UINT, AT(seed), "1", .help = "of initial parameters and the order of the data",
      .kept = OPT_FIXED },
    { "order", OPT_WORD, AT(order), "shuffled", order_words, .help = "of the rows of the data",
      .kept = OPT_FIXED },
    { "mask-prob", OPT_RATIO, AT(mask.prob), "15%", .min = 0.001, .max = 0.999,
      .help = "of a masked language model (BERT): how many of a row's tokens it is asked for",
      .kept = OPT_FIXED },
    { "mask-id", OPT_UINT, AT(mask.id), .max = 2147483647,
      .help = "the id that masks them, where no tokenizer says it", .kept = OPT_FIXED },
    { "dropout", OPT_RATIO, AT(dropout), .max = 0.99,
      .help = "part of the embeddings, attention and branches that a step drops; finetune: if not "
              "given, as config.json says", .kept = OPT_FIXED },
    { "dtype", OPT_WORD, AT(dtype), "bf16", dtype_word, .help = HELP_DTYPE, .kept = OPT_LAYOUT },
    { "mode", OPT_WORD, AT(mode), "su+o", train_mode_name,
      .help = "where states live and who updates: all in RAM; host with states on drives; devices, "
              "naively; devices, buffers handed over; the same with compressed gradients",
      .kept = OPT_LAYOUT },
    { "csd", OPT_WORD, AT(csd), "emu", csd_name,
      .help = "kind of the devices: emulated; null, which answers at once, stores nothing and "
              "trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that "
              "OpenCL sees", .kept = OPT_CHANGES },
    { "devices", OPT_UINT, AT(devices), "1", .min = 1, .max = 1024,
      .help = "how many devices, as folders in RUN", .twin = "device", .kept = OPT_LAYOUT },
    { "device", OPT_PATHS, AT(device), .arg = "PATH", .max = 1024,
      .help = "a folder, file or block device for one device", .twin = "devices",
      .kept = OPT_LAYOUT },
    { "act-device", OPT_PATHS, AT(act_device), .words = act_device_words, .arg = "PATH|none",
      .max = 1024, .help = "a folder, new file or block device for offloaded activations alone, "
      "which else lie behind the states of all devices; what is there does not outlive the "
      "training", .kept = OPT_CHANGES },
    { "fpga", OPT_STRINGS, AT(fpga), .arg = "ADDRESS", .max = 1024,
      .help = "with --csd xrt: the card of one device, as `siTrain devices` calls it; given once a "
              "device, or not at all: the card beside each drive is found", .kept = OPT_CHANGES },
    { "xclbin", OPT_PATH, AT(xclbin), .arg = "FILE",
      .help = "with --csd xrt: the cards' kernels", .kept = OPT_CHANGES },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "take block devices that carry a signature or another run", .kept = OPT_PASSING },
    { "device-in-ram", OPT_FLAG, AT(device_in_ram),
      .help = "make device files on a tmpfs, too: beside --host-mem, and gone with the power",
      .kept = OPT_CHANGES },
    { "csd-mem", OPT_SIZE, AT(csd_mem), "4G", .min = 131072,
      .help = "accelerator memory of a device, at most", .kept = OPT_LAYOUT },
    { "compress", OPT_RATIO, AT(compress), .max = 1,
      .help = "send the largest gradients only: this part of the dense gradient's bytes",
      .kept = OPT_LAYOUT },
    { "error-feedback", OPT_FLAG, AT(error_feedback),
      .help = "add what was not sent to the next step's gradient", .kept = OPT_LAYOUT },
    { "speculate", OPT_FLAG, AT(speculate),
      .help = "base, su+o: update a block before the gradient's norm is known, and again where it "
              "asks for clipping; the same bits, 1.4 times the space on disk",
      .kept = OPT_CHANGES },
    { "spare-slots", OPT_WORD, AT(spare_slots), "auto", spares_words,
      .help = "places on the devices beside those of the states, for updates that run ahead of "
              "commits: half as many as states, or few, an eighth, which is slower by some commits "
              "a step; auto: half (with --speculate more) where that leaves a tenth of what is "
              "free, else few", .kept = OPT_LAYOUT },
    { "link-bw", OPT_SIZE, AT(link_bw),
      .help = "bytes a second of the modelled host link; 0: unlimited", .kept = OPT_CHANGES },
    { "csd-read-bw", OPT_SIZES, AT(csd_read_bw),
      .help = "bytes a second that the modelled drive of a device reads if it does nothing else, "
              "reads and writes sharing its time; 0: unlimited; several, with commas between: of "
              "each device", .kept = OPT_CHANGES },
    { "csd-write-bw", OPT_SIZES, AT(csd_write_bw),
      .help = "that it writes if it does nothing else, in the same way", .kept = OPT_CHANGES },
    { "csd-latency", OPT_DOUBLE, AT(csd_latency), .max = 1e9,
      .help = "microseconds that a request to the modelled drive of a device takes beside its "
              "bytes; others are served meanwhile", .kept = OPT_CHANGES },
    { "topology", OPT_PATH, AT(topology), "none", topology_words, .arg = "FILE|none",
      .help = "a file that describes the modelled links as a tree (docs/topology.md), instead of "
              "--link-bw and --csd-...; it is read at each start", .kept = OPT_CHANGES },
    { "host-mem", OPT_SIZE, AT(host_mem), .help = HELP_MEM, .kept = OPT_CHANGES },
    { "activations", OPT_WORD, AT(activations), "keep", activations_name,
      .help = "what backward needs: kept in RAM as far as there is room, and else recomputed; all "
              "recomputed; kept as far as there is room, and else written to the devices and read "
              "back; all three, part by part, as makes the measured steps shortest; or kept and "
              "written as SSDTrain's rule says", .kept = OPT_CHANGES },
    { "blas", OPT_WORD, AT(blas), "auto", matmul_engine_name, .help = HELP_BLAS,
      .kept = OPT_FIXED },
    { "threads", OPT_UINT, AT(threads), .max = 4096, .help = HELP_THREADS, .kept = OPT_FIXED },
    { "disk", OPT_WORD, AT(disk), "uring", disk_name, .help = HELP_DISK, .kept = OPT_CHANGES },
    { "io-timeout", OPT_DOUBLE, AT(io_timeout), "60", .max = 1e6,
      .help = "seconds after which a device that gives no sign of life ends the run; 0: never",
      .kept = OPT_CHANGES },
    { "rank-timeout", OPT_DOUBLE, AT(rank_timeout), "300", .max = 1e6,
      .help = "several processes (mpirun): seconds after which one that does not answer the others "
              "ends the run, while they train; more than the slowest takes for two layers; 0: "
              "never",
      .kept = OPT_CHANGES },
    { "endurance", OPT_SIZE, AT(endurance),
      .help = "bytes that a drive may be written in its life (TBW): training warns where it would "
              "last less than a year", .kept = OPT_CHANGES },
    { "durability", OPT_WORD, AT(durability), "step", durability_words,
      .help = "step: every step survives a power cut; none: no flushes", .kept = OPT_CHANGES },
    { "commit-every", OPT_UINT, AT(commit_every), "100", .min = 1,
      .help = "steps between commits in mode mem", .kept = OPT_CHANGES },
    { "eval-every", OPT_UINT, AT(eval_every),
      .help = "steps between evaluations; 0: only at the end", .kept = OPT_CHANGES },
    { "log-every", OPT_UINT, AT(log_every), "1", .min = 1,
      .help = "steps between lines; on a terminal, if above 1, between those that stay",
      .kept = OPT_CHANGES },
    { "max-skipped", OPT_UINT, AT(max_skipped), "100",
      .help = "stop after so many steps in a row that were skipped since the loss or a gradient "
              "was not finite; 0: never", .kept = OPT_CHANGES },
    { "keep-best", OPT_FLAG, AT(keep_best),
      .help = "keep the model after the best evaluation in RUN/best, a Hugging Face folder",
      .kept = OPT_CHANGES },
    { "tensorboard", OPT_PATH, AT(tensorboard), TENSORBOARD_NONE, tensorboard_words,
      .arg = "DIR|auto|none",
      .help = "write what each step and evaluation gave into this folder as TensorBoard reads it; "
              "auto: RUN/tensorboard", .kept = OPT_CHANGES },
    { "quiet", OPT_FLAG, AT(quiet), .help = "print no line per step", .kept = OPT_PASSING },
    { 0 },
};

const struct opt_row read_rows[] = {
    { "seq", OPT_UINT, offsetof(struct read_opts, seq), .max = 1048576,
      .help = "tokens of a row, if not all positions of the model (1024 of Llama's and its "
              "kin's)" },
    { "batch", OPT_UINT, offsetof(struct read_opts, batch), "4", .min = 1, .max = 1048576,
      .help = "rows that go through together" },
    { "dtype", OPT_WORD, offsetof(struct read_opts, dtype), "bf16", dtype_word,
      .help = HELP_DTYPE },
    { "host-mem", OPT_SIZE, offsetof(struct read_opts, host_mem), .help = HELP_MEM },
    { "blas", OPT_WORD, offsetof(struct read_opts, blas), "auto", matmul_engine_name,
      .help = HELP_BLAS },
    { "threads", OPT_UINT, offsetof(struct read_opts, threads), .max = 4096, .help = HELP_THREADS },
    { "disk", OPT_WORD, offsetof(struct read_opts, disk), "uring", disk_name, .help = HELP_DISK },
    { 0 },
};

const struct opt_row which_rows[] = {
    { "best", OPT_FLAG, offsetof(struct which_opts, best),
      .help = "the best model that --keep-best kept, in RUN/best; not given: that one where there "
              "is one" },
    { "last", OPT_FLAG, offsetof(struct which_opts, last),
      .help = "the model after the last step" },
    { 0 },
};

const struct opt_row column_rows[] = {
    { "text-column", OPT_STRING, offsetof(struct task_names, text), .arg = "NAME",
      .help = "the column (of an object: the name) of the text; if not given a pair as GLUE's "
              "tasks have them (sentence1 and sentence2, premise and hypothesis, question and "
              "sentence, question1 and question2), sentence, text, or the first two that are "
              "neither label nor id; of a run: as it was trained", .kept = OPT_SOURCE },
    { "pair-column", OPT_STRING, offsetof(struct task_names, pair), .arg = "NAME",
      .help = "of the second text, where rows are pairs", .kept = OPT_SOURCE },
    { "label-column", OPT_STRING, offsetof(struct task_names, label), .arg = "NAME",
      .help = "of the label, if it is not called label", .kept = OPT_SOURCE },
    { 0 }
};

#define TUNE(field) offsetof(struct tune_opts, field)

const struct opt_row tune_rows[] = {
    { "task", OPT_STRING, TUNE(task), .words = task_word, .help = "a GLUE task",
      .kept = OPT_SOURCE },
    { "train-file", OPT_PATH, TUNE(train_file), .arg = "FILE",
      .help = "rows of one's own, .csv, .tsv, .json or .jsonl (an object a line, or one list): "
              "sentence, or sentence1 and sentence2, and label; or as --text-column and the others "
              "say", .kept = OPT_SOURCE },
    { "eval-file", OPT_PATH, TUNE(eval_file), .arg = "FILE", .help = "the same, to evaluate on",
      .kept = OPT_SOURCE },
    { "test-file", OPT_PATH, TUNE(test_file), .arg = "FILE",
      .help = "the same, to predict; labels are not looked at", .kept = OPT_SOURCE },
    { "regression", OPT_FLAG, TUNE(regression),
      .help = "labels are numbers to come near to; without it, if all are numbers and one has a "
              "decimal point or an exponent (1.0, too)",
      .kept = OPT_SOURCE },
    { "epochs", OPT_UINT, TUNE(epochs), "3", .min = 1, .max = 1000000,
      .help = "how often each row is trained on; --steps says otherwise" },
    { "max-seq", OPT_UINT, TUNE(max_seq), .min = 1, .max = 1048576,
      .help = "tokens of a row, the rest is cut off; if not given 128, or what the model has" },
    { "predict", OPT_FLAG, TUNE(predict), .help = "write predictions of the test rows at the end",
      .kept = OPT_SOURCE },
    { "max-train-samples", OPT_UINT, TUNE(max_train),
      .help = "train on the first N rows only; 0: all", .kept = OPT_SOURCE },
    { "max-eval-samples", OPT_UINT, TUNE(max_eval), .help = "evaluate on the first N only",
      .kept = OPT_SOURCE },
    { "max-predict-samples", OPT_UINT, TUNE(max_predict), .help = "predict the first N only",
      .kept = OPT_SOURCE },
    { 0 }
};

struct opt_line train_opts_line(struct train_opts *o)
{
    static const struct opt_part    parts[] = { { "Training", train_rows, 0 }, { 0 } };
    static const struct opt_command cmd = { .name = "run", .parts = parts, .size = sizeof *o };

    return (struct opt_line){ .cmd = &cmd, .options = o };
}

int train_opts_default(struct train_opts *o, struct err *err)
{
    struct opt_line line = train_opts_line(o);

    return opt_parse(&line, err);
}

void train_opts_release(struct train_opts *o)
{
    struct opt_line line = train_opts_line(o);

    opt_release(&line);
}

int read_opts_default(struct read_opts *o, struct err *err)
{
    static const struct opt_part    parts[] = { { "Reading", read_rows, 0 }, { 0 } };
    static const struct opt_command cmd = { .name = "read", .parts = parts, .size = sizeof *o };
    struct opt_line                 line = { .cmd = &cmd, .options = o };
    int                             rc = opt_parse(&line, err);

    o->dtype = -1;
    return rc;
}

size_t train_opts_acts(const struct train_opts *o)
{
    const struct opt_strings *d = &o->act_device;

    return d->n == 1 && !strcmp(d->item[0], NO_ACT_DEVICE) ? 0 : d->n;
}

double train_opts_asked(const struct train_opts *o, const struct model_config *g)
{
    return arch_is_masked(g) ? o->mask.prob : 1;
}

struct topology_config train_opts_links(const struct train_opts *o)
{
    return (struct topology_config){
        .file = o->topology && strcmp(o->topology, NO_TOPOLOGY) ? o->topology : NULL,
        .host_bw = o->link_bw,
        .read_bw = { o->csd_read_bw.item, o->csd_read_bw.n },
        .write_bw = { o->csd_write_bw.item, o->csd_write_bw.n },
        .latency_us = o->csd_latency,
        .others = train_opts_acts(o),
    };
}

/* Whether there are links as the options describe them. */
static int links_check(const struct train_opts *o, struct err *err)
{
    struct topology_config cfg = train_opts_links(o);
    struct topology       *t = NULL;
    int                    rc = topology_open(&t, &cfg, o->devices, err);

    topology_close(t);
    return rc;
}

/* Whether drives for activations go with the rest. */
static int acts_check(const struct train_opts *o, struct err *err)
{
    for (size_t i = 0; i < o->act_device.n && o->act_device.n > 1; i++)
        if (!strcmp(o->act_device.item[i], NO_ACT_DEVICE))
            return err_misuse(err, "--act-device none takes all of them back: give it alone");
    if (train_opts_acts(o) && o->mode == RUN_MEM)
        return err_misuse(err, "--act-device is for activations that are offloaded, and --mode mem "
                          "keeps everything in RAM: leave it out, or give another mode");
    if (train_opts_acts(o) && !train_activations[o->activations].offloads)
        return err_misuse(err, "--act-device is for activations that are offloaded, and "
                          "--activations %s offloads none: give offload, auto or ssdtrain, or "
                          "leave it out (--act-device none takes back what a run has)",
                          train_activations[o->activations].name);
    return 0;
}

int train_opts_check(struct train_opts *o, struct err *err)
{
    uint64_t horizon = o->schedule_steps ? o->schedule_steps : o->steps;
    uint64_t warmup = opt_warmup_steps(o->warmup, horizon);

    if (o->mode == TRAIN_SU_O_C) {
        o->mode = RUN_SUO;
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
    if (o->speculate && o->mode != RUN_BASE && o->mode != RUN_SUO)
        return err_misuse(err, "--speculate is for --mode base, su+o and su+o+c, not %s: %s",
                          train_mode_name((size_t)o->mode),
                          o->mode == RUN_MEM ? "in mem nothing waits for the norm"
                                               : "su updates naively, after the norm is known");
    if (train_activations[o->activations].offloads && o->mode == RUN_MEM &&
        train_activations[o->activations].adapts != ADAPT_BEST)
        return err_misuse(err, "--activations %s writes to the devices, and --mode mem has none: "
                               "give keep or recompute, or another mode",
                          train_activations[o->activations].name);
    if (o->device.n && o->devices > 1 && o->devices != o->device.n)
        return err_misuse(err,
                          "--devices %llu and %zu times --device disagree; give one of the two",
                          (unsigned long long)o->devices, o->device.n);
    if (o->device.n)
        o->devices = o->device.n;
    if (o->fpga.n && o->fpga.n != o->devices)
        return err_misuse(err, "--fpga names %zu card%s, and there %s %llu device%s: each needs "
                          "one, or none is named", o->fpga.n, o->fpga.n == 1 ? "" : "s",
                          o->devices == 1 ? "is" : "are",
                          (unsigned long long)o->devices, o->devices == 1 ? "" : "s");
    if (o->mode == RUN_MEM && csd_at((size_t)o->csd)->usable) // which needs something for it
        return err_misuse(err, "--mode mem has no devices, and updates on the host: give another "
                          "mode, or leave --csd %s out", csd_name((size_t)o->csd));
    if (o->mode == RUN_MEM && o->device.n)
        return err_misuse(err, "--mode mem keeps everything in RAM and its images in RUN: leave "
                          "--device out");
    if (acts_check(o, err) || links_check(o, err))
        return -EINVAL;
    return o->tensorboard && *o->tensorboard && strcmp(o->tensorboard, TENSORBOARD_NONE) &&
                   strcmp(o->tensorboard, TENSORBOARD_AUTO)
               ? output_check_events(o->tensorboard, err)
               : 0;
}

static int same(const char *a, const char *b) { return a && b && !strcmp(a, b); }

int columns_check(const struct task_names *n, int own, struct err *err)
{
    const char *label = n->label ? n->label : "label";

    if (!own && (n->text || n->pair || n->label))
        return err_misuse(err,
                          "--%s-column is for rows of one's own: leave it out, or name their file",
                          n->text   ? "text"
                          : n->pair ? "pair"
                                    : "label");
    if (n->pair && !n->text)
        return err_misuse(err, "--pair-column %s is the second text of a pair: --text-column NAME, "
                          "which says what the first is, is missing", n->pair);
    if (same(n->text, n->pair) || same(n->text, label) || same(n->pair, label))
        return err_misuse(err,
                          "the column %s is asked for twice: the text, the second text and the "
                          "label (label, if --label-column names no other) are columns of their "
                          "own",
                          same(n->text, n->pair) ? n->text : label);
    return 0;
}
