/* task_files.c: encodes a task's rows as ids. Stores a run's task and examples, and loads them
 * again. */
#include "run/sources/task_files.h"

#include "data/base/hash.h"
#include "data/base/round.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/folder/tune_opts.h"
#include "run/sources/row_sources.h"
#include "run/texts/text_cut.h"
#include "run/texts/tokenise.h"

#include <limits.h>
#include <strings.h>

enum { QUOTED_ROWS = 100 }; // rows checked for quotes

/* ---- rows to ids ---- */

/* Reading all rows of one side of a split. */
struct walk {
    const struct task_file *e;
    task_row_fn                 row;
    void                       *ctx;
    uint64_t                    read, held; // rows so far: of the files, of the part that is held
    size_t                      source;     // of the row
};

struct encoding {
    const struct task_file *e;
    struct tokenizer           *tok;
    const struct model_config  *config;
    struct token_buf            ids, types;
    struct walk                 walk;
    struct row_counts           counts; // of the sources of own training rows; or zeros
    struct examples_new         out;
    uint32_t                   *length; // instead of out: of every `every`-th row that was checked
    uint64_t                    every;
    size_t                      max_seq;
    long                        pad;
    uint64_t                    rows; // so far
    struct watch                watch;
};

static int row_label(const struct task_file *e, const struct task_row *row, struct example *x,
                     struct err *err)
{
    *x = (struct example){ .label = -1 };
    return e->labels ? task_label(e->task, row, &x->label, &x->value, err) : 0;
}

int task_file_is_held(uint64_t hash, double split)
{
    return hash < text_split_below(split);
}

/* The label does not count: a text that is there twice is on one side, whatever it is called. */
static int is_held(const struct task_file *e, const struct task_row *row)
{
    const uint64_t parts[] = { hash_bytes(row->text1, strlen(row->text1)),
                               row->text2 ? hash_bytes(row->text2, strlen(row->text2)) : 1 };

    return task_file_is_held(hash_bytes(parts, sizeof parts), e->split);
}

static int walk_row(void *ctx, const struct task_row *row, struct err *err)
{
    struct walk                *w = ctx;
    const struct task_file *e = w->e;

    w->read++;
    if (e->own && e->split > 0) {
        int held = is_held(e, row);

        if (held != e->held || (held && e->most_held && w->held >= e->most_held))
            return 0;
        w->held++;
    }
    return w->row(w->ctx, row, err);
}

static int walk_all(struct walk *w, struct err *err)
{
    const struct task_file *e = w->e;
    int                         rc = 0;

    if (!e->own)
        return task_read_glue(e->path, e->labels ? &e->task->train : &e->task->test, e->most,
                              walk_row, w, err);
    for (size_t i = 0; i < e->own->n && !rc && (!e->most || w->read < e->most); i++) {
        struct task_names names = i && e->read.text ? e->read : e->asked;

        if (!e->labels)
            names.label = NULL;
        w->source = e->own->file[i].of;
        rc = task_read_own(e->own->item[i], &names, e->most ? e->most - w->read : 0, walk_row, w,
                           err);
    }
    return rc;
}

/* True if the field is not enclosed in double quotes. */
static int is_bare(const char *field)
{
    size_t n = field ? strlen(field) : 0;

    return n < 2 || field[0] != '"' || field[n - 1] != '"';
}

static int check_row(void *ctx, const struct task_row *row, struct err *err)
{
    struct task_file *e = ctx;
    struct example        x;
    int rc = e->rows || !row->names ? 0 : task_names_copy(&e->read, row->names, err);

    e->rows++;
    e->pairs |= row->text2 != NULL;
    e->words[0] |= !task_number(row->text1, NULL);
    e->words[1] |= row->text2 && !task_number(row->text2, NULL);
    if (e->rows <= QUOTED_ROWS) {
        e->bare[0] |= is_bare(row->text1);
        e->bare[1] |= is_bare(row->text2);
        e->bare[2] |= !e->labels || is_bare(row->label);
    }
    if (row->unread)
        snprintf(e->unread, sizeof e->unread, "%s", row->unread);
    rc = rc ? rc : row_label(e, row, &x, err);
    return rc ? rc : watch_look(&e->watch, e->rows, 0, err);
}

