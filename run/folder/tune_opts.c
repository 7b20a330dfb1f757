/* tune_opts.c: defines the options of a fine-tuning, and checks those that depend on each other. */
#include "run/folder/tune_opts.h"

#include "data/base/round.h"
#include "data/text/tokenizer.h"

#include <strings.h>

const struct opt_row column_rows[] = {
    { "text-column", OPT_STRING, offsetof(struct task_names, text), .arg = "NAME",
      .help = "Column (JSON: key) of the text (default: the run's; otherwise a pair named as in "
              "GLUE, sentence, text, or the first two that are neither label nor id). GLUE's "
              "pairs: sentence1 and sentence2, premise and hypothesis, question and sentence, "
              "question1 and question2.", .kept = OPT_SOURCE },
    { "pair-column", OPT_STRING, offsetof(struct task_names, pair), .arg = "NAME",
      .help = "Column of the second text, if rows are pairs", .kept = OPT_SOURCE },
    { "label-column", OPT_STRING, offsetof(struct task_names, label), .arg = "NAME",
      .help = "Column of the label (default: label)", .kept = OPT_SOURCE },
    { 0 }
};

const char *tune_task_word(size_t i)
{
    return i == task_count ? TUNE_CHAT : i == task_count + 1 ? TUNE_DPO : task_word(i);
}

int tune_pairs(const struct tune_opts *t) { return t->task && !strcasecmp(t->task, TUNE_DPO); }

int tune_seq(uint64_t *seq, uint64_t asked, size_t usual, size_t positions, const char *tokenizer,
             struct err *err)
{
    size_t cut = 0;
    int    rc = tokenizer && *tokenizer && !asked ? tokenizer_max_length(&cut, tokenizer, err) : 0;

    *seq = asked ? asked : size_min(positions, cut ? size_min(cut, usual) : usual);
    if (rc || *seq <= positions)
        return rc;
    return err_misuse(err, "--max-seq %" PRIu64 ": the model has %zu positions", *seq, positions);
}

int tune_chats(const struct tune_opts *t)
{
    return tune_pairs(t) || (t->task && !strcasecmp(t->task, TUNE_CHAT));
}

#define TUNE(field) offsetof(struct tune_opts, field)

const struct opt_row tune_rows[] = {
    { "task", OPT_STRING, TUNE(task), .words = tune_task_word,
      .help = "GLUE task; chat: a language model learns the answers of conversations; or dpo: it "
              "learns from pairs of answers, of which one was chosen",
      .kept = OPT_SOURCE },
    { "train-file", OPT_FILES, TUNE(train_file), .arg = "FILE|DIR", .max = TUNE_MOST_FILES,
      .help = "Training rows: .csv, .tsv, .json or .jsonl (one object a line, or one list), packed "
              "(.gz, .zst) or not; a folder of such files; or - (standard input). May be repeated "
              "(--mix). Columns: label, and sentence or sentence1 and sentence2, or as named by "
              "--text-column, --pair-column and --label-column. With --task chat or dpo: "
              "conversations or pairs of answers (.csv, .json, .jsonl).",
      .kept = OPT_SOURCE },
    { "eval-file", OPT_FILES, TUNE(eval_file), .arg = "FILE|DIR", .max = TUNE_MOST_FILES,
      .help = "Evaluation rows, as for --train-file. May be repeated.", .kept = OPT_SOURCE },
    { "eval-split", OPT_RATIO, TUNE(split), .arg = "PART", .min = 0.0001, .max = 0.5,
      .help = "Part of the rows of --train-file to evaluate on instead of training on them, such "
              "as 5% or 0.05. A hash of its texts chooses a row, so equal rows stay together.",
      .kept = OPT_SOURCE },
    { "test-file", OPT_PATH, TUNE(test_file), .arg = "FILE",
      .help = "Rows to predict, in the format of --train-file. Labels are ignored.",
      .kept = OPT_SOURCE },
    { "regression", OPT_FLAG, TUNE(regression),
      .help = "Treat labels as numbers to approximate (default: if all are numbers and one has a "
              "decimal point or an exponent, 1.0 too)",
      .kept = OPT_SOURCE },
    { "epochs", OPT_UINT, TUNE(epochs), "3", .min = 1, .max = 1000000,
      .help = "Number of passes over the training rows. --steps overrides it." },
    { "max-seq", OPT_UINT, TUNE(max_seq), .min = 1, .max = 1048576,
      .help = "Number of tokens per row (default: 128, in --task chat and dpo 1024; the model's "
              "positions or the tokenizer's model_max_length if fewer). Longer rows are cut off." },
    { "predict", OPT_FLAG, TUNE(predict),
      .help = "Write predictions for the test rows, with each class's probability, at the end",
      .kept = OPT_SOURCE },
    { "max-train-samples", OPT_UINT, TUNE(max_train),
      .help = "Number of rows to train on, from the first (default: 0, all)",
      .kept = OPT_SOURCE },
    { "max-eval-samples", OPT_UINT, TUNE(max_eval),
      .help = "Number of rows to evaluate on, from the first (default: 0, all)",
      .kept = OPT_SOURCE },
    { "max-predict-samples", OPT_UINT, TUNE(max_predict),
      .help = "Number of rows to predict, from the first (default: 0, all)", .kept = OPT_SOURCE },
    { 0 }
};

static int same(const char *a, const char *b) { return a && b && !strcmp(a, b); }

int columns_check(const struct task_names *n, int own, struct err *err)
{
    const char *label = n->label ? n->label : "label";

    if (!own && (n->text || n->pair || n->label))
        return err_misuse(err, "--%s-column is for your own rows: leave it out, or give the file "
                          "of the rows",
                          n->text ? "text" : n->pair ? "pair" : "label");
    if (n->pair && !n->text)
        return err_misuse(err, "--pair-column %s names the second text of a pair: give "
                          "--text-column NAME for the first, too", n->pair);
    if (same(n->text, n->pair) || same(n->text, label) || same(n->pair, label))
        return err_misuse(err, "the column %s is named twice: the text, the second text and "
                          "the label (label, if --label-column names no other) must be different "
                          "columns",
                          same(n->text, n->pair) ? n->text : label);
    return 0;
}
