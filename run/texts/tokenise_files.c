/* tokenise_files.c: tokenises documents, block by block. All threads encode the pieces of a block,
 * each with a tokenizer of its own; meanwhile one of them reads the next block, and one writes the
 * block before. Memory is that of three blocks and of the tokenizers, whatever the files' size. The
 * ids do not depend on the number of threads.
 *
 * Every so often all that is written is made durable, together with the place behind it. After a
 * kill the same command goes on from there. So it does after Ctrl-C, after a call that failed, and
 * when the time of the process is up. */
#include "data/base/clock.h"
#include "data/file/file.h"
#include "data/base/grow.h"
#include "data/base/round.h"
#include "data/file/unpack.h"
#include "run/folder/output.h"
#include "run/texts/tokenise_again.h"

#include <omp.h>
#include <sys/random.h>

/* THREADS: the most, since each has a cache of words. TASK_BYTES: what a thread takes at once.
 * TASK_IDS: room for ids that a task keeps for the next block. */
enum { THREADS = 32, TASK_BYTES = 1 << 15, TASK_IDS = 2 * TASK_BYTES, BLOCKS = 3 };
#define SAVE_NS 30000000000u

/* Pieces that one thread encodes, one after the other. ids_to[i]: where the ids of piece i end. */
struct task {
    size_t           first, n;
    int              held; // one of its pieces is held: the tokenizer keeps its state
    struct token_buf ids;
    int              rc; // of the piece `bad`
    size_t           bad;
    struct err       err;
};

struct encoded { size_t to; int side; };

struct block {
    struct text_block text;
    struct encoded   *of; // (pieces)
    size_t            cap_of;
    struct task      *task;
    size_t            n_tasks, cap_tasks;
};

struct work {
    struct tokenise   t;
    struct tokenizer *tok[THREADS]; // the first one is borrowed
    struct tokenizer *held;         // of held pieces
    int               threads;
    struct block      block[BLOCKS];
};

/* ---- encoding ---- */

static int task_add(struct block *b, size_t first, int held, struct err *err)
{
    size_t had = b->cap_tasks;
    int    rc = grow(&b->task, &b->cap_tasks, b->n_tasks + 1, sizeof *b->task, "parts of a text",
                     err);

    if (rc)
        return rc;
    if (b->cap_tasks > had) // their buffers stay from block to block
        memset(b->task + had, 0, (b->cap_tasks - had) * sizeof *b->task);
    struct task *t = &b->task[b->n_tasks++];

    if (t->ids.cap > TASK_IDS) // a long row was there
        token_buf_free(&t->ids);
    t->first = first;
    t->n = t->ids.n = 0;
    t->held = held;
    t->rc = 0;
    return 0;
}

/* Reads a block and divides it into tasks. */
static void read_block(struct tokenise *t, struct block *b)
{
    struct text_block *text = &b->text;
    size_t             bytes = TASK_BYTES;
    int                rc;

    text_files_read(t->files, text);
    b->n_tasks = 0;
    rc = grow(&b->of, &b->cap_of, text->n_pieces, sizeof *b->of, "pieces of text", &text->err);
    for (size_t i = 0; i < text->n_pieces && !rc; i++) {
        const struct text_piece *p = &text->piece[i];
        int                      held = p->held_before || p->held_behind;

        if (bytes >= TASK_BYTES || held) {
            rc = task_add(b, i, held, &text->err);
            bytes = 0;
        }
        if (!rc)
            b->task[b->n_tasks - 1].n++;
        bytes += held ? TASK_BYTES : p->n;
    }
    if (rc) {
        text->n_pieces = b->n_tasks = 0;
        text->rc = rc;
    }
}

static int encode_piece(struct tokenise *t, struct tokenizer *tok, struct block *b, struct task *k,
                        size_t i, struct err *err)
{
    const struct text_piece *p = &b->text.piece[i];
    struct text_reading      how = text_files_reading(t->files, p->file);
    struct text_found        found;
    int                      rc = text_find(&found, &how, p, b->text.text + p->from, err);

    if (!rc && k->held)
        rc = tokenizer_feed(tok, found.text, found.n, !p->held_behind, &k->ids, err);
    else if (!rc)
        rc = tokenizer_encode(tok, found.text, found.n, &k->ids, err);
    b->of[i] = (struct encoded){ k->ids.n, found.side };
    free(found.made);
    return rc;
}

