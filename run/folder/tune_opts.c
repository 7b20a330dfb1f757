/* tune_opts.c: defines the options of a fine-tuning, and checks those that depend on each other. */
#include "run/folder/tune_opts.h"

#include "data/base/round.h"
#include "data/text/tokenizer.h"
#include "run/folder/settings.h"

#include <math.h>
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
              "(.gz, .zst) or not; a folder of such files; or - (standard input). --mix gives "
              "several of them weights. Columns: label, and sentence or sentence1 and sentence2, "
              "or as named by --text-column, --pair-column and --label-column. With --task chat or "
              "dpo: conversations or pairs of answers (.csv, .json, .jsonl).",
      .kept = OPT_SOURCE },
    { "eval-file", OPT_FILES, TUNE(eval_file), .arg = "FILE|DIR", .max = TUNE_MOST_FILES,
      .help = "Evaluation rows, as for --train-file", .kept = OPT_SOURCE },
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

/* ---- conversations ---- */

enum { USUAL_SEQ = 1024 };

#define CHAT(field) offsetof(struct chat_opts, field)

OPT_WORDS(long_words, [CHAT_LONG_CUT] = "cut", [CHAT_LONG_DROP] = "drop",
          [CHAT_LONG_REFUSE] = "refuse")

const struct opt_row chat_opt_rows[] = {
    { "rows", OPT_WORD, CHAT(rows), "auto", chat_form_name, .arg = "FORM",
      .help = "Form of the rows: %w. With auto, the first row of each file decides.",
      .kept = OPT_SOURCE },
    { "chat-template", OPT_STRING, CHAT(template), .arg = "NAME|FILE",
      .help = "Chat template: the name of one that the model's folder has, or a file (default: the "
              "folder's own)", .kept = OPT_SOURCE },
    { "loss-on", OPT_WORD, CHAT(loss_on), "answers", chat_loss_name,
      .help = "Tokens that count in the loss\n"
              "answers: what the assistant says, with the token that ends its turn\n"
              "last: the assistant's last turn\n"
              "all: every token", .kept = OPT_SOURCE },
    { "special-in-text", OPT_FLAG, CHAT(special_in_text),
      .help = "Let the text of a row spell special tokens, such as <|im_end|> (default: it is "
              "plain text)", .kept = OPT_SOURCE },
    { "date", OPT_STRING, CHAT(date), .arg = "YYYY-MM-DD",
      .help = "Day that a chat template writes (default: today)", .kept = OPT_SOURCE },
    { "packing", OPT_FLAG, CHAT(packing),
      .help = "Put several examples into each row of --max-seq tokens. Attention and positions "
              "stay within an example.", .kept = OPT_SOURCE },
    { "group-by-length", OPT_FLAG, CHAT(by_length),
      .help = "Make batches of rows of similar length, which saves padding", .kept = OPT_SOURCE },
    { "long-rows", OPT_WORD, CHAT(long_rows), "cut", long_words,
      .help = "What happens to rows of more than --max-seq tokens\n"
              "cut: the end of such a row is cut off\n"
              "drop: such a row is left out\n"
              "refuse: an error names the first such row", .kept = OPT_SOURCE },
    { "messages-column", OPT_STRING, CHAT(messages), .arg = "NAME",
      .help = "Key of the list of messages (default: messages, or conversations)",
      .kept = OPT_SOURCE },
    { "prompt-column", OPT_STRING, CHAT(prompt), .arg = "NAME",
      .help = "Column (JSON: key) of the prompt (default: prompt)", .kept = OPT_SOURCE },
    { "completion-column", OPT_STRING, CHAT(completion), .arg = "NAME",
      .help = "Column (JSON: key) of the completion (default: completion)", .kept = OPT_SOURCE },
    { 0 }
};

int chat_opts_check(const struct chat_opts *o, const struct tune_opts *t,
                    const struct task_names *columns, const struct train_opts *train,
                    struct err *err)
{
    const char *task = tune_pairs(t) ? TUNE_DPO : TUNE_CHAT;

    if (columns->pair || columns->label)
        return err_misuse(err, "--%s-column is for rows with labels: leave it out with --task %s",
                          columns->pair ? "pair" : "label", task);
    if (t->test_file || t->predict)
        return err_misuse(err, "--%s is for classifiers and regressors: leave it out with --task "
                          "%s (siTrain generate answers)", t->predict ? "predict" : "test-file",
                          task);
    if (t->regression || t->max_predict)
        return err_misuse(err, "--%s is for classifiers and regressors: leave it out with --task "
                          "%s", t->regression ? "regression" : "max-predict-samples", task);
    if (o->packing && o->by_length)
        return err_misuse(err, "--group-by-length saves padding, and rows that --packing fills "
                          "have hardly any: leave it out");
    if (o->by_length && t->mix)
        return err_misuse(err, "--group-by-length chooses the order of rows, and so does --mix: "
                          "leave one of them out (--packing saves padding, too)");
    if (o->by_length && train->order == TRAIN_SEQUENTIAL)
        return err_misuse(err, "--group-by-length chooses the order of rows, and --order "
                          "sequential keeps that of the file: give one of them");
    return 0;
}

