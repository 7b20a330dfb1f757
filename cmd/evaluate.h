/* evaluate.h: the loss over a whole token file: rows one after the other from its beginning, each token but the first of a row's range
 * predicted once. */
#ifndef CMD_EVALUATE_H
#define CMD_EVALUATE_H

#include "data/tokens.h"
#include "model/step.h"

struct evaluate {
    size_t batch, seq, grad_accum, vocab; // the trainer's
};

/* Rows that a file has. */
uint64_t evaluate_rows(const struct tokens *t, size_t seq);

/* Mean loss of all rows; a last pass that is not full is padded with targets that do not count. step: for the spans. */
int evaluate(double *loss, uint64_t *tokens, struct trainer *t, struct tokens *data, const struct evaluate *e, uint64_t step,
             struct err *err);

#endif
