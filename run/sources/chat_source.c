/* chat_source.c: which examples are in a row, which rows in a batch, and how they are read. Their
 * lengths are in memory, the ids are read from the file (pread) for each batch. */
#include "run/sources/chat_source.h"

#include "data/base/permute.h"
#include "data/base/round.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/sources/task_files.h"
#include "run/sources/packing.h"
#include "run/sources/reference.h"
#include "run/sources/row_sources.h"

#include <assert.h>

#define LENGTH_STREAM 0x6c656e6700000000u // stream of permute.h: "leng" plus the epoch's number

/* A file of examples. */
struct chat_set {
    struct examples *x;      // NULL: there is none
    uint32_t        *length; // (examples) tokens that each takes of a row
    struct packing   packed; // rows 0: a row is one example
    uint64_t         rows;   // or pairs
    double          *reference; // (examples) of pairs: log-probabilities; NULL: not known yet
    int              known;     // the run has them
};

/* Rows of a group, by length. */
struct group { uint64_t epoch, number, n; uint64_t *row; int made; };

struct chat_source {
    struct chat_set train, dev;
    uint64_t        seed, epoch_steps;
    size_t          batch, accum, seq; // batch: rows, or pairs, of a micro-batch
    size_t          each;              // examples that are not separated: 2 of a pair, or 1
    int             shuffled, by_length;
    struct group    group;
    struct row_sources sources; // of the rows of train
    int32_t        *ids; // (seq) of the example that is read
};

/* ---- opening ---- */

static void set_close(struct chat_set *s)
{
    examples_close(s->x);
    free(s->length);
    packing_free(&s->packed);
    free(s->reference);
}

/* Of pairs: a row is two examples. */
static int set_pairs(struct chat_set *out, struct session *s, const char *name, struct err *err)
{
    if (out->x->h.rows % 2)
        return err_set(err, -EBADMSG, "%s does not hold pairs of answers", out->x->path);
    out->rows = out->x->h.rows / 2;
    int rc = reference_read(&out->reference, s, name, out->x, err);

    out->known = out->reference != NULL;
    return rc;
}

/* How many there are, and their lengths. */
static int set_lengths(struct chat_set *out, size_t seq, struct err *err)
{
    out->rows = out->x->h.rows;
    if (!examples_marked(out->x) || out->x->h.longest > seq || out->rows >= UINT32_MAX)
        return err_set(err, -EBADMSG, "%s does not hold rows of conversations of at most %zu "
                       "tokens", out->x->path, seq);
    out->length = malloc(out->rows * sizeof *out->length);
    int rc = out->length ? examples_lengths(out->x, out->length, err)
                         : err_set(err, -ENOMEM, "%s: out of memory", out->x->path);

    for (uint64_t i = 0; i < out->rows && !rc; i++)
        if (out->length[i]-- < 2)
            rc = err_set(err, -EBADMSG, "%s: row %" PRIu64 " has no target", out->x->path, i);
    return rc;
}

/* Packs the examples of each source by themselves: a row is of one source. sources->order.source[i]
 * gets the number of its rows. */
static int pack_sources(struct chat_set *out, struct row_sources *sources, uint32_t seq,
                        struct err *err)
{
    struct mixture *m = &sources->order;
    uint64_t       *part = calloc(m->n + 1, sizeof *part), all = 0;

    if (!part)
        return err_set(err, -ENOMEM, "%s: out of memory", out->x->path);
    for (size_t i = 0; i < m->n; i++)
        all += part[i] = sources->examples[i];
    int rc = all == out->rows ? packing_make_parts(&out->packed, out->length, part, m->n, seq, err)
                              : err_set(err, -EBADMSG, "%s has other rows than its sources",
                                        out->x->path);
    for (size_t i = 0; i < m->n && !rc; i++)
        m->source[i].rows = part[i];
    m->rows = out->packed.rows;
    free(part);
    return rc;
}