int task_file_check(struct task_file *e, const char *dir, const char *file, struct err *err)
{
    struct walk walk = { .e = e, .row = check_row, .ctx = e };

    if (e->own)
        text_list_title(e->path, sizeof e->path, e->own);
    else if (snprintf(e->path, sizeof e->path, "%s/%s", dir, file) >= (int)sizeof e->path)
        return err_misuse(err, "%s: the path is too long", file);
    e->watch = work_begin(e->events, "reading %s", e->path);
    int rc = walk_all(&walk, err);
    work_end(e->events);
    if (rc || e->rows)
        return rc;
    if (e->split > 0)
        return err_misuse(err, "--eval-split %g%% of the rows of %s leaves none to %s (equal "
                          "texts are on the same side): give another part, or --eval-file FILE",
                          100 * e->split, e->path,
                          e->held ? "evaluate on" : "train on");
    return err_misuse(err, "%s has no rows", e->path);
}

/* Warn about quotes in a .tsv file. GLUE's files have no quoting, so quotes are text there, but
 * many programs write quoted fields. */
static void quotes_notice(const struct task_file *e, char *out, size_t size)
{
    const char *first = e->own && e->own->n ? *e->own->item : e->path, *dot = strrchr(first, '.'),
               *what = !e->bare[0] ? "text" : !e->bare[1] ? "second text" : "label";

    if (dot && !strcasecmp(dot, ".tsv") && !(e->bare[0] && e->bare[1] && e->bare[2]))
        snprintf(out, size, "%.300s: every %s of the first rows begins and ends with a double "
                 "quote, which a .tsv file takes as text: if these quotes are not text, save the "
                 "file as .csv", e->path, what);
}

void task_file_notice(const struct task_file *e, int which, char *out, size_t size)
{
    const char *name = which == 1 ? e->read.pair : e->read.text;

    *out = '\0';
    if (which == 3)
        quotes_notice(e, out, size);
    else if (which == 2 && *e->unread)
        snprintf(out, size,
                 "%.300s: these columns of text are not read: %s; choose with --text-column and "
                 "--pair-column", e->path, e->unread);
    else if (which < 2 && name && !e->words[which])
        snprintf(out, size,
                 "%.300s: all values of the column '%.40s' are numbers, and it is read as %s: "
                 "choose other columns with --text-column and --pair-column",
                 e->path, name,
                 which          ? "the second text"
                 : e->read.pair ? "the first text"
                                : "the text");
}

/* Encode the token types in the ids, as they are stored: ~id means type 1. For models with types
 * only. */
static int add_types(struct encoding *w, struct err *err)
{
    const struct model_config *g = w->config;

    for (size_t i = 0; i < w->ids.n; i++) {
        int32_t type = w->types.ids[i];

        if (type > 1 || (size_t)type >= g->n_types)
            return err_misuse(err, "the tokenizer's template has tokens of type %d, but the model "
                              "has %zu types, of which the first two are known here", (int)type,
                              g->n_types);
        if (g->arch->padded_positions && (size_t)w->ids.ids[i] == g->pad)
            return err_misuse(err, "%s: row %llu holds the padding token, which would shift the "
                              "positions of the tokens after it in a %s: remove it from the row",
                              w->e->path, (unsigned long long)w->rows + 1, g->arch->title);
        if (type)
            w->ids.ids[i] = ~w->ids.ids[i];
    }
    return 0;
}

/* Check a row's n ids against the model's vocabulary. */
static int check_ids(const struct encoding *w, const int32_t *ids, size_t n, struct err *err)
{
    char where[PATH_MAX + 32];

    snprintf(where, sizeof where, "%s, row %" PRIu64, w->e->path, w->rows + 1);
    return tokenise_known(w->tok, &(struct tokenise_ids){ ids, n, w->config->vocab, where, 0 },
                          err);
}

/* The ids of a row for an encoder. Its template is required, because the row begins with a token
 * that represents it. */
static int encoder_ids(struct encoding *w, const struct token_row *text, struct err *err)
{
    int rc;

    w->types.n = 0;
    if (!tokenizer_has_template(w->tok))
        return err_misuse(err, "the tokenizer has no template (post_processor) that says which "
                          "tokens stand around a text: a %s needs them", w->config->arch->title);
    rc = tokenizer_encode_row(w->tok, text, &w->ids, &w->types, err);
    rc = rc ? rc : check_ids(w, w->ids.ids, w->ids.n, err);
    return rc ? rc : add_types(w, err);
}

/* The ids of a row, by the tokenizer's template. Without a template, an end-of-text token separates
 * the two texts. */
