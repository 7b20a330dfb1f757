/* generate_chat.c: holds a conversation with a model on stdin and stdout, a line at a time.
 *
 * With a chat template each turn renders all messages again (chat/prompt.h). The tokens that are
 * in the cache of keys and values already stay there. Without one, the model continues one text, to
 * which a person adds lines. */
#include "chat/prompt.h"
#include "cmd/continuation.h"
#include "cmd/generate.h"
#include "cmd/terminal/line.h"
#include "data/base/grow.h"
#include "data/base/round.h"
#include "run/texts/tokenise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

struct chat {
    struct generator           *g;
    const struct generate_opts *o;
    struct token_buf            ids; // the latest tokens; decode_length of them are cached
    uint64_t                    chosen; // tokens so far: the position of random numbers
    int                         terminal;
    // with a template
    struct chat_encoding        as;       // as.chat NULL: none
    struct chat_template       *template; // owned
    json_t                     *messages; // so far
    int                         shortened; // the user was told that turns are left out
    struct opt_strings          stops;     // those of the user, and what closes a turn
    char                       *closing;   // as text; NULL: a token does
    // without one
    struct continuation pending; // text that stands between the tokens and the next line
    size_t             *ends;    // of an answer: its text's length behind each of its tokens, or
    size_t n_ends, ends_cap;     // SIZE_MAX where the next one completes a character
};

static volatile sig_atomic_t interrupted;
static int                   wake[2] = { -1, -1 }; // a pipe: Ctrl-C ends the wait for a line, also
                                                   // if it comes just before it, or to a thread

static void on_interrupt(int sig)
{
    int before = errno;

    (void)sig;
    interrupted = 1;
    if (write(wake[1], "", 1) < 0)
        errno = before; // it is full, so a byte is there
}

/* Waits until the terminal has a line, or Ctrl-C has been pressed since the last line. */
static void wait_for_line(void)
{
    struct pollfd either[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                               { .fd = wake[0], .events = POLLIN } };

    while (!interrupted && poll(either, 2, -1) < 0 && errno == EINTR)
        continue;
}

/* Ctrl-C ends the reading of a line, but not a read of the drive. */
static void catch_interrupt(int flags)
{
    struct sigaction act = { .sa_handler = on_interrupt, .sa_flags = flags };

    sigaction(SIGINT, &act, NULL);
}

/* So many tokens go on where the positions are used up. */
static size_t latest(const struct generator *g) { return g->context / 2 > 0 ? g->context / 2 : 1; }

/* Pass the new tokens through the model. If there are more tokens than positions, only the latest
 * half goes on. */
static int feed(struct chat *c, const float **logits, struct err *err)
{
    struct generator *g = c->g;
    size_t            keep = latest(g);

    if (c->ids.n > g->context) {
        fprintf(stderr, "\nsiTrain generate: all %zu positions are used: generation goes on with "
                "the latest %zu tokens of the text\n", g->context, keep);
        memmove(c->ids.ids, c->ids.ids + c->ids.n - keep, keep * sizeof *c->ids.ids);
        c->ids.n = keep;
        decode_rewind(g->decode, 0, 0);
    }
    const int32_t *ids = c->ids.ids + decode_length(g->decode, 0);
    size_t         n = c->ids.n - decode_length(g->decode, 0);
    return generator_feed(g, &ids, &n, logits, err);
}

static int add_pending(struct chat *c, const char *text, size_t n, struct err *err)
{
    struct token_text *t = &c->pending.t;

    return grow_add(&t->text, &t->n, &t->cap, text, n, 1, "bytes of text", err);
}

/* The answer was cut: the tokens behind the cut are forgotten, and what one across it says before
 * the cut is put before the next line. */
static int forget(struct chat *c, const struct continuation *a, struct err *err)
{
    size_t kept = 0;

    while (c->n_ends && c->ids.n && c->ends[c->n_ends - 1] > a->t.n) {
        c->n_ends--;
        c->ids.n--;
    }
    if (c->n_ends)
        kept = c->ends[c->n_ends - 1];
    if (c->ids.n < decode_length(c->g->decode, 0))
        decode_rewind(c->g->decode, 0, c->ids.n);
    if (kept > a->t.n) // the cut is in what the used-up positions took
        return 0;
    return add_pending(c, a->t.text + kept, a->t.n - kept, err);
}

/* ---- with a template ---- */

static int add_message(struct chat *c, const char *role, const char *text, size_t n,
                       struct err *err)
{
    json_t *content = json_stringn(text, n);
    json_t *message = content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;

    if (!content)
        return err_misuse(err, "the text is not valid UTF-8: \"%.*s\"",
                          (int)size_min(n, 40), text);
    return message && !json_array_append_new(c->messages, message)
               ? 0
               : err_set(err, -ENOMEM, "no memory for a message");
}

