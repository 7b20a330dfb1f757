/* chat_source.h: batches of a run whose rows are conversations, from RUN/train.ex and RUN/dev.ex.
 *
 * An example of n ids takes n - 1 tokens of a row: each id but the last is a token, and the id
 * behind it is its target, if that counts. A row holds one example, padded to the longest row of
 * its batch; or, with --packing, several. With --group-by-length a batch has rows of similar
 * length: in each epoch the rows are permuted, groups of 50 batches are sorted by length, and the
 * batches are permuted. Of preferences, the two answers of a pair are neighbouring rows of a batch,
 * and all that is said here of rows is said of pairs.
 *
 * A step's number alone determines its rows. An epoch has ceil(rows / (batch * grad-accum)) steps.
 * Its last step may have fewer rows, or micro-batches without any, unless the sources of rows have
 * weights (row_sources.h). With --packing and several sources, each source is packed by itself. */
#pragma once

#include "model/step.h"
#include "run/folder/session.h"
#include "run/sources/evaluate.h"

struct chat_source; // opaque

/* Batches that are sorted by length together; rows are padded to a multiple of so many tokens. */
enum { CHAT_GROUP = 50, CHAT_PAD_TO = 16 };

int  chat_source_open(struct chat_source **out, struct session *s, struct err *err);
void chat_source_close(struct chat_source *c); // NULL is fine

/* Evaluation rows alone, of a model that no run trains: x, which chat_source_close closes, also
 * after a failure. batch, seq: those of the evaluator. of_pairs: they are pairs of answers. */
int  chat_source_of(struct chat_source **out, struct examples *x, size_t batch, size_t seq,
                    int of_pairs, struct err *err);

/* As the callback of struct batch_source. */
int  chat_source_batch(struct chat_source *c, uint64_t step, size_t micro, struct batch *b,
                       struct err *err);

/* Mean loss over the counted tokens of the evaluation rows, or over its pairs. out->tokens: their
 * number; out->loss_sum: the mean; out->pairs: the pairs' sums. */
int  chat_source_evaluate(struct chat_source *c, const struct evaluator *e, uint64_t step,
                          struct eval_result *out, struct err *err);

/* Pairs only. Whether what the reference model says (reference.h) is not there yet; to compute it
 * with the trainer's parameters, before the first step; and to store it with the run. */
int  chat_source_lacks_reference(const struct chat_source *c);
int  chat_source_reference(struct chat_source *c, const struct evaluator *e, struct err *err);
int  chat_source_keep_reference(struct chat_source *c, struct session *s, struct err *err);
/* Compute it for the evaluation rows alone. */
int  chat_source_refer(struct chat_source *c, const struct evaluator *e, struct err *err);

/* The number of rows that an epoch has, of a run that is being created; of pairs, of both answers.
 * Stores the numbers of packed rows. */
int  chat_source_count(uint64_t *rows, struct session *s, struct err *err);
