/* pairs.h: the loss of preferences. Rows 2i and 2i + 1 of a micro-batch are a pair: two answers to
 * one prompt, of which the first was chosen and the second rejected. The model learns to tell them
 * apart better than a reference model does, without that model in memory: the batch has the
 * log-probabilities that it gave to both answers (struct batch's reference).
 *
 * An answer's log-probability is the sum over its targets that count. With r the difference of the
 * model's and the reference's, and d = r of the chosen - r of the rejected answer, a pair's loss is
 *     sigmoid   -(1 - e) log s(beta d) - e log s(-beta d)              e: label smoothing
 *               (DPO: Rafailov et al., 2023; with e the conservative DPO of Mitchell, 2023)
 *     robust    (-(1 - e) log s(beta d) + e log s(-beta d)) / (1 - 2 e)
 *               (Chowdhury et al., 2024)
 *     ipo       (d' - 1 / (2 beta))^2, where r in d' is the mean over an answer's tokens
 *               (Azar et al., 2023; TRL takes the mean, too)
 * where s is the logistic function. TRL calls beta r the answer's reward. */
#pragma once

#include "model/layer/model.h"

enum pairs_loss { PAIRS_SIGMOID, PAIRS_ROBUST, PAIRS_IPO };

struct pairs_options { enum pairs_loss loss; double beta, smoothing; };

/* Sums over pairs: losses, rewards, and the number of pairs whose chosen answer has the larger
 * reward. */
struct pairs_sums { double loss, chosen, rejected, correct; };

/* Of one pair: r and the number of tokens of the chosen and of the rejected answer. Returns the
 * loss. slope: its derivative by each r. */
struct pair { double r[2]; size_t tokens[2]; };
double pairs_loss(const struct pairs_options *o, const struct pair *p, double slope[2]);

/* Computes *sums over the pairs of a micro-batch, whose tokens' losses are in acts.work.weight, and
 * replaces these by the weights of the tokens' gradients, so that the gradient of the sum of the
 * pairs' losses is that of the sum of weight x loss over all tokens. */
void pairs_weigh(struct pairs_sums *sums, struct model *m, size_t micro,
                 const struct pairs_options *o);

static inline void pairs_add(struct pairs_sums *to, const struct pairs_sums *x)
{
    to->loss += x->loss;
    to->chosen += x->chosen;
    to->rejected += x->rejected;
    to->correct += x->correct;
}

/* The means of these sums over n pairs. */
struct runlog_rewards pairs_rewards(const struct pairs_sums *sums, uint64_t n);
