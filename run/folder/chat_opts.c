/* chat_opts.c: defines the options of a fine-tuning on conversations, and checks those that depend
 * on each other. */
#include "run/folder/chat_opts.h"

enum { USUAL_SEQ = 1024 };

#define AT(field) offsetof(struct chat_opts, field)

OPT_WORDS(long_words, [CHAT_LONG_CUT] = "cut", [CHAT_LONG_DROP] = "drop",
          [CHAT_LONG_REFUSE] = "refuse")

const struct opt_row chat_opt_rows[] = {
    { "rows", OPT_WORD, AT(rows), "auto", chat_form_name, .arg = "FORM",
      .help = "Form of the rows: %w. With auto, the first row of each file decides.",
      .kept = OPT_SOURCE },
    { "chat-template", OPT_STRING, AT(template), .arg = "NAME|FILE",
      .help = "Chat template: the name of one that the model's folder has, or a file (default: the "
              "folder's own)", .kept = OPT_SOURCE },
    { "loss-on", OPT_WORD, AT(loss_on), "answers", chat_loss_name,
      .help = "Tokens that count in the loss\n"
              "answers: what the assistant says, with the token that ends its turn\n"
              "last: the assistant's last turn\n"
              "all: every token", .kept = OPT_SOURCE },
    { "special-in-text", OPT_FLAG, AT(special_in_text),
      .help = "Let the text of a row spell special tokens, such as <|im_end|> (default: it is "
              "plain text)", .kept = OPT_SOURCE },
    { "date", OPT_STRING, AT(date), .arg = "YYYY-MM-DD",
      .help = "Day that a chat template writes (default: today)", .kept = OPT_SOURCE },
    { "packing", OPT_FLAG, AT(packing),
      .help = "Put several examples into each row of --max-seq tokens. Attention and positions "
              "stay within an example.", .kept = OPT_SOURCE },
    { "group-by-length", OPT_FLAG, AT(by_length),
      .help = "Make batches of rows of similar length, which saves padding", .kept = OPT_SOURCE },
    { "long-rows", OPT_WORD, AT(long_rows), "cut", long_words,
      .help = "What happens to rows of more than --max-seq tokens\n"
              "cut: their end is cut off\n"
              "drop: they are left out\n"
              "refuse: the first one is refused", .kept = OPT_SOURCE },
    { "messages-column", OPT_STRING, AT(messages), .arg = "NAME",
      .help = "Key of the list of messages (default: messages, or conversations)",
      .kept = OPT_SOURCE },
    { "prompt-column", OPT_STRING, AT(prompt), .arg = "NAME",
      .help = "Column (JSON: key) of the prompt (default: prompt)", .kept = OPT_SOURCE },
    { "completion-column", OPT_STRING, AT(completion), .arg = "NAME",
      .help = "Column (JSON: key) of the completion (default: completion)", .kept = OPT_SOURCE },
    { 0 }
};

const char *chat_opts_given(const struct opt_line *line)
{
    for (const struct opt_row *row = chat_opt_rows; row->name; row++)
        if (opt_given(line, row->name))
            return row->name;
    return NULL;
}

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

struct chat_names chat_opts_names(const struct chat_opts *o, const struct task_names *columns)
{
    return (struct chat_names){ .messages = o->messages, .prompt = o->prompt,
                                .completion = o->completion, .text = columns->text };
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
