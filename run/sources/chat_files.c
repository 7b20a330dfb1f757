/* chat_files.c: encodes conversations, block by block. All threads encode the rows of a block, each
 * with a tokenizer of its own, while one of them reads the next block; then the block is written in
 * order. Memory is that of two blocks and of the tokenizers, whatever the files' size. The ids do
 * not depend on the number of threads. */
#include "run/sources/chat_files.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "data/base/visible.h"
#include "data/task/examples.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/sources/chat_source.h"
#include "run/sources/labelled.h"
#include "run/sources/tokenise.h"

#include <omp.h>

/* BLOCK_ROWS, BLOCK_TEXT: a block's rows, and bytes of text in them. KEPT_IDS: a row's memory for
 * so many ids is used again. THREADS: the most, since each has a tokenizer; together these have
 * TOKENIZERS bytes. */
enum { BLOCK_ROWS = 512, BLOCK_TEXT = 4 << 20, KEPT_IDS = 1 << 14, THREADS = 64,
       TOKENIZERS = 192 << 20, SHOWN = 240 };

/* A row that is encoded takes up to ROW_TIMES its bytes (a tokenizer of single bytes: 62). Rows of
 * more than LARGE bytes are encoded one at a time. With --host-mem both are bounded by what it
 * leaves, and so is the memory of a template; a row of LEAST bytes is always tried. */
enum { ROW_TIMES = 80, LARGE = 1 << 20, LEAST = 64 << 10, TEMPLATE = 256 << 20 };

/* A row that is kept until its block is encoded. */
struct held {
    struct chat_row row;
    size_t          bytes, tokens; // about how large it is; of all of it, ids has those kept
    struct chat_ids ids;
    int             rc;
    struct err      err;
};

/* end: no row follows; rc: because reading failed behind its rows. */
struct block {
    struct held row[BLOCK_ROWS];
    size_t      n;
    uint64_t    done, total; // how far the file is read
    int         end, rc;
    struct err  err;
};

/* What was made of the rows of a file, or of all files of a set. */
struct tally {
    uint64_t rows, kept, tokens, counted, cut, dropped;
    uint64_t bare, behind; // no token counts; behind: those that count were cut off
};

struct encoder {
    struct session          *s;
    const struct chat_files *f;
    struct tokenizer        *tok[THREADS]; // the first one is borrowed
    int                      threads;
    struct block             block[2];
    struct examples_new      out;
    struct tally             file, set;
    uint64_t                 left; // rows of the set that may be read
    char                     first[SHOWN + 1]; // of the file's first row
    int32_t                 *stored;           // (cap)
    size_t                   cap;
    size_t row_most, large, memory[2]; // of a row; of a template, if the row is large
};

/* ---- rows that are kept ---- */

static size_t text_bytes(const json_t *v)
{
    const char *key;
    json_t     *member;
    size_t      n = json_is_string(v) ? json_string_length(v) : 0;

    for (size_t i = 0; i < json_array_size(v); i++)
        n += text_bytes(json_array_get(v, i));
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
        n += text_bytes(member);
    return n + 64;
}

static void held_free(struct held *h)
{
    json_decref(h->row.turns.messages);
    json_decref(h->row.tools);
    json_decref((json_t *)(uintptr_t)h->row.variables);
    free(h->row.turns.counts);
    free((char *)(uintptr_t)h->row.prompt);
    free((char *)(uintptr_t)h->row.completion);
    h->row = (struct chat_row){ 0 };
    if (h->ids.ids.cap > KEPT_IDS)
        chat_ids_free(&h->ids);
}

