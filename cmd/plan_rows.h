/* plan_rows.h: what `siTrain plan` finds out about the rows of a fine-tuning. */
#pragma once

#include "run/sources/rows_look.h"

struct plan_rows {
    const struct tune_opts  *tune;
    const struct task_names *columns;
    const struct chat_opts  *chat;
    const struct pairs_opts *pairs;
    const char              *data;   // folder of a task; NULL: none
    const char              *folder; // with tokenizer and chat template; NULL: none
};

/* Looks at the files, if there are any, and completes the options as finetune does, and the model's
 * head. Without a fine-tuning it does nothing. *out: without a tokenizer only numbers of rows. */
int plan_rows(struct rows_look *out, struct session *s, const struct plan_rows *p,
              const struct opt_line *line, struct train_opts *train, struct err *err);
