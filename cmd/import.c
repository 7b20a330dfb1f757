/* import.c: makes a run at step 0, without data, from a Hugging Face folder. `pretrain --resume RUN
 * --data FILE --steps N` trains it. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/base/text_made.h"
#include "model/file/hf.h"
#include "run/newrun.h"

struct import_opts {
    const char       *dir, *run;
    struct train_opts train;
};

#define AT(field) offsetof(struct import_opts, field)

static const struct opt_row rows[] = {
    { "HFDIR", OPT_ARG, AT(dir), .file = OPT_FILES_MODEL,
      .help = "Hugging Face folder: config.json, model.safetensors (or its shards) and tokenizer "
              "files" },
    { "RUN", OPT_ARG, AT(run), .help = "Folder of the new run" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 }, { "Training", train_rows, AT(train) }, { 0 }
};

static void say_made(const char *run, double millions, const struct hf_labels *labels)
{
    char  *text = NULL;
    size_t n;
    FILE  *line = labels->n ? open_memstream(&text, &n) : NULL;

    for (size_t i = 0; line && i < labels->n; i++)
        fprintf(line, "%s %s", i ? "," : "", labels->name[i]);
    text_made(line, &text, 0);
    if (labels->n)
        say_line(stdout, "%s: %.4g million parameters, %s:%s", run, millions,
                 labels->n == 1 ? "a regressor" : "a classifier", text ? text : "");
    else
        say_line(stdout, "%s: %.4g million parameters; train with: siTrain pretrain --resume %s "
                 "--data FILE --steps N", run, millions, run);
    free(text);
}

static int run(struct opt_line *line, struct err *err)
{
    struct import_opts *o = line->options;
    struct hf_labels    labels = { 0 };
    struct newrun       n = { .dir = o->run, .o = &o->train, .init = o->dir,
                              .tokenizer = tokenizer_is_there(o->dir) ? o->dir : NULL,
                              .line = line, .events = &say_events, .labels = &labels };
    int                 rc;

    progress_quiet(o->train.quiet);
    if ((rc = train_opts_check(&o->train, err)) || (rc = hf_refuse_adapter(o->dir, err)) ||
        (rc = hf_config(&n.config, o->dir, err)) ||
        (rc = hf_labels(&labels, o->dir, err)) || (rc = newrun_create(&n, err)))
        goto out;
    say_made(o->run, (double)arch_total(&n.config) / 1e6, &labels);
out:
    hf_labels_free(&labels);
    return rc;
}

const struct opt_command import_command = {
    .name = "import",
    .usage = "HFDIR RUN [--mode MODE --devices N --dtype bf16|fp32 ...]",
    .summary = "make a run from a Hugging Face folder",
    .text = "The new run stands at step 0 and has no data. To train it: siTrain pretrain "
            "--resume RUN --data FILE --steps N. The optimizer, the place of its states and "
            "their precision are fixed by import. The first --resume may set the other options.",
    .parts = parts, .size = sizeof(struct import_opts), .run = run,
    .examples = { "siTrain import path/to/gpt2 gpt2-run",
                  "siTrain import path/to/gpt2 gpt2-on-two --mode su+o --devices 2" },
};