/* Copies a row, whose JSON is the reader's no longer. */
static int held_set(struct held *h, const struct chat_row *row, struct err *err)
{
    size_t n = json_array_size(row->turns.messages);
    int    ok;

    h->row = (struct chat_row){ .path = row->path, .line = row->line, .form = row->form,
                                .has_turns = row->has_turns, .tools = json_incref(row->tools),
                                .variables = json_incref((json_t *)(uintptr_t)row->variables) };
    if (row->has_turns) {
        h->row.turns.messages = json_incref(row->turns.messages);
        h->row.turns.counts = malloc((n + 1) * sizeof *h->row.turns.counts);
        ok = h->row.turns.counts != NULL;
        if (ok)
            memcpy(h->row.turns.counts, row->turns.counts, n * sizeof *h->row.turns.counts);
        h->bytes = text_bytes(row->turns.messages) + text_bytes(row->tools);
    } else {
        h->row.prompt = strdup(row->prompt);
        h->row.completion = strdup(row->completion);
        ok = h->row.prompt && h->row.completion;
        h->bytes = ok ? strlen(row->prompt) + strlen(row->completion) : 0;
    }
    return ok ? 0 : err_set(err, -ENOMEM, "%s: out of memory for a row", row->path);
}

/* ---- encoding ---- */

/* Encodes a row, and keeps as many ids as a row of the run may have. */
static void encode_cut(const struct encoder *e, const struct chat_encoding *how, struct held *h)
{
    size_t most = e->s->o.seq;

    h->rc = chat_encode(how, &h->row, &h->ids, NULL, &h->err);
    h->tokens = h->ids.ids.n;
    if (h->rc || h->tokens <= most || h->ids.ids.cap <= KEPT_IDS)
        return;
    int32_t       *ids = realloc(h->ids.ids.ids, most * sizeof *ids);
    unsigned char *counts = realloc(h->ids.counts, most);

    h->ids.ids.ids = ids ? ids : h->ids.ids.ids;
    h->ids.counts = counts ? counts : h->ids.counts;
    h->ids.ids.cap = ids ? most : h->ids.ids.cap;
    h->ids.counts_cap = counts ? most : h->ids.counts_cap;
    h->ids.ids.n = most;
}

static void encode_held(const struct encoder *e, struct tokenizer *tok, struct held *h)
{
    struct chat_encoding how = { .tok = tok, .chat = e->f->chat,
                                 .loss = (enum chat_loss)e->f->o->loss_on,
                                 .special_in_text = e->f->o->special_in_text, .now = e->f->now,
                                 .memory = e->memory[h->bytes > e->large] };

    if (h->bytes <= e->large) {
        encode_cut(e, &how, h);
        return;
    }
#pragma omp critical(large_row)
    encode_cut(e, &how, h);
}

/* Bytes that a row may have. */
static size_t row_most(const struct chat_files *f)
{
    uint64_t used = rss_now(), left = f->host_mem > used ? f->host_mem - used : 0;

    return f->host_mem ? size_max(LEAST, left / ROW_TIMES) : SIZE_MAX;
}

static int rows_open(struct chat_rows **r, const struct chat_files *f, const char *path,
                     size_t most, struct err *err)
{
    int rc = chat_rows_open(r, path, (enum chat_form)f->o->rows, &f->names, err);

    if (!rc)
        chat_rows_limit(*r, most, ", which take more memory than --host-mem leaves: give more, or "
                        "leave the row out");
    return rc;
}

/* What may be used while rows are encoded. The tokenizers are open. */
static void memory_share(struct encoder *e)
{
    size_t most = row_most(e->f), all = most == SIZE_MAX ? most : most * ROW_TIMES;

    e->row_most = most;
    e->large = size_min(LARGE, most / (size_t)e->threads);
    e->memory[0] = size_min(TEMPLATE, all / (size_t)e->threads);
    e->memory[1] = size_min(TEMPLATE, all);
}

