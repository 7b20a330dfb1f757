/* generate.c: prompts and their continuations, all in one batch. What is printed first is streamed;
 * the others follow as they are. */
#include "cmd/continuation.h"
#include "cmd/cmd.h"
#include "cmd/generate.h"
#include "cmd/say/say.h"
#include "data/base/file.h"

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

struct prompt {
    const char      *text; // (n), what is printed
    size_t           n;
    size_t           line; // in the file; 0: from the command line
    struct token_buf ids;  // at least one
};

struct sequence {
    const struct prompt *prompt;
    uint64_t             number;   // which continuation of it: the random numbers' stream
    size_t               most, n;  // tokens, at most and so far
    int32_t              next;     // the last one chosen
    struct continuation  text;
};

struct batch_of_texts {
    struct generator *g;
    const struct generate_opts *o;
    char             *file; // the contents of --prompt-file
    struct prompt    *prompt;
    struct sequence  *seq;
    size_t            prompts, n, shown; // n: sequences; shown: the first that is not printed to
                                         // its end
    const int32_t   **ids; // (n) with `fed`: the tokens that go through the model next
    size_t           *fed;
};

/* ---- before the model is opened ---- */

static int add_prompt(struct batch_of_texts *t, const char *text, size_t n, size_t line,
                      struct err *err)
{
    struct prompt *p = &t->prompt[t->prompts++];

    *p = (struct prompt){ .text = text, .n = n, .line = line };
    return tokenizer_encode(t->g->tok, text, n, &p->ids, err);
}

/* The texts that it begins with: --prompt, the lines of --prompt-file, or <|endoftext|> alone. */
static int open_prompts(struct batch_of_texts *t, struct err *err)
{
    static const char           start[] = "<|endoftext|>";
    const struct generate_opts *o = t->o;
    size_t                      size = 0, most = o->prompt.n + 1;
    int rc = o->prompt_file ? file_read_whole(&t->file, &size, o->prompt_file, UINT64_MAX, err) : 0;

    for (size_t i = 0; i < size; i++)
        most += t->file[i] == '\n';
    t->prompt = calloc(most, sizeof *t->prompt);
    if (!rc && !t->prompt)
        rc = err_set(err, -ENOMEM, "out of memory for %zu prompts", most);
    if (!rc && o->prompt_file && !size)
        rc = err_misuse(err, "%s is empty: expected a prompt a line", o->prompt_file);
    for (size_t i = 0; !rc && i < o->prompt.n; i++)
        rc = add_prompt(t, o->prompt.item[i], strlen(o->prompt.item[i]), 0, err);
    for (size_t i = 0, n, line = 1; !rc && i < size; i += n + 1, line++) {
        const char *text = t->file + i, *end = memchr(text, '\n', size - i);
        size_t      len = n = end ? (size_t)(end - text) : size - i;

        len -= n && text[n - 1] == '\r';
        rc = len ? add_prompt(t, text, len, line, err)
                 : err_misuse(err, "%s:%zu: the line is empty; expected a prompt a line",
                              o->prompt_file, line);
    }
    if (rc || t->prompts)
        return rc;
    if (tokenizer_endoftext(t->g->tok) < 0)
        return err_misuse(err, "--prompt TEXT is missing, and the tokenizer has no <|endoftext|> "
                               "to begin with");
    rc = add_prompt(t, start, sizeof start - 1, 0, err);
    t->prompt->n = 0; // it is not printed
    return rc;
}

static int limit_tokens(struct batch_of_texts *t, size_t *positions, size_t *longest,
                        struct err *err)
{
    const struct generate_opts *o = t->o;
    size_t                      context = t->g->context;
    char                        name[4200] = "the prompt";

    for (size_t i = 0; i < t->n; i++) {
        struct sequence *s = &t->seq[i];
        size_t           n = s->prompt->ids.n;

        if (s->prompt->line)
            snprintf(name, sizeof name, "%s:%zu", o->prompt_file, s->prompt->line);
        else if (t->prompts > 1)
            snprintf(name, sizeof name, "prompt %td", s->prompt - t->prompt + 1);
        if (n >= context)
            return err_misuse(err, "%s has %zu tokens, and with a continuation more than the %zu "
                              "positions there are: shorten it", name, n, context);
        if (o->tokens_given && n + o->tokens > context)
            return err_misuse(err, "%s has %zu tokens, with --tokens %llu more than the %zu "
                              "positions there are", name, n, (unsigned long long)o->tokens,
                              context);
        s->most = n + o->tokens < context ? o->tokens : context - n;
        *positions = n + s->most > *positions ? n + s->most : *positions;
        *longest = n > *longest ? n : *longest;
    }
    return 0;
}