static void encode_task(struct tokenise *t, struct tokenizer *tok, struct block *b, struct task *k)
{
    for (size_t i = 0; i < k->n && !k->rc; i++) {
        k->rc = encode_piece(t, tok, b, k, k->first + i, &k->err);
        k->bad = k->first + i;
    }
}

/* Held pieces are the first and the last one of a block. */
static void encode_held(struct work *w, struct block *b)
{
    for (size_t i = 0; i < b->n_tasks; i++)
        if (b->task[i].held)
            encode_task(&w->t, w->held, b, &b->task[i]);
}

/* ---- writing ---- */

static int add_ids(struct tokenise *t, int side, const int32_t *ids, size_t n, const char *path,
                   struct err *err)
{
    struct tokens_writer *w = &t->out[side];
    struct tokenise_ids   c = { ids, n, t->of->vocab, path, w->count };
    int                   rc = c.vocab ? tokenise_known(t->of->tok, &c, err) : 0;

    return rc ? rc : tokens_writer_add(w, ids, n, err);
}

/* Puts a document's beginning: the template's tokens, or what separates two documents. */
static int begin_document(struct tokenise *t, int side, const char *path, struct err *err)
{
    const struct token_buf *before = tokenizer_around(t->of->tok, TOKENIZER_BEFORE);
    int32_t                 between = tokenizer_endoftext(t->of->tok);

    if (tokenizer_has_template(t->of->tok))
        return add_ids(t, side, before->ids, before->n, path, err);
    if (t->documents[side] == 0)
        return 0;
    return between < 0 ? err_misuse(err, "the tokenizer has neither an eos_token nor a template to "
                                    "put between two documents")
                       : add_ids(t, side, &between, 1, path, err);
}

static int write_piece(struct tokenise *t, const struct text_piece *p, int side,
                       const int32_t *ids, size_t n, struct err *err)
{
    const char             *path = text_files_name(t->files, p->file);
    const struct token_buf *behind = tokenizer_around(t->of->tok, TOKENIZER_BEHIND);
    int                     rc = 0;

    if (p->begins && p->ends && !n)
        return 0; // an empty document
    if (p->begins) {
        rc = begin_document(t, side, path, err);
        t->documents[side]++;
    }
    rc = rc ? rc : add_ids(t, side, ids, n, path, err);
    return rc || !p->ends ? rc : add_ids(t, side, behind->ids, behind->n, path, err);
}

static int write_task(struct tokenise *t, const struct block *b, const struct task *k,
                      struct err *err)
{
    size_t from = 0;

