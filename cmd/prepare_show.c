/* prepare_show.c: rows of conversations as tokens, with those that count in the loss. On a terminal
 * the text of a row is shown, token by token; elsewhere each token is a line. */
#include "chat/encode.h"
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/lines.h"
#include "cmd/terminal/say.h"
#include "cmd/terminal/terminal.h"
#include "data/base/visible.h"

#include <unistd.h>

struct shower {
    struct chat_encoding how;
    int                  terminal, color;
};

/* What stands for a token: its name in the vocabulary. */
static void put_token(const struct tokenizer *t, int32_t id)
{
    size_t      n = 0;
    const char *bytes = tokenizer_bytes(t, id, &n);

    visible_write(stdout, bytes ? bytes : "", bytes ? n : 0, "");
}

static void put_lines(const struct shower *s, const struct chat_ids *x)
{
    for (size_t i = 0; i < x->ids.n; i++) {
        printf("%d\t%c\t", x->ids.ids[i], x->counts[i] ? '+' : '-');
        put_token(s->how.tok, x->ids.ids[i]);
        putchar('\n');
    }
}

static int ends_line(const struct tokenizer *t, int32_t id)
{
    size_t      n = 0;
    const char *bytes = tokenizer_bytes(t, id, &n);

    return bytes && n && bytes[n - 1] == '\n';
}

/* Tokens that count are green, or without colours in brackets; a bar stands between tokens. */
static void put_text(const struct shower *s, const struct chat_ids *x)
{
    for (size_t i = 0; i < x->ids.n; i++) {
        int counts = x->counts[i], last = i + 1 == x->ids.n || ends_line(s->how.tok, x->ids.ids[i]);

        if (s->color)
            printf("\033[%dm", counts ? LINES_GREEN : LINES_PLAIN);
        else if (counts && (i == 0 || !x->counts[i - 1]))
            putchar('[');
        put_token(s->how.tok, x->ids.ids[i]);
        if (!s->color && counts && (i + 1 == x->ids.n || !x->counts[i + 1]))
            putchar(']');
        if (s->color)
            printf("\033[%dm%s\033[%dm", LINES_DIM, last ? "" : "|", LINES_PLAIN);
        if (!s->color && !last)
            putchar('|');
        if (last)
            putchar('\n');
    }
}

static void put_row(const struct shower *s, const struct chat_row *row, const char *which,
                    const struct chat_ids *x)
{
    say_line(stdout, "%s:%zu:%s %zu tokens, %zu count", row->path, row->line, which, x->ids.n,
             x->counted);
    if (s->terminal)
        put_text(s, x);
    else
        put_lines(s, x);
}

static int write_failed(struct err *err)
{
    return err_set(err, -errno, "write stdout: %s", strerror(errno));
}

static int show_file(const struct shower *s, const struct show_opts *o, const char *path,
                     struct err *err)
{
    struct chat_ids        one = { 0 }, other = { 0 };
    const struct chat_row *row;
    struct chat_rows      *rows;
    int                    got = 1;
    int rc = chat_rows_open(&rows, path, (enum chat_form)o->chat->rows, &o->chat->names, err);

    for (uint64_t i = 0; i < o->rows && !rc && got > 0; i++) {
        got = chat_rows_next(rows, &row, err);
        rc = got < 0 ? got : 0;
        if (!rc && say_events.asked_to_stop(say_events.ctx))
            rc = err_stopped(err, "stopped");
        if (rc || got == 0)
            break;
        rc = chat_encode(&s->how, row, &one, &other, err);
        int two = row->form == CHAT_FORM_PREFERENCE;

        if (!rc)
            put_row(s, row, two ? " chosen:" : "", &one);
        if (!rc && two)
            put_row(s, row, " rejected:", &other);
        if (!rc && ferror(stdout))
            rc = write_failed(err);
    }
    chat_rows_close(rows);
    chat_ids_free(&one);
    chat_ids_free(&other);
    return rc;
}

int prepare_show(const struct show_opts *o, struct err *err)
{
    struct tokenizer     *tok = NULL;
    struct chat_template *chat = NULL;
    struct shower         s = { .terminal = isatty(STDOUT_FILENO), .color = terminal_colors() };
    time_t                now = time(NULL);
    int rc = o->chat->date ? chat_date(&now, o->chat->date, err) : 0;

    rc = rc ? rc : tokenizer_open(&tok, o->chat->init, err);
    rc = rc ? rc : chat_template_open(&chat, o->chat->init, o->chat->chat_template, err);
    s.how = (struct chat_encoding){ .tok = tok, .chat = chat, .loss = (enum chat_loss)o->loss_on,
                                    .special_in_text = o->special_in_text, .now = now };
    for (size_t i = 0; i < o->chat->files->n && !rc; i++)
        rc = show_file(&s, o, o->chat->files->item[i], err);
    if (!rc && fflush(stdout))
        rc = write_failed(err);
    tokenizer_close(tok);
    chat_template_close(chat);
    return rc;
}
