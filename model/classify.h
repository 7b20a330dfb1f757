/* classify.h: the final norm and a classifier's or regressor's head, as transformers'
 * GPT2ForSequenceClassification has it: the last position of each row that is not padding,
 * normalised, times score.weight. */
#ifndef MODEL_CLASSIFY_H
#define MODEL_CLASSIFY_H

#include "model/model.h"

/* One micro-batch, from acts_input(n_layer + 1) and the rows' last positions, labels and values in
 * acts_work(). Losses (cross-entropy, or with one label squared error) are summed in double in row
 * order: returns their sum; *counted += the rows with a label. wire: of block n_layer + 1. logits
 * (rows, n_labels), NULL if not wanted. */
double classify_loss(struct model *m, size_t micro, const void *wire, float *logits,
                     uint64_t *counted);

/* The same with gradients of sum x scale: dx of the residual stream is written to acts_work()->dx
 * (zero but at the last positions), the parameters' are added to grad (block n_layer + 1). */
double classify_step(struct model *m, size_t micro, const void *wire, float *grad, float scale);

#endif
