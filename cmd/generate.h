/* generate.h: the options of `siTrain generate`, and its conversation. */
#pragma once

#include "data/opt/opt.h"
#include "run/loop/generator.h"

struct generate_opts {
    const char        *model, *prompt_file, *tokenizer;
    struct opt_strings prompt, stop;
    uint64_t           tokens;
    struct sampling    sampling;
    int                chat;
    const char        *system, *template, *date;
    struct read_opts   read;
    struct which_opts  which;
    int                tokens_given, batch_given;
};

/* Hold a conversation on stdin and stdout. 130: ended by Ctrl-C. */
int generate_chat(struct generator *g, const struct generate_opts *o, struct err *err);