/* The beginning of a row as text, for who has to see why nothing in it counts. */
static void show_first(struct encoder *e, const struct chat_ids *ids)
{
    struct token_text t = { 0 };
    struct err        why;

    for (size_t i = 0; i < ids->ids.n && t.n < SHOWN; i++)
        if (tokenizer_text_add(e->tok[0], &t, ids->ids.ids[i], 0, &why))
            break;
    if (!tokenizer_text_end(e->tok[0], &t, &why))
        visible_text(e->first, sizeof e->first, t.text ? t.text : "", t.n, "");
    token_text_free(&t);
}

/* The ids as they are stored. The first one is no target. Returns how many of them count. */
static int32_t mark(int32_t *out, const struct chat_ids *ids, size_t n)
{
    int32_t counted = 0;

    for (size_t i = 0; i < n; i++) {
        int counts = i > 0 && ids->counts[i];

        out[i] = counts ? ids->ids.ids[i] : ~ids->ids.ids[i];
        counted += counts;
    }
    return counted;
}

static int refuse_long(const struct held *h, size_t most, struct err *err)
{
    return err_misuse(err, "%s:%zu: the row has %zu tokens, more than --max-seq %zu: give a "
                      "larger --max-seq, or --long-rows cut or drop", h->row.path, h->row.line,
                      h->tokens, most);
}

/* Writes an encoded row, as far as it is trained on. */
static int write_row(struct encoder *e, const struct held *h, struct err *err)
{
    size_t         most = e->s->o.seq, n = size_min(h->ids.ids.n, most);
    int            how = e->f->o->long_rows, is_long = h->tokens > most, rc;
    struct example x = { 0 };
    char           where[SESSION_PATH];

    if (e->file.rows++ == 0)
        show_first(e, &h->ids);
    snprintf(where, sizeof where, "%.3900s:%zu", h->row.path, h->row.line);
    rc = tokenise_known(e->tok[0], &(struct tokenise_ids){ h->ids.ids.ids, n,
                                                           e->s->config.vocab, where, 0 }, err);
    if (!rc && is_long && how == CHAT_LONG_REFUSE)
        rc = refuse_long(h, most, err);
    if (rc)
        return rc;
    if (is_long && how == CHAT_LONG_DROP) {
        e->file.dropped++;
        return 0;
    }
    x.label = mark(e->stored, &h->ids, n);
    if (!x.label) {
        e->file.bare++;
        e->file.behind += h->ids.counted > 0 && is_long;
        return 0;
    }
    e->file.cut += (uint64_t)is_long;
    e->file.kept++;
    e->file.tokens += n - 1;
    e->file.counted += (uint64_t)x.label;
    return examples_new_add(&e->out, e->stored, n, &x, err);
}

/* Writes a block in order. Of several rows that cannot be encoded, the first one counts. */
static int write_block(struct encoder *e, struct block *b, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < b->n; i++) {
        struct held *h = &b->row[i];

        if (!rc && h->rc) {
            rc = h->rc;
            *err = h->err;
        }
        rc = rc ? rc : write_row(e, h, err);
        held_free(h);
    }
    b->n = 0;
    if (!rc && b->rc) {
        rc = b->rc;
        *err = b->err;
    }
    return rc;
}

/* ---- files ---- */

static int refuse_row(const struct chat_files *f, const struct chat_row *row, struct err *err)
{
    if (row->form == CHAT_FORM_PREFERENCE)
        return err_misuse(err, "%s:%zu: a row with chosen and rejected is a preference, and "
                          "--task chat trains on conversations", row->path, row->line);
    if (row->has_turns && !f->chat)
        return err_misuse(err, "%s:%zu: the row has messages, and the model's folder has no "
                          "chat template for them: give --chat-template FILE", row->path,
                          row->line);
    return 0;
}