/* Opens RUN/NAME.ex, if the run has it. sources: of its rows, if these are the training's. */
static int set_open(struct chat_set *out, struct session *s, const char *name,
                    struct row_sources *sources, struct err *err)
{
    int rc = task_files_open(&out->x, s, name, err);

    if (rc || !out->x)
        return rc;
    rc = set_lengths(out, s->o.seq, err);
    if (!rc && s->rows == SESSION_PAIRS)
        return set_pairs(out, s, name, err);
    if (rc || s->rows != SESSION_PACKED)
        return rc;
    if (sources && sources->order.n > 1)
        rc = pack_sources(out, sources, (uint32_t)s->o.seq, err);
    else
        rc = packing_make(&out->packed, out->length, out->rows, (uint32_t)s->o.seq, err);
    out->rows = out->packed.rows;
    return rc;
}

/* Rows of a group that is made at once. */
static size_t group_rows(const struct chat_source *c) { return CHAT_GROUP * c->batch; }

int chat_source_open(struct chat_source **out, struct session *s, struct err *err)
{
    const struct train_opts *o = &s->o;
    struct chat_source      *c = *out = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    c->seed = o->seed;
    c->each = s->rows == SESSION_PAIRS ? 2 : 1;
    c->batch = o->batch / c->each;
    c->accum = o->grad_accum;
    c->seq = o->seq;
    c->shuffled = o->order == TRAIN_SHUFFLED;
    c->by_length = settings_has(s->log, "chat.by_length");
    c->ids = malloc(c->seq * sizeof *c->ids);
    if (c->by_length)
        c->group.row = malloc(group_rows(c) * sizeof *c->group.row);
    if (!c->ids || (c->by_length && !c->group.row))
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    int rc = row_sources_open(&c->sources, s, err);
    rc = rc ? rc : set_open(&c->train, s, RUN_TRAIN, &c->sources, err);
    rc = rc ? rc : set_open(&c->dev, s, run_dev[0], NULL, err);
    if (!rc && c->sources.order.weighted && c->sources.order.rows != c->train.rows)
        rc = err_set(err, -EBADMSG, "%s/run.db: the rows of its sources are not those of train.ex",
                     s->dir);
    if (!rc && !c->train.x)
        rc = err_set(err, -EBADMSG, "%s/run.db has no training rows", s->dir);
    c->epoch_steps = task_files_epoch_steps(c->train.rows * c->each, o);
    return rc;
}

int chat_source_of(struct chat_source **out, struct examples *x, size_t batch, size_t seq,
                   int of_pairs, struct err *err)
{
    struct chat_source *c = *out = calloc(1, sizeof *c);

    if (!c) {
        examples_close(x);
        return err_set(err, -ENOMEM, "out of memory for the rows that are evaluated");
    }
    c->dev.x = x;
    c->each = of_pairs ? 2 : 1;
    c->batch = batch / c->each;
    c->accum = 1;
    c->seq = seq;
    c->ids = malloc(seq * sizeof *c->ids);
    int rc = c->ids ? set_lengths(&c->dev, seq, err)
                    : err_set(err, -ENOMEM, "out of memory for a row");

    c->dev.rows /= c->each;
    return rc;
}

void chat_source_close(struct chat_source *c)
{
    if (!c)
        return;
    set_close(&c->train);
    set_close(&c->dev);
    row_sources_close(&c->sources);
    free(c->group.row);
    free(c->ids);
    free(c);
}

int chat_source_count(uint64_t *rows, struct session *s, struct err *err)
{
    struct chat_set    set = { 0 };
    struct row_sources sources;
    int                rc = row_sources_open(&sources, s, err), packs = s->rows == SESSION_PACKED;

    rc = rc ? rc : set_open(&set, s, RUN_TRAIN, &sources, err);
    *rows = set.rows * (s->rows == SESSION_PAIRS ? 2 : 1);
    if (!rc && packs)
        rc = settings_set(s->log, err, RUN_TRAIN ".packed=%" PRIu64, set.rows);
    for (size_t i = 0; i < sources.order.n && !rc && packs; i++)
        rc = row_sources_store_packed(s, i, sources.order.n > 1 ? sources.order.source[i].rows
                                                                : set.rows, err);
    row_sources_close(&sources);
    set_close(&set);
    return rc;
}

