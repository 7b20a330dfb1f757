/* chat_files.c: encodes conversations, block by block. All threads encode the rows of a block, each
 * with a tokenizer of its own, while one of them reads the next block; then the block is written in
 * order. Memory is that of two blocks and of the tokenizers, whatever the files' size. The ids do
 * not depend on the number of threads. */
#include "run/sources/chat_files.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "data/base/visible.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/sources/chat_answer.h"
#include "run/sources/chat_held.h"
#include "run/sources/chat_source.h"
#include "run/sources/chat_tally.h"
#include "run/sources/task_files.h"
#include "run/sources/row_sources.h"

#include <omp.h>

/* BLOCK_ROWS, BLOCK_TEXT: a block's rows, and bytes of text in them. THREADS: the most, since
 * each has a tokenizer; together these have TOKENIZERS bytes. */
enum { BLOCK_ROWS = 512, BLOCK_TEXT = 4 << 20, THREADS = 64, TOKENIZERS = 192 << 20 };

/* end: no row follows; rc: because reading failed behind its rows. */
struct block {
    struct chat_held row[BLOCK_ROWS];
    size_t           n;
    uint64_t         done, total; // how far the file is read
    int              end, rc;
    struct err       err;
};

/* What rows are written to: RUN/NAME.ex. */
struct chat_set {
    const char         *name;
    struct examples_new out;
    struct chat_tally   all, file; // of all its rows, and of those of the file that is read
};

/* set: the second one gets a part of the rows (chat_files.split). */
struct encoder {
    struct session          *s;
    const struct chat_files *f;
    struct tokenizer        *tok[THREADS]; // the first one is borrowed
    int                      threads;
    struct block             block[2];
    struct chat_set          set[2];
    size_t                   sets;
    struct chat_ends         ends;
    struct chat_storing      storing;
    struct row_counts        counts;  // of the sources of training rows
    size_t                   source;  // that is read
    uint64_t                 left; // rows of the files that may be read
    char                     first[CHAT_SHOWN + 1]; // of the file's first row
    int32_t                 *stored[2];        // (seq)
    struct chat_bounds       bounds;
};

/* ---- encoding ---- */

struct chat_encoding chat_files_encoding(const struct chat_files *f, struct tokenizer *tok)
{
    return (struct chat_encoding){ .tok = tok, .chat = f->chat,
                                   .loss = (enum chat_loss)f->o->loss_on,
                                   .special_in_text = f->o->special_in_text, .now = f->now };
}

static struct chat_encoding encoding_of(const struct encoder *e, struct tokenizer *tok)
{
    struct chat_encoding how = chat_files_encoding(e->f, tok);

    how.memory = e->bounds.memory[0];
    return how;
}

int chat_files_rows(struct chat_rows **r, const struct chat_files *f, const char *path,
                    size_t most, struct err *err)
{
    int rc = chat_rows_open(r, path, (enum chat_form)f->o->rows, &f->names, err);

    if (!rc)
        chat_rows_limit(*r, most, ", which take more memory than --host-mem leaves: give more, or "
                        "leave the row out");
    return rc;
}

/* The beginning of a row as text, for who has to see why nothing in it counts. */
static void show_first(struct encoder *e, const struct chat_ids *ids)
{
    struct token_text t = { 0 };
    struct err        why;

    for (size_t i = 0; i < ids->ids.n && t.n < CHAT_SHOWN; i++)
        if (tokenizer_text_add(e->tok[0], &t, ids->ids.ids[i], 0, &why))
            break;
    if (!tokenizer_text_end(e->tok[0], &t, &why))
        visible_text(e->first, sizeof e->first, t.text ? t.text : "", t.n);
    token_text_free(&t);
}

