/* pairs.c: turns the losses of tokens into those of pairs of answers, in double and in the order of
 * the tokens, so that their bits depend on nothing else. */
#include "model/layer/pairs.h"

#include "data/base/round.h"

#include <math.h>

/* log s(x), and s(x), for the logistic function s. */
static double log_logistic(double x) { return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }
static double logistic(double x) { return exp(log_logistic(x)); }

/* The losses of a logistic function of d, and their derivative by d. With `flipped`, the weight of
 * the other answer, sigmoid's and robust's are the same function. */
static double logistic_loss(const struct pairs_options *o, double d, double *slope)
{
    double e = o->smoothing, x = o->beta * d;
    double flipped = o->loss == PAIRS_ROBUST ? -e : e;
    double all = o->loss == PAIRS_ROBUST ? 1 - 2 * e : 1;

    *slope = o->beta * (flipped * logistic(x) - (1 - e) * logistic(-x)) / all;
    return (-(1 - e) * log_logistic(x) - flipped * log_logistic(-x)) / all;
}

double pairs_loss(const struct pairs_options *o, const struct pair *p, double slope[2])
{
    double each[2] = { 1, 1 }, by;

    if (o->loss != PAIRS_IPO) {
        double loss = logistic_loss(o, p->r[0] - p->r[1], &by);

        slope[0] = by;
        slope[1] = -by;
        return loss;
    }
    for (int k = 0; k < 2; k++)
        each[k] = 1 / (double)size_max(p->tokens[k], 1);
    double off = p->r[0] * each[0] - p->r[1] * each[1] - 1 / (2 * o->beta);

    slope[0] = 2 * off * each[0];
    slope[1] = -2 * off * each[1];
    return off * off;
}

void pairs_weigh(struct pairs_sums *sums, struct model *m, size_t micro,
                 const struct pairs_options *o)
{
    struct acts_shape shape = model_shape(m, micro);
    size_t            row = micro * model_tokens(m);
    const int32_t    *y = m->acts.work.y + row;
    const double     *reference = m->acts.work.reference + micro * m->o.batch;
    float            *weight = m->acts.work.weight + row;

    *sums = (struct pairs_sums){ 0 };
    for (size_t i = 0; i + 1 < shape.rows; i += 2) {
        struct pair p = { 0 };
        double      slope[2];

        for (size_t k = 0; k < 2; k++) {
            double logp = 0;

            for (size_t t = (i + k) * shape.seq; t < (i + k + 1) * shape.seq; t++)
                if (y[t] >= 0) {
                    logp -= (double)weight[t];
                    p.tokens[k]++;
                }
            p.r[k] = logp - reference[i + k];
        }
        sums->loss += pairs_loss(o, &p, slope);
        sums->chosen += o->beta * p.r[0];
        sums->rejected += o->beta * p.r[1];
        sums->correct += p.r[0] > p.r[1];
        for (size_t k = 0; k < 2; k++)
            for (size_t t = (i + k) * shape.seq; t < (i + k + 1) * shape.seq; t++)
                weight[t] = (float)-slope[k]; // a token's loss is minus its log-probability
    }
}

struct runlog_rewards pairs_rewards(const struct pairs_sums *sums, uint64_t n)
{
    double each = n ? 1 / (double)n : 0;

    return (struct runlog_rewards){ .pairs = n, .chosen = sums->chosen * each,
                                    .rejected = sums->rejected * each,
                                    .accuracy = sums->correct * each };
}
