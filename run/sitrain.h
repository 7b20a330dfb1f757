/* sitrain.h: the life of a run, and the beginning for a program that has siTrain in it. It needs no
 * command line, and nothing of it prints, exits, or looks at signals. examples/train.c is one;
 * `make build/examples/NAME` builds examples/NAME.c in the same way.
 *
 *     tokenise_train(&text, 1, 512, "tok", &ids, ev, &err)         a tokenizer of its own
 *
 *     train_opts_default(&o, &err)                                 how to train;
 *     newrun_create(&(struct newrun){ .dir = "run", .config = config,   which model, on which text:
 *                   .o = &o, .tokenizer = "tok",                   the folder run is complete,
 *                   .data = text, .events = ev }, &err)            or is not made
 *     train_opts_release(&o)
 *
 *     session_open(&s, "run", SESSION_WRITE, ev, &err)             the run, locked
 *     training_run(&s, &end, &err)                                 trained from its last commit on
 *     session_close(&s)
 *
 *     read_opts_default(&read, &err)                               how to read a model
 *
 *     model_folder_open(&m, "run", MODEL_KEPT, NULL, ev, &err)     the model in it, or in a Hugging
 *     model_folder_evaluator(&e, &m, &read, 0, &err)               Face folder, to be read:
 *     tokens_open(&tokens, "held-out.bin", 2, &err)
 *     evaluate_tokens(&e, tokens, 0, &loss, &n, &err)              its loss on a file of tokens
 *     tokens_close(tokens)
 *     evaluator_close(&e)
 *     model_folder_close(&m)
 *
 *     generator_open(&g, "run", MODEL_KEPT, NULL, &read, &sampling, ev, &err)    the same, to
 *     generator_start(&g, 1, positions, n, &err)                   continue texts:
 *     generator_feed(&g, &ids, &n, &logits, &err)                  the prompt; then each token,
 *     id = generator_choose(&g, logits, 0, position)               position from 0, is fed alone
 *     generator_close(&g)
 *
 * ev is a struct events: callbacks that hear of steps, evaluations, notices and of work that
 * lasts, and that are asked whether to stop; NULL: nobody is. A run that was stopped, or killed, is
 * opened again and goes on, to the same bits. Every function that can fail returns 0 or -errno and
 * writes a sentence into struct err. A process trains one run at a time. */
#pragma once

#include "run/folder/events.h"
#include "run/loop/generator.h"
#include "run/loop/model_folder.h"
#include "run/loop/training.h"
#include "run/newrun.h"
#include "run/sources/tokenise.h"
