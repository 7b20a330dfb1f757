/* run_glue.c: the options of Hugging Face's run_glue.py (its own, the model's, and
 * TrainingArguments from version 3 to 5) as finetune takes them, so that a script of today runs
 * with the program's name changed. Three kinds: those that stand for one of ours; those that change
 * nothing here, with a line that says why (those that finetune does in any case: without one); and
 * those that would change what is computed in a way that is not here: refused, but for the value
 * that stands for doing nothing. */
#include "cmd/run_glue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_EVALS "there is an evaluation after each epoch, or every --eval-every steps"

/* ---- values that are written otherwise ---- */

/* Python's 3.0 is our 3; what is no whole number stays for the row to judge. */
static int whole(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    size_t digits = strspn(value, "0123456789");
    int    zeros = digits && value[digits] == '.' &&
                strspn(value + digits + 1, "0") == strlen(value + digits + 1);

    (void)name;
    (void)err;
    snprintf(out, size, "%.*s", zeros ? (int)digits : (int)strlen(value), value);
    return 0;
}

/* -1 leaves it to the epochs. */
static int max_steps(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    return !strcmp(value, "-1") ? 1 : whole(name, value, out, size, err);
}

/* A part of 1 as a percentage. */
static int warmup_ratio(const char *name, const char *value, char *out, size_t size,
                        struct err *err)
{
    char  *end;
    double v = strtod(value, &end);

    if (*end || end == value)
        return whole(name, value, out, size, err);
    snprintf(out, size, "%.10g%%", v * 100);
    return 0;
}

/* Steps, or below 1 a part of the run. */
static int warmup_steps(const char *name, const char *value, char *out, size_t size,
                        struct err *err)
{
    double v = strtod(value, NULL);

    return (v > 0 && v < 1 ? warmup_ratio : whole)(name, value, out, size, err);
}

/* Ours for `value`, of pairs of theirs and ours; or the refusal, which names theirs. */
struct pair { const char *theirs, *ours; };

static int ours(const struct pair *pairs, const char *name, const char *value, char *out,
                size_t size, struct err *err)
{
    char   known[256];
    size_t n = 0;

    for (const struct pair *p = pairs; p->theirs; p++) {
        if (!strcmp(p->theirs, value)) {
            snprintf(out, size, "%s", p->ours);
            return 0;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
                              p == pairs ? "" : p[1].theirs ? ", " : " or ", p->theirs);
    }
    return err_misuse(err, "--%s %s is not in this version; use %s", name, value, known);
}

static int schedule(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    static const struct pair pairs[] = {
        { "linear", "linear" }, { "cosine", "cosine" }, { "constant", "constant" },
        { "constant_with_warmup", "constant" }, { 0 }
    };

    return ours(pairs, name, value, out, size, err);
}

static int optimizer(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    static const struct pair pairs[] = {
        { "adamw_torch", "adamw" }, { "adamw_torch_fused", "adamw" }, { "adamw_hf", "adamw" },
        { "adamw_torch_xla", "adamw" }, { "adamw_apex_fused", "adamw" }, { "adagrad", "adagrad" },
        { 0 }
    };

    if (!strcmp(value, "sgd"))
        return err_misuse(err, "--%s sgd is without momentum there, and with --beta1's here; write "
                          "--optimizer sgd --beta1 0", name);
    return ours(pairs, name, value, out, size, err);
}

/* Each sampling of theirs that is an order of ours. */
static int sampling(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    static const struct pair pairs[] = {
        { "random", "shuffled" }, { "sequential", "sequential" }, { 0 }
    };

    return ours(pairs, name, value, out, size, err);
}

/* ---- values of options that are not here ---- */

static int eval_strategy(const char *name, const char *value, char *out, size_t size,
                         struct err *err)
{
    if (!strcmp(value, "epoch") || !strcmp(value, "steps"))
        return 1;
    if (strcmp(value, "no"))
        return err_misuse(err, "--%s %s: expected no, steps or epoch", name, value);
    snprintf(out, size, OF_EVALS);
    return 1;
}

static int report_to(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    (void)name;
    (void)err;
    if (strcmp(value, "none"))
        snprintf(out, size,
                 "everything is recorded in run.db; siTrain report RUN --csv writes it for other "
                 "programs");
    return 1;
}

static int model_type(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    (void)out;
    (void)size;
    return !strcmp(value, "gpt2") ? 1 : err_misuse(err, "--%s %s: expected gpt2", name, value);
}