int chat_opts_seq(uint64_t *seq, uint64_t asked, const struct model_config *g,
                  const char *tokenizer, struct err *err)
{
    if (g->arch->encoder)
        return err_misuse(err, "a %s predicts masked tokens, and --task chat and dpo train models "
                          "that continue a text", g->arch->title);
    int rc = tune_seq(seq, asked, USUAL_SEQ, g->n_positions, tokenizer, err);

    return rc || *seq > 1 ? rc
                          : err_misuse(err, "--max-seq %" PRIu64 ": a row needs at least 2 tokens, "
                                       "of which the second is predicted", *seq);
}

/* ---- preferences ---- */

#define PAIRS(field) offsetof(struct pairs_opts, field)

OPT_WORDS(loss_words, [PAIRS_SIGMOID] = "sigmoid", [PAIRS_ROBUST] = "robust", [PAIRS_IPO] = "ipo")

const struct opt_row pairs_opt_rows[] = {
    { "loss", OPT_WORD, PAIRS(loss), "sigmoid", loss_words,
      .help = "Loss of a pair of answers\n"
              "sigmoid: DPO's; with --label-smoothing, conservative DPO's\n"
              "robust: as sigmoid, without the bias that wrong labels bring\n"
              "ipo: squared distance between the margin per token and 1 / (2 beta)",
      .kept = OPT_SOURCE },
    { "beta", OPT_DOUBLE, PAIRS(beta), "0.1", .max = 1e6,
      .help = "Strength of the pull towards the model that training began with",
      .kept = OPT_SOURCE },
    { "chosen-column", OPT_STRING, PAIRS(chosen), .arg = "NAME",
      .help = "Key of the chosen answer (default: chosen)", .kept = OPT_SOURCE },
    { "rejected-column", OPT_STRING, PAIRS(rejected), .arg = "NAME",
      .help = "Key of the rejected answer (default: rejected)", .kept = OPT_SOURCE },
    { 0 }
};

int pairs_opts_check(const struct pairs_opts *o, const struct chat_opts *chat,
                     const struct train_opts *train, struct err *err)
{
    if (!(o->beta > 0) || !isfinite(o->beta))
        return err_misuse(err, "--beta %g: a number above 0 is expected", o->beta);
    if (!(train->label_smoothing < 0.5))
        return err_misuse(err, "--label-smoothing %g: with --task dpo a number of at least 0 and "
                          "below 0.5 is expected", train->label_smoothing);
    if (o->loss == PAIRS_IPO && train->label_smoothing > 0)
        return err_misuse(err, "--loss ipo has no --label-smoothing: leave one of them out");
    if (chat->packing)
        return err_misuse(err, "--packing is for --task chat: the two answers of a pair are rows "
                          "of their own");
    if (chat->loss_on != CHAT_LOSS_ANSWERS)
        return err_misuse(err, "--loss-on is for --task chat: of a pair, the two answers count");
    if (train->batch % 2)
        return err_misuse(err, "--batch %" PRIu64 ": each pair takes two rows, so an even number "
                          "is expected", train->batch);
    return 0;
}

struct chat_names pairs_opts_names(const struct pairs_opts *o, const struct chat_opts *chat,
                                   const struct task_names *columns)
{
    return (struct chat_names){ .messages = chat->messages, .prompt = chat->prompt,
                                .completion = chat->completion, .text = columns->text,
                                .chosen = o ? o->chosen : NULL,
                                .rejected = o ? o->rejected : NULL };
}

struct pairs_options pairs_opts_of(const struct pairs_opts *o, const struct train_opts *train)
{
    return (struct pairs_options){ (enum pairs_loss)o->loss, o->beta, train->label_smoothing };
}

int pairs_opts_store(struct runlog *log, const struct pairs_options *o, struct err *err)
{
    return settings_set(log, err, "pairs.loss=%s\npairs.beta=%.17g\npairs.smoothing=%.17g",
                        loss_words(o->loss), o->beta, o->smoothing);
}

int pairs_opts_load(struct pairs_options *out, struct runlog *log)
{
    char *loss = settings_get(log, "pairs.loss");
    int   i = loss ? opt_words_find(loss_words, loss, strlen(loss)) : -1;

    free(loss);
    if (i < 0)
        return 0;
    out->loss = (enum pairs_loss)i;
    return settings_scan(log, "%lf", &out->beta, "pairs.beta") &&
           settings_scan(log, "%lf", &out->smoothing, "pairs.smoothing");
}