/* ---- which rows ---- */

/* The tokens that a row takes, or the longer one of a pair. */
static size_t tokens_of(const struct chat_source *c, const struct chat_set *s, uint64_t row)
{
    const struct packing *p = &s->packed;
    size_t                n = 0;

    if (c->each == 2)
        return size_max(s->length[2 * row], s->length[2 * row + 1]);
    if (!p->rows)
        return s->length[row];
    for (size_t i = p->start[row]; i < p->start[row + 1]; i++)
        n += s->length[p->item[i]];
    return n;
}

/* The longest first, so that what is too much for memory is seen at once. */
static int by_length(const void *a, const void *b, void *ctx)
{
    const struct chat_source *c = ctx;
    uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    size_t   m = tokens_of(c, &c->train, i), n = tokens_of(c, &c->train, k);

    return m != n ? (m < n ? 1 : -1) : i < k ? -1 : i > k;
}

static void group_make(struct chat_source *c, uint64_t epoch, uint64_t number)
{
    struct group *g = &c->group;
    uint64_t      first = number * group_rows(c);

    if (g->made && g->epoch == epoch && g->number == number)
        return;
    *g = (struct group){ epoch, number, size_min(c->train.rows - first, group_rows(c)), g->row, 1 };
    for (uint64_t i = 0; i < g->n; i++)
        g->row[i] = permute(c->seed, ROWS_EPOCH + epoch, first + i, c->train.rows);
    qsort_r(g->row, g->n, sizeof *g->row, by_length, c);
}

/* A batch: rows of a list; or those with the numbers from `first` on in a mixture; or those from
 * `first` on, permuted in an epoch (order), or as they are. */
struct pick {
    const struct chat_source *order;
    const uint64_t           *list;
    uint64_t                  epoch, first;
    const struct row_sources *mixture;
};

static uint64_t pick_row(const struct pick *p, size_t i)
{
    const struct chat_source *c = p->order;

    return p->list      ? p->list[i]
           : p->mixture ? row_sources_row(p->mixture, p->first + i)
           : c          ? permute(c->seed, ROWS_EPOCH + p->epoch, p->first + i, c->train.rows)
                        : p->first + i;
}

/* The rows of the batch number `number` of an epoch. */
static size_t pick_by_length(struct chat_source *c, struct pick *p, uint64_t number)
{
    uint64_t batches = div_up(c->train.rows, c->batch);

    if (number >= batches)
        return 0;
    number = permute(c->seed, LENGTH_STREAM + p->epoch, number, batches);
    group_make(c, p->epoch, number / CHAT_GROUP);
    size_t at = number % CHAT_GROUP * c->batch;
    p->list = c->group.row + at;
    return size_min(c->group.n - at, c->batch);
}

/* ---- reading them ---- */

/* The examples of a row. Of pairs, it is one. */
struct contents { const uint32_t *item; size_t n; uint32_t one; };

static void contents_of(struct contents *out, const struct chat_set *s, uint64_t row)
{
    const struct packing *p = &s->packed;

    out->one = (uint32_t)row;
    out->item = p->rows ? p->item + p->start[row] : &out->one;
    out->n = p->rows ? p->start[row + 1] - p->start[row] : 1;
}

/* Puts an example at token `at` of the batch. *n: the tokens that it takes. */
static int put_example(struct chat_source *c, const struct chat_set *s, uint32_t i,
                       struct batch *b, size_t at, size_t *n, struct err *err)
{
    struct example unused;
    size_t         ids;
    int rc = examples_read(s->x, i, c->ids, c->seq, &ids, &unused, err);

