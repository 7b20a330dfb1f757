/* eval.c: the loss of a model on a file. */
#include "cmd/cmd.h"
#include "cmd/evaluate.h"
#include "cmd/reader.h"
#include "cmd/tokenise.h"
#include "cmd/train_opts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct eval_opts {
    const char      *model, *data, *tokenizer;
    struct read_opts read;
};

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, offsetof(struct eval_opts, model), .help = "a run, or a Hugging Face folder" },
    { "data", OPT_STRING, offsetof(struct eval_opts, data), .arg = "FILE", .help = "a token file or a text" },
    { "tokenizer", OPT_STRING, offsetof(struct eval_opts, tokenizer), .arg = "DIR", .help = "for a text; else the model's own" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { "Machine", read_rows, offsetof(struct eval_opts, read) }, { 0 } };

const struct opt_command eval_command = {
    "eval", "RUN|HFDIR --data FILE", "the loss of a model on a file",
    "Rows of --seq tokens are taken one after the other; every token is predicted from those before it in its row.",
    parts, sizeof(struct eval_opts), NULL, NULL
};

/* A text's tokens, in a file without a name: it is gone when it is closed. */
static int open_text(struct tokens **out, const struct reader *r, const struct eval_opts *o, struct err *err)
{
    char              dir[] = P_tmpdir "/sitrain-eval-XXXXXX", path[sizeof dir + 16];
    struct tokenizer *tok = NULL;
    uint64_t          count;
    int               rc = reader_tokenizer(&tok, r, o->tokenizer, err);

    if (rc)
        return rc;
    if (!mkdtemp(dir)) {
        rc = err_set(err, -errno, "mkdtemp %s: %s", dir, strerror(errno));
        goto out;
    }
    snprintf(path, sizeof path, "%s/tokens.bin", dir);
    rc = tokenise_files(tok, &o->data, 1, path, &count, err);
    if (!rc)
        rc = tokens_open(out, path, err);
    unlink(path);
    rmdir(dir);
out:
    tokenizer_close(tok);
    return rc;
}

static int open_data(struct tokens **out, const struct reader *r, const struct eval_opts *o, struct err *err)
{
    enum tokens_kind kind;
    int              rc;

    if (!o->data)
        return err_misuse(err, "--data FILE is missing: a token file or a text");
    rc = tokens_detect(o->data, &kind, err);
    if (rc)
        return rc;
    return kind == TOKENS_TEXT ? open_text(out, r, o, err) : tokens_open(out, o->data, err);
}

static int run_eval(const struct reader *r, struct tokens *data, const struct read_opts *o, struct err *err)
{
    struct trainer_options t = { .model = { .gpt = r->gpt, .batch = o->batch, .seq = o->seq ? o->seq : r->gpt.n_positions, .grad_accum = 1,
                                            .dtype = (enum dtype)o->dtype, .engine = (enum matmul_engine)o->blas,
                                            .threads = (int)session_threads(o->threads) } };
    struct evaluate  e = { t.model.batch, t.model.seq, 1, r->gpt.vocab };
    struct stream   *stream = NULL;
    struct trainer  *trainer = NULL;
    double           loss = 0;
    uint64_t         tokens;
    int              rc;

    if (e.seq > r->gpt.n_positions)
        return err_misuse(err, "--seq %zu: the model has %zu positions", e.seq, r->gpt.n_positions);
    rc = reader_stream(&stream, r, &t.model, o->host_mem, 0, err);
    if (!rc)
        rc = trainer_open(&trainer, &t, stream, err);
    if (!rc)
        rc = evaluate(&loss, &tokens, trainer, data, &e, 0, err);
    if (!rc)
        printf("loss %.6f\nperplexity %.6f\n", loss, exp(loss));
    trainer_close(trainer);
    stream_close(stream);
    return rc;
}

static int eval(struct eval_opts *o, int dtype_given, struct err *err)
{
    struct reader  r;
    struct tokens *data = NULL;
    int            rc = reader_open(&r, o->model, train_disk_names[o->read.disk], err);

    if (!dtype_given)
        o->read.dtype = reader_dtype(&r);
    if (!rc)
        rc = open_data(&data, &r, o, err);
    if (!rc)
        rc = run_eval(&r, data, &o->read, err);
    tokens_close(data);
    reader_close(&r);
    return rc;
}

int cmd_eval(int argc, char **argv)
{
    struct eval_opts o;
    struct opt_given given;
    struct err       err = { 0 };
    int              code = opt_start(&eval_command, argc, argv, &o, &given);

    if (code >= 0)
        return code;
    code = eval(&o, opt_was_given(&eval_command, &given, "dtype"), &err) ? opt_fail("eval", &err) : 0;
    opt_release(&eval_command, &o);
    return code;
}