static int resume(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    (void)out;
    (void)size;
    return err_misuse(err, "--%s %s: write --resume RUN, which goes on from the run's last commit",
                      name, value);
}

static int dataset(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    (void)out;
    (void)size;
    return err_misuse(err,
                      "--%s %s: nothing is downloaded; give --data DIR, a GLUE task's folder, or "
                      "--train-file and --eval-file",
                      name, value);
}

/* An option that would change what is computed: only what stands for doing nothing is taken. */
static int only_none(const char *name, const char *value, char *out, size_t size, struct err *err)
{
    char *end;

    (void)out;
    (void)size;
    if (value && (!strcmp(value, "None") || !strcmp(value, "{}") ||
                  (strtod(value, &end) == 0 && end != value && !*end)))
        return 1;
    return err_misuse(err, "--%s%s%s is not in this version; leave it out", name, value ? " " : "",
                      value ? value : "");
}

/* ---- the table ---- */

#define AS(name_, row_)               { .name = name_, .row = row_ }
#define WRITTEN(name_, row_, how)     { .name = name_, .row = row_, .translate = how }
#define FLAG(name_, row_, value_)     { .name = name_, .row = row_, .flag = 1, .value = value_ }
#define JUDGED(name_, how)            { .name = name_, .translate = how }
#define NOTHING(name_, why)           { .name = name_, .help = why }
#define NOTHING_FLAG(name_, why)      { .name = name_, .flag = 1, .help = why }
#define ALWAYS(name_)                 { .name = name_, .flag = 1 }

#define OF_COMMITS   "every step is committed to the run's folder"
#define OF_LOCAL     "models and data are local folders; nothing is downloaded or uploaded"
#define OF_EVAL      "evaluation takes --batch rows at once"
#define OF_LOG       "a line is printed every --log-every steps, and run.db has every step"
#define OF_FP16      "there is no fp16 here; --dtype is bf16 or fp32"
#define OF_LOADER    "the rows are read by this program, without workers"
#define OF_ONE       "one process trains on one machine"
#define OF_STATES    "where states live is said by --mode and --device"
#define OF_COMPILED  "this program is compiled"
#define OF_CPU       "the host's part is computed on the CPU"
#define OF_METRICS   "the task says which metrics there are"
#define OF_RECOMPUTE "all activations of a block are recomputed"

