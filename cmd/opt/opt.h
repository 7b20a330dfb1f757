/* opt.h: the command line as rows. A row (name, type, where the value goes, default, limits, help)
 * is all there is to an option: from it come parsing, the refusals, --help, the man page, the shell
 * completion and the run's database rows. argtable2 stands behind it and nobody else includes it.
 *
 * A command is `struct opt_command`: parts (groups of rows with a title, each writing into a struct
 * at an offset of the options struct). static const struct opt_row rows[] = { { "RUN",   OPT_ARG,
 * offsetof(struct x_opts, run), .help = "the run's folder" }, { "tokens", OPT_UINT, offsetof(struct
 * x_opts, tokens), "100", .min = 1, .help = "how many" }, { 0 } }; static const struct opt_part
 * parts[] = { { "Options", rows, 0 }, { "Machine", read_rows, offsetof(struct x_opts, read) }, { 0
 * } }; const struct opt_command x_command = { "x", "RUN [--tokens N]", "what it does in a line",
 * "more text", parts, sizeof(struct x_opts), }; int cmd_x(int argc, char **argv)
 *     {
 *         struct x_opts    o;
 *         struct opt_given given;
 *         int              rc = opt_start(&x_command, argc, argv, &o, &given);
 *         if (rc >= 0)
 *             return rc; // --help was printed (0) or the command line refused (2)
 *         ...
 *         opt_release(&x_command, &o);
 *     }
 */
#ifndef CMD_OPT_OPT_H
#define CMD_OPT_OPT_H

#include "data/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
    OPT_FLAG = 1, // int: 1 if given
    OPT_STRING,   // const char *; NULL if there is no default
    OPT_STRINGS,  // struct opt_strings; repeated
    OPT_UINT,     // uint64_t
    OPT_SIZE,     // uint64_t bytes; takes K, M, G, T (powers of 1024)
    OPT_DOUBLE,   // double
    OPT_RATIO,    // double; takes % ("2%" is 0.02)
    OPT_WORD,     // int: the index in `words`
    OPT_WARMUP,   // struct opt_warmup: steps, or a part of the horizon
    OPT_ARG,      // const char *: a positional argument, required; name is what it is called, in
                  // capitals
    OPT_ARGS,     // struct opt_strings: one or more positional arguments
    OPT_CONFIG,   // const char *: a file with more options (opt_file.h), by OPT_CONFIG_ROW; at most
                  // one row
    OPT_LATER,    // known to the design, refused: not in this version; help says what would work
};

#define OPT_CONFIG_ROW(at)                                                                         \
    {                                                                                              \
        "config", OPT_CONFIG, at, .arg = "FILE",                                                   \
                                  .help = "options from a file, a line each: name = value; those " \
                                          "of the command line come first"                         \
    }

struct opt_strings { const char **item; size_t n; };
struct opt_warmup  { double value; int percent; }; // value: steps, or with percent a fraction

struct opt_row {
    const char   *name;   // without "--"
    enum opt_type type;
    size_t        offset; // in the part's struct
    const char   *def;    // as typed; NULL: 0, NULL or none
    const char   *words;  // OPT_WORD: "a|b|c"
    const char   *later;  // OPT_WORD: words refused as not in this version
    double        min, max; // of numbers; how many strings, max; max 0: no bound
    const char   *arg;    // what --help calls the value; NULL: by type
    const char   *help;
    const char *twin; // the row that says the same in another way: typed, it stands for this one in
                      // a file
};

struct opt_part {
    const char           *title;
    const struct opt_row *rows;   // ends with { 0 }
    size_t                offset; // of the part's struct in the options struct
};

/* Another way to write an option, taken from another program: --name VALUE (or --name=VALUE)
 * stands for --row VALUE. row NULL: accepted, with a line of notice that it changes nothing
 * here (help says why; help NULL: without a line). A flag of theirs that gives one of our
 * options a value has `value`. One whose value is written otherwise has `translate`, which
 * writes ours into out and returns 0; or returns 1 where this value changes nothing, with the
 * reason for the notice in out ("": without a line); or -EINVAL with a misuse sentence. A name
 * that is also a row's is the row. */
