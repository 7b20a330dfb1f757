/* run_glue.c: translates the options of Hugging Face's run_glue.py (its own, the model's, and
 * TrainingArguments from version 3 to 5) for finetune, so that a present-day script works with only
 * the program's name changed. There are three kinds. Some stand for one of our options. Some change
 * nothing here, and a line says why (no line, if finetune does it in any case). Some would change
 * what is computed in a way that does not exist here: they are refused, except for the value that
 * means doing nothing. */
#include "cmd/cmd.h"

#define OF_EVALS "there is an evaluation after each epoch, or every --eval-every steps"

/* ---- values in another notation ---- */

/* Python's 3.0 is our 3. If it is no whole number, the row judges it. */
static int whole(struct opt_taken *t, struct err *err)
{
    size_t      digits = strspn(t->value, "0123456789");
    const char *rest = t->value + digits;
    int         zeros = digits && *rest == '.' && !rest[1 + strspn(rest + 1, "0")];

    (void)err;
    snprintf(t->out, sizeof t->out, "%.*s", (int)(zeros ? digits : strlen(t->value)), t->value);
    return 0;
}

/* -1 leaves the number to the epochs. */
static int max_steps(struct opt_taken *t, struct err *err)
{
    return !strcmp(t->value, "-1") ? 1 : whole(t, err);
}

static int warmup_ratio(struct opt_taken *t, struct err *err)
{
    char  *end;
    double v = strtod(t->value, &end);

    if (*end || end == t->value)
        return whole(t, err);
    snprintf(t->out, sizeof t->out, "%.10g%%", v * 100);
    return 0;
}

/* A number of steps or, below 1, a fraction of the run. */
static int warmup_steps(struct opt_taken *t, struct err *err)
{
    double v = strtod(t->value, NULL);

    return (v > 0 && v < 1 ? warmup_ratio : whole)(t, err);
}

/* Translates a word: the alias lists theirs before the = if ours differs. */
static int word(struct opt_taken *t, struct err *err)
{
    char   known[256];
    size_t n = 0, length;

    for (const char *at = t->words; *at; at += length + (at[length] != 0)) {
        size_t theirs = strcspn(at, "= ");

        length = strcspn(at, " ");
        if (strlen(t->value) == theirs && !memcmp(t->value, at, theirs)) {
            size_t ours = theirs < length ? theirs + 1 : 0;

            snprintf(t->out, sizeof t->out, "%.*s", (int)(length - ours), at + ours);
            return 0;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%.*s",
                              !n ? "" : at[length] ? ", " : " or ", (int)theirs, at);
    }
    if (!strcmp(t->name, "optim") && !strcmp(t->value, "sgd"))
        return err_misuse(err, "--%s sgd is without momentum there, and with --beta1's here; write "
                          "--optimizer sgd --beta1 0", t->name);
    return err_misuse(err, "--%s %s is not in this version; use %s", t->name, t->value, known);
}

/* ---- values of options that do not exist here ---- */

static int eval_strategy(struct opt_taken *t, struct err *err)
{
    if (!strcmp(t->value, "no"))
        snprintf(t->out, sizeof t->out, OF_EVALS);
    else if (strcmp(t->value, "epoch") && strcmp(t->value, "steps"))
        return err_misuse(err, "--%s %s: expected no, steps or epoch", t->name, t->value);
    return 1;
}

static int report_to(struct opt_taken *t, struct err *err)
{
    (void)err;
    if (!strcmp(t->value, "tensorboard")) {
        snprintf(t->out, sizeof t->out, "auto");
        return 0;
    }
    if (strcmp(t->value, "none"))
        snprintf(t->out, sizeof t->out, "everything is recorded in run.db; siTrain report RUN "
                 "--csv writes it for other programs");
    return 1;
}

static int model_type(struct opt_taken *t, struct err *err)
{
    if (!strcmp(t->value, "gpt2"))
        return 1;
    return err_misuse(err, "--%s %s: expected gpt2", t->name, t->value);
}

static int refuse(struct opt_taken *t, struct err *err)
{
    return err_misuse(err, "--%s %s: %s", t->name, t->value, t->help);
}

