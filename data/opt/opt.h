/* opt.h: the command line as rows (opt_row.h). A command is one file with its rows; cmd/export.c is
 * a short one. */
#pragma once

#include "data/opt/opt_row.h"

/* A command line as a command gets it. Whoever parses one sets the first four. */
struct opt_line {
    const struct opt_command *cmd;
    int    argc;
    char **argv;                       // as typed; argv[0] is the command's name
    void  *options;                    // cmd->size bytes
    unsigned char given[OPT_MAX_ROWS]; // rows that were typed or stood in the --config FILE
    char  *notices;                    // lines to be said once all is accepted, or NULL
    int    help_all;                   // --help all was asked for, not --help
};

/* Fill the options: defaults, then the file of options, then the command line: what that says of an
 * option replaces all that the file says of it. 0; 1 if --help was asked for (line->help_all: with
 * all); or -EINVAL with a misuse sentence that names what would work (then there is nothing to
 * release). */
int opt_parse(struct opt_line *line, struct err *err);
/* Free the strings of what opt_parse filled, once. */
void opt_release(struct opt_line *line);

/* Was --name given? Asserts that there is such a row. */
int opt_given(const struct opt_line *line, const char *name);
/* Treat it as given: what another option's value stands for. */
void opt_mark_given(struct opt_line *line, const char *name);
/* Set one option from its text, as read back from run.db; a misuse sentence if it does not take
 * it. */
int opt_set(struct opt_line *line, const char *name, const char *text, struct err *err);
/* Each option's value as text that opt_set takes (repeated strings: joined by newlines; none: "").
 * A non-zero return stops and is passed on. */
int opt_each(const struct opt_line *line,
             int (*each)(void *ctx, const struct opt_row *row, int given, const char *text),
             void *ctx);

/* ---- what the rows say to people: opt_doc.c, opt_completion.c ---- */

void opt_help(const struct opt_command *cmd, int all, FILE *out); // all: not cmd->first alone
void opt_man(const struct opt_command *cmd, FILE *out); // the command's section of the man page
/* The length of a help's first sentence, without its full stop. */
size_t opt_sentence(const char *help);
/* A line of the man page: `macro` ("" or ".B ", ...) and the text as troff takes it. */
void opt_man_line(FILE *out, const char *macro, const char *text);
const char *opt_value_name(const struct opt_row *r); // "PATH"; NULL: there is no value to be typed
/* The shells that completions are written for: bash, zsh, fish. */
opt_words opt_shells;
/* The completion of the n commands, as shell number `shell` of opt_shells reads it. */
void opt_completion(int shell, const struct opt_command *const *cmds, size_t n, FILE *out);
