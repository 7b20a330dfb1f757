/* encode.c: rows of a task to ids. */
#include "cmd/run/encode.h"

struct encode_run {
    const struct encode *e;
    struct tokenizer    *tok;
    struct token_buf     ids;
    struct examples_new out;
    size_t               max_seq;
    long                 pad;
    uint64_t             rows; // so far
    struct watch         watch;
};

static int row_label(const struct encode *e, const struct task_row *row, struct example *x,
                     struct err *err)
{
    *x = (struct example){ .label = -1 };
    return e->labels ? task_label(e->task, row, &x->label, &x->value, err) : 0;
}

static int read_rows(const struct encode *e, task_row_fn row, void *ctx, struct err *err)
{
    struct task_names names = e->asked;

    if (!e->labels)
        names.label = NULL;
    if (e->own)
        return task_read_own(e->path, &names, e->most, row, ctx, err);
    return task_read_glue(e->path, e->labels ? &e->task->train : &e->task->test, e->most, row, ctx,
                          err);
}

static int check_row(void *ctx, const struct task_row *row, struct err *err)
{
    struct encode *e = ctx;
    struct example x;
    int            rc = e->rows || !row->names ? 0 : task_names_copy(&e->read, row->names, err);

    e->rows++;
    e->pairs |= row->text2 != NULL;
    e->words[0] |= !task_number(row->text1, NULL);
    e->words[1] |= row->text2 && !task_number(row->text2, NULL);
    rc = rc ? rc : row_label(e, row, &x, err);
    return rc ? rc : watch_look(&e->watch, e->rows, 0, err);
}

int encode_check(struct encode *e, const char *dir, const char *file, struct err *err)
{
    int n = snprintf(e->path, sizeof e->path, "%s%s%s", dir ? dir : "", dir ? "/" : "", file);

    if (n >= (int)sizeof e->path)
        return err_misuse(err, "%s: the path is too long", file);
    e->watch = work_begin(e->events, "reading %s", e->path);
    int rc = read_rows(e, check_row, e, err);
    work_end(e->events);
    return !rc && e->rows == 0 ? err_misuse(err, "%s has no rows", e->path) : rc;
}

void encode_notice(const struct encode *e, int text, char *out, size_t size)
{
    const char *name = text ? e->read.pair : e->read.text;

    *out = '\0';
    if (name && !e->words[text])
        snprintf(out, size,
                 "%.300s: all values of the column '%.40s' are numbers, and it is read as %s: "
                 "--text-column and --pair-column say otherwise which are the texts",
                 e->path, name,
                 text           ? "the second text"
                 : e->read.pair ? "the first text"
                                : "the text");
}

static int encode_row(void *ctx, const struct task_row *row, struct err *err)
{
    static const char  between[] = "<|endoftext|>"; // one id
    struct encode_run *w = ctx;
    const char *const  parts[] = { row->text1, row->text2 ? between : NULL, row->text2 };
    struct example     x;
    size_t             n;
    int                rc = row_label(w->e, row, &x, err);

    w->ids.n = 0;
    for (int i = 0; i < 3 && parts[i] && !rc; i++)
        rc = tokenizer_encode(w->tok, parts[i], strlen(parts[i]), &w->ids, err);
    // the cut, without padding at its end; at least one id
    for (n = w->ids.n < w->max_seq ? w->ids.n : w->max_seq; n > 1 && w->ids.ids[n - 1] == w->pad;)
        n--;
    rc = rc ? rc : examples_new_add(&w->out, w->ids.ids, n, &x, err);
    return rc ? rc : watch_look(&w->watch, ++w->rows, w->e->rows, err);
}

int encode_file(struct examples **out, const struct encode *e, struct tokenizer *tok,
                size_t max_seq, long pad, const char *path, struct err *err)
{
    struct encode_run w = { .e = e, .tok = tok, .max_seq = max_seq, .pad = pad };
    int               rc = examples_new_open(&w.out, path, err);

    *out = NULL;
    if (rc)
        return rc;
    w.watch = work_begin(e->events, "tokenising %s", e->path);
    rc = read_rows(e, encode_row, &w, err);
    work_end(e->events);
    token_buf_free(&w.ids);
    if (!rc)
        rc = examples_new_commit(&w.out, err);
    else
        examples_new_abort(&w.out);
    return rc ? rc : examples_open(out, path, err);
}
