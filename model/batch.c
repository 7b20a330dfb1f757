/* batch.c: reads micro-batches from their source, checks them and counts what counts in the loss.
 * The source writes directly into the arrays that the arithmetic reads. */
#include "model/batch.h"

#include <assert.h>

static uint64_t count(const int32_t *x, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] >= 0;
    return sum;
}

static void count_batch(const struct model *m, const struct batch *b, struct batch_counts *n)
{
    if (!arch_classifies(&m->o.config)) {
        assert(b->padding <= b->rows * b->seq);
        n->tokens += b->rows * b->seq - b->padding;
        n->counted += m->o.paired ? b->rows / 2 : count(b->y, b->rows * b->seq);
        return;
    }
    for (size_t i = 0; i < b->rows; i++)
        n->tokens += (uint64_t)b->last[i] + 1;
    n->counted += count(b->label, b->rows);
}

/* A batch of the largest allowed size, with the model's arrays for it. */
static struct batch batch_of(const struct model *m, size_t micro)
{
    const struct acts_work     *w = &m->acts.work;
    const struct model_options *o = &m->o;
    size_t                      at = micro * model_tokens(m), row = micro * o->batch;
    struct batch                b = { .rows = o->batch, .seq = o->seq, .x = w->x + at };

    if (arch_classifies(&o->config)) {
        b.label = w->label + row;
        b.value = w->value + row;
    } else {
        b.y = w->y + at;
    }
    b.last = w->last ? w->last + row : NULL;
    b.types = w->types ? w->types + at : NULL;
    b.reference = w->reference ? w->reference + row : NULL;
    b.begin = w->begin ? w->begin + at : NULL;
    return b;
}

static int is_allowed(const struct model_options *o, const struct batch *b)
{
    if (o->paired && b->rows % 2)
        return 0;
    if (!o->varying)
        return b->rows == o->batch && b->seq == o->seq;
    return b->rows <= o->batch && b->seq > 0 && b->seq <= o->seq &&
           (b->seq % 16 == 0 || b->seq == o->seq);
}

/* Computes each token's position in its text, from where the text begins. */
static void place_tokens(int32_t *at, const struct batch *b)
{
    for (size_t i = 0; i < b->rows * b->seq; i++) {
        int32_t t = (int32_t)(i % b->seq), begin = b->begin[i];

        assert(begin == t || (t > 0 && begin == b->begin[i - 1]));
        at[i] = t - begin;
    }
}

int batch_read(struct model *m, const struct batch_source *data, uint64_t number, size_t micro,
               struct batch_counts *n, struct err *err)
{
    const struct acts_work *w = &m->acts.work;
    struct batch            b = batch_of(m, micro);
    int rc = data->batch(data->ctx, number, m->o.first_micro + micro, &b, err);

    if (rc)
        return rc;
    assert(is_allowed(&m->o, &b));
    w->shape[micro] = (struct acts_shape){ b.rows, b.seq };
    for (size_t i = 0; w->length && i < b.rows; i++)
        w->length[micro * m->o.batch + i] = b.last[i] + 1;
    if (b.begin)
        place_tokens(w->at + micro * model_tokens(m), &b);
    count_batch(m, &b, n);
    return 0;
}