/* Leave out the oldest question and what was answered. 0: only the last one is left. */
static int drop_oldest(struct chat *c)
{
    size_t first = c->o->system != NULL, n = 1;

    if (json_array_size(c->messages) <= first + 1)
        return 0;
    while (strcmp(json_str(json_array_get(c->messages, first + n), "role"), "user"))
        n++;
    while (n--)
        json_array_remove(c->messages, first);
    return 1;
}

/* Render and encode the conversation. The answer has room: --tokens, or half of the positions. */
static int encode_messages(struct chat *c, struct token_buf *out, struct err *err)
{
    size_t context = c->g->context, room = size_min(c->o->tokens, context / 2);
    int    rc = chat_prompt(&c->as, c->messages, out, err);

    while (!rc && out->n > context - room && drop_oldest(c)) {
        if (!c->shortened)
            fprintf(stderr, "siTrain generate: %zu positions are too few for the whole "
                    "conversation: from here on its oldest turns are left out\n", context);
        c->shortened = 1;
        out->n = 0;
        rc = chat_prompt(&c->as, c->messages, out, err);
    }
    if (!rc && !out->n)
        rc = err_misuse(err, "the chat template writes nothing for this conversation, so there is "
                        "nothing that the model can go on from");
    if (!rc && out->n >= context)
        rc = err_misuse(err, "the message has %zu tokens, and with an answer more than the %zu "
                        "positions there are", out->n, context);
    return rc ? rc : tokenise_known(c->g->tok, &(struct tokenise_ids){ out->ids, out->n,
                                                                       c->g->vocab,
                                                                       "the conversation", 0 },
                                    err);
}

/* The user's message, and all that stands before the answer to it, become c->ids. What the cache
 * has of it stays; a token at least goes through the model. */
static int ask(struct chat *c, const char *line, size_t n, struct err *err)
{
    struct decode   *d = c->g->decode;
    struct token_buf all = { 0 };
    size_t           same = 0;
    int              rc = add_message(c, "user", line, n, err);

    rc = rc ? rc : encode_messages(c, &all, err);
    if (rc) {
        token_buf_free(&all);
        return rc;
    }
    while (same + 1 < all.n && same < decode_length(d, 0) && all.ids[same] == c->ids.ids[same])
        same++;
    if (same < decode_length(d, 0))
        decode_rewind(d, 0, same);
    token_buf_free(&c->ids);
    c->ids = all;
    return 0;
}

/* ---- an answer ---- */

/* One more token of the answer, if it does not end: into the conversation, and printed. */
static int answer_token(struct chat *c, struct continuation *a, struct err *err)
{
    struct generator *g = c->g;
    const float      *logits;
    int               rc = feed(c, &logits, err);

    if (rc)
        return rc;
    int32_t id = generator_choose(g, logits, 0, c->chosen++, &c->ids);
    rc = continuation_token(a, g, id, err);
    if (rc || generator_ends(g, id))
        return rc;
    rc = grow(&c->ids.ids, &c->ids.cap, c->ids.n + 1, sizeof id, "tokens", err);
    rc = rc ? rc : grow(&c->ends, &c->ends_cap, c->n_ends + 1, sizeof *c->ends, "tokens", err);
    if (rc)
        return rc;
    c->ids.ids[c->ids.n++] = id;
    // where it was cut, this token's end is behind the cut, or it waits for another one
    c->ends[c->n_ends++] = a->ended || a->t.n_held ? SIZE_MAX : a->t.n;
    rc = a->ended && !c->as.chat ? forget(c, a, err) : 0;
    return rc ? rc : continuation_print(a, err);
}

/* The line behind what is pending; both become tokens of c->ids. */
static int append(struct chat *c, const char *line, size_t n, struct err *err)
{
    size_t before = c->ids.n;
    int    rc = add_pending(c, line, n, err);

    if (!rc && c->ids.n == 0)
        rc = tokenizer_put(c->g->tok, TOKENIZER_BEFORE, &c->ids, err);
    rc = rc ? rc : tokenizer_encode(c->g->tok, c->pending.t.text, c->pending.t.n, &c->ids, err);
    if (!rc && !before)
        tokenizer_begin_once(c->g->tok, &c->ids);
    c->pending.t.n = c->n_ends = 0;
    return rc ? rc
              : tokenise_known(c->g->tok, &(struct tokenise_ids){ c->ids.ids + before,
                                                                  c->ids.n - before, c->g->vocab,
                                                                  "the line", 0 }, err);
}

/* With a template an answer ends where the positions do. */
static int has_room(const struct chat *c)
{
    if (!c->as.chat || c->ids.n < c->g->context)
        return 1;
    fprintf(stderr, "\nsiTrain generate: all %zu positions are used: the answer ends here\n",
            c->g->context);
    return 0;
}