static int refuse_bare(const struct encoder *e, const char *path, struct err *err)
{
    const struct tally *t = &e->file;

    if (t->dropped == t->rows)
        return err_misuse(err, "%s: all %" PRIu64 " rows have more tokens than --max-seq %" PRIu64
                          ", and --long-rows drop leaves them out", path, t->rows, e->s->o.seq);
    if (t->behind)
        return err_misuse(err, "%s: no token that counts in the loss lies within --max-seq %" PRIu64
                          ": they stand behind it in %" PRIu64 " of its %" PRIu64 " row%s; give a "
                          "larger --max-seq", path, e->s->o.seq, t->behind, t->rows,
                          t->rows == 1 ? "" : "s");
    return err_misuse(err, "%s: no token of its %" PRIu64 " row%s counts in the loss%s: see "
                      "--loss-on; the first row is \"%s%s\"", path, t->rows,
                      t->rows == 1 ? "" : "s",
                      t->dropped ? ", but for rows that --long-rows drop leaves out" : "", e->first,
                      strlen(e->first) + 8 > SHOWN ? "..." : "");
}

/* A JSON value of a row is counted as used by several threads at once, which jansson allows. */
static void read_block(struct encoder *e, struct chat_rows *r, struct block *b)
{
    const struct chat_row *row;
    size_t                 bytes = 0;
    int                    got = 0, rc = 0;

    while (b->n < BLOCK_ROWS && bytes < BLOCK_TEXT && e->left && !rc &&
           (got = chat_rows_next(r, &row, &b->err)) > 0) {
        rc = refuse_row(e->f, row, &b->err);
        rc = rc ? rc : held_set(&b->row[b->n], row, &b->err);
        if (rc) {
            held_free(&b->row[b->n]);
            break;
        }
        bytes += b->row[b->n++].bytes;
        e->left--;
    }
    b->rc = rc ? rc : got < 0 ? got : 0;
    b->end = b->rc || !e->left || got == 0;
    chat_rows_progress(r, &b->done, &b->total);
}

/* Encodes a block, and meanwhile reads the next one, unless this is the last. */
static void encode_block(struct encoder *e, struct chat_rows *r, struct block *b,
                         struct block *next)
{
#pragma omp parallel num_threads(e->threads)
    {
#pragma omp single nowait
        if (!b->end)
            read_block(e, r, next);
#pragma omp for schedule(dynamic, 4)
        for (size_t i = 0; i < b->n; i++)
            encode_held(e, e->tok[omp_get_thread_num()], &b->row[i]);
    }
}

/* Adds a file's rows. */
static int read_file(struct encoder *e, struct chat_rows *r, struct watch *w, struct err *err)
{
    struct block *b = &e->block[0], *next = &e->block[1], *swap;
    int           rc = 0, end = 0;

    for (read_block(e, r, b); !rc && !end; swap = b, b = next, next = swap) {
        encode_block(e, r, b, next);
        end = b->end;
        rc = write_block(e, b, err);
        rc = rc ? rc : watch_look(w, b->done, b->total, err);
    }
    for (size_t k = 0; k < 2; k++) // after an error
        for (size_t i = 0; i < e->block[k].n; i++)
            held_free(&e->block[k].row[i]);
    e->block[0].n = e->block[1].n = 0;
    return rc;
}

static void tally_add(struct tally *to, const struct tally *t)
{
    to->rows += t->rows;
    to->kept += t->kept;
    to->tokens += t->tokens;
    to->counted += t->counted;
    to->cut += t->cut;
    to->dropped += t->dropped;
    to->bare += t->bare;
    to->behind += t->behind;
}

/* What a file was taken for. */
static void say_file(const struct encoder *e, const char *path, enum chat_form form)
{
    const struct tally *t = &e->file;

    if (!e->s->o.quiet && !e->s->ranks.rank)
        events_notice(e->s->events, "%.300s: %" PRIu64 " row%s of the form %s, %" PRIu64
                      " tokens, of which %" PRIu64 " count in the loss", path, t->kept,
                      t->kept == 1 ? "" : "s", chat_form_name(form), t->tokens, t->counted);
}

