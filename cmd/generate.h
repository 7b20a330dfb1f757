/* generate.h: what generate was asked for; chat.c is the half of it that talks. */
#ifndef CMD_GENERATE_H
#define CMD_GENERATE_H

#include "cmd/opt/opt.h"
#include "cmd/run/generator.h"

struct generate_opts {
    const char        *model, *prompt_file, *tokenizer;
    struct opt_strings prompt, stop;
    uint64_t           tokens;
    struct sampling    sampling;
    int                chat;
    struct read_opts   read;
    int                tokens_given, batch_given;
};

/* Talk on a terminal. *code: 0, or 130 where Ctrl-C ended it. */
int chat_run(struct generator *g, const struct generate_opts *o, int *code, struct err *err);

#endif
