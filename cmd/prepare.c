/* prepare.c: text to a token file, or text to a tokenizer. */
#include "cmd/cmd.h"
#include "cmd/say/say.h"
#include "cmd/run/tokenise.h"
#include "data/base/file.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

struct prepare_opts {
    struct opt_strings files;
    const char        *tokenizer, *out;
    int                train;
    uint64_t           vocab;
};

#define AT(field) offsetof(struct prepare_opts, field)

static const struct opt_row rows[] = {
    { "FILE", OPT_ARGS, AT(files), .help = "texts: valid UTF-8 without NUL bytes" },
    { "out", OPT_STRING, AT(out), .arg = "PATH",
      .help = "the token file, or with --train-tokenizer the folder, to write" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "a folder with tokenizer.json, vocab.json and merges.txt, or BERT's vocab.txt" },
    { "train-tokenizer", OPT_FLAG, AT(train),
      .help = "train a byte-level BPE on the texts instead" },
    { "vocab", OPT_UINT, AT(vocab), "8192", .min = 257, .max = 1048576,
      .help = "ids of the tokenizer to train" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* A tokenizer may replace another one, but not that of a model. */
static int check_folder(const char *dir, struct err *err)
{
    static const char *const models[] = { "config.json", "run.db" };
    struct stat              st;
    char                     path[PATH_MAX];

    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return err_misuse(err, "%s is there and is not a folder: choose another name", dir);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, models[i]) < (int)sizeof path &&
            access(path, F_OK) == 0)
            return err_misuse(err, "%s holds a model (%s), whose tokenizer would be lost: choose "
                              "another folder", dir, models[i]);
    return 0;
}

static int run(struct opt_line *line, struct err *err)
{
    struct prepare_opts *o = line->options;
    const char *const   *texts = o->files.item;
    struct tokenizer    *tok = NULL;
    uint64_t             count;
    size_t               ids;
    int                  rc;

    if (!o->out)
        return err_misuse(err, "--out is missing: the token file, or with --train-tokenizer the "
                          "folder, to write");
    if (o->train && o->tokenizer)
        return err_misuse(err, "--tokenizer and --train-tokenizer exclude each other");
    if (!o->train && !o->tokenizer)
        return err_misuse(err, "--tokenizer DIR or --train-tokenizer is needed");
    if (o->train) {
        if (!(rc = check_folder(o->out, err)) &&
            !(rc = tokenise_train(texts, o->files.n, o->vocab, o->out, &ids, &say_events, err)))
            printf("%s: a tokenizer of %zu ids\n", o->out, ids);
        return rc;
    }
    if (!(rc = session_output_check(o->out, texts, o->files.n, err)) &&
        !(rc = tokenizer_open(&tok, o->tokenizer, err)) &&
        !(rc = tokenise_files(tok, texts, o->files.n, o->out, &count, &say_events, err)))
        printf("%s: %" PRIu64 " tokens\n", o->out, count);
    tokenizer_close(tok);
    return rc;
}

const struct opt_command prepare_command = {
    .name = "prepare",
    .usage = "FILE... --tokenizer DIR --out FILE | FILE... --train-tokenizer [--vocab N] --out "
             "DIR",
    .summary = "write a token file, or train a tokenizer",
    .text = "The token file is llm.c's, of 16 bits an id, or of 32 where the tokenizer has more "
            "than 65,536: exactly the tokenizer's ids, with what its template puts around "
            "a text; where it has no template, one <|endoftext|> between two files.",
    .parts = parts, .size = sizeof(struct prepare_opts), .run = run,
};
