/* opt_doc.h: what the option rows say to people. */
#pragma once

#include "cmd/opt/opt_row.h"

void opt_help(const struct opt_command *cmd, FILE *out);
void opt_man(const struct opt_command *cmd, FILE *out); // the command's section of the man page
/* A line of the man page: `macro` ("" or ".B ", ...) and the text as troff takes it. */
void opt_man_line(FILE *out, const char *macro, const char *text);
void opt_completion(const struct opt_command *const *cmds, size_t n, FILE *out); // bash
