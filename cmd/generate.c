/* generate.c: prompts and their continuations, all in one batch. What is printed first is streamed;
 * the others follow as they are. */
#include "cmd/continuation.h"
#include "cmd/cmd.h"
#include "cmd/generate.h"
#include "cmd/prompts.h"
#include "cmd/say/say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct generate_opts, field)

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, AT(model), .help = "a run, or a Hugging Face folder" },
    { "prompt", OPT_STRINGS, AT(prompt), .arg = "TEXT",
      .help = "the beginning; left out: <|endoftext|>" },
    { "prompt-file", OPT_STRING, AT(prompt_file), .arg = "FILE", .help = "a prompt a line" },
    { "chat", OPT_FLAG, AT(chat),
      .help = "read a line, continue the conversation, and so on; Ctrl-C stops an answer, an empty "
              "line ends it" },
    { "tokens", OPT_UINT, AT(tokens), "100", .min = 1,
      .help = "how many to write, at most; not given: also no more than there are positions" },
    { "stop", OPT_STRINGS, AT(stop), .arg = "TEXT", .help = "end before this text" },
    { "temperature", OPT_DOUBLE, AT(sampling.temperature), "1",
      .help = "0: always the likeliest token" },
    { "top-k", OPT_UINT, AT(sampling.top_k), .help = "choose among the k likeliest only; 0: all" },
    { "top-p", OPT_RATIO, AT(sampling.top_p), "1", .max = 1,
      .help = "choose among the likeliest that have this probability together; 0 or 1: all" },
    { "seed", OPT_UINT, AT(sampling.seed), "1", .help = "of the choices" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .help = "else the model's own" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 },
                                         { "Machine", read_rows, AT(read) },
                                         { 0 } };

struct sequence {
    size_t        prompt;   // which
    uint64_t      number;   // which continuation of it: the random numbers' stream
    size_t        most, n;  // tokens, at most and so far
    int32_t       next;     // the last one chosen
    struct continuation text;
};

struct batch_of_texts {
    struct generator *g;
    const struct generate_opts *o;
    struct prompts    prompts;
    struct sequence  *seq;
    size_t            n, shown; // sequences; the first that is not printed to its end
};

/* ---- before the model is opened ---- */

static int limit_tokens(struct batch_of_texts *t, size_t *positions, size_t *longest,
                        struct err *err)
{
    const struct generate_opts *o = t->o;
    size_t                      context = t->g->context;
    char                        name[4200];

    for (size_t i = 0; i < t->n; i++) {
        struct sequence *s = &t->seq[i];
        size_t           n = t->prompts.item[s->prompt].ids.n;

        prompts_name(&t->prompts, s->prompt, o->prompt_file, name, sizeof name);
        if (n >= context)
            return err_misuse(err,
                              "%s has %zu tokens, and with a continuation more than the %zu "
                              "positions there are: shorten it",
                              name, n, context);
        if (o->tokens_given && n + o->tokens > context)
            return err_misuse(err,
                              "%s has %zu tokens, with --tokens %llu more than the %zu positions "
                              "there are",
                              name, n, (unsigned long long)o->tokens, context);
        s->most = n + o->tokens < context ? o->tokens : context - n;
        *positions = n + s->most > *positions ? n + s->most : *positions;
        *longest = n > *longest ? n : *longest;
    }
    return 0;
}

static int make_sequences(struct batch_of_texts *t, struct err *err)
{
    size_t each = t->o->batch_given ? t->o->read.batch : 1;

    t->n = t->prompts.n * each;
    t->seq = calloc(t->n, sizeof *t->seq);
    if (!t->seq)
        return err_set(err, -ENOMEM, "out of memory for %zu sequences", t->n);
    for (size_t i = 0; i < t->n; i++) {
        t->seq[i].prompt = i / each;
        t->seq[i].number = i % each;
    }
    return 0;
}

/* ---- generating ---- */

/* Print the texts that are whole, and of the next one what there is. */
static int show(struct batch_of_texts *t, int begun, struct err *err)
{
    int rc = 0;

    while (!rc && t->shown < t->n) {
        struct sequence     *s = &t->seq[t->shown];
        const struct prompt *p = &t->prompts.item[s->prompt];

        if (!begun) {
            rc = t->shown ? continuation_write("\n---\n", 5, err) : 0;
            if (!rc)
                rc = continuation_write(p->text, p->n, err);
        }
        if (!rc)
            rc = continuation_print(&s->text, &t->o->stop, err);
        if (!s->text.ended)
            return rc;
        begun = 0;
        t->shown++;
    }
    return rc ? rc : t->shown == t->n ? continuation_write("\n", 1, err) : 0;
}

