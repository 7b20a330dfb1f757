/* finetune_chat.h: fine-tuning of a language model on conversations or preferences. */
#pragma once

#include "cmd/finetune_begin.h"
#include "run/loop/finetune_results.h"

/* Make a new run whose rows are conversations or preferences. */
int finetune_chat_make(const char *dir, struct opt_line *line, struct comm *comm, struct err *err);

/* Print the last evaluation. */
void finetune_chat_print(const struct finetune_results *o);