    for (size_t i = k->first; i < k->first + k->n; from = b->of[i++].to) {
        if (k->rc && i == k->bad) {
            *err = k->err;
            return k->rc;
        }
        int rc = write_piece(t, &b->text.piece[i], b->of[i].side, k->ids.ids + from,
                             b->of[i].to - from, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Writes a block in order. Of several pieces that cannot be encoded, the first one counts. */
static int write_block(struct tokenise *t, struct block *b, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < b->n_tasks && !rc; i++)
        rc = write_task(t, b, &b->task[i], err);
    if (!rc && b->text.rc) {
        rc = b->text.rc;
        *err = b->text.err;
    }
    if (!rc && b->n_tasks && !b->text.place.held) {
        t->state.place = b->text.place;
        t->further = 1;
        for (int s = 0; s < SIDES; s++) {
            t->state.count[s] = t->out[s].count;
            t->state.ids[s] = t->out[s].sum;
            t->state.documents[s] = t->documents[s];
        }
    }
    b->n_tasks = 0;
    b->text.rc = 0;
    return rc;
}

/* Encodes a block; meanwhile reads the next one, if there is one, and writes the one before. */
static int work_block(struct work *w, struct block *before, struct block *b, struct block *next,
                      struct err *err)
{
    int rc = 0;

#pragma omp parallel num_threads(w->threads)
    {
#pragma omp single nowait
        if (!b->text.end && !b->text.rc)
            read_block(&w->t, next);
#pragma omp single nowait
        rc = write_block(&w->t, before, err);
#pragma omp single nowait
        encode_held(w, b);
#pragma omp for schedule(dynamic, 1)
        for (size_t i = 0; i < b->n_tasks; i++)
            if (!b->task[i].held)
                encode_task(&w->t, w->tok[omp_get_thread_num()], b, &b->task[i]);
    }
    return rc;
}

/* ---- opening ---- */

/* Finds complete files of a run that is being made. Returns 1, or 0 if they are not there. */
static int out_done(struct tokenise *t, const char *const *paths, struct err *err)
{
    struct tokenise_files *f = t->of;
    struct tokenise_done   d = { .key = t->state.key };
    int                    rc = tokenise_done_find(&d, paths, &t->other, err);

    if (rc <= 0)
        return rc;
    f->count = d.count[0];
    f->split_count = d.count[1];
    f->sum = d.sum;
    events_notice(t->events, "the %" PRIu64 " tokens of %s are in %s already",
                  f->count + f->split_count, unpack_shown(f->texts[0]), again_place(t));
    return 1;
}

static int out_open(struct tokenise *t, const char *const *paths, struct err *err)
{
    int rc;

    for (int s = 0; s < SIDES; s++)
        t->out[s].ids.f.fd = -1;
    if (again_saves(t)) {
        if ((rc = again_find(t, paths, err)) < 0)
            return rc;
        if (rc > 0) {
            events_notice(t->events, "it goes on behind %" PRIu64 " tokens that were left in %s",
                          t->out[0].count + t->out[1].count, again_place(t));
            return 0;
        }
        if (t->other)
            events_notice(t->events, "an unfinished file of %s is there, made of other files or "
                          "with other options, or changed since: it is removed, and all begins "
                          "anew",
                          t->of->place ? t->of->place : paths[0]);
        if (getrandom(&t->state.pair, sizeof t->state.pair, 0) != (ssize_t)sizeof t->state.pair)
            return err_set(err, -EIO, "no random number");
    }
    rc = 0;
    for (int s = 0; s < t->sides && !rc; s++)
        rc = tokens_writer_open(&t->out[s], paths[s], tokenizer_vocab(t->of->tok), err);
    return rc;
}

/* ---- all of it ---- */

static struct watch begin(struct tokenise *t, uint64_t total)
{
    uint64_t had = text_files_done(t->files);
    char     what[32], there[48] = "";

    snprintf(what, sizeof what, "%zu inputs", t->of->n);
    if (had && total)
        snprintf(there, sizeof there, ", of which %.0f%% were done",
                 100 * (double)had / (double)total);
    return work_begin(t->events, "tokenising %s%s",
                      t->of->n == 1 ? unpack_shown(t->of->texts[0]) : what, there);
}

static int work(struct work *w, struct err *err)
{
    struct tokenise *t = &w->t;
    struct block    *before = &w->block[0], *b = &w->block[1], *next = &w->block[2], *swap;
    uint64_t         total = text_files_bytes(t->files);
    struct watch     watch = begin(t, total);
    uint64_t         every = t->of->save_ns ? t->of->save_ns : SAVE_NS;
    int              rc = watch_look(&watch, text_files_done(t->files), total, err), end = 0;

    read_block(t, b);
    while (!rc && !end && !t->late) {
        uint64_t begun = clock_ns();

        rc = work_block(w, before, b, next, err);
        end = b->text.end || b->text.rc;
        t->block_ns = clock_ns() - begun;
        if (!rc && !end && again_saves(t) && clock_ns() - t->saved_ns > every)
            rc = again_save(t, err);
        rc = rc ? rc : watch_look(&watch, b->text.done, total, err);
        rc = rc || end ? rc : again_time(t, err);
        swap = before;
        before = b;
        b = next;
        next = swap;
    }
    rc = rc ? rc : write_block(t, before, err);
    work_end(t->events);
    return (!rc && t->late) || err_goes_on(rc, err) ? again_leave(t, rc, err) : rc;
}

static int tokenizers_open(struct work *w, struct err *err)
{
    int most = w->t.of->threads ? (int)size_min(w->t.of->threads, THREADS) : omp_get_max_threads();
    int rc = tokenizer_copy(&w->held, w->t.of->tok, err);

    w->tok[0] = w->t.of->tok;
    for (w->threads = 1; w->threads < most && w->threads < THREADS && !rc; w->threads++)
        rc = tokenizer_copy(&w->tok[w->threads], w->t.of->tok, err);
    return rc;
}

static int commit(struct tokenise *t, struct err *err)
{
    struct tokenise_files *f = t->of;
    int                    rc = 0;

    f->count = t->out[0].count;
    f->split_count = t->out[1].count;
    f->sum = text_files_sum(t->files);
    if (!f->count && !f->split_count)
        rc = err_misuse(err, "there is no text to tokenise");
    else if (t->sides > 1 && (!f->count || (!f->split_count && !f->split_or_none)))
        rc = err_misuse(err, "a split of %g leaves nothing for %s: the texts have %" PRIu64
                        " documents", f->split, f->count ? "the split" : "the rest",
                        t->documents[0] + t->documents[1]);
    rc = rc || !f->checked ? rc : output_check(f->checked, err);
    rc = rc || !f->split_checked ? rc : output_check(f->split_checked, err);
    for (int s = 0; s < t->sides && !rc; s++)
        rc = tokens_writer_flush(&t->out[s], err);
    int flushed = !rc;
    if (!rc && f->remembers)
        rc = tokenise_done_put(&(struct tokenise_done){ .key = t->state.key, .sum = f->sum,
                                                        .vocab = tokenizer_vocab(f->tok),
                                                        .count = { f->count, f->split_count },
                                                        .ids = { t->out[0].sum, t->out[1].sum } },
                               t->out[0].ids.f.path, err);
    for (int s = t->sides; s-- > 0 && !rc;)
        rc = tokens_writer_commit(&t->out[s], err);
    if (rc && flushed && t->out[0].saves)
        again_save(t, NULL); // commit wrote the final header over the saved state
    return rc;
}

int tokenise_files(struct tokenise_files *f, const char *out, const struct events *events,
                   struct err *err)
{
    struct work         *w = calloc(1, sizeof *w);
    const char *const    paths[SIDES] = { out, f->split_out };
    struct text_files_of of = { f->texts, f->n, f->column, f->as == TOKENS_TEXT, f->split, f->tok,
                                { out, f->split_out } };

    if (!w)
        return err_set(err, -ENOMEM, "%s: out of memory", out);
    struct tokenise *t = &w->t;

    t->events = events;
    t->of = f;
    t->sides = f->split_out ? 2 : 1;
    t->saved_ns = clock_ns();
    int rc = tokenizers_open(w, err);

    rc = rc ? rc : text_files_open(&t->files, &of, events, err);
    if (!rc && again_saves(t))
        rc = again_key(t, err);
    if (!rc && f->remembers)
        rc = out_done(t, paths, err);
    rc = rc ? rc : out_open(t, paths, err);
    rc = rc ? rc : work(w, err);
    rc = rc ? rc : commit(t, err);
    for (int s = 0; s < t->sides; s++)
        if (file_is_unread(rc) && t->out[0].saves && t->out[s].ids.f.fd >= 0)
            tokens_writer_keep(&t->out[s]); // the same command goes on behind what was saved
    for (int s = 0; s < SIDES; s++)
        append_close(&t->out[s].ids);
    for (int i = 1; i < THREADS; i++)
        tokenizer_close(w->tok[i]);
    tokenizer_close(w->held);
    text_files_close(t->files);
    for (int k = 0; k < BLOCKS; k++) {
        for (size_t i = 0; i < w->block[k].cap_tasks; i++)
            token_buf_free(&w->block[k].task[i].ids);
        text_block_free(&w->block[k].text);
        free(w->block[k].task);
        free(w->block[k].of);
    }
    free(w);
    return rc > 0 ? 0 : rc;
}