/* The next token of a sequence that goes on. */
static int choose(struct batch_of_texts *t, struct sequence *s, const float *logits,
                  struct err *err)
{
    struct generator *g = t->g;
    const char       *bytes;
    size_t            n = 0;
    int               rc;

    s->next = generator_choose(g, logits, s->number, s->n++);
    if (s->next == tokenizer_endoftext(g->tok)) {
        s->text.ended = 1;
        return 0;
    }
    bytes = tokenizer_bytes(g->tok, s->next, &n);
    rc = continuation_add(&s->text, bytes, bytes ? n : 0, &t->o->stop, err);
    if (s->n == s->most)
        s->text.ended = 1;
    return rc;
}

static int generate_all(struct batch_of_texts *t, const int32_t **ids, size_t *n, struct err *err)
{
    size_t going = t->n;
    int    rc = show(t, 0, err);

    for (size_t b = 0; b < t->n; b++) {
        ids[b] = t->prompts.item[t->seq[b].prompt].ids.ids;
        n[b] = t->prompts.item[t->seq[b].prompt].ids.n;
    }
    while (!rc && going) {
        const float *logits;
        size_t       at = t->shown;

        rc = generator_feed(t->g, ids, n, &logits, err);
        going = 0;
        for (size_t b = 0; !rc && b < t->n; b++) {
            struct sequence *s = &t->seq[b];

            if (!s->text.ended)
                rc = choose(t, s, logits + b * t->g->vocab, err);
            ids[b] = &s->next;
            going += n[b] = !s->text.ended;
        }
        if (!rc)
            rc = show(t, at == t->shown, err);
    }
    return rc;
}

static int generate_prompts(struct generator *g, const struct generate_opts *o, struct err *err)
{
    struct batch_of_texts t = { .g = g, .o = o };
    const int32_t       **ids = NULL;
    size_t               *n = NULL, positions = 0, longest = 0;
    int rc = prompts_open(&t.prompts, o->prompt.item, o->prompt.n, o->prompt_file, g->tok, err);

    if (!rc)
        rc = make_sequences(&t, err);
    if (!rc)
        rc = limit_tokens(&t, &positions, &longest, err);
    if (!rc)
        rc = generator_start(g, t.n, positions, longest, err);
    if (!rc) {
        ids = malloc(t.n * sizeof *ids);
        n = malloc(t.n * sizeof *n);
        rc = ids && n ? generate_all(&t, ids, n, err)
                      : err_set(err, -ENOMEM, "out of memory for %zu sequences", t.n);
    }
    for (size_t i = 0; t.seq && i < t.n; i++)
        continuation_free(&t.seq[i].text);
    free(t.seq);
    free(ids);
    free(n);
    prompts_close(&t.prompts);
    return rc;
}

/* ---- the command ---- */

static int check(const struct generate_opts *o, struct err *err)
{
    if (o->prompt.n && o->prompt_file)
        return err_misuse(err, "--prompt and --prompt-file both say how to begin; give one of "
                               "them");
    if (o->chat && (o->prompt.n > 1 || o->prompt_file || o->batch_given))
        return err_misuse(err, "--chat is one conversation: it takes one --prompt to begin with, "
                               "no --prompt-file and no --batch");
    return 0;
}

static int run(struct opt_line *line, struct err *err)
{
    struct generate_opts *o = line->options;
    struct generator      g = { 0 };
    int                   code = 0, rc;

    o->tokens_given = opt_given(line, "tokens");
    o->batch_given = opt_given(line, "batch");
    if (!opt_given(line, "dtype"))
        o->read.dtype = -1;
    rc = check(o, err);
    if (!rc)
        rc = generator_open(&g, o->model, o->tokenizer, &o->read, &o->sampling, &say_events, err);
    if (!rc)
        rc = o->chat ? chat_run(&g, o, &code, err) : generate_prompts(&g, o, err);
    generator_close(&g);
    return rc == -EPIPE ? 0 : rc ? rc : code; // nobody reads any more, which is no failure
}

const struct opt_command generate_command = {
    .name = "generate",
    .usage = "RUN|HFDIR --prompt TEXT [--tokens N] [--temperature X]",
    .summary = "continue a text",
    .text = "Prints the prompt and its continuation as it comes; ends early at <|endoftext|> or "
            "before a --stop text. Several prompts go through the model together, each as if it "
            "were alone; --batch N given: N continuations of each. Between two texts stands a line "
            "---. A model that does not fit into --host-mem is read from its drive for every "
            "token.",
    .parts = parts,
    .size = sizeof(struct generate_opts),
    .run = run,
};
