/* read_opts.c: the option rows of commands that read a model. */
#include "run/folder/read_opts.h"

#include "run/folder/lora_opts.h"
#include "run/folder/machine_rows.h"

#define AT(field) offsetof(struct read_opts, field)

const struct opt_row read_rows[] = {
    OPT_BASE_ROW(AT(base), OPT_COMMAND),
    { "seq", OPT_UINT, AT(seq), .max = 1048576,
      .help = "Number of tokens per row (default: all positions of the model, but at most 1024 "
              "for Llama, Qwen and Gemma)" },
    { "batch", OPT_UINT, AT(batch), "4", .min = 1, .max = 1048576,
      .help = "Number of rows computed together" },
    { "dtype", OPT_WORD, AT(dtype), "bf16", opt_dtype_word,
      .help = "Precision of parameters and of inputs of matrix products (default: the run's; for "
              "a folder, bf16). Sums are fp32." },
    OPT_HOST_MEM_ROW(AT(host_mem), OPT_COMMAND),
    OPT_BLAS_ROW(AT(blas), OPT_COMMAND),
    OPT_THREADS_ROW(AT(threads), OPT_COMMAND),
    OPT_DISK_ROW(AT(disk), OPT_COMMAND),
    { 0 },
};

const struct opt_row which_rows[] = {
    { "best", OPT_FLAG, offsetof(struct which_opts, best),
      .help = "Use the best model, kept by --keep-best in RUN/best (default: if there is one)" },
    { "last", OPT_FLAG, offsetof(struct which_opts, last),
      .help = "Use the model after the last step" },
    { "step", OPT_UINT, offsetof(struct which_opts, step),
      .help = "Use the snapshot that was taken after this step (siTrain snapshots lists them)" },
    { 0 },
};

int read_opts_default(struct read_opts *o, struct err *err)
{
    static const struct opt_part    parts[] = { { "Reading", read_rows, 0 }, { 0 } };
    static const struct opt_command cmd = { .name = "read", .parts = parts, .size = sizeof *o };
    struct opt_line                 line = { .cmd = &cmd, .options = o };
    int                             rc = opt_parse(&line, err);

    o->dtype = -1;
    return rc;
}
