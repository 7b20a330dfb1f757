/* prepare.c: makes token files and tokenizers from text, and renders conversations. */
#include "chat/encode.h"
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "run/folder/machine_rows.h"
#include "run/folder/output.h"
#include "run/folder/session.h"
#include "run/folder/train_opts.h"
#include "run/sources/row_sources.h"
#include "run/texts/tokenise.h"

struct prepare_opts {
    struct opt_strings files;
    const char        *tokenizer, *out, *eval_out;
    int                train, format, render;
    uint64_t           vocab, threads;
    double             eval_split;
    struct render_opts chat;
    struct show_opts   show;
};

#define AT(field) offsetof(struct prepare_opts, field)

static const struct opt_row rows[] = {
    { "FILE", OPT_ARGS, AT(files),
      .help = "Texts, and rows of JSON with a text: files, folders (all files below that are not "
              "hidden), or - (standard input), packed by gzip or zstd or not. With --render or "
              "--show, rows of conversations." },
    { "out", OPT_STRING, AT(out), .arg = "PATH",
      .help = "Token file to write; with --train-tokenizer, tokenizer folder to write. It is "
              "replaced only if siTrain prepare wrote it. With --render, new file to write "
              "(default: stdout)" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder: tokenizer.json, vocab.json and merges.txt, or BERT's vocab.txt" },
    { "train-tokenizer", OPT_FLAG, AT(train),
      .help = "Train a byte-level BPE tokenizer on the texts" },
    OPT_DATA_FORMAT_ROW(AT(format)),
    { "text-column", OPT_STRING, AT(chat.names.text), .arg = "NAME",
      .help = "Column (JSON: key) of the text in rows (default: text)" },
    { "eval-split", OPT_RATIO, AT(eval_split), .max = 1, .arg = "PART",
      .help = "Part of the documents, such as 5%, that goes to --eval-out instead. A hash of a "
              "document decides, so it is always on the same side. A row is a document. A text is "
              "cut at line ends into documents of 4 KiB or more." },
    { "eval-out", OPT_STRING, AT(eval_out), .arg = "PATH",
      .help = "Token file of the part that --eval-split chooses" },
    { "threads", OPT_UINT, AT(threads), .max = OPT_THREADS_MOST,
      .help = "Number of threads (default: 0, all cores that the process may use; at most 32). The "
              "tokens do not depend on it." },
    { "vocab", OPT_UINT, AT(vocab), "8192", .min = 257, .max = 1048576,
      .help = "Vocabulary size of the tokenizer to train, 257 to 1048576" },
    { 0 }
};

static const struct opt_row chat_rows[] = {
    { "render", OPT_FLAG, AT(render),
      .help = "Print each row as the model's chat template writes it, as a JSON string per line" },
    { "show", OPT_UINT, AT(show.rows), .arg = "N", .min = 1,
      .help = "Print the first N rows of each file as tokens, with those that count in the loss: "
              "green on a terminal, otherwise lines of id, + or -, and text" },
    { "init", OPT_PATH, AT(chat.init), .arg = "RUN|HFDIR", .file = OPT_FILES_MODEL,
      .help = "Run or model folder with the chat template and the names of the special tokens" },
    { "chat-template", OPT_STRING, AT(chat.chat_template), .arg = "NAME|FILE",
      .help = "Chat template: a name if the model has several, or a file (default: the model's)" },
    { "rows", OPT_WORD, AT(chat.rows), "auto", chat_form_name,
      .help = "Form of the rows (auto: by the keys of the first row)" },
    { "messages-column", OPT_STRING, AT(chat.names.messages), .arg = "NAME",
      .help = "Key of the list of messages (default: messages, or conversations)" },
    { "prompt-column", OPT_STRING, AT(chat.names.prompt), .arg = "NAME",
      .help = "Column (JSON: key) of the prompt (default: prompt)" },
    { "completion-column", OPT_STRING, AT(chat.names.completion), .arg = "NAME",
      .help = "Column (JSON: key) of the completion (default: completion)" },
    { "generation-prompt", OPT_FLAG, AT(chat.generation_prompt),
      .help = "Add what the template writes before an answer" },
    { "bos", OPT_STRING, AT(chat.bos), .arg = "TEXT",
      .help = "Template's bos_token (default: the model's)" },
    { "eos", OPT_STRING, AT(chat.eos), .arg = "TEXT",
      .help = "Template's eos_token (default: the model's)" },
    { "loss-on", OPT_WORD, AT(show.loss_on), "answers", chat_loss_name,
      .help = "Tokens that count in the loss\n"
              "answers: what the assistant says, with the token that ends its turn\n"
              "last: the assistant's last turn\n"
              "all: every token" },
    { "special-in-text", OPT_FLAG, AT(show.special_in_text),
      .help = "Let the text of a row spell special tokens, such as <|im_end|> (default: it is "
              "plain text)" },
    { "date", OPT_STRING, AT(chat.date), .arg = "YYYY-MM-DD",
      .help = "Day that a template takes for today (default: today)" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { "Conversations", chat_rows, 0 },
                                         { 0 } };

static int train(const struct prepare_opts *o, struct err *err)
{
    struct tokenise_train t = { .texts = o->files.item, .n = o->files.n,
                                .column = o->chat.names.text, .as = (enum tokens_format)o->format,
                                .vocab = o->vocab, .dir = o->out };
    int                   rc = tokenise_train(&t, &say_events, err);

    if (!rc)
        say_line(stdout, "%s: a tokenizer of %zu ids", o->out, t.ids);
    return rc;
}

/* inputs: room for two more than the texts. What is read besides the texts is the tokenizer, and no
 * output may be another one. */
static int tokenise(const struct prepare_opts *o, const char **inputs, struct err *err)
{
    size_t            n = o->files.n;
    struct output     out = { o->out, OUTPUT_TOKENS, inputs, n + 2 },
                  eval = { o->eval_out, OUTPUT_TOKENS, inputs, n + 1 };
    struct tokenizer *tok = NULL;
    int               rc;

    memcpy(inputs, o->files.item, n * sizeof *inputs);
    inputs[n] = o->tokenizer;
    inputs[n + 1] = o->eval_out;
    rc = output_check(&out, err);
    rc = rc || !o->eval_out ? rc : output_check(&eval, err);
    rc = rc ? rc : tokenizer_open(&tok, o->tokenizer, err);
    struct tokenise_files f = { .tok = tok, .texts = o->files.item, .n = n,
                                .column = o->chat.names.text, .as = (enum tokens_format)o->format,
                                .split = o->eval_split, .split_out = o->eval_out,
                                .threads = o->threads, .goes_on = o->tokenizer, .checked = &out,
                                .split_checked = o->eval_out ? &eval : NULL };
    if (!rc && !(rc = tokenise_files(&f, o->out, &say_events, err))) {
        say_line(stdout, "%s: %" PRIu64 " tokens", o->out, f.count);
        if (o->eval_out)
            say_line(stdout, "%s: %" PRIu64 " tokens", o->eval_out, f.split_count);
    }
    tokenizer_close(tok);
    return rc;
}

static const char *first_given(const struct opt_line *line, const char *const *names)
{
    while (*names && !opt_given(line, *names))
        names++;
    return *names;
}

static int check_given(const struct opt_line *line, const struct prepare_opts *o, struct err *err)
{
    static const char *const of_texts[] = { "tokenizer", "train-tokenizer", "data-format", "vocab",
                                            "eval-split", "eval-out", "threads", NULL },
        *const of_render[] = { "generation-prompt", "bos", "eos", NULL },
        *const of_show[] = { "loss-on", "special-in-text", NULL },
        *const of_both[] = { "init", "chat-template", "rows", "messages-column", "prompt-column",
                             "completion-column", "date", NULL };
    const char *what = o->render ? "render" : "show", *strange;

    if (o->render && o->show.rows)
        return err_misuse(err, "--show and --render exclude each other");
    if (!o->render && !o->show.rows && (strange = first_given(line, of_both)))
        return err_misuse(err, "--%s goes with --render or --show only", strange);
    if (!o->render && (strange = first_given(line, of_render)))
        return err_misuse(err, "--%s goes with --render only", strange);
    if (!o->show.rows && (strange = first_given(line, of_show)))
        return err_misuse(err, "--%s goes with --show only", strange);
    if ((o->render || o->show.rows) && (strange = first_given(line, of_texts)))
        return err_misuse(err, "--%s and --%s exclude each other", strange, what);
    if (o->show.rows && o->out)
        return err_misuse(err, "--out and --show exclude each other: --show prints");
    if ((o->render || o->show.rows) && !o->chat.init)
        return err_misuse(err, "--%s needs --init, the folder of the model whose chat template "
                          "writes the rows", what);
    return 0;
}

static int conversations(struct prepare_opts *o, struct err *err)
{
    const char *init = o->chat.init;
    char        tokenizer[SESSION_PATH + 16];

    o->chat.files = &o->files;
    o->chat.out = o->out;
    o->show.chat = &o->chat;
    if (session_is_run(init)) {
        snprintf(tokenizer, sizeof tokenizer, "%.4095s/tokenizer", init);
        o->chat.init = tokenizer;
    }
    // rows are read more than once: so is standard input, from a copy
    const struct tune_opts input = { .train_file = o->files };
    int                    rc = row_sources_check(&input, err);

    rc = rc ? rc : row_sources_spool(&input, o->out ? o->out : P_tmpdir "/sitrain-prepare", 1,
                                     &say_events, err);

    if (!rc)
        rc = o->render ? prepare_render(&o->chat, err) : prepare_show(&o->show, err);
    o->chat.init = init; // the options' own
    return rc == -EPIPE ? 0 : rc; // nobody reads any more, which is no failure
}

static int run(struct opt_line *line, struct err *err)
{
    struct prepare_opts *o = line->options;
    int                  rc = check_given(line, o, err);

    if (rc || o->render || o->show.rows)
        return rc ? rc : conversations(o, err);
    if (!o->out)
        return err_misuse(err, "--out is missing: the token file, or with --train-tokenizer the "
                          "folder, to write");
    if (o->train && o->tokenizer)
        return err_misuse(err, "--tokenizer and --train-tokenizer exclude each other");
    if (!o->train && !o->tokenizer)
        return err_misuse(err, "--tokenizer DIR or --train-tokenizer is needed");
    if (!o->train && opt_given(line, "vocab"))
        return err_misuse(err, "--vocab is the size of a tokenizer to train, and the one in "
                          "--tokenizer has its own: leave it out");
    if (o->format > TOKENS_TEXT)
        return err_misuse(err, "--data-format %s: ids are made of texts here: auto and text are "
                          "known", tokens_format_name((size_t)o->format));
    if (!o->eval_out != !opt_given(line, "eval-split"))
        return err_misuse(err, "--eval-split PART and --eval-out FILE go together: the part of the "
                          "documents, such as 5%%, and the token file for it");
    if (o->eval_out && !(o->eval_split > 0 && o->eval_split < 1))
        return err_misuse(err, "--eval-split %g leaves one of the two files empty: give a part "
                          "between 0 and 1, such as 5%%", o->eval_split);
    if (o->train && (o->eval_out || o->threads))
        return err_misuse(err, "--train-tokenizer goes without --eval-split and --threads");
    if (o->train)
        return train(o, err);
    const char **inputs = calloc(o->files.n + 2, sizeof *inputs);

    rc = inputs ? tokenise(o, inputs, err) : err_set(err, -ENOMEM, "out of memory");
    free(inputs);
    return rc;
}

const struct opt_command prepare_command = {
    .name = "prepare",
    .usage = "FILE... --tokenizer DIR --out FILE | FILE... --train-tokenizer [--vocab N] --out "
             "DIR | ROWS... --render --init HFDIR | ROWS... --show N --init HFDIR",
    .summary = "write a token file, train a tokenizer, or show conversations as a model gets them",
    .text = "The token file has llm.c's format. An id takes 16 bits, or 32 bits if the "
            "vocabulary exceeds 65,536. A row, and each text, is a document, and gets the special "
            "tokens of the tokenizer's template. Without a template, one token that ends a text "
            "(<|endoftext|>) separates two documents. Memory does not depend on the size of files. "
            "After a kill or Ctrl-C the same command goes on where it was.",
    .parts = parts, .size = sizeof(struct prepare_opts), .run = run,
    .examples = { "siTrain prepare my.txt --train-tokenizer --vocab 8192 --out tok",
                  "siTrain prepare my.txt corpus/ more.jsonl.zst --tokenizer tok --out my.bin" },
};