static int row_ids(struct encoding *w, const struct task_row *row, struct err *err)
{
    struct token_row text = { .a = row->text1, .n_a = strlen(row->text1), .b = row->text2,
                              .n_b = row->text2 ? strlen(row->text2) : 0, .most = w->max_seq };
    int32_t          end = tokenizer_endoftext(w->tok);

    w->ids.n = 0;
    if (w->config->arch->encoder)
        return encoder_ids(w, &text, err);
    if (tokenizer_has_template(w->tok))
        return tokenizer_encode_row(w->tok, &text, &w->ids, NULL, err);
    int rc = tokenizer_encode(w->tok, text.a, text.n_a, &w->ids, err);
    if (!rc && text.b) {
        rc = token_buf_add(&w->ids, &end, 1, err);
        rc = rc ? rc : tokenizer_encode(w->tok, text.b, text.n_b, &w->ids, err);
    }
    return rc;
}

static int encode_row(void *ctx, const struct task_row *row, struct err *err)
{
    struct encoding *w = ctx;
    struct example   x;
    size_t           n, from;
    int              rc;

    // the file may have grown since it was checked
    if (w->every && (w->rows % w->every || w->rows >= w->e->rows))
        return watch_look(&w->watch, ++w->rows, w->e->rows, err);
    rc = row_label(w->e, row, &x, err);
    rc = rc ? rc : row_ids(w, row, err);
    // truncate, then remove padding at the end; at least one id stays
    n = size_min(w->ids.n, w->max_seq);
    from = tokenizer_cuts_left(w->tok) ? w->ids.n - n : 0;
    while (n > 1 && w->ids.ids[from + n - 1] == w->pad)
        n--;
    if (!rc && !w->config->arch->encoder)
        rc = check_ids(w, w->ids.ids + from, n, err);
    if (!rc && w->length)
        *w->length++ = (uint32_t)n;
    else
        rc = rc ? rc : examples_new_add(&w->out, w->ids.ids + from, n, &x, err);
    if (w->counts.of) {
        w->counts.of[w->walk.source].rows++;
        w->counts.of[w->walk.source].tokens += n;
    }
    return rc ? rc : watch_look(&w->watch, ++w->rows, w->e->rows, err);
}

static int encode_rows(struct encoding *w, struct err *err)
{
    w->watch = work_begin(w->e->events, "tokenising %s", w->e->path);
    w->walk = (struct walk){ .e = w->e, .row = encode_row, .ctx = w };
    int rc = walk_all(&w->walk, err);

    work_end(w->e->events);
    token_buf_free(&w->ids);
    token_buf_free(&w->types);
    return rc;
}

int task_file_lengths(uint32_t *n, uint64_t every, const struct task_file *e,
                      struct tokenizer *tok, const struct model_config *config, size_t max_seq,
                      struct err *err)
{
    struct encoding w = { .e = e, .tok = tok, .config = config, .max_seq = max_seq,
                          .pad = LONG_MIN, .length = n, .every = every };

    return encode_rows(&w, err);
}

static int encode(struct examples **out, struct encoding *w, const char *path, struct err *err)
{
    int rc = examples_new_open(&w->out, path, err);

    *out = NULL;
    if (rc)
        return rc;
    rc = encode_rows(w, err);
    if (!rc)
        rc = examples_new_commit(&w->out, err);
    else
        examples_new_abort(&w->out);
    return rc ? rc : examples_open(out, path, err);
}

int task_file_encode(struct examples **out, const struct task_file *e, struct tokenizer *tok,
                     const struct model_config *config, size_t max_seq, long pad, const char *path,
                     struct err *err)
{
    struct encoding w = { .e = e, .tok = tok, .config = config, .max_seq = max_seq,
                          .pad = config->arch->encoder ? LONG_MIN : pad };

    return encode(out, &w, path, err);
}

/* ---- stored settings ---- */

static int add_file(struct session *s, const struct task_file *e, struct tokenizer *tok,
                    struct err *err)
{
    struct encoding  w = { .e = e, .tok = tok, .config = &s->config, .max_seq = s->o.seq,
                           .pad = s->config.arch->encoder
                                      ? LONG_MIN : session_pad(s, tokenizer_endoftext(tok)) };
    struct examples *made = NULL;
    char             path[SESSION_PATH + 32];
    int              rc = 0;