static int turn(struct chat *c, const char *line, size_t n, struct err *err)
{
    struct continuation a = { .stops = &c->stops };
    size_t              before = c->as.chat ? 0 : c->ids.n;
    int                 rc = c->as.chat ? ask(c, line, n, err) : append(c, line, n, err);

    rc = rc ? rc
            : tokenizer_text_behind(c->g->tok, &a.t, c->ids.ids + before, c->ids.n - before, err);
    for (uint64_t i = 0; !rc && !a.ended && !interrupted && i < c->o->tokens && has_room(c); i++)
        rc = answer_token(c, &a, err);
    rc = rc || a.ended ? rc : continuation_end(&a, c->g->tok, err); // what was held back, too
    rc = rc ? rc : continuation_print(&a, err);
    rc = rc ? rc : continuation_write("\n", 1, err);
    if (!rc && c->as.chat)
        rc = add_message(c, "assistant", a.t.n ? a.t.text : "", a.t.n, err);
    else if (!rc && !(a.t.n && a.t.text[a.t.n - 1] == '\n'))
        rc = add_pending(c, "\n", 1, err);
    token_text_free(&a.t);
    return rc;
}

/* Lines until an empty one, the end of the input, or Ctrl-C, which is 130. */
static int talk(struct chat *c, struct err *err)
{
    char  *line = NULL;
    size_t cap = 0;
    int    rc = 0;

    while (!rc) {
        char    rest[64];
        ssize_t n = 0;

        interrupted = 0;
        while (read(wake[0], rest, sizeof rest) > 0)
            continue;
        catch_interrupt(0);
        rc = c->terminal ? continuation_write("> ", 2, err) : 0;
        if (rc)
            break;
        if (c->terminal)
            wait_for_line();
        if (!interrupted)
            n = getline(&line, &cap, stdin);
        if (!interrupted && ferror(stdin)) {
            rc = err_set(err, -errno, "read standard input: %s", strerror(errno));
            break;
        }
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        if (n <= 0 || interrupted) {
            rc = c->terminal ? continuation_write("\n", 1, err) : 0;
            rc = !rc && interrupted ? 130 : rc;
            break;
        }
        catch_interrupt(SA_RESTART);
        rc = turn(c, line, (size_t)n, err);
    }
    free(line);
    return rc;
}

/* What ends the answers of the template: a token, or a text. */
static int add_closing(struct chat *c, struct err *err)
{
    int32_t id;
    size_t  n = c->o->stop.n;
    int     rc = chat_closing(&c->as, &id, &c->closing, err);

    if (rc)
        return rc;
    if (id >= 0 && !generator_ends(c->g, id))
        c->g->stops[c->g->n_stops++] = id;
    if (!c->closing)
        return 0;
    c->stops.item = calloc(n + 1, sizeof *c->stops.item);
    if (!c->stops.item)
        return err_set(err, -ENOMEM, "no memory for the texts that end an answer");
    for (size_t i = 0; i < n; i++)
        c->stops.item[i] = c->o->stop.item[i];
    c->stops.item[n] = c->closing;
    c->stops.n = n + 1;
    return 0;
}

static int open_template(struct chat *c, struct err *err)
{
    const struct generate_opts *o = c->o;
    const char *dir = o->tokenizer ? o->tokenizer : c->g->model.tokenizer;
    int         rc = chat_template_open(&c->template, dir, o->template, err);

    c->as = (struct chat_encoding){ .tok = c->g->tok, .chat = c->template, .now = time(NULL) };
    if (!rc && o->date)
        rc = chat_date(&c->as.now, o->date, err);
    if (!rc && !c->template && o->system)
        rc = err_misuse(err, "--system needs a chat template, and %s has none: --chat-template "
                        "FILE gives one", dir);
    if (rc)
        return rc;
    if (!c->template) {
        say_line(stderr, "siTrain generate: %s has no chat template: the model continues the text "
                 "as it stands", dir);
        return 0;
    }
    if (!(c->messages = json_array()))
        return err_set(err, -ENOMEM, "no memory for a conversation");
    rc = o->system ? add_message(c, "system", o->system, strlen(o->system), err) : 0;
    return rc ? rc : add_closing(c, err);
}

/* Without --seq there is room for as many tokens as a row usually has. */
int generate_chat(struct generator *g, const struct generate_opts *o, struct err *err)
{
    struct chat c = { .g = g, .o = o, .stops = o->stop,
                      .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };
    int         rc = open_template(&c, err);

    if (!o->read.seq)
        g->context = arch_usual_seq(&g->model.config);
    rc = rc ? rc : generator_start(g, 1, g->context, latest(g), err);
    if (!rc && c.terminal)
        fputs("An empty line ends it; Ctrl-C stops an answer.\n", stderr);
    if (!rc && o->prompt.n)
        rc = c.template ? turn(&c, o->prompt.item[0], strlen(o->prompt.item[0]), err)
                        : add_pending(&c, o->prompt.item[0], strlen(o->prompt.item[0]), err);
    if (!rc && pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        rc = err_set(err, -errno, "a pipe for Ctrl-C: %s", strerror(errno));
    rc = rc ? rc : talk(&c, err);
    token_buf_free(&c.ids);
    token_text_free(&c.pending.t);
    free(c.ends);
    json_decref(c.messages);
    if (c.closing)
        free(c.stops.item);
    free(c.closing);
    chat_template_close(c.template);
    return rc;
}