struct opt_alias {
    const char *name;   // without "--", as typed there; a hyphen is taken for each underscore
    const char *row;
    int flag; // 1: takes no value (but True, true, False and false are taken where they follow;
              // False: as if not given)
    const char *value;  // with flag: what --row gets; NULL: --row is a flag itself
    /* value NULL: a flag without. */
    int (*translate)(const char *name, const char *value, char *out, size_t size, struct err *err);
    const char *help; // of an alias with a row: a line of notice that says what is other here, or
                      // NULL
};
/* A default of a shared row that is another one in this command. */
struct opt_default { const char *row, *text; };

struct opt_command {
    const char *name, *usage, *summary, *text; // text: more for --help and the man page, or NULL
    const struct opt_part *parts; // ends with { 0 }; NULL: a later command
    size_t                 size;  // of the options struct
    /* Both end with { 0 }; NULL: none. One line of --help says that aliases are taken; the man page
     * lists them. --help, the man page and opt_parse use the defaults. */
    const struct opt_alias   *aliases;
    const struct opt_default *defaults;
};

enum { OPT_MAX_ROWS = 128, OPT_MAX_ALIASES = 256 };

/* Which rows were on the command line or in its --config FILE, in the order of parts and rows. */
struct opt_given { unsigned char row[OPT_MAX_ROWS]; };

/* Fill *options: defaults, then the file of options, then the command line (argv[0] is the
 * command's name): what the command line says of an option replaces all that the file says of it.
 * 0; 1 if --help was asked for; or -EINVAL with a misuse sentence that names what would work (then
 * there is nothing to release). given may be NULL. Notices of aliases go to stderr once all is
 * accepted. */
int opt_parse(const struct opt_command *cmd, int argc, char **argv, void *options,
              struct opt_given *given, struct err *err);
/* opt_parse, and print help or the refusal: -1 to go on, else the exit code. */
int opt_start(const struct opt_command *cmd, int argc, char **argv, void *options,
              struct opt_given *given);
/* Free the strings. Accepts what opt_parse filled, once. */
void opt_release(const struct opt_command *cmd, void *options);

/* Was --name given? Asserts that there is such a row. */
int opt_was_given(const struct opt_command *cmd, const struct opt_given *given, const char *name);
/* Treat it as given: what another option's value stands for. */
void opt_mark_given(const struct opt_command *cmd, struct opt_given *given, const char *name);
/* Set one option from its text, as read back from run.db; a misuse sentence if it does not take it.
 */
int opt_set(const struct opt_command *cmd, void *options, const char *name, const char *text,
            struct err *err);
/* Each option's value as text that opt_set takes (repeated strings: joined by newlines; none: "").
 * A non-zero return stops and is passed on. */
int opt_each(const struct opt_command *cmd, const void *options,
             int (*each)(void *ctx, const char *name, const char *text), void *ctx);

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon);

/* "1.5G" and the like; shared by everything that prints bytes. */
const char *opt_size_text(char *buf, size_t size, double bytes);

/* Print the sentence as "siTrain NAME: ..." to stderr: 2 for misuse, else 1. */
int opt_fail(const char *name, const struct err *err);

/* Row i over all parts, with its offset in the options struct (offset may be NULL); NULL past the
 * end. */
const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset);

/* The number of the row called name[0..n), or -1. Positional arguments have no name here. */
int opt_row_find(const struct opt_command *cmd, const char *name, size_t n);
/* The row's default in this command, as typed, or NULL. */
const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r);

void opt_help(const struct opt_command *cmd, FILE *out);
void opt_man(const struct opt_command *cmd, FILE *out); // the command's section of the man page
void opt_man_text(FILE *out, const char *text); // as troff takes it
void opt_completion(const struct opt_command *const *cmds, size_t n, FILE *out); // bash

/* "a, b or c" from "a|b|c". */
const char *opt_words_text(char *buf, size_t size, const char *words);

/* The word nearest to what was typed among n (by edit distance), or NULL if none is near. */
const char *opt_nearest(const char *typed, const char *const *words, size_t n);

#endif
