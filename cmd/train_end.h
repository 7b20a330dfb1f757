/* train_end.h: how pretrain and finetune train and end. train_begin.h is how they begin. */
#pragma once

#include "run/folder/session.h"

/* Trains, and says how it ended. -errno with a sentence, or the command's exit code: 0, or 130 if
 * it was asked to stop. *finished: the run has nothing left to train. */
int train_to_end(struct session *s, int *finished, struct err *err);
