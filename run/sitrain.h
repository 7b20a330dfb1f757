/* sitrain.h: the interface for a program that embeds siTrain: create a run, train it, evaluate it,
 * generate text. It needs no command line. No function in it prints, exits, or handles signals.
 * examples/train.c uses it; `make build/examples/NAME` builds examples/NAME.c.
 *
 *     tokenise_train(&t, ev, &err)         train a tokenizer
 *
 *     train_opts_default(&o, &err)                                 training options
 *     newrun_create(&(struct newrun){ .dir = "run", .config = config,   create the run's folder;
 *                   .o = &o, .tokenizer = "tok",                   after an error
 *                   .corpus = &corpus, .events = ev }, &err)       there is none
 *     train_opts_release(&o)
 *
 *     session_open(&s, "run", SESSION_WRITE, ev, &err)             open and lock the run
 *     training_run(&s, &end, &err)                                 train from its last commit
 *     session_close(&s)
 *
 *     read_opts_default(&read, &err)                               options for reading a model
 *
 *     model_folder_open(&m, "run", NULL, MODEL_KEPT, NULL, ev, &err)   open the model of a run, a
 *     model_folder_evaluator(&e, &m, &read, NULL, &err)            Hugging Face or adapter folder
 *     tokens_open(&one.tokens, "held-out.bin", 2, &err)            struct mixture_source one
 *     evaluate_tokens(&e, &(struct mixture){ &one, 1 }, 0, &loss, &n, &err)   its loss on a token
 *     tokens_close(one.tokens)                                     file
 *     evaluator_close(&e)
 *     model_folder_close(&m)
 *
 *     generator_open(&g, "run", MODEL_KEPT, NULL, &read, &sampling, ev, &err)   open a model to
 *     generator_start(&g, 1, positions, n, &err)                   continue texts
 *     generator_feed(&g, &ids, &n, &logits, &err)                  feed the prompt, then a token
 *     id = generator_choose(&g, logits, 0, position, &so_far)      position counts from 0
 *     generator_close(&g)
 *
 * ev is a struct events: callbacks for steps, evaluations, notices and long work, and one that asks
 * whether to stop. It may be NULL. A run that was stopped or killed can be opened again and
 * continues with identical results, bit for bit. Every function that can fail returns 0 or -errno
 * and writes a sentence into struct err. A process trains one run at a time. */
#pragma once

#include "run/folder/events.h"
#include "run/loop/generator.h"
#include "run/loop/model_folder.h"
#include "run/loop/training.h"
#include "run/newrun.h"
#include "run/texts/tokenise.h"