/* Writes an encoded row, as far as it is trained on: an example, or one for each answer. */
static int write_row(struct encoder *e, const struct chat_held *h, struct err *err)
{
    size_t         n = e->f->pairs ? 2 : 1;
    struct chat_answer  a[2] = { { &h->ids[0], h->tokens[0], .stored = e->stored[0] },
                            { &h->ids[1], h->tokens[1], .stored = e->stored[1] } };
    struct chat_set   *to = &e->set[e->sets > 1 &&
                                    task_file_is_held(chat_held_hash(h), e->f->split)];
    struct chat_tally *t = &to->file;
    struct row_count  *counts = to == e->set && e->counts.of ? &e->counts.of[e->source] : NULL;
    struct example x = { 0 };
    int            is_long = 0, behind, rc = 0;

    if (to != e->set && e->f->most_eval && to->all.kept + t->kept >= e->f->most_eval)
        return 0;
    if (e->set[0].file.rows + e->set[1].file.rows == 0)
        show_first(e, &h->ids[0]);
    t->rows++;
    for (size_t k = 0; k < n && !rc; k++) {
        rc = chat_answer_make(&a[k], h, &e->storing, err);
        is_long |= a[k].tokens > a[k].n;
    }
    if (!rc && n == 2 && h->same)
        rc = err_misuse(err, "%s:%zu: the chosen and the rejected answer are the same",
                        h->row.path, h->row.line);
    if (rc)
        return rc;
    if (is_long && e->f->o->long_rows == CHAT_LONG_DROP) {
        t->dropped++;
        return 0;
    }
    t->cut += (uint64_t)is_long;
    if (chat_answer_bare(a, n, &behind)) {
        t->bare++;
        t->behind += (uint64_t)behind;
        return 0;
    }
    t->kept++;
    t->ended += (uint64_t)a[0].ended;
    t->turns += (uint64_t)h->row.has_turns;
    if (counts)
        counts->rows++;
    for (size_t k = 0; k < n && !rc; k++) {
        if (counts)
            counts->tokens += a[k].n - 1;
        t->tokens += a[k].n - 1;
        t->counted += (uint64_t)a[k].counted;
        x.label = a[k].counted;
        chat_tally_signs(t, a[k].ids);
        rc = examples_new_add(&to->out, a[k].stored, a[k].n, &x, err);
    }
    return rc;
}

