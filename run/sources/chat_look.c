/* chat_look.c: encodes the first rows of each training file, and makes batches of them as a source
 * does (chat_source.c), from their lengths alone. */
#include "run/sources/chat_look.h"

#include "data/base/round.h"
#include "run/sources/labelled.h"
#include "run/sources/packing.h"

enum { LOOK_ROWS = 2000, PAD_TO = 16 }; // rows that are encoded; as in chat_source.c

struct looking {
    const struct chat_files *f;
    const struct train_opts *o;
    struct tokenizer        *tok; // NULL: rows are counted only
    struct chat_ids          ids[2]; // the second is of a rejected answer
    uint64_t                 rows, looked; // of training; those that were encoded
    uint32_t                 length[LOOK_ROWS], n; // tokens of those that are trained on
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

/* Rows that a row of the file becomes. */
static size_t each_of(const struct chat_files *f) { return f->pairs ? 2 : 1; }

static int look_row(struct looking *l, const struct chat_row *row, struct err *err)
{
    const struct chat_encoding how = { .tok = l->tok, .chat = l->f->chat,
                                       .loss = (enum chat_loss)l->f->o->loss_on,
                                       .special_in_text = l->f->o->special_in_text,
                                       .now = l->f->now };

    size_t                     each = each_of(l->f);
    uint32_t                   n[2];

    if (l->looked >= LOOK_ROWS)
        return 0;
    l->looked += each;
    int rc = chat_encode(&how, row, &l->ids[0], &l->ids[1], err);
    int all = !rc;

    for (size_t k = 0; k < each && all; k++)
        all = (n[k] = tokens_of(l, &l->ids[k])) > 0;
    for (size_t k = 0; k < each && all; k++)
        l->length[l->n++] = n[k];
    return rc;
}

static int look_files(struct looking *l, const struct opt_strings *files, uint64_t most, int trains,
                      const struct events *events, uint64_t *rows, struct err *err)
{
    const struct chat_row *row;
    int                    rc = 0;

    *rows = 0;
    for (size_t i = 0; i < files->n && !rc; i++) {
        struct chat_rows *r = NULL;
        struct watch      w = work_begin(events, "reading %s", files->item[i]);
        int               got = 1;

        rc = chat_rows_open(&r, files->item[i], (enum chat_form)l->f->o->rows, &l->f->names, err);
        while (!rc && (!most || *rows < most) && (got = chat_rows_next(r, &row, err)) > 0) {
            rc = watch_look(&w, ++*rows, most, err);
            if (!rc && trains && l->tok)
                rc = look_row(l, row, err);
        }
        rc = rc ? rc : got < 0 ? got : 0;
        chat_rows_close(r);
        work_end(events);
    }
    return rc;
}

static int by_length(const void *a, const void *b)
{
    uint32_t n = *(const uint32_t *)a, m = *(const uint32_t *)b;

    return n < m ? -1 : n > m;
}

/* Rows of one example: the computed tokens of batches in the order of the list. */
static uint64_t padded_tokens(struct looking *l)
{
    uint64_t all = 0;

    if (l->f->o->by_length)
        qsort(l->length, l->n, sizeof *l->length, by_length);
    for (uint32_t i = 0, longest; i < l->n;) {
        uint32_t end = (uint32_t)size_min(l->n, i + l->o->batch), rows = end - i;

        for (longest = 0; i < end; i++)
            longest = l->length[i] > longest ? l->length[i] : longest;
        all += rows * size_min(round_up(longest, PAD_TO), l->o->seq);
    }
    return all;
}

static int shares(struct chat_look *out, struct looking *l, struct err *err)
{
    uint64_t       looked = size_min(l->looked, LOOK_ROWS), tokens = 0, rows = l->n;
    struct packing p;
    int            rc = 0;

    for (uint32_t i = 0; i < l->n; i++)
        tokens += l->length[i];
    if (!l->n)
        return 0; // finetune says why
    if (l->f->o->packing && !(rc = packing_make(&p, l->length, l->n, (uint32_t)l->o->seq, err))) {
        rows = p.rows;
        packing_free(&p);
    }
    if (rc)
        return rc;
    out->epoch = size_max(1, l->rows * rows / looked);
    out->filled = (double)tokens / (double)(rows * l->o->seq);
    out->computed = l->f->o->packing ? 1 : (double)padded_tokens(l) / (double)(rows * l->o->seq);
    return 0;
}

int chat_look(struct chat_look *out, const struct chat_files *f, const char *tokenizer,
              const struct train_opts *o, const struct events *events, struct err *err)
{
    struct looking *l = calloc(1, sizeof *l);
    uint64_t        dev = 0;
    int rc = l ? 0 : err_set(err, -ENOMEM, "out of memory for the lengths of rows");

    *out = (struct chat_look){ 0 };
    if (rc)
        return rc;
    l->f = f;
    l->o = o;
    if (tokenizer && tokenizer_is_there(tokenizer))
        rc = tokenizer_open(&l->tok, tokenizer, err);
    rc = rc ? rc : look_files(l, &f->train, f->most_train, 1, events, &l->rows, err);
    rc = rc ? rc : look_files(l, &f->eval, f->most_eval, 0, events, &dev, err);
    l->rows *= each_of(f);
    out->rows = l->rows + dev * each_of(f);
    out->epoch = l->rows;
    rc = rc ? rc : shares(out, l, err);
    tokenizer_close(l->tok);
    chat_ids_free(&l->ids[0]);
    chat_ids_free(&l->ids[1]);
    free(l);
    return rc;
}