    if (!rc && ids != s->length[i] + (size_t)1)
        rc = err_set(err, -EIO, "%s: row %" PRIu32 " has another length than before", s->x->path,
                     i);
    for (size_t k = 0; k + 1 < ids && !rc; k++) {
        b->x[at + k] = examples_id(c->ids[k]);
        b->y[at + k] = examples_counts(c->ids[k + 1]) ? c->ids[k + 1] : -1;
        if (b->begin)
            b->begin[at + k] = (int32_t)(at % b->seq);
    }
    *n = rc ? 0 : ids - 1;
    return rc;
}

static int put_row(struct chat_source *c, const struct chat_set *s, uint64_t row, struct batch *b,
                   size_t r, struct err *err)
{
    struct contents k;
    size_t          at = r * b->seq, end = at + b->seq, n;
    int             rc = 0;

    contents_of(&k, s, row);
    if (b->reference)
        b->reference[r] = s->reference ? s->reference[row] : 0;
    for (size_t i = 0; i < k.n && !rc; i++, at += n)
        rc = put_example(c, s, k.item[i], b, at, &n, err);
    b->padding += end - at;
    for (size_t from = at; at < end; at++) { // a text of its own
        b->x[at] = 0;
        b->y[at] = -1;
        if (b->begin)
            b->begin[at] = (int32_t)(from % b->seq);
    }
    return rc;
}

/* The tokens of each row of a batch of n: as many as the longest has. */
static size_t seq_of(const struct chat_source *c, const struct chat_set *s, const struct pick *p,
                     size_t n)
{
    size_t longest = 1;

    for (size_t i = 0; i < n; i++)
        longest = size_max(longest, tokens_of(c, s, pick_row(p, i)));
    return size_min(round_up(longest, CHAT_PAD_TO), c->seq);
}

/* Fills a micro-batch with n rows, or pairs. */
static int fill(struct chat_source *c, const struct chat_set *s, const struct pick *p, size_t n,
                struct batch *b, struct err *err)
{
    int rc = 0;

    assert(b->seq == c->seq);
    b->rows = n * c->each;
    b->seq = seq_of(c, s, p, n);
    for (size_t i = 0; i < b->rows && !rc; i++)
        rc = put_row(c, s, pick_row(p, i / c->each) * c->each + i % c->each, b, i, err);
    return rc;
}

int chat_source_batch(struct chat_source *c, uint64_t step, size_t micro, struct batch *b,
                      struct err *err)
{
    uint64_t    number = step % c->epoch_steps * c->accum + micro, first = number * c->batch;
    struct pick p = { c->shuffled ? c : NULL, NULL, step / c->epoch_steps, first, NULL };

    if (c->sources.order.weighted) {
        p.mixture = &c->sources;
        p.first = (step * c->accum + micro) * c->batch;
        return fill(c, &c->train, &p, c->batch, b, err);
    }
    size_t      n = c->by_length           ? pick_by_length(c, &p, number)
                    : first < c->train.rows ? size_min(c->train.rows - first, c->batch)
                                            : 0;

    return fill(c, &c->train, &p, n, b, err);
}

/* ---- evaluation ---- */

struct evaluating { struct chat_source *c; const struct chat_set *set; size_t accum; };

/* The rows of a micro-batch of a pass over a set, in order. Returns their number. */
static size_t evaluating_pick(const struct evaluating *v, struct pick *p, uint64_t pass,
                              size_t micro)
{
    *p = (struct pick){ .first = (pass * v->accum + micro) * v->c->batch };
    return p->first < v->set->rows ? size_min(v->set->rows - p->first, v->c->batch) : 0;
}

static int evaluating_batch(void *ctx, uint64_t pass, size_t micro, struct batch *b,
                            struct err *err)
{
    const struct evaluating *v = ctx;
    struct pick              p;
    size_t                   n = evaluating_pick(v, &p, pass, micro);

    return fill(v->c, v->set, &p, n, b, err);
}