/* Writes a block in order. Of several rows that cannot be encoded, the first one counts. */
static int write_block(struct encoder *e, struct block *b, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < b->n; i++) {
        struct chat_held *h = &b->row[i];

        if (!rc && h->rc) {
            rc = h->rc;
            *err = h->err;
        }
        rc = rc ? rc : write_row(e, h, err);
        chat_held_clear(h);
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
    if (row->form == CHAT_FORM_PREFERENCE && !f->pairs)
        return err_misuse(err, "%s:%zu: a row with chosen and rejected is a preference, and "
                          "--task chat trains on conversations: give --task dpo", row->path,
                          row->line);
    if (row->form != CHAT_FORM_PREFERENCE && f->pairs)
        return err_misuse(err, "%s:%zu: the row is of the form %s, and --task dpo needs a chosen "
                          "and a rejected answer in each row", row->path, row->line,
                          chat_form_name(row->form));
    if (row->has_turns && !f->chat)
        return err_misuse(err, "%s:%zu: the row is a conversation, and the model's folder has no "
                          "chat template for it: give --chat-template FILE (examples/chat.sh "
                          "writes one)", row->path, row->line);
    return 0;
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
        rc = rc ? rc : chat_held_set(&b->row[b->n], row, &b->err);
        if (rc) {
            chat_held_clear(&b->row[b->n]);
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
        for (size_t i = 0; i < b->n; i++) {
            struct chat_encoding how = encoding_of(e, e->tok[omp_get_thread_num()]);

            chat_held_encode(&b->row[i], &how, &e->bounds, e->s->o.seq);
        }
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
            chat_held_clear(&e->block[k].row[i]);
    e->block[0].n = e->block[1].n = 0;
    return rc;
}

/* What a file was taken for. */
static void say_file(const struct encoder *e, const struct chat_tally *t, const char *path,
                     enum chat_form form)
{
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
    struct chat_tally file = { 0 };
    int               rc = chat_files_rows(&r, e->f, path, e->bounds.row, err);

    e->set[0].file = e->set[1].file = file;
    rc = rc ? rc : read_file(e, r, &w, err);
    if (!rc)
        form = chat_rows_form(r);
    chat_rows_close(r);
    work_end(e->s->events);
    for (size_t k = 0; k < e->sets; k++) {
        chat_tally_add(&file, &e->set[k].file);
        chat_tally_add(&e->set[k].all, &e->set[k].file);
    }
    if (!rc && !file.rows)
        rc = err_misuse(err, "%s has no rows", path);
    if (!rc && !file.kept)
        rc = chat_tally_refuse(&file, &(struct chat_told){ path, e->first, e->f->pairs != NULL,
                                                          e->s->o.seq }, err);
    if (rc)
        return rc;
    say_file(e, &file, path, form);
    return e->s->log && !settings_has(e->s->log, "chat.form")
               ? settings_set(e->s->log, err, "chat.form=%s", chat_form_name(form))
               : 0;
}

/* Generation has to stop where the rows of training say that answers end. */
static int keep_ends(struct encoder *e, struct err *err)
{
    const struct chat_tally *t = &e->set[0].all;
    int rc = t->turns ? chat_ends_keep(e->s, e->tok[0], e->ends.closing, err) : 0;

    if (!rc && t->turns < t->kept)
        rc = chat_ends_keep(e->s, e->tok[0], tokenizer_endoftext(e->tok[0]), err);
    if (!rc && !t->ended)
        rc = chat_ends_missing(&e->ends, e->s, e->tok[0], t->cut == t->kept, err);
    return rc;
}

/* Stores a set, its rows and where they came from. */
static int store_set(struct encoder *e, const struct chat_set *set,
                     const struct text_list *files, struct err *err)
{
    struct examples *made = NULL;
    char             path[SESSION_PATH + 32], *paths = text_list_text(files);
    const char      *name = set->name;

    snprintf(path, sizeof path, "%s/%s.ex", e->s->dir, name);
    int rc = paths ? examples_open(&made, path, err)
                   : err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = rc ? rc
            : settings_set(e->s->log, err, "%s.sum=%08" PRIx32 "\n%s.rows=%" PRIu64
                           "\n%s.tokens=%" PRIu64 "\n%s.counted=%" PRIu64, name, made->h.crc, name,
                           made->h.rows, name, set->all.tokens, name, set->all.counted);
    rc = rc ? rc : settings_set(e->s->log, err, "%s.file=%s", name, paths);
    rc = rc ? rc : chat_tally_notice(&set->all, e->s, e->tok[0], e->f->pairs != NULL,
                                    strcmp(name, RUN_TRAIN) != 0, err);
    rc = rc || strcmp(name, RUN_TRAIN) ? rc : keep_ends(e, err);
    examples_close(made);
    free(paths);
    return rc;
}

static int set_open(struct encoder *e, const char *name, const char *path, struct err *err)
{
    struct chat_set *set = &e->set[e->sets];

    *set = (struct chat_set){ .name = name };
    int rc = examples_new_open(&set->out, path, err);
    if (!rc)
        examples_new_marks(&set->out);
    e->sets += !rc;
    return rc;
}

/* A split by hashes may leave a side without rows, if these are few. */
static int refuse_side(const struct encoder *e, struct err *err)
{
    const struct chat_tally *train = &e->set[0].all, *held = &e->set[1].all;

    if (e->sets < 2 || (train->kept && held->kept))
        return 0;
    return err_misuse(err, "--eval-split %g%% of %" PRIu64 " row%s leaves none to %s (equal rows "
                      "are on the same side): give another part, or --eval-file FILE",
                      100 * e->f->split, train->kept + held->kept,
                      train->kept + held->kept == 1 ? "" : "s",
                      train->kept ? "evaluate on" : "train on");
}

/* Writes the rows of files into the sets that are open. */
static int write_sets(struct encoder *e, const struct text_list *files, uint64_t most,
                      struct err *err)
{
    int rc = 0;

    e->left = most ? most : UINT64_MAX;
    for (size_t i = 0; i < files->n && !rc && e->left; i++) {
        e->source = files->file[i].of;
        rc = add_file(e, files->item[i], err);
    }
    rc = rc ? rc : refuse_side(e, err);
    for (size_t k = 0; k < e->sets; k++)
        if (!rc)
            rc = examples_new_commit(&e->set[k].out, err);
        else
            examples_new_abort(&e->set[k].out);
    return rc;
}

/* Encodes the files of a set; with `held`, a part of their rows goes into that set. */
static int add_set(struct encoder *e, const char *name, const char *held,
                   const struct text_list *files, uint64_t most, struct err *err)
{
    const char *const names[] = { name, held };
    char              path[SESSION_PATH + 32];
    int               rc = 0;

    if (!files->n)
        return 0;
    e->sets = 0;
    if (!strcmp(name, RUN_TRAIN))
        rc = row_counts_open(&e->counts, files, err);
    for (size_t k = 0; k < 2 && names[k] && !rc; k++) {
        snprintf(path, sizeof path, "%s/%s.ex", e->s->dir, names[k]);
        rc = set_open(e, names[k], path, err);
    }
    if (rc && e->sets)
        examples_new_abort(&e->set[0].out);
    rc = rc ? rc : write_sets(e, files, most, err);
    for (size_t k = 0; k < e->sets && !rc; k++)
        rc = store_set(e, &e->set[k], files, err);
    if (!rc && e->counts.of)
        rc = row_sources_store(e->s, &e->counts, files, e->f->mix, err);
    row_counts_close(&e->counts);
    return rc;
}

/* ---- the run ---- */

int chat_files_check(const struct chat_files *f, struct err *err)
{
    const struct text_list *sets[] = { &f->train, &f->eval };
    const struct chat_row    *row;
    int                       rc = 0;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sets[k]->n && !rc; i++) {
            struct chat_rows *r = NULL;
            int               got = 0;

            rc = chat_files_rows(&r, f, sets[k]->item[i], chat_row_most(f->host_mem), err);
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
    int                rc = chat_source_count(&rows, s, err);

    if (rc)
        return rc;
    each = task_files_epoch_steps(rows, o);
    o->steps = o->steps ? o->steps : f->epochs * each;
    o->schedule_steps = o->schedule_steps ? o->schedule_steps : o->steps;
    if (f->evaluates_epochs)
        o->eval_every = each;
    rc = train_opts_check(o, err);
    return rc ? rc
              : settings_set(s->log, err, "task=%s\nepochs=%" PRIu64,
                             f->pairs ? TUNE_DPO : TUNE_CHAT, (uint64_t)div_up(o->steps, each));
}

/* dir: the tokenizer's folder. */
static int encoder_open(struct encoder **out, struct session *s, const struct chat_files *f,
                        struct tokenizer *tok, const char *dir, struct err *err)
{
    struct encoder *e = *out = calloc(1, sizeof *e);
    int             rc = 0;

    for (size_t k = 0; e && k < 2; k++)
        e->stored[k] = malloc(s->o.seq * sizeof *e->stored[k]);
    if (!e || !e->stored[0] || !e->stored[1])
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    e->s = s;
    e->f = f;
    e->tok[0] = tok;
    e->storing = (struct chat_storing){ tok, s->config.vocab, s->o.seq,
                                        (enum chat_long)f->o->long_rows, &e->ends };
    e->threads = 1;
    for (uint64_t i = 1, before = rss_now(), one = 0; i < s->o.threads && i < THREADS && !rc; i++) {
        if (i * one > TOKENIZERS)
            break;
        if (!(rc = tokenizer_open(&e->tok[i], dir, err)))
            e->threads++;
        one = rss_now() > before ? (rss_now() - before) / i : 0;
    }
    chat_bounds_find(&e->bounds, f->host_mem, e->threads);
    return rc;
}

static void encoder_close(struct encoder *e)
{
    if (!e)
        return;
    for (int i = 1; i < e->threads; i++)
        tokenizer_close(e->tok[i]);
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < BLOCK_ROWS; i++) {
            chat_ids_free(&e->block[0].row[i].ids[k]);
            chat_ids_free(&e->block[1].row[i].ids[k]);
        }
        free(e->stored[k]);
    }
    free(e);
}