static int make_sequences(struct batch_of_texts *t, struct err *err)
{
    size_t each = t->o->batch_given ? t->o->read.batch : 1;

    t->n = t->prompts * each;
    t->seq = calloc(t->n, sizeof *t->seq);
    t->ids = malloc(t->n * sizeof *t->ids);
    t->fed = malloc(t->n * sizeof *t->fed);
    if (!t->seq || !t->ids || !t->fed)
        return err_set(err, -ENOMEM, "out of memory for %zu sequences", t->n);
    for (size_t i = 0; i < t->n; i++) {
        const struct prompt *p = &t->prompt[i / each];

        t->seq[i] = (struct sequence){ .prompt = p, .number = i % each,
                                       .text = { .stops = &t->o->stop } };
        t->ids[i] = p->ids.ids;
        t->fed[i] = p->ids.n;
    }
    return 0;
}

/* ---- generating ---- */

/* Print the texts that are whole, and of the next one what there is. */
static int show(struct batch_of_texts *t, int begun, struct err *err)
{
    int rc = 0;

    for (; !rc && t->shown < t->n; t->shown++, begun = 0) {
        struct sequence *s = &t->seq[t->shown];

        if (!begun && t->shown)
            rc = continuation_write("\n---\n", 5, err);
        if (!begun && !rc)
            rc = continuation_write(s->prompt->text, s->prompt->n, err);
        if (!rc)
            rc = continuation_print(&s->text, err);
        if (!s->text.ended)
            return rc;
    }
    return rc ? rc : continuation_write("\n", 1, err);
}

static int generate_all(struct batch_of_texts *t, struct err *err)
{
    struct generator *g = t->g;
    size_t            going = t->n;
    int               rc = show(t, 0, err);

    while (!rc && going) {
        const float *logits;
        size_t       at = t->shown;

        rc = generator_feed(g, t->ids, t->fed, &logits, err);
        going = 0;
        for (size_t b = 0; !rc && b < t->n; b++) {
            struct sequence *s = &t->seq[b];

            if (!s->text.ended) {
                s->next = generator_choose(g, logits + b * g->vocab, s->number, s->n++);
                rc = continuation_token(&s->text, g->tok, s->next, err);
                s->text.ended |= s->n == s->most;
            }
            t->ids[b] = &s->next;
            going += t->fed[b] = !s->text.ended;
        }
        if (!rc)
            rc = show(t, at == t->shown, err);
    }
    return rc;
}

static int generate_prompts(struct generator *g, const struct generate_opts *o, struct err *err)
{
    struct batch_of_texts t = { .g = g, .o = o };
    size_t                positions = 0, longest = 0;
    int                   rc;

    if (!(rc = open_prompts(&t, err)) && !(rc = make_sequences(&t, err)) &&
        !(rc = limit_tokens(&t, &positions, &longest, err)) &&
        !(rc = generator_start(g, t.n, positions, longest, err)))
        rc = generate_all(&t, err);
    for (size_t i = 0; t.seq && i < t.n; i++)
        free(t.seq[i].text.text);
    for (size_t i = 0; i < t.prompts; i++)
        token_buf_free(&t.prompt[i].ids);
    free(t.seq);
    free(t.ids);
    free(t.fed);
    free(t.prompt);
    free(t.file);
    return rc;
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
    if (o->prompt.n && o->prompt_file)
        return err_misuse(err, "--prompt and --prompt-file both say how to begin; give one of "
                               "them");
    if (o->chat && (o->prompt.n > 1 || o->prompt_file || o->batch_given))
        return err_misuse(err, "--chat is one conversation: it takes one --prompt to begin with, "
                               "no --prompt-file and no --batch");
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
    .parts = parts, .size = sizeof(struct generate_opts), .run = run,
};