const struct opt_alias run_glue_aliases[] = {
    // the data
    AS("task_name", "task"), AS("data_dir", "data"), AS("train_file", "train-file"),
    AS("validation_file", "eval-file"), AS("test_file", "test-file"),
    WRITTEN("max_seq_length", "max-seq", whole), AS("max_train_samples", "max-train-samples"),
    AS("max_eval_samples", "max-eval-samples"), AS("max_val_samples", "max-eval-samples"),
    AS("max_predict_samples", "max-predict-samples"), AS("max_test_samples", "max-predict-samples"),
    JUDGED("dataset_name", dataset), JUDGED("dataset_config_name", dataset),
    NOTHING_FLAG("pad_to_max_length", "a batch is padded to its longest row; padding changes no "
                                      "result"),
    NOTHING_FLAG("overwrite_cache", "the data is read anew each time"),
    NOTHING("preprocessing_num_workers", OF_LOADER),

    // the model
    AS("model_name_or_path", "init"), AS("tokenizer_name", "tokenizer"),
    JUDGED("model_type", model_type),
    NOTHING("config_name", "config.json is the one in --init's folder"),
    NOTHING("cache_dir", OF_LOCAL), NOTHING("model_revision", OF_LOCAL), NOTHING("token", OF_LOCAL),
    NOTHING_FLAG("use_auth_token", OF_LOCAL),
    NOTHING_FLAG("trust_remote_code", "no code of a model's folder is run"),
    NOTHING_FLAG("use_fast_tokenizer", "there is one tokenizer"),
    NOTHING_FLAG("do_lower_case", "GPT-2's tokenizer keeps the case"),
    NOTHING_FLAG("ignore_mismatched_sizes", "a head for as many classes is kept, another one made "
                                            "anew"),

    // what is done
    ALWAYS("do_train"), ALWAYS("do_eval"), FLAG("do_predict", "predict", NULL),
    AS("output_dir", "run"),
    NOTHING_FLAG("overwrite_output_dir", "a run is never overwritten; remove its folder first"),
    JUDGED("resume_from_checkpoint", resume),

    // how long, how much
    WRITTEN("num_train_epochs", "epochs", whole), WRITTEN("max_steps", "steps", max_steps),
    AS("per_device_train_batch_size", "batch"), AS("per_gpu_train_batch_size", "batch"),
    NOTHING("per_device_eval_batch_size", OF_EVAL), NOTHING("per_gpu_eval_batch_size", OF_EVAL),
    NOTHING("eval_accumulation_steps", OF_EVAL),
    NOTHING_FLAG("auto_find_batch_size", "the plan says before the first step whether a batch fits "
                                         "in --host-mem"),
    AS("gradient_accumulation_steps", "grad-accum"),
    NOTHING_FLAG("average_tokens_across_devices", OF_ONE),

    // the rule
    AS("learning_rate", "lr"), WRITTEN("warmup_ratio", "warmup", warmup_ratio),
    WRITTEN("warmup_steps", "warmup", warmup_steps),
    WRITTEN("lr_scheduler_type", "schedule", schedule), JUDGED("lr_scheduler_kwargs", only_none),
    WRITTEN("optim", "optimizer", optimizer), JUDGED("optim_args", only_none),
    JUDGED("optim_target_modules", only_none),
    { .name = "adafactor", .flag = 1, .translate = only_none },
    AS("weight_decay", "weight-decay"), AS("adam_beta1", "beta1"), AS("adam_beta2", "beta2"),
    AS("adam_epsilon", "eps"), AS("max_grad_norm", "clip"),
    JUDGED("label_smoothing_factor", only_none), JUDGED("neftune_noise_alpha", only_none),
    NOTHING("data_seed", "--seed gives the order of the rows too"),
    NOTHING_FLAG("full_determinism", "equal runs give equal bits in any case"),
    WRITTEN("train_sampling_strategy", "order", sampling),
    NOTHING_FLAG("group_by_length", "the rows are shuffled; a batch is padded to its longest row"),
    NOTHING("length_column_name", "the rows are shuffled; a batch is padded to its longest row"),

    // how it is computed
    FLAG("bf16", "dtype", "bf16"),
    { .name = "fp16", .row = "dtype", .flag = 1, .value = "bf16",
      .help = "same memory, and no loss to scale" },
    NOTHING("fp16_opt_level", OF_FP16), NOTHING("fp16_backend", OF_FP16),
    NOTHING("half_precision_backend", OF_FP16), NOTHING_FLAG("fp16_full_eval", OF_FP16),
    NOTHING_FLAG("bf16_full_eval", "evaluation computes as training does, in --dtype"),
    NOTHING_FLAG("tf32", OF_CPU), FLAG("gradient_checkpointing", "activations", "recompute"),
    FLAG("activation_checkpointing", "activations", "recompute"),
    NOTHING("gradient_checkpointing_kwargs", OF_RECOMPUTE),
    NOTHING("activation_checkpointing_kwargs", OF_RECOMPUTE),
    NOTHING_FLAG("torch_compile", OF_COMPILED), NOTHING("torch_compile_backend", OF_COMPILED),
    NOTHING("torch_compile_mode", OF_COMPILED), NOTHING_FLAG("jit_mode_eval", OF_COMPILED),
    NOTHING_FLAG("use_ipex", OF_COMPILED), NOTHING("torchdynamo", OF_COMPILED),
    NOTHING_FLAG("use_liger_kernel", OF_COMPILED), NOTHING("liger_kernel_config", OF_COMPILED),
    NOTHING_FLAG("use_cache", "a training step keeps no keys and values"),
    NOTHING("torch_empty_cache_steps", "buffers are allocated once, before the first step"),
    NOTHING_FLAG("use_cpu", OF_CPU), NOTHING_FLAG("no_cuda", OF_CPU),
    NOTHING_FLAG("use_mps_device", OF_CPU), NOTHING("local_rank", OF_ONE),
    NOTHING("tpu_num_cores", OF_ONE), NOTHING("ddp_backend", OF_ONE),
    NOTHING("ddp_timeout", OF_ONE), NOTHING("ddp_bucket_cap_mb", OF_ONE),
    NOTHING_FLAG("ddp_find_unused_parameters", OF_ONE),
    NOTHING_FLAG("ddp_broadcast_buffers", OF_ONE), NOTHING_FLAG("ddp_static_graph", OF_ONE),
    NOTHING("sharded_ddp", OF_STATES), NOTHING("fsdp", OF_STATES),
    NOTHING("fsdp_config", OF_STATES), NOTHING("deepspeed", OF_STATES),
    NOTHING("accelerator_config", OF_STATES), NOTHING("parallelism_config", OF_ONE),
    NOTHING("dataloader_num_workers", OF_LOADER), NOTHING("dataloader_prefetch_factor", OF_LOADER),
    NOTHING("dataloader_multiprocessing_context", OF_LOADER),
    NOTHING_FLAG("dataloader_pin_memory", OF_LOADER),
    NOTHING_FLAG("dataloader_persistent_workers", OF_LOADER),
    NOTHING_FLAG("dataloader_in_order", OF_LOADER),
    NOTHING_FLAG("dataloader_drop_last", "an epoch's last batch is trained on, with the rows there "
                                         "are"),
    NOTHING_FLAG("remove_unused_columns", "only the columns of the task are read"),
    NOTHING("label_names", OF_METRICS),
    NOTHING_FLAG("skip_memory_metrics", "run.db has the memory of every run"),
    NOTHING("debug", "siTrain report RUN says what was measured"),

    // evaluation, and the best
    WRITTEN("eval_steps", "eval-every", whole), JUDGED("eval_strategy", eval_strategy),
    JUDGED("evaluation_strategy", eval_strategy), JUDGED("eval_delay", only_none),
    NOTHING_FLAG("evaluate_during_training", OF_EVALS), NOTHING_FLAG("eval_on_start", OF_EVALS),
    NOTHING_FLAG("eval_do_concat_batches", OF_METRICS),
    NOTHING_FLAG("eval_use_gather_object", OF_ONE), NOTHING_FLAG("batch_eval_metrics", OF_METRICS),
    NOTHING("include_for_metrics", OF_METRICS),
    NOTHING_FLAG("include_inputs_for_metrics", OF_METRICS),
    NOTHING_FLAG("prediction_loss_only", OF_METRICS),
    FLAG("load_best_model_at_end", "keep-best", NULL),
    NOTHING("metric_for_best_model", "the best evaluation is the one with the best first metric of "
                                     "the task"),
    NOTHING_FLAG("greater_is_better", "the metric says what is better"),

    // what is kept and said
    NOTHING("save_strategy", OF_COMMITS), NOTHING("save_steps", OF_COMMITS),
    NOTHING("save_total_limit", OF_COMMITS),
    NOTHING_FLAG("save_safetensors", "siTrain export writes safetensors"),
    NOTHING_FLAG("save_on_each_node", OF_COMMITS), NOTHING_FLAG("save_only_model", OF_COMMITS),
    NOTHING_FLAG("enable_jit_checkpoint", OF_COMMITS),
    NOTHING_FLAG("ignore_data_skip", "--resume goes on with the row that follows"),
    NOTHING_FLAG("restore_callback_states_from_checkpoint", OF_COMMITS),
    WRITTEN("logging_steps", "log-every", whole), NOTHING("logging_strategy", OF_LOG),
    NOTHING("logging_dir", OF_LOG), NOTHING_FLAG("logging_first_step", OF_LOG),
    NOTHING_FLAG("logging_nan_inf_filter", OF_LOG), NOTHING_FLAG("log_on_each_node", OF_ONE),
    NOTHING("log_level", OF_LOG), NOTHING("log_level_replica", OF_ONE),
    NOTHING_FLAG("include_tokens_per_second", OF_LOG),
    NOTHING("include_num_input_tokens_seen", OF_LOG), ALWAYS("disable_tqdm"),
    JUDGED("report_to", report_to), NOTHING("run_name", "a run is called by its folder"),
    NOTHING("project", OF_LOCAL), NOTHING("trackio_space_id", OF_LOCAL),
    NOTHING("trackio_bucket_id", OF_LOCAL), NOTHING("trackio_static_space_id", OF_LOCAL),
    NOTHING_FLAG("push_to_hub", OF_LOCAL), NOTHING("push_to_hub_model_id", OF_LOCAL),
    NOTHING("push_to_hub_organization", OF_LOCAL), NOTHING("push_to_hub_token", OF_LOCAL),
    NOTHING("hub_model_id", OF_LOCAL), NOTHING("hub_token", OF_LOCAL),
    NOTHING("hub_strategy", OF_LOCAL), NOTHING("hub_revision", OF_LOCAL),
    NOTHING_FLAG("hub_private_repo", OF_LOCAL), NOTHING_FLAG("hub_always_push", OF_LOCAL),
    { 0 },
};