/* Takes only the value that means doing nothing: any other would change what is computed. */
static int only_none(struct opt_taken *t, struct err *err)
{
    const char *v = t->value ? t->value : "";
    char       *end;

    if (!strcmp(v, "None") || !strcmp(v, "{}") || (strtod(v, &end) == 0 && end != v && !*end))
        return 1;
    return err_misuse(err, "--%s%s%s is not in this version; leave it out", t->name, *v ? " " : "",
                      v);
}

static int number(struct opt_taken *t, struct err *err)
{
    (void)err;
    if (!strcmp(t->value, "None"))
        return 1;
    snprintf(t->out, sizeof t->out, "%s", t->value);
    return 0;
}

/* ---- the table ---- */

const struct opt_alias run_glue_aliases[] = {
    // the data and the model
    { "task_name", .row = "task" }, { "data_dir", .row = "data" },
    { "train_file", .row = "train-file" }, { "validation_file", .row = "eval-file" },
    { "test_file", .row = "test-file" }, { "max_seq_length", .row = "max-seq", .translate = whole },
    { "max_train_samples", .row = "max-train-samples" },
    { "max_eval_samples max_val_samples", .row = "max-eval-samples" },
    { "max_predict_samples max_test_samples", .row = "max-predict-samples" },
    { "model_name_or_path", .row = "init" }, { "tokenizer_name", .row = "tokenizer" },
    { "dataset_name dataset_config_name", .translate = refuse,
      .help = "nothing is downloaded; give --data DIR, a GLUE task's folder, or --train-file and "
              "--eval-file" },
    { "model_type", .translate = model_type },
    { "config_name", .help = "config.json is the one in --init's folder" },
    { "cache_dir model_revision token use_auth_token? project trackio_space_id trackio_bucket_id "
      "trackio_static_space_id push_to_hub? push_to_hub_model_id push_to_hub_organization "
      "push_to_hub_token hub_model_id hub_token hub_strategy hub_revision hub_private_repo? "
      "hub_always_push?",
      .help = "models and data are local folders; nothing is downloaded or uploaded" },
    { "pad_to_max_length?",
      .help = "a batch is padded to its longest row; padding changes no result" },
    { "overwrite_cache?", .help = "the data is read anew each time" },
    { "trust_remote_code?", .help = "no code of a model's folder is run" },
    { "use_fast_tokenizer?", .help = "there is one tokenizer" },
    { "do_lower_case?", .help = "GPT-2's tokenizer keeps the case" },
    { "ignore_mismatched_sizes?",
      .help = "a head for as many classes is kept, another one made anew" },

    // what is done, for how long
    { "do_train? do_eval? disable_tqdm?", .help = NULL },
    { "do_predict?", .row = "predict" }, { "output_dir", .row = "run" },
    { "overwrite_output_dir?", .help = "a run is never overwritten; remove its folder first" },
    { "resume_from_checkpoint", .translate = refuse,
      .help = "write --resume RUN, which goes on from the run's last commit" },
    { "num_train_epochs", .row = "epochs", .translate = whole },
    { "max_steps", .row = "steps", .translate = max_steps },
    { "per_device_train_batch_size per_gpu_train_batch_size", .row = "batch" },
    { "gradient_accumulation_steps", .row = "grad-accum" },
    { "per_device_eval_batch_size per_gpu_eval_batch_size eval_accumulation_steps",
      .help = "evaluation takes --batch rows at once" },
    { "auto_find_batch_size?",
      .help = "the plan says before the first step whether a batch fits in --host-mem" },

    // the optimizer
    { "learning_rate", .row = "lr" },
    { "warmup_ratio", .row = "warmup", .translate = warmup_ratio },
    { "warmup_steps", .row = "warmup", .translate = warmup_steps },
    { "lr_scheduler_type", .row = "schedule", .translate = word,
      .words = "linear cosine constant constant_with_warmup=constant" },
    { "optim", .row = "optimizer", .translate = word,
      .words = "adamw_torch=adamw adamw_torch_fused=adamw adamw_hf=adamw adamw_torch_xla=adamw "
               "adamw_apex_fused=adamw adagrad" },
    { "weight_decay", .row = "weight-decay" }, { "adam_beta1", .row = "beta1" },
    { "adam_beta2", .row = "beta2" }, { "adam_epsilon", .row = "eps" },
    { "max_grad_norm", .row = "clip" },
    { "train_sampling_strategy", .row = "order", .translate = word,
      .words = "random=shuffled sequential" },
    { "label_smoothing_factor", .row = "label-smoothing" },
    { "neftune_noise_alpha", .row = "neftune-alpha", .translate = number },
    { "lr_scheduler_kwargs optim_args optim_target_modules adafactor? eval_delay",
      .translate = only_none },
    { "data_seed", .help = "--seed gives the order of the rows too" },
    { "full_determinism?", .help = "equal runs give equal bits in any case" },
    { "group_by_length?", .row = "group-by-length" }, { "max_length", .row = "max-seq" },
    { "length_column_name",
      .help = "the rows are shuffled; a batch is padded to its longest row" },

    // how it is computed
    { "bf16?", .row = "dtype", .value = "bf16" },
    { "fp16?", .row = "dtype", .value = "bf16", .help = "same memory, and no loss to scale" },
    { "gradient_checkpointing? activation_checkpointing?", .row = "activations",
      .value = "recompute" },
    { "gradient_checkpointing_kwargs activation_checkpointing_kwargs",
      .help = "all activations of a block are recomputed" },
    { "fp16_opt_level fp16_backend half_precision_backend fp16_full_eval?",
      .help = "there is no fp16 here; --dtype is bf16 or fp32" },
    { "bf16_full_eval?", .help = "evaluation computes as training does, in --dtype" },
    { "tf32? use_cpu? no_cuda? use_mps_device?",
      .help = "the host's part is computed on the CPU" },
    { "torch_compile? torch_compile_backend torch_compile_mode jit_mode_eval? use_ipex? "
      "torchdynamo use_liger_kernel? liger_kernel_config", .help = "this program is compiled" },
    { "use_cache?", .help = "a training step keeps no keys and values" },
    { "torch_empty_cache_steps", .help = "buffers are allocated once, before the first step" },
    { "average_tokens_across_devices? local_rank tpu_num_cores ddp_backend ddp_timeout "
      "ddp_bucket_cap_mb ddp_find_unused_parameters? ddp_broadcast_buffers? ddp_static_graph? "
      "parallelism_config eval_use_gather_object? log_on_each_node? log_level_replica",
      .help = "one process trains on one machine" },
    { "sharded_ddp fsdp fsdp_config deepspeed accelerator_config",
      .help = "where states live is said by --mode and --device" },
    { "preprocessing_num_workers dataloader_num_workers dataloader_prefetch_factor "
      "dataloader_multiprocessing_context dataloader_pin_memory? dataloader_persistent_workers? "
      "dataloader_in_order?", .help = "the rows are read by this program, without workers" },
    { "dataloader_drop_last?",
      .help = "an epoch's last batch is trained on, with the rows there are" },
    { "remove_unused_columns?", .help = "only the columns of the task are read" },
    { "skip_memory_metrics?", .help = "run.db has the memory of every run" },
    { "debug", .help = "siTrain report RUN says what was measured" },

    // evaluation, and the best
    { "eval_steps", .row = "eval-every", .translate = whole },
    { "load_best_model_at_end?", .row = "keep-best" },
    { "eval_strategy evaluation_strategy", .translate = eval_strategy },
    { "evaluate_during_training? eval_on_start?", .help = OF_EVALS },
    { "label_names eval_do_concat_batches? batch_eval_metrics? include_for_metrics "
      "include_inputs_for_metrics? prediction_loss_only?",
      .help = "the task says which metrics there are" },
    { "metric_for_best_model",
      .help = "the best evaluation is the one with the best first metric of the task" },
    { "greater_is_better?", .help = "the metric says what is better" },

    // what is kept and printed
    { "logging_steps", .row = "log-every", .translate = whole },
    { "save_strategy save_steps save_total_limit save_on_each_node? save_only_model? "
      "enable_jit_checkpoint? restore_callback_states_from_checkpoint?",
      .help = "every step is committed to the run's folder" },
    { "save_safetensors?", .help = "siTrain export writes safetensors" },
    { "ignore_data_skip?", .help = "--resume goes on with the row that follows" },
    { "logging_strategy logging_dir logging_first_step? logging_nan_inf_filter? log_level "
      "include_tokens_per_second? include_num_input_tokens_seen",
      .help = "a line is printed every --log-every steps, and run.db has every step" },
    { "report_to", .row = "tensorboard", .translate = report_to },
    { "run_name", .help = "a run is called by its folder" },
    { 0 },
};
