/* feed_lm.c: rows of a token file, and the loss on another one. */
#include "cmd/run/feed.h"

#include "cmd/run/corpus.h"
#include "cmd/run/evaluate.h"
#include "data/base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct feed_lm {
    struct feed         feed;
    struct tokens      *data, *eval; // eval NULL: none
    struct tokens_order order;
    struct evaluator    evaluator;
};

static int lm_batch(struct feed *f, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    struct feed_lm *l = (struct feed_lm *)f;

    return tokens_batch(l->data, &l->order, step, micro, l->evaluator.vocab, b->x, b->y, err);
}

static int lm_evaluate(struct feed *f, struct trainer *t, uint64_t step, struct feed_values *out,
                       struct err *err)
{
    struct feed_lm *l = (struct feed_lm *)f;
    uint64_t        start_ns = clock_ns();
    double          loss;
    int             rc;

    *out = (struct feed_values){ .n = 2 };
    l->evaluator.trainer = t;
    rc = evaluate_tokens(&l->evaluator, l->eval, step, &loss, &out->count, err);
    if (rc)
        return rc;
    snprintf(out->value[0].name, sizeof out->value[0].name, "loss");
    snprintf(out->value[1].name, sizeof out->value[1].name, "perplexity");
    out->value[0].value = loss;
    out->value[1].value = exp(loss);
    out->seconds[0] = (double)(clock_ns() - start_ns) * 1e-9;
    return 0;
}

static void lm_close(struct feed *f)
{
    struct feed_lm *l = (struct feed_lm *)f;

    tokens_close(l->data);
    tokens_close(l->eval);
    free(l);
}

static const struct feed_ops lm_ops = {
    .counts = "tokens", .batch = lm_batch, .evaluate = lm_evaluate, .close = lm_close
};

int feed_lm_open(struct feed **out, struct session *s, struct err *err)
{
    struct feed_lm *l = calloc(1, sizeof *l);
    int             rc;

    if (!l)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    l->feed.ops = &lm_ops;
    l->evaluator = (struct evaluator){ NULL, s->o.batch, s->o.seq, s->o.grad_accum, s->gpt.vocab,
                                       s->events, NULL };
    l->order = (struct tokens_order){ .shuffled = s->o.order == TRAIN_SHUFFLED,
                                      .seed = s->o.seed,
                                      .batch = s->o.batch,
                                      .seq = s->o.seq,
                                      .grad_accum = s->o.grad_accum };
    rc = corpus_open(&l->data, s, "data", err);
    if (!rc)
        rc = corpus_open(&l->eval, s, "eval", err);
    if (rc)
        lm_close(&l->feed);
    else
        *out = &l->feed;
    return rc;
}
