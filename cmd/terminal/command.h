/* command.h: a command from its line to its exit code, with what is said on the way. */
#pragma once

#include "data/opt/opt.h"

/* Read the line, and run the command: what --help says goes to stdout, notices and a refusal or a
 * failure to stderr. The exit code. */
int command_run(const struct opt_command *cmd, int argc, char **argv);

/* "siTrain NAME: the sentence" on stderr. The exit code: 130 stopped, 2 misuse, else 1. */
int command_failed(const char *name, const struct err *err);

/* Flush stdout. What was printed must have arrived: where it did not (a full disk), that is said
 * and 1 returned in place of an exit code of 0. A reader that went away (| head) has read what it
 * wanted: that is no failure, and nothing is said. */
int command_finish(int code);
