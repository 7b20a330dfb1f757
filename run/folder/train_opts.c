/* train_opts.c: defines the options for training. train_opts_check.c says what several of them mean
 * together. */
#include "run/folder/train_opts.h"

#include "csd/csd.h"
#include "kernels/update/optim.h"
#include "model/arch/arch.h"
#include "run/folder/machine_rows.h"
#include "run/folder/tensorboard.h"

#define AT(field) offsetof(struct train_opts, field)

#define MOST_BETA    0.9999999 // still below 1 in single precision

/* ---- words ---- */

const char *train_mode_name(size_t mode)
{
    return mode == TRAIN_SU_O_C ? "su+o+c" : run_mode_name(mode);
}

const struct train_activations train_activations[] = {
    [TRAIN_KEEP] = { "keep", 0, 1, ADAPT_NOT },
    [TRAIN_RECOMPUTE] = { "recompute", 0, 0, ADAPT_NOT },
    [TRAIN_OFFLOAD] = { "offload", 1, 1, ADAPT_NOT },
    { "auto", 1, 1, ADAPT_BEST },
    { "ssdtrain", 1, 1, ADAPT_SSDTRAIN },
    { 0 },
};

static const char *activations_name(size_t i) { return train_activations[i].name; }


OPT_WORDS(topology_words, TRAIN_NO_TOPOLOGY)
OPT_WORDS(act_device_words, TRAIN_NO_ACT_DEVICE)
OPT_WORDS(tensorboard_words, TENSORBOARD_NONE, TENSORBOARD_AUTO)
OPT_WORDS(spares_words, [TRAIN_SPARES_AUTO] = "auto", [TRAIN_SPARES_HALF] = "half",
          [TRAIN_SPARES_FEW] = "few")
OPT_WORDS(decay_words, [TRAIN_DECAY_MATRICES] = "matrices", [TRAIN_DECAY_ALL] = "all")
OPT_WORDS(order_words, [TRAIN_SHUFFLED] = "shuffled", [TRAIN_SEQUENTIAL] = "sequential")
OPT_WORDS(snapshot_on_words, [TRAIN_SNAPSHOTS_DIR] = "dir", [TRAIN_SNAPSHOTS_DEVICES] = "devices",
          [TRAIN_SNAPSHOTS_HOSTS] = "hosts")
OPT_WORDS(durability_words, [TRAIN_DURABLE_STEP] = "step", [TRAIN_DURABLE_NONE] = "none")

/* ---- rows ---- */

