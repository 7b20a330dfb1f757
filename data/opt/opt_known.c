/* opt_known.c: lists options that people know from other trainers, and says what siTrain has
 * instead. Suggesting an option with a similar name would mislead: --gpu is not --eps. */
#include "data/opt/opt_known.h"

/* What names mean: a row, if the command has it, and otherwise or in addition a sentence. A name
 * may be in several entries: the first that has an answer for the command counts. */
struct known { const char *names, *row, *text; };

#define ON_CPU   "siTrain trains on the CPU; --threads N says on how many of its cores"
#define ADAPTERS "adapters (LoRA) are trained by pretrain and finetune, with --lora-rank"
#define RANKS                                                                                      \
    "several processes are started as mpirun -n N siTrain ..., and find each other "               \
    "(docs/cluster.md)"
#define DRIVES                                                                                     \
    "optimizer states live on drives in any case: --mode, --device PATH and --host-mem say how"
#define COMMITS "every step is committed (--mode mem: every --commit-every steps)"
#define LOCAL   "models and data are local files; nothing is downloaded or uploaded"

static const struct known knowns[] = {
    { "gpu gpus gpu_id gpu_ids n_gpu num_gpus ngpu ngl n_gpu_layers cuda no_cuda use_cpu cpu "
      "device_map accelerator tensor_parallel_size", NULL, ON_CPU },
    { "fp16 half", "dtype", "fp16 is no precision of computing here" },
    { "bf16 precision mixed_precision torch_dtype amp autocast tf32", "dtype", NULL },
    { "outtype quantization_method quantization ftype save_method", "gguf-type", NULL },
    { "load_in_4bit bnb_4bit_quant_type qlora", "base-dtype", "nf4, with --lora-rank" },
    { "load_in_8bit", "base-dtype", "int8, with --lora-rank" },
    { "quantization_bit quantize quantization", "base-dtype", "int8 or nf4, with --lora-rank" },
    { "load_in_4bit load_in_8bit quantization_bit quantize quantization bnb_4bit_quant_type", NULL,
      "pretrain and finetune quantize the base of adapters, with --base-dtype" },
    { "lora lora_r lora_rank use_lora use_peft peft adapter adapters finetuning_type", "lora-rank",
      NULL },
    { "lora_alpha", "lora-alpha", NULL }, { "lora_dropout", "lora-dropout", NULL },
    { "lora_target lora_target_modules lora_target_linear target_modules", "lora-targets", NULL },
    { "use_rslora rslora", "lora-rs", NULL },
    { "lora_model_dir adapter_name_or_path peft_model_id lora_path adapter_path adapter_model",
      "init", "an adapter's folder, too" },
    { "lora_model_dir adapter_name_or_path peft_model_id lora_path adapter_path adapter_model "
      "adapter", NULL, "an adapter's folder stands where a model's does" },
    { "merge_adapter merge_lora merge_and_unload merged save_merged", NULL,
      "siTrain export merges adapters; --adapter leaves them apart" },
    { "lora lora_r lora_rank lora_alpha lora_dropout lora_target lora_target_modules use_lora "
      "use_peft peft qlora adapter adapters finetuning_type use_rslora", NULL, ADAPTERS },
    { "deepspeed ds_config zero_stage zero fsdp fsdp_config offload_optimizer offload_param "
      "nvme_path offload_folder cpu_offload", NULL, DRIVES },
    { "local_rank local-rank nproc_per_node nproc nnodes node_rank num_nodes num_processes "
      "num_machines machine_rank master_addr master_port world_size ddp_backend", NULL, RANKS },

    { "learning_rate lr_rate learn_rate", "lr", NULL },
    { "min_learning_rate", "min-lr", NULL },
    { "num_train_epochs num_epochs epoch max_epochs n_epochs", "epochs", NULL },
    { "num_train_epochs num_epochs epoch epochs max_epochs n_epochs", "steps",
      "pretraining counts steps" },
    { "max_steps train_steps num_steps max_iters iters iterations n_steps train_iters", "steps",
      NULL },
    { "per_device_train_batch_size per_gpu_train_batch_size train_batch_size micro_batch_size "
      "batch_size bs device_batch_size", "batch", NULL },
    { "gradient_accumulation_steps gradient_accumulation grad_accum_steps accumulate_grad_batches",
      "grad-accum", NULL },
    { "block_size max_seq_length max_seq_len seq_len seq_length sequence_length context_length "
      "context_window ctx ctx_size n_ctx max_length cutoff_len model_max_length", "seq", NULL },
    { "wd", "weight-decay", NULL },
    { "warmup_ratio warmup_steps warmup_iters num_warmup_steps lr_warmup_steps", "warmup", NULL },
    { "max_grad_norm grad_clip gradient_clip gradient_clip_val gradient_clipping clip_grad", "clip",
      NULL },
    { "lr_scheduler_type lr_scheduler scheduler lr_schedule decay_lr", "schedule", NULL },
    { "optim optimiser", "optimizer", NULL },
    { "adam_beta1", "beta1", NULL }, { "adam_beta2", "beta2", NULL },
    { "adam_epsilon", "eps", NULL },
    { "output_dir out_dir output save_dir", "run", NULL },
    { "model_name_or_path base_model pretrained_model pretrained_model_name_or_path model_path "
      "model_id init_from from_pretrained", "init", NULL },
    { "model_name_or_path base_model base_model_name_or_path pretrained_model", "base", NULL },
    { "tokenizer_name tokenizer_path tokenizer_name_or_path", "tokenizer", NULL },
    { "dataset train_data train_file data_dir data_path dataset_name dataset_path input", "data",
      NULL },
    { "eval_file validation_file valid_data val_data", "eval-data", NULL },
    { "eval_data eval_split", NULL,
      "eval takes texts and token files with --data (what a run's --eval-split chose is "
      "RUN/eval.bin), and rows with --eval-file" },
    { "max_eval_samples max_val_samples eval_steps_max eval_iters limit_val_batches", NULL,
      "pretrain evaluates on all of --eval-data or --eval-split; a smaller part takes less time" },
    { "val_size val_set_size test_size validation_split_percentage", "eval-split", NULL },
    { "interleave_probs mix_strategy data_weights dataset_weights probabilities", "mix", NULL },
    { "resume_from_checkpoint resume_from checkpoint ckpt ckpt_path", "resume", NULL },
    { "save_total_limit", "export-limit", NULL },
    { "save_steps save_strategy save_interval save_every checkpoint_interval", "export-every",
      COMMITS },
    { "save_steps save_strategy save_interval save_every checkpoint_interval save_total_limit",
      NULL, COMMITS },
    { "eval_steps eval_interval eval_strategy evaluation_strategy val_check_interval", "eval-every",
      NULL },
    { "logging_steps log_interval log_steps logging_strategy", "log-every", NULL },
    { "early_stopping_patience patience stopping_patience", "early-stopping", NULL },
    { "max_time max_time_hours max_hours max_duration time_budget walltime wall_time", "time-limit",
      NULL },
    { "label_smoothing_factor smoothing", "label-smoothing", NULL },
    { "neftune_noise_alpha neftune noise_alpha", "neftune-alpha", NULL },
    { "num_decay_steps wsd_decay_steps lr_decay_steps", "decay-steps", NULL },
    { "gradient_checkpointing activation_checkpointing", "activations", NULL },
    { "num_layers n_layers num_hidden_layers layers depth", "n-layer", NULL },
    { "num_heads n_heads num_attention_heads heads", "n-head", NULL },
    { "hidden_size n_embed d_model dim embedding_dim width", "n-embd", NULL },
    { "vocab_size", "vocab", NULL },
    { "max_new_tokens max_tokens n_predict num_predict", "tokens", NULL },
    { "temp", "temperature", NULL },
    { "report_to logger", "tensorboard", NULL },
    { "wandb wandb_project use_wandb", "tensorboard",
      "siTrain report RUN --csv is for other programs" },
    { "push_to_hub hub_model_id trust_remote_code use_auth_token cache_dir", NULL, LOCAL },
};

static int has_name(const struct known *k, const char *typed)
{
    const char *at = k->names;
    size_t      n, length = strlen(typed);

    while ((n = opt_alias_next(&at)))
        if (n == length && opt_name_is(at - n, typed, n))
            return 1;
    return 0;
}

const char *opt_known(const struct opt_command *cmd, const char *typed, char *buf, size_t size)
{
    for (size_t i = 0; i < sizeof knowns / sizeof *knowns; i++) {
        const struct known *k = &knowns[i];

        if (!has_name(k, typed) || (k->row && opt_row_find(cmd, k->row, strlen(k->row)) < 0))
            continue;
        snprintf(buf, size, "%s%s%s%s", k->row ? "siTrain has --" : "", k->row ? k->row : "",
                 k->row && k->text ? "; " : "", k->text ? k->text : "");
        return buf;
    }
    return NULL;
}
