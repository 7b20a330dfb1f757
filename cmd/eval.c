/* eval.c: the loss of a model on a file; of a classifier or regressor also the metrics of a task,
 * and its predictions. */
#include "cmd/cmd.h"
#include "cmd/run/columns.h"
#include "cmd/eval_task.h"
#include "cmd/run/evaluate.h"
#include "cmd/run/model_folder.h"
#include "cmd/say/say.h"
#include "cmd/say/stop.h"
#include "cmd/run/tokenise.h"
#include "cmd/run/train_opts.h"
#include "data/base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define AT(field) offsetof(struct eval_opts, field)

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, AT(model), .help = "a run, or a Hugging Face folder" },
    { "data", OPT_STRING, AT(data), .arg = "FILE|DIR",
      .help = "a token file or a text; with --task its folder" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR",
      .help = "for texts; else the model's own" },
    { "task", OPT_STRING, AT(task), .words = task_word, .help = "of a classifier: the task" },
    { "eval-file", OPT_STRING, AT(eval_file), .arg = "FILE",
      .help = "of a classifier: rows of one's own, as finetune takes them" },
    { "test-file", OPT_STRING, AT(test_file), .arg = "FILE",
      .help = "rows of one's own to predict" },
    { "predict", OPT_STRING, AT(predict), .arg = "FILE",
      .help = "write predictions of the test rows" },
    { "max-seq", OPT_UINT, AT(max_seq), .min = 1, .max = 1048576,
      .help = "tokens of a classifier's row, the rest is cut off; if not given 128, or what the "
              "model has" },
    { "max-eval-samples", OPT_UINT, AT(max_eval), .help = "only the first rows; 0: all" },
    { "max-predict-samples", OPT_UINT, AT(max_predict), .help = "the same of the rows to predict" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Rows of one's own", column_rows, AT(columns) },
    { "Machine", read_rows, AT(read) },
    { 0 }
};

/* A text's tokens, in a file whose name is gone when it is open, itself when it is closed. */
static int open_text(struct tokens **out, const struct model_folder *r, const struct eval_opts *o,
                     struct err *err)
{
    struct file_new   scratch = { 0 };
    char              path[64];
    struct tokenizer *tok = NULL;
    uint64_t          count, seq = o->read.seq ? o->read.seq : r->gpt.n_positions;
    int               rc = model_folder_tokenizer(&tok, r, o->tokenizer, err);

    if (!rc)
        rc = file_new_scratch(&scratch, EVAL_SCRATCH, err);
    if (rc)
        goto out;
    snprintf(path, sizeof path, "%s/tokens.bin", scratch.temp);
    rc = tokenise_files(tok, &o->data, 1, path, &count, &say_events, err);
    if (!rc && count <= seq)
        rc = err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64 " needs %" PRIu64,
                        o->data, count, seq, seq + 1);
    if (!rc)
        rc = tokens_open(out, path, err);
out:
    file_new_abort(&scratch);
    tokenizer_close(tok);
    return rc;
}

static int open_data(struct tokens **out, const struct model_folder *r, const struct eval_opts *o,
                     struct err *err)
{
    enum tokens_kind kind;
    int              rc;

    if (!o->data)
        return err_misuse(err, "--data FILE is missing: a token file or a text");
    rc = tokenise_detect(o->data, &kind, &say_events, err);
    if (rc)
        return rc;
    return kind == TOKENS_TEXT ? open_text(out, r, o, err) : tokens_open(out, o->data, err);
}

static int run_eval(const struct model_folder *r, struct tokens *data, const struct read_opts *o,
                    struct err *err)
{
    struct evaluator e;
    double           loss = 0;
    uint64_t         tokens;
    int              rc = model_folder_evaluator(&e, r, o, 0, err);

    if (!rc)
        rc = evaluate_tokens(&e, data, 0, &loss, &tokens, err);
    if (!rc)
        printf("loss %.6f\nperplexity %.6f\n", loss, exp(loss));
    evaluator_close(&e);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct eval_opts   *o = line->options;
    struct model_folder r;
    struct tokens      *data = NULL;
    int                 rc;

    stop_catch();
    rc = model_folder_open(&r, o->model, disk_name((size_t)o->read.disk), &say_events, err);
    if (!opt_given(line, "dtype"))
        o->read.dtype = -1;
    if (!rc && (o->task || o->eval_file || o->test_file || o->predict)) {
        rc = eval_task(&r, o, err);
    } else if (!rc && r.gpt.n_labels) {
        rc = err_misuse(err, "%s is a classifier: --task TASK --data DIR, or --eval-file FILE, "
                        "says what it is evaluated on", o->model);
    } else if (!rc) {
        rc = columns_check(&o->columns, 0, err);
        if (!rc)
            rc = open_data(&data, &r, o, err);
        if (!rc)
            rc = run_eval(&r, data, &o->read, err);
    }
    tokens_close(data);
    model_folder_close(&r);
    return rc;
}

const struct opt_command eval_command = {
    .name = "eval",
    .usage = "RUN|HFDIR (--data FILE | --task TASK --data DIR | --eval-file FILE)",
    .summary = "the loss of a model on a file, or a classifier's metrics",
    .text = "A language model: rows of --seq tokens are taken one after the other; every token "
            "is predicted from those before it in its row. A classifier or regressor: the "
            "development set of a GLUE task, or rows of one's own.",
    .parts = parts,
    .size = sizeof(struct eval_opts),
    .run = run,
};
