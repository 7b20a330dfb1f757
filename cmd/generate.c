/* generate.c: continues texts: all prompts in one batch, of which the first is printed as it comes
 * and the others follow. A conversation is generate_chat.c's. */
#include "cmd/cmd.h"
#include "cmd/continuation.h"
#include "cmd/generate.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/file/file.h"
#include "data/file/file_kind.h"
#include "data/base/grow.h"
#include "data/file/stdin_spool.h"
#include "data/base/text_line.h"
#include "data/base/utf8.h"
#include "data/file/unpack.h"
#include "run/generation.h"
#include "run/texts/tokenise.h"

#include <unistd.h>

#define AT(field) offsetof(struct generate_opts, field)

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, AT(model), .file = OPT_FILES_MODEL,
      .help = "Run or Hugging Face folder" },
    { "prompt", OPT_STRINGS, AT(prompt), .arg = "TEXT",
      .help = "Start of the text (default: the tokenizer's start token, or <|endoftext|>)" },
    { "prompt-file", OPT_STRING, AT(prompt_file), .arg = "FILE",
      .help = "File with one prompt per line, or - (standard input)" },
    { "chat", OPT_FLAG, AT(chat),
      .help = "Hold a conversation line by line, in the words of the model's chat template; a "
              "model without one continues the text. Ctrl-C stops an answer; an empty line ends "
              "the conversation." },
    { "system", OPT_STRING, AT(system), .arg = "TEXT",
      .help = "System message of the conversation (--chat)" },
    { "chat-template", OPT_STRING, AT(template), .arg = "NAME|FILE",
      .help = "Chat template: the name of one that the model's folder has, or a file (default: the "
              "folder's own)" },
    { "date", OPT_STRING, AT(date), .arg = "YYYY-MM-DD",
      .help = "Day that a chat template writes (default: today)" },
    { "tokens", OPT_UINT, AT(tokens), "100", .min = 1,
      .help = "Largest number of tokens to generate (default: 100, or fewer if the positions run "
              "out)" },
    { "stop", OPT_STRINGS, AT(stop), .arg = "TEXT", .help = "Text to stop before" },
    { "temperature", OPT_DOUBLE, AT(sampling.temperature), "1",
      .help = "Sampling temperature (0: always the likeliest token; default: "
              "generation_config.json's, otherwise 1)" },
    { "top-k", OPT_UINT, AT(sampling.top_k),
      .help = "Number of likeliest tokens to sample from (0: all; default: "
              "generation_config.json's, otherwise all)" },
    { "top-p", OPT_RATIO, AT(sampling.top_p), "1", .max = 1,
      .help = "Total probability of the likeliest tokens to sample from, 0 to 1 (0 or 1: all; "
              "default: generation_config.json's, otherwise 1)" },
    { "min-p", OPT_RATIO, AT(sampling.min_p), .max = 1,
      .help = "Smallest probability of a token to sample, as a part of the likeliest token's, 0 to "
              "1 (0: all; default: generation_config.json's, otherwise 0)" },
    { "repetition-penalty", OPT_DOUBLE, AT(sampling.penalty), "1", .min = 0.01, .max = 100,
      .help = "Factor by which tokens of the text so far become less likely, 0.01 to 100 (1: no "
              "penalty; default: generation_config.json's, otherwise 1)" },
    { "seed", OPT_UINT, AT(sampling.seed), "1", .help = "Seed of the sampling" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder (default: the model's; must not differ from it)" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 },
                                         { "Which model of a run", which_rows, AT(which) },
                                         { "Machine", read_rows, AT(read) },
                                         { 0 } };

/* ---- prompts, in one batch ---- */

struct prompt {
    const char      *text; // (n), what is printed
    size_t           n;
    size_t           line; // in the file; 0: from the command line
    struct token_buf ids;  // at least one
};

struct sequence {
    const struct prompt *prompt;
    uint64_t             number;   // which continuation of it: the random numbers' stream
    struct token_buf    ids;      // of the prompt, and all that were chosen
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
    size_t            positions, longest; // tokens of a sequence, of a prompt, at most
    const int32_t   **ids; // (n) with `fed`: the tokens that go through the model next
    size_t           *fed;
};

static int add_prompt(struct batch_of_texts *t, const char *text, size_t n, size_t line,
                      struct err *err)
{
    struct prompt *p = &t->prompt[t->prompts++];

    *p = (struct prompt){ .text = text, .n = n, .line = line };
    int rc = tokenizer_put(t->g->tok, TOKENIZER_BEFORE, &p->ids, err);

    rc = rc ? rc : tokenizer_encode(t->g->tok, text, n, &p->ids, err);
    if (!rc)
        tokenizer_begin_once(t->g->tok, &p->ids);
    return rc;
}

/* No prompt: what begins every text, or the token that ends one. */
static int add_no_prompt(struct batch_of_texts *t, struct err *err)
{
    int32_t end = tokenizer_endoftext(t->g->tok);
    int     rc = add_prompt(t, "", 0, 0, err);

    if (rc || t->prompt->ids.n)
        return rc;
    if (end < 0)
        return err_misuse(err, "--prompt TEXT is missing, and the tokenizer has no eos_token to "
                               "begin with");
    return token_buf_add(&t->prompt->ids, &end, 1, err);
}

/* --prompt-file, without a byte order mark; its lines end with \n, \r\n or all with \r. Standard
 * input is looked at and read like a file. */
static int read_prompts(char **out, size_t *n, const char *name, struct err *err)
{
    const char      *path = strcmp(name, "-") ? name : "/proc/self/fd/0";
    struct file_look look;
    int rc = path == name ? 0 : stdin_spool(P_tmpdir "/sitrain-prompts", NULL, err);

    rc = rc ? rc : file_kind_look(&look, path, NULL, err);
    name = unpack_shown(name);
    *n = 0;
    if (!rc && look.kind >= FILE_TOKENS && look.kind != FILE_EMPTY)
        return file_kind_refuse(&look, name, FILE_FOR_PROMPTS, err);
    rc = rc ? rc : file_read_whole(out, n, path, UINT64_MAX, err);
    if (rc)
        return rc;
    size_t mark = utf8_mark(*out, *n);
    memmove(*out, *out + mark, *n -= mark);
    if (!*n)
        return err_misuse(err, "%s is empty: expected a prompt a line", name);
    char *end = memchr(*out, '\r', *n);
    if (end && end[1] != '\n' && !memchr(*out, '\n', (size_t)(end - *out)))
        for (; end; end = memchr(end, '\r', (size_t)(*out + *n - end)))
            *end = '\n';
    return 0;
}

static int open_prompts(struct batch_of_texts *t, struct err *err)
{
    const struct generate_opts *o = t->o;
    size_t                      size = 0, most = o->prompt.n + 1;
    int rc = o->prompt_file ? read_prompts(&t->file, &size, o->prompt_file, err) : 0;

    for (size_t i = 0; i < size; i++)
        most += t->file[i] == '\n';
    t->prompt = calloc(most, sizeof *t->prompt);
    if (!rc && !t->prompt)
        rc = err_set(err, -ENOMEM, "out of memory for %zu prompts", most);
    for (size_t i = 0; !rc && i < o->prompt.n; i++)
        rc = add_prompt(t, o->prompt.item[i], strlen(o->prompt.item[i]), 0, err);
    const char *at = t->file, *text;
    for (size_t n, line = 1; !rc && size && (text = text_line(&at, t->file + size, &n)); line++)
        rc = n ? add_prompt(t, text, n, line, err)
               : err_misuse(err, "%s:%zu: the line is empty; expected a prompt a line",
                            unpack_shown(o->prompt_file), line);
    return rc || t->prompts ? rc : add_no_prompt(t, err);
}

static int limit_tokens(struct batch_of_texts *t, struct sequence *s, struct err *err)
{
    const struct prompt *p = s->prompt;
    size_t               context = t->g->context, n = p->ids.n, tokens = t->o->tokens;
    char                 name[4200] = "the prompt";

    if (p->line)
        snprintf(name, sizeof name, "%s:%zu", unpack_shown(t->o->prompt_file), p->line);
    else if (t->prompts > 1)
        snprintf(name, sizeof name, "prompt %td", p - t->prompt + 1);
    const struct tokenise_ids ids = { p->ids.ids, n, t->g->vocab, name, 0 };
    int                       rc = tokenise_known(t->g->tok, &ids, err);
    if (rc)
        return rc;
    if (n >= context)
        return err_misuse(err, "%s has %zu tokens, and with a continuation more than the %zu "
                          "positions there are: shorten it", name, n, context);
    if (t->o->tokens_given && n + tokens > context)
        return err_misuse(err, "%s has %zu tokens, with --tokens %zu more than the %zu positions "
                          "there are", name, n, tokens, context);
    s->most = n + tokens < context ? tokens : context - n;
    t->positions = n + s->most > t->positions ? n + s->most : t->positions;
    t->longest = n > t->longest ? n : t->longest;
    return 0;
}

static int sequence_room(struct sequence *s, struct err *err)
{
    const struct token_buf *p = &s->prompt->ids;
    int rc = grow(&s->ids.ids, &s->ids.cap, p->n + s->most, sizeof *p->ids, "tokens", err);

    if (rc)
        return rc;
    memcpy(s->ids.ids, p->ids, p->n * sizeof *p->ids);
    s->ids.n = p->n;
    return 0;
}

static int make_sequences(struct batch_of_texts *t, struct err *err)
{
    size_t each = t->o->batch_given ? t->o->read.batch : 1;
    int    rc = 0;

    t->n = t->prompts * each;
    t->seq = calloc(t->n, sizeof *t->seq);
    t->ids = malloc(t->n * sizeof *t->ids);
    t->fed = malloc(t->n * sizeof *t->fed);
    if (!t->seq || !t->ids || !t->fed)
        return err_set(err, -ENOMEM, "out of memory for %zu sequences", t->n);
    for (size_t i = 0; i < t->n && !rc; i++) {
        const struct prompt *p = &t->prompt[i / each];

        t->seq[i] = (struct sequence){ .prompt = p, .number = i % each,
                                       .text = { .stops = &t->o->stop } };
        t->ids[i] = p->ids.ids;
        t->fed[i] = p->ids.n;
        rc = tokenizer_text_behind(t->g->tok, &t->seq[i].text.t, p->ids.ids, p->ids.n, err);
        rc = rc ? rc : limit_tokens(t, &t->seq[i], err);
        rc = rc ? rc : sequence_room(&t->seq[i], err);
    }
    return rc;
}

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
        rc = rc ? rc : continuation_print(&s->text, err);
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
                s->next = generator_choose(g, logits + b * g->vocab, s->number, s->n++, &s->ids);
                s->ids.ids[s->ids.n++] = s->next;
                rc = continuation_token(&s->text, g, s->next, err);
                if (!rc && !s->text.ended && s->n == s->most)
                    rc = continuation_end(&s->text, g->tok, err);
            }
            t->ids[b] = &s->next;
            going += t->fed[b] = !s->text.ended;
        }
        rc = rc ? rc : show(t, at == t->shown, err);
    }
    return rc;
}

