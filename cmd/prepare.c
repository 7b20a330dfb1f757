/* prepare.c: text to a token file, or text to a tokenizer. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "run/folder/output.h"
#include "run/folder/train_opts.h"
#include "run/sources/tokenise.h"

struct prepare_opts {
    struct opt_strings files;
    const char        *tokenizer, *out;
    int                train, format;
    uint64_t           vocab;
};

#define AT(field) offsetof(struct prepare_opts, field)

static const struct opt_row rows[] = {
    { "FILE", OPT_ARGS, AT(files), .help = "Texts: valid UTF-8 without NUL bytes" },
    { "out", OPT_STRING, AT(out), .arg = "PATH",
      .help = "Token file to write; with --train-tokenizer, tokenizer folder to write. It is "
              "replaced only if siTrain prepare wrote it." },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder: tokenizer.json, vocab.json and merges.txt, or BERT's vocab.txt" },
    { "train-tokenizer", OPT_FLAG, AT(train),
      .help = "Train a byte-level BPE tokenizer on the texts" },
    OPT_DATA_FORMAT_ROW(AT(format)),
    { "vocab", OPT_UINT, AT(vocab), "8192", .min = 257, .max = 1048576,
      .help = "Vocabulary size of the tokenizer to train, 257 to 1048576" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

static int check_texts(const struct prepare_opts *o, struct err *err)
{
    return tokenise_check(o->files.item, o->files.n, o->format == TOKENS_TEXT, &say_events, err);
}

static int train(const struct prepare_opts *o, struct err *err)
{
    size_t ids;
    int    rc = o->format == TOKENS_TEXT ? 0 : check_texts(o, err); // else tokenise_train does

    rc = rc ? rc : tokenise_train(o->files.item, o->files.n, o->vocab, o->out, &ids, &say_events,
                                  err);
    if (!rc)
        say_line(stdout, "%s: a tokenizer of %zu ids", o->out, ids);
    return rc;
}

/* The texts, and what is read besides: `inputs`, one more than the texts. */
static int tokenise(const struct prepare_opts *o, const char **inputs, struct err *err)
{
    struct output     out = { o->out, OUTPUT_TOKENS, inputs, o->files.n + 1 };
    struct tokenizer *tok = NULL;
    int               rc;

    memcpy(inputs, o->files.item, o->files.n * sizeof *inputs);
    inputs[o->files.n] = o->tokenizer;
    rc = output_check(&out, err);
    rc = rc ? rc : tokenizer_open(&tok, o->tokenizer, err);
    rc = rc ? rc : check_texts(o, err);
    struct tokenise_files f = { .tok = tok, .texts = o->files.item, .n = o->files.n,
                                .checked = &out };
    if (!rc && !(rc = tokenise_files(&f, o->out, &say_events, err)))
        say_line(stdout, "%s: %" PRIu64 " tokens", o->out, f.count);
    tokenizer_close(tok);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct prepare_opts *o = line->options;

    if (!o->out)
        return err_misuse(err, "--out is missing: the token file, or with --train-tokenizer the "
                          "folder, to write");
    if (o->train && o->tokenizer)
        return err_misuse(err, "--tokenizer and --train-tokenizer exclude each other");
    if (!o->train && !o->tokenizer)
        return err_misuse(err, "--tokenizer DIR or --train-tokenizer is needed");
    if (o->format > TOKENS_TEXT)
        return err_misuse(err, "--data-format %s: ids are made of texts here: auto and text are "
                          "known", tokens_format_name((size_t)o->format));
    if (o->train)
        return train(o, err);
    const char **inputs = calloc(o->files.n + 1, sizeof *inputs);
    int          rc = inputs ? tokenise(o, inputs, err) : err_set(err, -ENOMEM, "out of memory");
    free(inputs);
    return rc;
}

const struct opt_command prepare_command = {
    .name = "prepare",
    .usage = "FILE... --tokenizer DIR --out FILE | FILE... --train-tokenizer [--vocab N] --out "
             "DIR",
    .summary = "write a token file, or train a tokenizer",
    .text = "The token file has llm.c's format. An id takes 16 bits, or 32 bits if the "
            "vocabulary exceeds 65,536. Each text gets the special tokens of the tokenizer's "
            "template. Without a template, one <|endoftext|> separates two files.",
    .parts = parts, .size = sizeof(struct prepare_opts), .run = run,
    .examples = { "siTrain prepare my.txt --train-tokenizer --vocab 8192 --out tok",
                  "siTrain prepare my.txt --tokenizer tok --out my.bin" },
};