    snprintf(path, sizeof path, "%s/%s.ex", s->dir, e->name);
    if (e->own && !strcmp(e->name, RUN_TRAIN))
        rc = row_counts_open(&w.counts, e->own, err);
    rc = rc ? rc : encode(&made, &w, path, err);
    rc = rc ? rc
            : settings_set(s->log, err, "%s.sum=%08" PRIx32 "\n%s.rows=%" PRIu64, e->name,
                           made->h.crc, e->name, e->rows);
    examples_close(made);
    if (!rc && w.counts.of)
        rc = row_sources_store(s, &w.counts, e->own, e->mix, err);
    row_counts_close(&w.counts);
    return rc ? rc : settings_set(s->log, err, "%s.file=%s", e->name, e->path);
}

int task_files_add(struct session *s, const struct task_file *e, size_t n, uint64_t epochs,
                   struct tokenizer *tok, struct err *err)
{
    const struct task_names *c = &e->read;
    int rc = settings_set(s->log, err, "task=%s\nepochs=%" PRIu64, e->task->name, epochs);

    if (!rc && c->text)
        rc = settings_set(s->log, err, "column.text=%s", c->text);
    if (!rc && c->pair)
        rc = settings_set(s->log, err, "column.pair=%s", c->pair);
    if (!rc && c->label)
        rc = settings_set(s->log, err, "column.label=%s", c->label);
    for (size_t i = 0; i < n && !rc; i++)
        rc = add_file(s, &e[i], tok, err);
    return rc;
}

void task_files_columns(struct task_names *out, const struct session *s)
{
    *out = (struct task_names){ .text = settings_get(s->log, "column.text"),
                                .pair = settings_get(s->log, "column.pair"),
                                .label = settings_get(s->log, "column.label") };
}

int task_labels_load(struct task_labels *l, struct session *s, struct err *err)
{
    char              *name = settings_get(s->log, "task");
    const struct task *known = name ? task_find(name) : NULL;
    int                rc = 0;

    *l = (struct task_labels){ 0 };
    if (known) {
        l->task = *known;
    } else if (s->rows != SESSION_WHOLE) { // conversations: no labels, and no metric but the loss
        const char *word = s->rows == SESSION_PAIRS ? TUNE_DPO : TUNE_CHAT;

        l->task = (struct task){ .name = word, .title = word };
    } else if (name && !strcmp(name, "custom")) { // its labels are the run's class names
        rc = session_labels(&l->labels, s, err);
        l->task = task_custom((const char *const *)l->labels.name, s->config.n_labels);
    } else {
        rc = err_set(err, -EBADMSG, "%s/run.db has the task %s, which is not known", s->dir,
                     name ? name : "of no name");
    }
    if (!rc && l->task.n_labels != s->config.n_labels)
        rc = err_set(err, -EBADMSG, "%s: the task %s has %zu labels, the model %zu", s->dir,
                     l->task.name, l->task.n_labels, s->config.n_labels);
    free(name);
    return rc;
}

void task_labels_release(struct task_labels *l)
{
    hf_labels_free(&l->labels);
    *l = (struct task_labels){ 0 };
}

int task_files_open(struct examples **out, struct session *s, const char *name, struct err *err)
{
    const struct model_config *config = &s->config;
    char                     path[SESSION_PATH + 32];
    uint32_t                 sum;

    *out = NULL;
    snprintf(path, sizeof path, "%s/%s.ex", session_data_dir(s), name);
    if (!settings_scan(s->log, "%" SCNx32, &sum, "%s.sum", name))
        return 0;
    int rc = examples_open(out, path, err);
    if (!rc && (*out)->h.crc != sum)
        rc = err_set(err, -EBADMSG, "%s is not what this run was made with (checksum differs)",
                     path);
    if (!rc && ((size_t)(*out)->h.max_id >= config->vocab ||
                (config->n_labels > 1 && (*out)->h.max_label >= (int32_t)config->n_labels)))
        rc = err_set(err, -EBADMSG, "%s holds ids or labels that the model does not have", path);
    if (rc) {
        examples_close(*out);
        *out = NULL;
    }
    return rc;
}

uint64_t task_files_rows(struct session *s, const char *name)
{
    uint64_t n = 0;

    settings_scan(s->log, "%" SCNu64, &n, "%s.rows", name);
    return n;
}

uint64_t task_files_epoch_steps(uint64_t rows, const struct train_opts *o)
{
    return div_up(rows, o->batch * o->grad_accum);
}