int chat_files_add(struct session *s, const struct chat_files *f, struct tokenizer *tok,
                   struct err *err)
{
    struct encoder *e = NULL;
    char            dir[SESSION_PATH + 16];
    int             rc = runlog_raise(s->log, FORMAT_ROWS, err);

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    if (!rc && f->pairs)
        rc = pairs_opts_store(s->log, &s->pairs, err);
    if (!rc && f->pairs)
        rc = runlog_new_pairs(s->log, err);
    rc = rc ? rc : encoder_open(&e, s, f, tok, dir, err);
    if (!rc) {
        struct chat_encoding how = encoding_of(e, e->tok[0]);

        how.loss = CHAT_LOSS_ANSWERS;
        rc = chat_ends_find(&e->ends, e->s, &how, err);
    }
    rc = rc ? rc : add_set(e, RUN_TRAIN, f->split > 0 ? run_dev[0] : NULL, &f->train, f->most_train,
                           err);
    rc = rc ? rc : add_set(e, run_dev[0], NULL, &f->eval, f->most_eval, err);
    encoder_close(e);
    if (!rc && f->o->packing)
        rc = settings_set(s->log, err, "chat.packing=1");
    if (!rc && f->o->by_length)
        rc = settings_set(s->log, err, "chat.by_length=1");
    rc = rc ? rc : set_steps(s, f, err);
    return rc ? rc : session_store_options(s, 0, err);
}

int chat_files_encode(struct examples **out, struct session *s, const struct chat_files *f,
                      struct tokenizer *tok, const char *tokenizer, const char *path,
                      struct err *err)
{
    struct encoder *e = NULL;
    int             rc = encoder_open(&e, s, f, tok, tokenizer, err);

    *out = NULL;
    rc = rc ? rc : set_open(e, run_dev[0], path, err);
    rc = rc ? rc : write_sets(e, &f->eval, f->most_eval, err);
    rc = rc ? rc : chat_tally_notice(&e->set[0].all, s, tok, f->pairs != NULL, 1, err);
    encoder_close(e);
    return rc ? rc : examples_open(out, path, err);
}
