/* chat.c: a conversation with a language model: it only ever continues a text, to which a person
 * adds lines. The keys and values of what was said stay in the cache, so that a turn computes the
 * new text alone. Where the model's positions are used up, the latest half of the text is kept and
 * computed anew. */
#include "cmd/continuation.h"
#include "cmd/generate.h"
#include "data/base/grow.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

struct chat {
    struct generator           *g;
    const struct generate_opts *o;
    struct token_buf            ids; // the conversation's latest tokens; decode_length of them are
                                     // in the cache
    struct continuation pending; // text that stands between them and the next line
    uint64_t            chosen;  // tokens so far: the position of random numbers
    int                 terminal;
};

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* Ctrl-C ends the reading of a line, but not a read of the drive. */
static void catch_interrupt(int flags)
{
    struct sigaction act = { .sa_handler = on_interrupt, .sa_flags = flags };

    sigaction(SIGINT, &act, NULL);
}

/* So many tokens go on where the positions are used up. */
static size_t latest(const struct generator *g)
{
    return g->context / 2 > 0 ? g->context / 2 : 1;
}

/* The new tokens through the model. Without a position left for what follows them, only the latest
 * half goes on. */
static int feed(struct chat *c, const float **logits, struct err *err)
{
    struct generator *g = c->g;
    size_t            keep = latest(g), n;
    const int32_t    *ids;

    if (c->ids.n > g->context) {
        fprintf(stderr, "\nsiTrain generate: all %zu positions of the model are used; it goes on "
                "with the latest %zu tokens of the text\n", g->context, keep);
        memmove(c->ids.ids, c->ids.ids + c->ids.n - keep, keep * sizeof *c->ids.ids);
        c->ids.n = keep;
        decode_rewind(g->decode, 0, 0);
    }
    ids = c->ids.ids + decode_length(g->decode, 0);
    n = c->ids.n - decode_length(g->decode, 0);
    return generator_feed(g, &ids, &n, logits, err);
}

/* The answer of `bytes` bytes in all was cut to a->n: the tokens behind the cut are forgotten, and
 * what one across it says before the cut is put before the next line. */
static int forget(struct chat *c, const struct continuation *a, size_t bytes, struct err *err)
{
    while (bytes > a->n && c->ids.n) {
        size_t len = 0; // of an id without a token

        tokenizer_bytes(c->g->tok, c->ids.ids[--c->ids.n], &len);
        bytes -= len;
    }
    if (c->ids.n < decode_length(c->g->decode, 0))
        decode_rewind(c->g->decode, 0, c->ids.n);
    if (bytes > a->n) // the cut is in what the used-up positions took
        return 0;
    return continuation_add(&c->pending, a->text + bytes, a->n - bytes, err);
}

/* One more token of the answer, if it does not end: into the conversation, and printed. */
static int answer_token(struct chat *c, struct continuation *a, struct err *err)
{
    struct generator *g = c->g;
    const float      *logits;
    size_t            bytes = 0, before = a->n;
    int32_t           id;
    int               rc = feed(c, &logits, err);

    if (rc)
        return rc;
    id = generator_choose(g, logits, 0, c->chosen++);
    rc = continuation_token(a, g->tok, id, err);
    if (rc || id == tokenizer_endoftext(g->tok))
        return rc;
    rc = grow(&c->ids.ids, &c->ids.cap, c->ids.n + 1, sizeof id, "tokens", err);
    if (rc)
        return rc;
    c->ids.ids[c->ids.n++] = id;
    tokenizer_bytes(g->tok, id, &bytes);
    rc = a->ended ? forget(c, a, before + bytes, err) : 0;
    return rc ? rc : continuation_print(a, err);
}

/* A person's line behind what is pending, and the answer to it. */
static int turn(struct chat *c, const char *line, size_t n, struct err *err)
{
    struct continuation a = { .stops = &c->o->stop };
    int                 rc = continuation_add(&c->pending, line, n, err);

    if (!rc)
        rc = tokenizer_encode(c->g->tok, c->pending.text, c->pending.n, &c->ids, err);
    c->pending.n = 0;
    for (uint64_t i = 0; !rc && !a.ended && !interrupted && i < c->o->tokens; i++)
        rc = answer_token(c, &a, err);
    a.ended = 1; // what was held back is printed, too
    if (!rc)
        rc = continuation_print(&a, err);
    if (!rc)
        rc = continuation_write("\n", 1, err);
    if (!rc && !(a.n && a.text[a.n - 1] == '\n'))
        rc = continuation_add(&c->pending, "\n", 1, err);
    free(a.text);
    return rc;
}

/* Lines until an empty one, the end of the input, or Ctrl-C. */
static int talk(struct chat *c, int *code, struct err *err)
{
    char  *line = NULL;
    size_t cap = 0;
    int    rc = 0;

    while (!rc) {
        ssize_t n;

        interrupted = 0;
        rc = c->terminal ? continuation_write("> ", 2, err) : 0;
        if (rc)
            break;
        catch_interrupt(0);
        n = getline(&line, &cap, stdin);
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        if (interrupted)
            *code = 130;
        if (n <= 0 || interrupted) {
            rc = c->terminal ? continuation_write("\n", 1, err) : 0;
            break;
        }
        catch_interrupt(SA_RESTART);
        rc = turn(c, line, (size_t)n, err);
    }
    free(line);
    return rc;
}

int chat_run(struct generator *g, const struct generate_opts *o, int *code, struct err *err)
{
    struct chat c = { .g = g, .o = o,
                      .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };
    int         rc = generator_start(g, 1, g->context, latest(g), err);

    if (!rc && c.terminal)
        fputs("An empty line ends it; Ctrl-C stops an answer.\n", stderr);
    if (!rc && o->prompt.n)
        rc = continuation_add(&c.pending, o->prompt.item[0], strlen(o->prompt.item[0]), err);
    if (!rc)
        rc = talk(&c, code, err);
    token_buf_free(&c.ids);
    free(c.pending.text);
    return rc;
}