static int add_file(struct encoder *e, const char *path, struct err *err)
{
    struct chat_rows *r = NULL;
    enum chat_form    form = CHAT_FORM_FOUND;
    struct watch      w = work_begin(e->s->events, "tokenising %s", path);
    int               rc = rows_open(&r, e->f, path, e->row_most, err);

    e->file = (struct tally){ 0 };
    rc = rc ? rc : read_file(e, r, &w, err);
    if (!rc)
        form = chat_rows_form(r);
    chat_rows_close(r);
    work_end(e->s->events);
    if (!rc && !e->file.rows)
        rc = err_misuse(err, "%s has no rows", path);
    if (!rc && !e->file.kept)
        rc = refuse_bare(e, path, err);
    if (rc)
        return rc;
    tally_add(&e->set, &e->file);
    say_file(e, path, form);
    return e->s->log && !settings_has(e->s->log, "chat.form")
               ? settings_set(e->s->log, err, "chat.form=%s", chat_form_name(form))
               : 0;
}

static int notice_left_out(struct encoder *e, const char *name, struct err *err)
{
    const struct tally *t = &e->set;
    const char         *what = strcmp(name, RUN_TRAIN) ? "evaluation" : "training";
    char                text[320];
    int                 rc = 0;

    if (t->cut) {
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " %s rows have more than --max-seq %"
                 PRIu64 " tokens and are cut off there", t->cut, t->rows, what, e->s->o.seq);
        rc = session_notice(e->s, text, err);
    }
    if (!rc && t->dropped) {
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " %s rows have more than --max-seq %"
                 PRIu64 " tokens and are left out", t->dropped, t->rows, what, e->s->o.seq);
        rc = session_notice(e->s, text, err);
    }
    if (!rc && t->bare) {
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " %s rows have no token%s that "
                 "counts in the loss and are left out", t->bare, t->rows, what,
                 t->behind ? " within --max-seq" : "");
        rc = session_notice(e->s, text, err);
    }
    return rc;
}

/* Stores the set, its rows and where they came from. */
static int store_set(struct encoder *e, const char *name, const struct opt_strings *files,
                     struct err *err)
{
    struct examples *made = NULL;
    char             path[SESSION_PATH + 32], *paths = NULL;
    size_t           size;
    FILE            *f = open_memstream(&paths, &size);

    snprintf(path, sizeof path, "%s/%s.ex", e->s->dir, name);
    for (size_t i = 0; i < files->n && f; i++)
        fprintf(f, "%s%s", i ? "\n" : "", files->item[i]);
    int rc = f && !fclose(f) ? examples_open(&made, path, err)
                             : err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = rc ? rc
            : settings_set(e->s->log, err, "%s.sum=%08" PRIx32 "\n%s.rows=%" PRIu64
                           "\n%s.tokens=%" PRIu64 "\n%s.counted=%" PRIu64, name, made->h.crc, name,
                           e->set.kept, name, e->set.tokens, name, e->set.counted);
    rc = rc ? rc : settings_set(e->s->log, err, "%s.file=%s", name, paths);
    rc = rc ? rc : notice_left_out(e, name, err);
    examples_close(made);
    free(paths);
    return rc;
}

static int add_set(struct encoder *e, const char *name, const struct opt_strings *files,
                   uint64_t most, struct err *err)
{
    char path[SESSION_PATH + 32];
    int  rc;

    if (!files->n)
        return 0;
    snprintf(path, sizeof path, "%s/%s.ex", e->s->dir, name);
    if ((rc = examples_new_open(&e->out, path, err)))
        return rc;
    examples_new_marks(&e->out);
    e->set = (struct tally){ 0 };
    e->left = most ? most : UINT64_MAX;
    for (size_t i = 0; i < files->n && !rc && e->left; i++)
        rc = add_file(e, files->item[i], err);
    if (!rc)
        rc = examples_new_commit(&e->out, err);
    else
        examples_new_abort(&e->out);
    return rc ? rc : store_set(e, name, files, err);
}

