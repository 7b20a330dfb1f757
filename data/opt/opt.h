/* opt.h: parses a command line by its rows (opt_row.h). A command is one file with its rows;
 * cmd/export.c is a short one. */
#pragma once

#include "data/opt/opt_row.h"

/* A command line as a command gets it. The caller of opt_parse sets the first four members. */
struct opt_line {
    const struct opt_command *cmd;
    int    argc;
    char **argv;                       // as typed; argv[0] is the command's name
    void  *options;                    // cmd->size bytes
    unsigned char given[OPT_MAX_ROWS]; // rows given by the user, typed or in the --config FILE
    char  *notices;                    // notices to print once all options are accepted, or NULL
    int    help_all;                   // --help all was typed instead of --help
};

/* Fills the options from the defaults, then the options file, then the command line. If the
 * command line has an option, its value replaces all values of that option in the file.
 *
 * Returns 0. Returns 1 if --help was typed; line->help_all then says whether it was --help all.
 * Returns -EINVAL with a misuse sentence that says what would work; then nothing needs to be
 * released. */
int opt_parse(struct opt_line *line, struct err *err);
/* Frees the strings that opt_parse allocated. Call it once. */
void opt_release(struct opt_line *line);

/* Returns whether --name was given. Asserts that there is such a row. */
int opt_given(const struct opt_line *line, const char *name);
/* The first of these rows that was given; NULL: none was. */
const char *opt_given_of(const struct opt_line *line, const struct opt_row *rows);
/* Marks --name as given, because the value of another option implies it. */
void opt_mark_given(struct opt_line *line, const char *name);
/* Sets one option from its text, as read back from run.db. If the option does not take the text,
 * returns a misuse sentence. */
int opt_set(struct opt_line *line, const char *name, const char *text, struct err *err);
/* Calls each() for every option with its value as text that opt_set takes. Repeated strings are
 * joined by newlines; no value is "". If each() returns other than 0, the function stops and
 * returns that. */
int opt_each(const struct opt_line *line,
             int (*each)(void *ctx, const struct opt_row *row, int given, const char *text),
             void *ctx);

/* ---- text for people, from the rows: opt_doc.c, opt_completion.c ---- */

void opt_help(const struct opt_command *cmd, int all, FILE *out); // all: no matter what cmd->first
void opt_man(const struct opt_command *cmd, FILE *out); // its section of the man page
/* Returns the length of a help's first sentence, without its full stop. */
size_t opt_sentence(const char *help);
/* Writes a line of the man page: `macro` ("" or ".B ", ...) and the text, escaped for troff. */
void opt_man_line(FILE *out, const char *macro, const char *text);
const char *opt_value_name(const struct opt_row *r); // "PATH"; NULL: it has no value
/* The shells that have completions: bash, zsh, fish. */
opt_words opt_shells;
/* Returns the script for shell number `shell` of opt_shells, which asks the program at a Tab. */
const char *opt_completion(int shell);
/* Writes how the words of a command line may go on, a word, a tab and a sentence a line; "/": with
 * the name of a file. The last of the n_words is under way. */
void opt_complete(const struct opt_command *const *cmds, size_t n, char *const *words,
                  size_t n_words, FILE *out);
