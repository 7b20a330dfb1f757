/* rows_look.c: encodes a sample of the training rows, and makes batches of it as a source does
 * (source.c, chat_source.c), from the lengths alone.
 *
 * The sample is every 1st, 2nd, 4th, ... row of all files together: whenever it is full, every
 * other row of it is dropped. So it has rows of each file, as many as the file's part of all. */
#include "run/sources/rows_look.h"

#include "data/base/permute.h"
#include "data/base/round.h"
#include "run/sources/chat_held.h"
#include "run/sources/chat_source.h"
#include "run/sources/packing.h"

enum { SAMPLE = 2000 }; // rows at most; an even number

struct looking {
    const struct chat_files *f; // NULL: labelled rows
    const struct train_opts *o;
    int                      packs, by_length;
    struct chat_bounds       bounds;
    struct tokenizer        *tok; // NULL: rows are counted only
    struct chat_ids          ids[2]; // the second is of a rejected answer
    size_t                   each;   // rows that a row of a file becomes: 2 for pairs
    uint64_t                 rows, every; // of training; the sample has every `every`-th of them
    uint32_t                 n;
    struct lengths { uint32_t of[2]; } length[SAMPLE]; // tokens of the sample's rows; 0: not
                                                       // trained on
};

/* The tokens that a row takes; 0: it is left out. */
static uint32_t tokens_of(const struct looking *l, const struct chat_ids *ids)
{
    size_t n = size_min(ids->ids.n, l->o->seq), counted = 0;

    if (ids->ids.n > l->o->seq && l->f->o->long_rows == CHAT_LONG_DROP)
        return 0;
    for (size_t i = 1; i < n; i++)
        counted += ids->counts[i];
    return counted ? (uint32_t)n - 1 : 0;
}

/* Adds a row to the sample. A full sample is thinned out first: then the row is still one of it. */
static int look_row(struct looking *l, const struct chat_row *row, struct err *err)
{
    struct chat_encoding how = chat_files_encoding(l->f, l->tok);
    struct lengths       n = { { 0 } };

    how.memory = l->bounds.memory[0];
    int rc = chat_encode(&how, row, &l->ids[0], &l->ids[1], err);
    if (rc)
        return rc;
    if (l->n == SAMPLE) {
        for (l->n = 0; l->n < SAMPLE / 2; l->n++)
            l->length[l->n] = l->length[2 * l->n];
        l->every *= 2;
    }
    for (size_t k = 0; k < l->each; k++)
        n.of[k] = tokens_of(l, &l->ids[k]);
    if (l->each == 2 && !n.of[1]) // a pair is left out as a whole
        n.of[0] = 0;
    l->length[l->n++] = n;
    return 0;
}

static int look_files(struct looking *l, const struct text_list *files, uint64_t most, int trains,
                      const struct events *events, uint64_t *rows, struct err *err)
{
    const struct chat_row *row;
    int                    rc = 0;

    *rows = 0;
    for (size_t i = 0; i < files->n && !rc; i++) {
        struct chat_rows *r = NULL;
        struct watch      w = work_begin(events, "reading %s", files->item[i]);
        int               got = 1;

        rc = chat_files_rows(&r, l->f, files->item[i], l->bounds.row, err);
        while (!rc && (!most || *rows < most) && (got = chat_rows_next(r, &row, err)) > 0) {
            if (trains && l->tok && *rows % l->every == 0)
                rc = look_row(l, row, err);
            rc = rc ? rc : watch_look(&w, ++*rows, most, err);
        }
        rc = rc ? rc : got < 0 ? got : 0;
        chat_rows_close(r);
        work_end(events);
    }
    return rc;
}

static uint32_t longest_of(const struct lengths *n) { return n->of[n->of[1] > n->of[0]]; }

static int by_length(const void *a, const void *b)
{
    uint32_t n = longest_of(a), m = longest_of(b);

    return n < m ? -1 : n > m;
}

/* The sample without the rows that are left out, in the order of training. */
static void order(struct looking *l)
{
    struct lengths list[SAMPLE];
    uint32_t       n = 0;

    for (uint32_t i = 0; i < l->n; i++)
        if (l->length[i].of[0])
            list[n++] = l->length[i];
    for (uint32_t i = 0; i < n; i++)
        l->length[i] = list[l->o->order == TRAIN_SHUFFLED ? permute(l->o->seed, 0, i, n) : i];
    l->n = n;
}