/* ---- the run ---- */

int chat_files_check(const struct chat_files *f, struct err *err)
{
    const struct opt_strings *sets[] = { &f->train, &f->eval };
    const struct chat_row    *row;
    int                       rc = 0;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sets[k]->n && !rc; i++) {
            struct chat_rows *r = NULL;
            int               got = 0;

            rc = rows_open(&r, f, sets[k]->item[i], row_most(f), err);
            if (!rc && (got = chat_rows_next(r, &row, err)) < 0)
                rc = got;
            if (!rc && got == 0)
                rc = err_misuse(err, "%s has no rows", sets[k]->item[i]);
            rc = rc ? rc : refuse_row(f, row, err);
            chat_rows_close(r);
        }
    return rc;
}

/* What the number of rows decides: how many steps the epochs are. */
static int set_steps(struct session *s, const struct chat_files *f, struct err *err)
{
    struct train_opts *o = &s->o;
    uint64_t           rows, each;
    int                rc = chat_source_count(&rows, s, RUN_TRAIN, err);

    if (!rc && s->rows == SESSION_PACKED)
        rc = settings_set(s->log, err, RUN_TRAIN ".packed=%" PRIu64, rows);
    if (rc)
        return rc;
    each = labelled_epoch_steps(rows, o);
    o->steps = o->steps ? o->steps : f->epochs * each;
    o->schedule_steps = o->schedule_steps ? o->schedule_steps : o->steps;
    if (f->evaluates_epochs)
        o->eval_every = each;
    rc = train_opts_check(o, err);
    return rc ? rc
              : settings_set(s->log, err, "task=" TUNE_CHAT "\nepochs=%" PRIu64,
                             (uint64_t)div_up(o->steps, each));
}

static int encoder_open(struct encoder **out, struct session *s, const struct chat_files *f,
                        struct tokenizer *tok, struct err *err)
{
    struct encoder *e = *out = calloc(1, sizeof *e);
    char            dir[SESSION_PATH + 16];
    int             rc = 0;

    if (!e || !(e->stored = malloc(s->o.seq * sizeof *e->stored)))
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    e->s = s;
    e->f = f;
    e->tok[0] = tok;
    e->threads = 1;
    for (uint64_t i = 1, before = rss_now(), one = 0; i < s->o.threads && i < THREADS && !rc; i++) {
        if (i * one > TOKENIZERS)
            break;
        if (!(rc = tokenizer_open(&e->tok[i], dir, err)))
            e->threads++;
        one = rss_now() > before ? (rss_now() - before) / i : 0;
    }
    memory_share(e);
    return rc;
}

static void encoder_close(struct encoder *e)
{
    if (!e)
        return;
    for (int i = 1; i < e->threads; i++)
        tokenizer_close(e->tok[i]);
    for (size_t i = 0; i < BLOCK_ROWS; i++) {
        chat_ids_free(&e->block[0].row[i].ids);
        chat_ids_free(&e->block[1].row[i].ids);
    }
    free(e->stored);
    free(e);
}

int chat_files_add(struct session *s, const struct chat_files *f, struct tokenizer *tok,
                   struct err *err)
{
    struct encoder *e = NULL;
    int             rc = runlog_new_rows(s->log, err);

    rc = rc ? rc : encoder_open(&e, s, f, tok, err);
    rc = rc ? rc : add_set(e, RUN_TRAIN, &f->train, f->most_train, err);
    rc = rc ? rc : add_set(e, run_dev[0], &f->eval, f->most_eval, err);
    encoder_close(e);
    if (!rc && f->o->packing)
        rc = settings_set(s->log, err, "chat.packing=1");
    if (!rc && f->o->by_length)
        rc = settings_set(s->log, err, "chat.by_length=1");
    rc = rc ? rc : set_steps(s, f, err);
    return rc ? rc : session_store_options(s, 0, err);
}
