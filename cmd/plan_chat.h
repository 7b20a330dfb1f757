/* plan_chat.h: what `siTrain plan --task chat` or dpo finds out about the rows. */
#pragma once

#include "run/sources/chat_look.h"

struct plan_chat {
    const struct chat_opts  *o;
    const struct pairs_opts *pairs;  // NULL: --task chat
    const struct tune_opts  *tune;
    const struct task_names *columns;
    const char              *folder; // with tokenizer and template; NULL: none
};

/* Looks at the files, if there are any, and completes the options as finetune does. */
int plan_chat(struct chat_look *out, struct session *s, const struct plan_chat *p,
              const struct opt_line *line, struct train_opts *train, struct err *err);
