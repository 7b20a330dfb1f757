/* command.h: siTrain's own commands on the simulated machine: what a user types, without the
 * program's start (cmd/main.c) and its signals. */
#pragma once

#include "data/base/err.h"

/* Run "pretrain --resume /sim/run", for instance: words with one space between them. 0, -errno with
 * a sentence, or the exit code of a command that was stopped. */
int command_do(const char *text, struct err *err);
