/* generate.c: a prompt and its continuation. */
#include "cmd/cmd.h"
#include "cmd/reader.h"
#include "cmd/train_opts.h"
#include "model/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct generate_opts {
    const char      *model, *prompt, *tokenizer;
    uint64_t         tokens, top_k, seed;
    double           temperature;
    struct read_opts read;
};

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, offsetof(struct generate_opts, model), .help = "a run, or a Hugging Face folder" },
    { "prompt", OPT_STRING, offsetof(struct generate_opts, prompt), "", .arg = "TEXT", .help = "the beginning; left out: <|endoftext|>" },
    { "tokens", OPT_UINT, offsetof(struct generate_opts, tokens), "100", .min = 1, .help = "how many to write, at most" },
    { "temperature", OPT_DOUBLE, offsetof(struct generate_opts, temperature), "1", .help = "0: always the likeliest token" },
    { "top-k", OPT_UINT, offsetof(struct generate_opts, top_k), .help = "choose among the k likeliest only; 0: all" },
    { "seed", OPT_UINT, offsetof(struct generate_opts, seed), "1", .help = "of the choices" },
    { "tokenizer", OPT_STRING, offsetof(struct generate_opts, tokenizer), .arg = "DIR", .help = "else the model's own" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { "Machine", read_rows, offsetof(struct generate_opts, read) }, { 0 } };

const struct opt_command generate_command = {
    "generate", "RUN|HFDIR --prompt TEXT [--tokens N] [--temperature X]", "continue a text",
    "Prints the prompt and its continuation; ends early at <|endoftext|>. --batch N given: N continuations, with a line --- between two.",
    parts, sizeof(struct generate_opts), NULL, NULL
};

struct generation {
    const struct generate_opts *o;
    struct tokenizer *tok;
    struct token_buf  prompt;
    size_t            batch, vocab;
    int32_t          *ids;   // (batch, tokens)
    size_t           *n;     // (batch): tokens so far, up to its <|endoftext|>
    float            *scratch; // (vocab)
};

static void print_id(const struct generation *g, int32_t id)
{
    size_t      n = 0;
    const char *bytes = tokenizer_bytes(g->tok, id, &n);

    if (bytes)
        fwrite(bytes, 1, n, stdout);
}

static int encode_prompt(struct generation *g, const struct reader *r, struct err *err)
{
    const struct generate_opts *o = g->o;
    size_t                      context = o->read.seq ? o->read.seq : r->gpt.n_positions;
    int32_t                     start = tokenizer_endoftext(g->tok);
    int                         rc = 0;

    if (context > r->gpt.n_positions)
        return err_misuse(err, "--seq %zu: the model has %zu positions", context, r->gpt.n_positions);
    if (tokenizer_vocab(g->tok) > r->gpt.vocab)
        return err_misuse(err, "the tokenizer has %zu ids, the model %zu: they do not belong together", tokenizer_vocab(g->tok), r->gpt.vocab);
    if (*o->prompt)
        rc = tokenizer_encode(g->tok, o->prompt, strlen(o->prompt), &g->prompt, err);
    else if (start >= 0)
        rc = tokenizer_encode(g->tok, "<|endoftext|>", strlen("<|endoftext|>"), &g->prompt, err);
    else
        rc = err_misuse(err, "--prompt TEXT is missing, and the tokenizer has no <|endoftext|> to begin with");
    if (!rc && g->prompt.n + o->tokens > context)
        rc = err_misuse(err, "%zu tokens of prompt and --tokens %llu are more than the %zu positions there are", g->prompt.n,
                        (unsigned long long)o->tokens, context);
    return rc;
}

/* The next token of every sequence, chosen, kept and (of one sequence alone) printed at once. Returns how many still go on. */
static size_t choose(struct generation *g, const float *logits, uint64_t at, int32_t *next)
{
    struct sampling s = { g->o->temperature, g->o->top_k, g->o->seed };
    size_t          going = 0;

    for (size_t b = 0; b < g->batch; b++) {
        next[b] = sampling_pick(&s, logits + b * g->vocab, g->vocab, b, at, g->scratch);
        if (g->n[b] < at || next[b] == tokenizer_endoftext(g->tok))
            continue; // it has ended
        g->ids[b * g->o->tokens + g->n[b]++] = next[b];
        going++;
        if (g->batch == 1) {
            print_id(g, next[b]);
            fflush(stdout);
        }
    }
    return going;
}