const struct opt_row train_rows[] = {
    { "steps", OPT_UINT, AT(steps), "1000", .min = 1,
      .help = "Number of training steps. With --resume: the run's new last step. By default, "
              "finetune trains for --epochs.", .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "schedule-steps", OPT_UINT, AT(schedule_steps),
      .help = "Length of the learning rate schedule, in steps (default: --steps). With --resume: "
              "the new length, which applies from the next step on.",
      .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "batch", OPT_UINT, AT(batch), "4", .min = 1, .max = TRAIN_MOST_BATCH,
      .help = "Number of rows in a micro-batch", .kept = OPT_BRANCH },
    { "seq", OPT_UINT, AT(seq), .max = 1048576,
      .help = "Number of tokens per row (default: all positions of the model, but at most 1024 "
              "for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.",
      .kept = OPT_FIXED },
    { "grad-accum", OPT_UINT, AT(grad_accum), "1", .min = 1, .max = 1048576,
      .help = "Number of micro-batches per step, summed over all processes", .kept = OPT_BRANCH },
    { "groups", OPT_UINT, AT(groups), "0", .max = 1048576,
      .help = "Number of gradient groups (0: one per process). Results depend on the number of "
              "groups, not on how many processes share them.", .kept = OPT_FIXED },
    { "lr", OPT_DOUBLE, AT(lr), "3e-4", .max = 1e30,
      .help = "Peak learning rate", .kept = OPT_BRANCH },
    { "min-lr", OPT_DOUBLE, AT(min_lr), "0", .max = 1e30,
      .help = "Learning rate at the schedule's end", .kept = OPT_BRANCH },
    { "warmup", OPT_WARMUP, AT(warmup), "0",
      .help = "Length of the linear warm-up: steps, or % of the schedule", .kept = OPT_BRANCH },
    { "schedule", OPT_WORD, AT(schedule), "cosine", schedule_name,
      .help = "Learning rate after the warm-up\n"
              "cosine, linear: falls to --min-lr over the rest of the schedule\n"
              "constant: stays at --lr\n"
              "wsd: stays at --lr, and falls linearly to --min-lr in the last --decay-steps",
      .kept = OPT_BRANCH },
    { "decay-steps", OPT_WARMUP, AT(decay_steps), "0",
      .help = "Length of the decay at the end of --schedule wsd: steps, or a part of the schedule "
              "(default: 10%)", .kept = OPT_BRANCH },
    { "optimizer", OPT_WORD, AT(optimizer), "adamw", optim_name,
      .help = "Optimizer, as PyTorch defines it", .kept = OPT_LAYOUT, .ranks = OPT_ALIKE },
    { "beta1", OPT_DOUBLE, AT(beta1), "0.9", .max = MOST_BETA,
      .help = "Decay rate of the first moment, 0 to 0.9999999. For sgd: the momentum.",
      .kept = OPT_BRANCH },
    { "beta2", OPT_DOUBLE, AT(beta2), "0.999", .max = MOST_BETA,
      .help = "Decay rate of the second moment, 0 to 0.9999999", .kept = OPT_BRANCH },
    { "eps", OPT_DOUBLE, AT(eps), "1e-8", .min = 1e-30, .max = 1e30,
      .help = "Term added to the root of the second moment", .kept = OPT_BRANCH },
    { "weight-decay", OPT_DOUBLE, AT(weight_decay), "0.01", .max = 1e30,
      .help = "Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.",
      .kept = OPT_BRANCH },
    { "decay", OPT_WORD, AT(decay), "matrices", decay_words,
      .help = "Parameters that weight decay applies to\n"
              "matrices: weight matrices and embeddings\n"
              "all: all parameters, with biases and norms", .kept = OPT_BRANCH },
    { "clip", OPT_DOUBLE, AT(clip), "1",
      .help = "Largest gradient norm (0: no clipping)", .kept = OPT_BRANCH },
    { "seed", OPT_UINT, AT(seed), "1",
      .help = "Seed of initial parameters, data order, masking and dropout", .kept = OPT_BRANCH },
    { "order", OPT_WORD, AT(order), "shuffled", order_words,
      .help = "Order of the training rows", .kept = OPT_BRANCH },
    { "mask-prob", OPT_RATIO, AT(mask.prob), "15%", .min = 0.001, .max = 0.999,
      .help = "Fraction of tokens to mask (BERT), 0.1% to 99.9%", .kept = OPT_BRANCH },
    { "mask-id", OPT_UINT, AT(mask.id), .max = 2147483647,
      .help = "Id of the mask token (default: the tokenizer's)", .kept = OPT_FIXED },
    { "dropout", OPT_RATIO, AT(dropout), .max = 0.99,
      .help = "Dropout rate of embeddings, attention and residual branches, 0 to 99% (default: "
              "0; in finetune, config.json's)", .kept = OPT_BRANCH },
    { "label-smoothing", OPT_RATIO, AT(label_smoothing), "0", .max = 0.999,
      .help = "Fraction of each target's weight that is spread over all words or classes. With "
              "--task dpo: fraction of pairs whose answers are taken to be the wrong way round, "
              "below 0.5.", .kept = OPT_BRANCH },
    { "neftune-alpha", OPT_DOUBLE, AT(neftune_alpha), "0", .max = 1e6,
      .help = "Size of the noise that training adds to the words' embeddings (NEFTune; 0: none). "
              "Usual values: 5 to 15.", .kept = OPT_BRANCH },
    { "dtype", OPT_WORD, AT(dtype), "bf16", opt_dtype_word,
      .help = "Precision of parameters and of inputs of matrix products, in forward and backward. "
              "Sums are fp32.", .kept = OPT_LAYOUT, .ranks = OPT_ALIKE },
    { "mode", OPT_WORD, AT(mode), "su+o", train_mode_name,
      .help = "Where optimizer states live and who updates them\n"
              "mem: in RAM, updated by the host\n"
              "base: on drives, updated by the host\n"
              "su: on drives, updated by their devices, without overlap\n"
              "su+o: as su, with transfers that overlap the update\n"
              "su+o+c: as su+o, with compressed gradients (--compress)",
      .kept = OPT_LAYOUT, .ranks = OPT_ALIKE },
    { "csd", OPT_WORD, AT(csd), "emu", csd_name,
      .help = "Kind of computational storage device\n"
              "emu: emulated on the host\n"
              "null: answers at once, stores and trains nothing\n"
              "xrt: an FPGA next to each drive\n"
              "opencl: an accelerator that OpenCL sees", .kept = OPT_CHANGES },
    { "devices", OPT_UINT, AT(devices), "1", .min = 1, .max = 1024,
      .help = "Number of devices, made as folders in RUN, 1 to 1024",
      .twin = "device", .kept = OPT_LAYOUT },
    { "device", OPT_PATHS, AT(device), .arg = "PATH", .max = 1024,
      .help = "Folder, file or block device of one device",
      .twin = "devices", .kept = OPT_LAYOUT },
    { "act-device", OPT_PATHS, AT(act_device), .words = act_device_words, .arg = "PATH|none",
      .max = 1024,
      .help = "Where to store offloaded activations: folder, new file or block device (default: "
              "on the state devices). Temporary. With --resume, none removes the run's.",
      .kept = OPT_CHANGES },
    { "fpga", OPT_STRINGS, AT(fpga), .arg = "ADDRESS", .max = 1024,
      .help = "Card of one device, as `siTrain devices` names it (default: the card next to each "
              "drive). Requires --csd xrt. Give one card for every device, or none.",
      .kept = OPT_CHANGES },
    { "xclbin", OPT_PATH, AT(xclbin), .arg = "FILE",
      .help = "File with the cards' kernels. Requires --csd xrt.", .kept = OPT_CHANGES },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "Use block devices even if they carry a signature or another run",
      .kept = OPT_PASSING },
    { "device-in-ram", OPT_FLAG, AT(device_in_ram),
      .help = "Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.",
      .kept = OPT_CHANGES },
    { "csd-mem", OPT_SIZE, AT(csd_mem), "4G", .min = 131072,
      .help = "Largest accelerator memory per device, 128K or more", .kept = OPT_LAYOUT },
    { "compress", OPT_RATIO, AT(compress), .max = 1,
      .help = "Fraction of the dense gradient's bytes to send, as its largest values (default: "
              "dense; in --mode su+o+c, 2%)", .kept = OPT_LAYOUT, .ranks = OPT_ALIKE },
    { "error-feedback", OPT_FLAG, AT(error_feedback),
      .help = "Add gradient values that were not sent to the next step's gradient. Requires "
              "--compress.", .kept = OPT_LAYOUT, .ranks = OPT_ALIKE },
    { "speculate", OPT_FLAG, AT(speculate),
      .help = "Update a block before the gradient norm is known (base, su+o, su+o+c). If "
              "clipping applies, the block is updated again. Results are identical; disk space "
              "grows 1.4 times.", .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "spare-slots", OPT_WORD, AT(spare_slots), "auto", spares_words,
      .help = "Space on the devices for updates that run ahead of commits\n"
              "half: one slot for every two subgroups of the states\n"
              "few: one slot for every eight, with more commits per step\n"
              "auto: half, or more with --speculate, if a tenth of the free space remains; "
              "otherwise few", .kept = OPT_LAYOUT },
    { "link-bw", OPT_SIZE, AT(link_bw),
      .help = "Bandwidth of the modelled host link, bytes/s (default: 0, unlimited)",
      .kept = OPT_CHANGES },
    { "csd-read-bw", OPT_SIZES, AT(csd_read_bw),
      .help = "Read speed of each modelled drive, bytes/s (default: 0, unlimited; one value for "
              "all, or one per device, comma-separated). Reads and writes share the drive's time.",
      .kept = OPT_CHANGES },
    { "csd-write-bw", OPT_SIZES, AT(csd_write_bw),
      .help = "Write speed of each modelled drive, bytes/s (default: 0, unlimited; one value for "
              "all, or one per device, comma-separated)", .kept = OPT_CHANGES },
    { "csd-latency", OPT_DOUBLE, AT(csd_latency), .max = 1e9,
      .help = "Latency of a request to a modelled drive, in microseconds (default: 0). Latencies "
              "of several requests overlap.", .kept = OPT_CHANGES },
    { "topology", OPT_PATH, AT(topology), "none", topology_words, .arg = "FILE|none",
      .help = "File that describes the modelled links as a tree (docs/internals/topology.md). "
              "Replaces --link-bw and --csd-... and is read at each start.",
      .kept = OPT_CHANGES },
    OPT_HOST_MEM_ROW(AT(host_mem), OPT_CHANGES),
    { "activations", OPT_WORD, AT(activations), "keep", activations_name,
      .help = "How backward gets the activations\n"
              "keep: kept in RAM while there is room; other layers recomputed\n"
              "recompute: all recomputed from the layers' inputs\n"
              "offload: kept in RAM while there is room; other layers written to the devices and "
              "read back\n"
              "auto: each part kept, recomputed or offloaded, so that measured steps are "
              "shortest\n"
              "ssdtrain: kept or offloaded by SSDTrain's rule", .kept = OPT_CHANGES },
    OPT_BLAS_ROW(AT(blas), OPT_BRANCH),
    OPT_THREADS_ROW(AT(threads), OPT_BRANCH),
    OPT_DISK_ROW(AT(disk), OPT_CHANGES),
    { "io-timeout", OPT_DOUBLE, AT(io_timeout), "60", .max = 1e6,
      .help = "Seconds without a sign of life from a device, or from the files of --base-in-place, "
              "until the run ends (0: never)",
      .kept = OPT_CHANGES },
    { "rank-timeout", OPT_DOUBLE, AT(rank_timeout), "300", .max = 1e6,
      .help = "Seconds without an answer from another process (mpirun) until training ends (0: "
              "never). Must exceed the time of the slowest process for two layers.",
      .kept = OPT_CHANGES },
    { "endurance", OPT_SIZE, AT(endurance),
      .help = "Bytes that can be written to a drive in its life (TBW; default: unknown). "
              "Training warns if the drive would last less than a year.", .kept = OPT_CHANGES },
    { "durability", OPT_WORD, AT(durability), "step", durability_words,
      .help = "When written states are flushed\n"
              "step: in every step, which then survives a power cut\n"
              "none: never", .kept = OPT_CHANGES },
    { "commit-every", OPT_UINT, AT(commit_every), "100", .min = 1,
      .help = "Number of steps between commits in --mode mem", .kept = OPT_CHANGES },
    { "eval-every", OPT_UINT, AT(eval_every),
      .help = "Number of steps between evaluations (default: 0, only at the end; in finetune, "
              "one epoch)", .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "log-every", OPT_UINT, AT(log_every), "1", .min = 1,
      .help = "Number of steps between printed lines. A terminal shows every step and keeps "
              "these lines.", .kept = OPT_CHANGES },
    { "max-skipped", OPT_UINT, AT(max_skipped), "100",
      .help = "Number of consecutive skipped steps after which training stops (0: never). A step "
              "is skipped if its loss or a gradient is not finite.",
      .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "keep-best", OPT_FLAG, AT(keep_best),
      .help = "Keep the model of the best evaluation in RUN/best, a Hugging Face folder",
      .kept = OPT_CHANGES },
    { "export-every", OPT_UINT, AT(export_every),
      .help = "Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face "
              "folder, or of its adapters (default: 0, none). The last step has one, too.",
      .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "export-limit", OPT_UINT, AT(export_limit),
      .help = "Number of these folders to keep (default: 0, all). The oldest is removed when a "
              "newer one is complete. Requires --export-every.", .kept = OPT_CHANGES },
    { "snapshot-every", OPT_UINT, AT(snapshot_every),
      .help = "Number of steps between snapshots of the whole run (default: 0, none). One is also "
              "taken before the first step and at the end. Training goes on meanwhile.",
      .kept = OPT_CHANGES },
    { "snapshot-dir", OPT_PATHS, AT(snapshot_dir), .arg = "DIR", .max = 64,
      .help = "Existing folder for snapshots (default: RUN/snapshots). Several folders take turns.",
      .kept = OPT_CHANGES },
    { "snapshot-on", OPT_WORD, AT(snapshot_on), "dir", snapshot_on_words,
      .help = "Where snapshots are kept\n"
              "dir: in a --snapshot-dir\n"
              "devices: the states on the drives of the --device folders, with parity, so that "
              "as many drives as --parity says may be lost; the rest in a --snapshot-dir\n"
              "hosts: of several ranks, each rank's part in the folder of a rank of the next host, "
              "so that a host may be lost",
      .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "parity", OPT_UINT, AT(parity), "1", .min = 1, .max = 2,
      .help = "Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 "
              "devices.", .kept = OPT_CHANGES },
    { "snapshots", OPT_UINT, AT(snapshots), "3", .min = 1, .max = 1000000,
      .help = "Number of snapshots to keep. The oldest is removed after the newest has been read "
              "back and compared.", .kept = OPT_CHANGES },
    { "snapshot-bw", OPT_SIZE, AT(snapshot_bw),
      .help = "Bytes/s that are read for a snapshot during training: copying, parity and "
              "reading back (default: 0, while the run's drives have nothing else to do)",
      .kept = OPT_CHANGES },
    { "scrub-bw", OPT_SIZE, AT(scrub_bw),
      .help = "Bytes/s that are read in the background: states, best model and snapshots, to find "
              "damage that nobody has met yet (default: 0, none)", .kept = OPT_CHANGES },
    { "early-stopping", OPT_UINT, AT(early_stopping),
      .help = "Number of evaluations without a better value after which training ends (default: "
              "0, never). --keep-best compares the same value.",
      .kept = OPT_CHANGES, .ranks = OPT_ALIKE },
    { "time-limit", OPT_TIME, AT(time_limit),
      .help = "Time after which this process ends, such as 2h, 90m or 1:30:00 (default: none). "
              "Training stops and commits before a step that would not end in time, and --resume "
              "goes on. Tokenising stops, too, and the same command goes on." },
    { "tensorboard", OPT_PATH, AT(tensorboard), TENSORBOARD_NONE, tensorboard_words,
      .arg = "DIR|auto|none",
      .help = "Folder for TensorBoard event files of steps and evaluations. With auto: "
              "RUN/tensorboard.", .kept = OPT_CHANGES },
    { "quiet", OPT_FLAG, AT(quiet), .help = "Print no line per step", .kept = OPT_PASSING },
    { 0 },
};

struct opt_line train_opts_line(struct train_opts *o)
{
    static const struct opt_part    parts[] = { { "Training", train_rows, 0 },
                                                { "Adapters", lora_rows, AT(lora) }, { 0 } };
    static const struct opt_command cmd = { .name = "run", .parts = parts, .size = sizeof *o };

    return (struct opt_line){ .cmd = &cmd, .options = o };
}

int train_opts_default(struct train_opts *o, struct err *err)
{
    struct opt_line line = train_opts_line(o);

    return opt_parse(&line, err);
}

const struct opt_row *train_opts_row(size_t i)
{
    return opt_row_at(train_opts_line(NULL).cmd, i, NULL);
}

void train_opts_release(struct train_opts *o)
{
    struct opt_line line = train_opts_line(o);

    opt_release(&line);
}
