/* prepare_render.c: renders rows of conversations, each as one JSON string on a line. */
#include "chat/rows.h"
#include "chat/template.h"
#include "cmd/cmd.h"
#include "cmd/terminal/say.h"
#include "data/base/utf8.h"
#include "report/report.h"

#include <unistd.h>

struct renderer {
    const struct render_opts *o;
    struct chat_template     *chat; // NULL: the folder has none
    time_t                    now;
    FILE                     *to;
    const char               *name; // of `to`
};

static int write_failed(const struct renderer *r, struct err *err)
{
    return err_set(err, -errno, "write %s: %s", r->name, strerror(errno));
}

/* Characters that end a line for some, or steer a terminal or the direction of writing. */
static int is_hidden(uint32_t cp)
{
    return (cp >= 0x7F && cp < 0xA0) || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2066 && cp <= 0x2069);
}

/* A line: a JSON string, which may have any character as an escape. */
static int put(const struct renderer *r, const char *text, size_t n, struct err *err)
{
    json_t *string = json_stringn(text, n);
    char   *line = string ? json_written(string, 0) : NULL;

    json_decref(string);
    if (!line)
        return err_set(err, -ENOMEM, "no memory to write a row");
    for (size_t at = 0, len = strlen(line); at < len;) {
        uint32_t cp = 0;
        int      bytes = utf8_at(line + at, len - at, &cp);

        if (is_hidden(cp))
            fprintf(r->to, "\\u%04X", cp);
        else
            fwrite_unlocked(line + at, 1, (size_t)bytes, r->to);
        at += (size_t)bytes;
    }
    free(line);
    return ferror(r->to) ? write_failed(r, err) : 0;
}

static int render_turns(const struct renderer *r, const struct chat_row *row,
                        const struct chat_turns *turns, struct err *err)
{
    const struct chat_rendering how = { .messages = turns->messages, .tools = row->tools,
                                        .variables = row->variables,
                                        .generation_prompt = r->o->generation_prompt,
                                        .bos = r->o->bos, .eos = r->o->eos, .now = r->now };
    struct jinja_output         out;
    json_t                     *kept;
    struct err                  why;

    if (!r->chat)
        return err_misuse(err, "%s:%zu: a conversation needs a chat template, and %s has none: "
                          "--chat-template FILE gives one (examples/chat.sh writes one)", row->path,
                          row->line, r->o->init);
    int rc = chat_template_render(r->chat, &how, &out, &kept, &why);

    if (rc) {
        err_set(err, rc, "%s:%zu: %s", row->path, row->line, why.text);
        err->misuse = why.misuse;
        return rc;
    }
    rc = put(r, out.text, out.bytes, err);
    jinja_output_free(&out);
    json_decref(kept);
    return rc;
}

static int render_text(const struct renderer *r, const char *prompt, const char *completion,
                       struct err *err)
{
    char *text;
    int   n = asprintf(&text, "%s%s", prompt, completion);

    if (n < 0)
        return err_set(err, -ENOMEM, "no memory to write a row");
    int rc = put(r, text, (size_t)n, err);
    free(text);
    return rc;
}

static int render_row(const struct renderer *r, const struct chat_row *row, struct err *err)
{
    int two = row->form == CHAT_FORM_PREFERENCE, rc;

    if (row->has_turns) {
        rc = render_turns(r, row, &row->turns, err);
        return rc || !two ? rc : render_turns(r, row, &row->other_turns, err);
    }
    rc = render_text(r, row->prompt, row->completion, err);
    return rc || !two ? rc : render_text(r, row->prompt, row->other, err);
}

static int render_file(const struct renderer *r, const char *path, struct err *err)
{
    const struct chat_row *row;
    struct chat_rows      *rows;
    int rc = chat_rows_open(&rows, path, (enum chat_form)r->o->rows, &r->o->names, err);

    while (!rc && (rc = chat_rows_next(rows, &row, err)) > 0)
        rc = say_events.asked_to_stop(say_events.ctx)
                 ? err_stopped(err, "stopped; nothing half-made is left")
                 : render_row(r, row, err);
    chat_rows_close(rows);
    return rc;
}

static int render_files(FILE *out, void *ctx, struct err *err)
{
    struct renderer *r = ctx;
    int              rc = 0;

    r->to = out;
    for (size_t i = 0; i < r->o->files->n && !rc; i++)
        rc = render_file(r, r->o->files->item[i], err);
    return !rc && fflush(out) ? write_failed(r, err) : rc;
}

int prepare_render(const struct render_opts *o, struct err *err)
{
    struct renderer r = { .o = o, .name = o->out ? o->out : "stdout", .now = time(NULL) };
    struct output   out = { o->out, OUTPUT_RENDERINGS, o->files->item, o->files->n };
    int             rc = o->date ? chat_date(&r.now, o->date, err) : 0;

    if (!rc && o->out)
        rc = output_check(&out, err);
    if (!rc && access(o->init, F_OK))
        rc = err_name(err, errno, "--init %s: %s", o->init, strerror(errno));
    rc = rc ? rc : chat_template_open(&r.chat, o->init, o->chat_template, err);
    rc = rc ? rc : o->out ? report_file(&out, render_files, &r, err)
                          : render_files(stdout, &r, err);
    chat_template_close(r.chat);
    return rc;
}