static int run_decode(struct generation *g, struct decode *d, struct err *err)
{
    int32_t     *ids = malloc(g->batch * (g->prompt.n + 1) * sizeof *ids), *next = ids + g->batch * g->prompt.n;
    const float *logits;
    int          rc;

    if (!ids)
        return err_set(err, -ENOMEM, "out of memory for %zu tokens", g->prompt.n);
    for (size_t b = 0; b < g->batch; b++)
        memcpy(ids + b * g->prompt.n, g->prompt.ids, g->prompt.n * sizeof *ids);
    rc = decode_prompt(d, ids, &logits, err);
    for (uint64_t at = 0; !rc && choose(g, logits, at, next) > 0 && at + 1 < g->o->tokens; at++)
        rc = decode_next(d, next, &logits, err);
    free(ids);
    return rc;
}

static void print_all(const struct generation *g)
{
    for (size_t b = 0; b < g->batch && g->batch > 1; b++) {
        printf("%s%s", b ? "\n---\n" : "", g->o->prompt);
        for (size_t i = 0; i < g->n[b]; i++)
            print_id(g, g->ids[b * g->o->tokens + i]);
    }
    putchar('\n');
}

static int run_model(struct generation *g, const struct reader *r, struct err *err)
{
    const struct read_opts *o = &g->o->read;
    struct decode_options   d = { .gpt = r->gpt, .batch = g->batch, .prompt = g->prompt.n, .positions = g->prompt.n + g->o->tokens,
                                  .dtype = (enum dtype)o->dtype, .engine = (enum matmul_engine)o->blas,
                                  .threads = (int)session_threads(o->threads) };
    struct model_options    m = { .gpt = r->gpt, .batch = d.batch, .seq = d.prompt, .grad_accum = 1, .dtype = d.dtype, .engine = d.engine,
                                  .threads = d.threads, .logits = d.batch };
    struct stream          *stream = NULL;
    struct decode          *decode = NULL;
    int                     rc = reader_stream(&stream, r, &m, o->host_mem, decode_bytes(&d), err);

    if (!rc)
        rc = decode_open(&decode, &d, stream, err);
    if (!rc && g->batch == 1)
        fputs(g->o->prompt, stdout);
    if (!rc)
        rc = run_decode(g, decode, err);
    if (!rc)
        print_all(g);
    decode_close(decode);
    stream_close(stream);
    return rc;
}

static int generate(struct generate_opts *o, size_t batch, int dtype_given, struct err *err)
{
    struct generation g = { .o = o, .batch = batch };
    struct reader     r;
    int               rc = reader_open(&r, o->model, train_disk_names[o->read.disk], err);

    if (!dtype_given)
        o->read.dtype = reader_dtype(&r);
    if (!rc)
        rc = reader_tokenizer(&g.tok, &r, o->tokenizer, err);
    if (!rc)
        rc = encode_prompt(&g, &r, err);
    if (!rc) {
        g.vocab = r.gpt.vocab;
        g.ids = malloc(batch * o->tokens * sizeof *g.ids);
        g.n = calloc(batch, sizeof *g.n);
        g.scratch = malloc(g.vocab * sizeof *g.scratch);
        rc = g.ids && g.n && g.scratch ? run_model(&g, &r, err) : err_set(err, -ENOMEM, "out of memory for %zu sequences", batch);
    }
    free(g.ids);
    free(g.n);
    free(g.scratch);
    token_buf_free(&g.prompt);
    tokenizer_close(g.tok);
    reader_close(&r);
    return rc;
}

int cmd_generate(int argc, char **argv)
{
    struct generate_opts o;
    struct opt_given     given;
    struct err           err = { 0 };
    int                  code = opt_start(&generate_command, argc, argv, &o, &given);

    if (code >= 0)
        return code;
    code = generate(&o, opt_was_given(&generate_command, &given, "batch") ? o.read.batch : 1,
                    opt_was_given(&generate_command, &given, "dtype"), &err) ? opt_fail("generate", &err) : 0;
    opt_release(&generate_command, &o);
    return code;
}