static int generate_prompts(struct generator *g, const struct generate_opts *o, struct err *err)
{
    struct batch_of_texts t = { .g = g, .o = o };
    int                   rc = open_prompts(&t, err);

    if (!rc && !(rc = make_sequences(&t, err)) &&
        !(rc = generator_start(g, t.n, t.positions, t.longest, err)))
        rc = generate_all(&t, err);
    for (size_t i = 0; t.seq && i < t.n; i++)
        token_text_free(&t.seq[i].text.t), token_buf_free(&t.seq[i].ids);
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
    char                  taken[GENERATION_TAKEN] = "", others[GENERATION_OTHERS];
    enum model_which      which;

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
    if (!o->chat && (o->system || o->template || o->date))
        return err_misuse(err, "--%s is for a conversation: give --chat too",
                          o->system ? "system" : o->template ? "chat-template" : "date");
    int rc = model_which(&which, &o->model, &o->which, line, err);
    rc = rc ? rc : generator_open(&g, o->model, which, o->tokenizer, &o->read, &o->sampling,
                                  &say_events, err);
    if (!rc)
        rc = generation_defaults(&g.sampling, line, g.generation, taken, err);
    if (!rc && *taken)
        fprintf(stderr, "siTrain generate: the model's generation_config.json says%s\n", taken);
    generation_others(others, g.generation, g.sampling.temperature > 0);
    if (!rc && *others)
        say_line(stderr, "siTrain generate: the model's generation_config.json sets%s, which %s "
                 "not computed here: texts are generated without", others,
                 strchr(others, ',') ? "are" : "is");
    if (!rc)
        rc = o->chat ? generate_chat(&g, o, err) : generate_prompts(&g, o, err);
    generator_close(&g);
    return rc == -EPIPE ? 0 : rc; // nobody reads any more, which is no failure
}

const struct opt_command generate_command = {
    .name = "generate",
    .usage = "RUN|HFDIR --prompt TEXT [--tokens N] [--temperature X]",
    .summary = "continue a text",
    .text = "Prints the prompt and its continuation during generation. Generation ends at an end "
            "token or before a --stop text. End tokens are <|endoftext|>, or the tokens in "
            "generation_config.json or config.json of the model's folder. Several prompts are "
            "computed together; each is continued as if it were the only one. With --batch N, "
            "each prompt gets N continuations. A line --- separates two texts. With --chat, "
            "answers end at the token that closes a turn in the chat template. A model that does "
            "not fit into --host-mem is read from its drive for every token. If a run kept its "
            "best model (--keep-best), that model is used; otherwise, the model after the last "
            "step, also of a run that is being trained.",
    .parts = parts, .size = sizeof(struct generate_opts), .killed = 1, .run = run,
    .examples = { "siTrain generate first --prompt \"Once upon a time\" --tokens 100",
                  "siTrain generate first --chat --temperature 0.8" },
};