/* Log-probabilities of the examples of a pass, of the losses of their tokens. */
static void take_logp(const struct evaluating *v, uint64_t pass, size_t micros, const float *each,
                      double *logp)
{
    const struct chat_source *c = v->c;

    for (size_t a = 0; a < micros; a++) {
        struct pick p;
        size_t      n = evaluating_pick(v, &p, pass, a), seq = seq_of(c, v->set, &p, n);
        const float *loss = each + a * c->batch * c->each * c->seq;

        for (size_t i = 0; i < n * c->each; i++) {
            double sum = 0;

            for (size_t t = 0; t < seq; t++)
                sum -= (double)loss[i * seq + t];
            logp[p.first * c->each + i] = sum;
        }
    }
}

/* Evaluates a set. each: NULL, or room for the losses of a pass, of which logp is made. */
struct evaluation { uint64_t step; struct watch watch; float *each; double *logp; };

static int evaluate_set(struct evaluating *v, const struct evaluator *e, struct evaluation *what,
                        struct eval_result *sum, struct err *err)
{
    struct batch_source source = { evaluating_batch, v };
    uint64_t            rows = v->set->rows;
    int                 rc = 0;

    for (uint64_t done = 0, pass = 0; done < rows && !rc; pass++) {
        size_t micros = size_min(div_up(rows - done, v->c->batch), v->accum);

        rc = watch_look(&what->watch, done, rows, err);
        rc = rc ? rc : eval_step(e->trainer, what->step, &source, pass, micros, what->each, sum,
                                 err);
        if (!rc && what->each)
            take_logp(v, pass, micros, what->each, what->logp);
        done += micros * v->c->batch;
    }
    return rc;
}

int chat_source_evaluate(struct chat_source *c, const struct evaluator *e, uint64_t step,
                         struct eval_result *out, struct err *err)
{
    struct evaluating v = { c, &c->dev, e->grad_accum };
    struct evaluation what = { .step = step, .watch = work_begin(e->events, "evaluating") };

    assert(c->dev.x);
    *out = (struct eval_result){ 0 };
    int rc = evaluate_set(&v, e, &what, out, err);

    work_end(e->events);
    out->loss_sum = out->tokens ? out->loss_sum / (double)out->tokens : 0;
    return rc;
}

/* ---- the reference of pairs ---- */

int chat_source_lacks_reference(const struct chat_source *c)
{
    return c->each == 2 && (!c->train.known || (c->dev.x && !c->dev.known));
}

static int reference_set(struct chat_source *c, struct chat_set *set, const struct evaluator *e,
                         const char *what, struct err *err)
{
    struct evaluating  v = { c, set, e->grad_accum };
    size_t             most = c->accum * c->batch * c->each * c->seq;
    struct eval_result unused = { 0 };
    struct evaluation  how = { .each = malloc(most * sizeof *how.each),
                               .logp = malloc(set->x->h.rows * sizeof *how.logp) };
    int rc = how.each && how.logp ? 0 : err_set(err, -ENOMEM, "out of memory for the reference");

    how.watch = work_begin(e->events, "reference model: %s pairs", what);
    rc = rc ? rc : evaluate_set(&v, e, &how, &unused, err);
    work_end(e->events);
    free(how.each);
    if (rc) {
        free(how.logp);
        return rc;
    }
    free(set->reference);
    set->reference = how.logp;
    return 0;
}

int chat_source_refer(struct chat_source *c, const struct evaluator *e, struct err *err)
{
    return reference_set(c, &c->dev, e, "evaluation", err);
}

int chat_source_reference(struct chat_source *c, const struct evaluator *e, struct err *err)
{
    int rc = reference_set(c, &c->train, e, "training", err);

    return rc || !c->dev.x ? rc : chat_source_refer(c, e, err);
}

int chat_source_keep_reference(struct chat_source *c, struct session *s, struct err *err)
{
    int rc = reference_write(s, RUN_TRAIN, c->train.x, c->train.reference, err);

    rc = rc || !c->dev.x ? rc : reference_write(s, run_dev[0], c->dev.x, c->dev.reference, err);
    c->train.known = c->dev.known = !rc;
    return rc;
}