/* Rows of one example: the computed tokens of batches in the order of the list. */
static uint64_t padded_tokens(struct looking *l)
{
    uint64_t all = 0, batch = size_max(1, l->o->batch / l->each), group = CHAT_GROUP * batch;

    for (uint64_t i = 0; l->by_length && i < l->n; i += group)
        qsort(l->length + i, size_min(l->n - i, group), sizeof *l->length, by_length);
    for (uint64_t i = 0, longest; i < l->n;) {
        uint64_t end = size_min(l->n, i + batch), rows = (end - i) * l->each;

        for (longest = 0; i < end; i++)
            longest = size_max(longest, longest_of(&l->length[i]));
        all += rows * size_min(round_up(longest, CHAT_PAD_TO), l->o->seq);
    }
    return all;
}

/* The rows of the sample when packed. Pairs are not. */
static int packed_rows(uint64_t *rows, const struct looking *l, struct err *err)
{
    uint32_t       list[SAMPLE];
    struct packing p;

    for (uint32_t i = 0; i < l->n; i++)
        list[i] = l->length[i].of[0];
    int rc = packing_make(&p, list, l->n, (uint32_t)l->o->seq, err);
    if (rc)
        return rc;
    *rows = p.rows;
    packing_free(&p);
    return 0;
}

static int shares(struct rows_look *out, struct looking *l, struct err *err)
{
    uint64_t looked = l->n * l->each, tokens = 0, rows;
    double   room; // of the sample's rows; the last step of an epoch may have fewer rows

    order(l);
    rows = l->n * l->each;
    for (uint32_t i = 0; i < l->n; i++)
        tokens += l->length[i].of[0] + l->length[i].of[1];
    if (!l->n)
        return 0; // finetune says why
    int rc = l->packs ? packed_rows(&rows, l, err) : 0;
    if (rc)
        return rc;
    out->epoch = size_max(1, l->rows * rows / looked);
    room = (double)(rows * l->o->seq) * (double)task_files_epoch_steps(out->epoch, l->o) *
           (double)(l->o->batch * l->o->grad_accum) / (double)out->epoch;
    out->filled = (double)tokens / room;
    out->computed = (double)(l->packs ? rows * l->o->seq : padded_tokens(l)) / room;
    return 0;
}

static int looking_open(struct looking **out, const char *tokenizer, const struct train_opts *o,
                        struct err *err)
{
    struct looking *l = *out = calloc(1, sizeof *l);

    if (!l)
        return err_set(err, -ENOMEM, "out of memory for the lengths of rows");
    l->o = o;
    l->every = l->each = 1;
    return tokenizer && tokenizer_is_there(tokenizer) ? tokenizer_open(&l->tok, tokenizer, err)
                                                      : 0;
}

static void looking_close(struct looking *l)
{
    if (!l)
        return;
    tokenizer_close(l->tok);
    chat_ids_free(&l->ids[0]);
    chat_ids_free(&l->ids[1]);
    free(l);
}

int chat_look(struct rows_look *out, const struct chat_files *f, const char *tokenizer,
              const struct train_opts *o, const struct events *events, struct err *err)
{
    struct looking *l;
    uint64_t        dev = 0;
    int             rc = looking_open(&l, tokenizer, o, err);

    *out = (struct rows_look){ 0 };
    if (rc)
        goto out;
    l->f = f;
    l->packs = f->o->packing;
    l->by_length = f->o->by_length;
    l->each = f->pairs ? 2 : 1;
    chat_bounds_find(&l->bounds, f->host_mem, 1);
    rc = look_files(l, &f->train, f->most_train, 1, events, &l->rows, err);
    rc = rc ? rc : look_files(l, &f->eval, f->most_eval, 0, events, &dev, err);
    if (f->split > 0) // about so many are trained on, and the others evaluated on
        dev = (uint64_t)(f->split * (double)l->rows);
    l->rows -= f->split > 0 ? dev : 0;
    l->rows *= l->each;
    out->rows = l->rows + dev * l->each;
    out->epoch = l->rows;
    rc = rc ? rc : shares(out, l, err);
out:
    looking_close(l);
    return rc;
}

int task_files_look(struct rows_look *out, const struct task_file *e, const char *tokenizer,
                    const struct model_config *config, const struct train_opts *o, struct err *err)
{
    uint32_t        length[SAMPLE] = { 0 };
    struct looking *l;
    int             rc = looking_open(&l, tokenizer, o, err);

    if (!rc && l->tok) {
        l->rows = e->rows;
        l->every = div_up(e->rows, SAMPLE);
        l->n = (uint32_t)div_up(e->rows, l->every);
        rc = task_file_lengths(length, l->every, e, l->tok, config, o->seq, err);
        for (uint32_t i = 0; i < l->n && !rc; i++)
            l->length[i].of[0] = length[i];
        rc = rc ? rc : shares(out, l, err);
    }
    looking_close(l);
    return rc;
}
