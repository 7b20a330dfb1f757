/* opt_row.h: the rows that define options, and the commands. A row is the only place that
 * describes an option: its name, type, default, limits, words, help, and whether a run keeps it.
 * The words come from the table of the things that they name. Rows drive parsing, errors,
 * --help, the man page, the completion, run.db, resumes and a run's recipe. */
#pragma once

#include "data/base/err.h"
#include "data/base/table.h"

enum opt_type {
    OPT_FLAG = 1, // int: 1 if given
    OPT_STRING,   // const char *; NULL if there is no default
    OPT_PATH,     // the same; a run that keeps it keeps the path in full, but for its words
    OPT_STRINGS,  // struct opt_strings; repeated
    OPT_FILES,    // the same, of files; a run that keeps them keeps the paths in full
    OPT_PATHS,    // the same, of paths of devices, which are made absolute; a word without a slash
                  // is the name of something that exists
    OPT_UINT,     // uint64_t
    OPT_SIZE,     // uint64_t bytes; takes K, M, G, T, or KB and KiB, ... (all powers of 1024)
    OPT_SIZES,    // struct opt_sizes; with commas between
    OPT_DOUBLE,   // double
    OPT_RATIO,    // double; takes % ("2%" is 0.02)
    OPT_WORD,     // int: the number of the word
    OPT_SET,      // uint64_t: a bit for each word of a list with commas; 0: not given
    OPT_TIME,     // uint64_t seconds; takes s, m, h, d (1h30m), and H:MM:SS
    OPT_WARMUP,   // struct opt_warmup: steps, or a part of the horizon
    OPT_ARG,      // const char *: a positional argument, required unless the row has a default;
                  // its name is in capitals
    OPT_ARGS,     // struct opt_strings: one or more positional arguments
};

struct opt_strings { const char **item; size_t n; };
static inline const char *opt_first(const struct opt_strings *s) // NULL: the option was not given
{
    return s->n ? *s->item : NULL;
}
struct opt_sizes   { uint64_t *item; size_t n; };
struct opt_warmup  { double value; int percent; }; // value: steps, or with percent a fraction

/* Returns the i-th word, or NULL past the last. The file with the enum or the table of the words
 * owns this function (TABLE_WORDS). An option's value is an index into that table. */
typedef const char *opt_words(size_t i);

/* Defines such a function for words that belong to one command or struct. */
#define OPT_WORDS(name, ...) static TABLE_WORDS(name, __VA_ARGS__)

/* How a run keeps an option. */
enum opt_kept {
    OPT_COMMAND, // not kept: it concerns the command alone
    OPT_SOURCE,  // a source of the new run: kept as given.NAME if it was given
    // all others are kept as option.NAME:
    OPT_FIXED,   // decides what is computed: fixed from the first step on
    OPT_BRANCH,  // as OPT_FIXED, but a run that goes back to a snapshot may change it
    OPT_LAYOUT,  // decides the layout on the devices: fixed when the run is made
    OPT_CHANGES, // a resume may change it
    OPT_PASSING, // as OPT_CHANGES, but not shown in the printed options of a run
};

/* Whether the ranks of a job must have equal values of a kept option. OPT_OWN: it suits a machine,
 * though it may decide the last bits. */
enum opt_ranks { OPT_IF_DECIDES, OPT_ALIKE, OPT_OWN };

struct opt_row {
    const char   *name;   // without "--"
    enum opt_type type;
    size_t        offset; // of the value in the part's struct
    const char   *def;    // as typed; NULL: 0, NULL or none
    opt_words    *words;  // of OPT_WORD and OPT_SET: the words; of strings: proposals
    double        min, max; // limits of a number; of strings, max is their number; max 0: no limit
    const char   *arg;    // name of the value in --help; NULL: by type
    const char   *help;   // a noun phrase, then sentences; one line per word, after newlines; %w
                          // stands for all words
    const char   *other;  // of OPT_WORD: a sentence for other words; NULL: none
    const char   *file;   // of a folder's path: file names, separated by blanks; the path of such a
                          // file stands for its folder
    const char   *twin;   // an alternative row: if that is typed, it replaces this one of an
                          // options file
    enum opt_kept kept;
    enum opt_ranks ranks;
};

/* True if an option decides what is computed, on whichever machine. */
static inline int opt_row_decides(const struct opt_row *r)
{
    return (r->kept == OPT_FIXED || r->kept == OPT_BRANCH) && r->ranks != OPT_OWN;
}

/* The row of --config, the file with more options (opt_file.h), which opt_parse reads. */
#define OPT_CONFIG_ROW(at)                                                                         \
    { "config", OPT_PATH, at,   .arg = "FILE",                                                     \
      .help = "Options file, with a line for each option: name = value. Options of the command "   \
              "line take precedence." }

/* Files whose path stands for the path of a Hugging Face model folder, or a tokenizer folder. */
#define OPT_FILES_MODEL                                                                            \
    "config.json generation_config.json model.safetensors model.safetensors.index.json "         \
    "adapter_config.json adapter_model.safetensors"
#define OPT_FILES_TOKENIZER "tokenizer.json tokenizer_config.json vocab.json merges.txt vocab.txt"

struct opt_part {
    const char           *title;
    const struct opt_row *rows;   // ends with { 0 }
    size_t                offset; // of the part's struct in the options struct
};

/* An alias's value while it is translated to siTrain's. */
struct opt_taken { const char *name, *value, *words, *help; char out[256]; };

/* An option of another program that siTrain accepts. --name VALUE (or --name=VALUE) stands for
 * --row VALUE. If `row` is NULL, the option is accepted without effect, with a notice that gives
 * the reason in `help`; if `help` is NULL, too, there is no notice. If a row has the same name,
 * the row is used. */
struct opt_alias {
    const char *names; // without "--", separated by blanks; a hyphen matches an underscore, too.
                       // NAME? is a flag: True or False may follow it; False: not given
    const char *row;
    const char *value; // of flags: the value for --row; NULL: --row is a flag, too
    const char *words; // for `translate`
    /* Writes siTrain's form of t->value into t->out and returns 0. If the value has no effect
     * here, returns 1 with the reason for the notice in t->out ("": no notice). Otherwise
     * returns -EINVAL with a sentence. */
    int (*translate)(struct opt_taken *t, struct err *err);
    const char *help;  // with a row: a notice about what differs here, or NULL
};

/* A command's own default for a shared row. */
struct opt_default { const char *row, *text; };

struct opt_line;

struct opt_command {
    const char *name, *usage, *summary, *text; // text: longer description for --help and the man
                                               // page, or NULL
    const struct opt_part *parts;              // ends with { 0 }
    size_t                 size;               // of the options struct
    int                    killed;             // Ctrl-C kills it at once; 0: it is caught (stop.h)
    int                    by_ranks;           // supports several processes of one job
    /* Returns the exit code, or -errno with a sentence. The options are in line->options. */
    int (*run)(struct opt_line *line, struct err *err);
    /* Both end with { 0 }; NULL: none. --help mentions that aliases exist; the man page lists
     * them. */
    const struct opt_alias   *aliases;
    const struct opt_default *defaults;
    /* Names of the options that --help lists, separated by blanks; NULL: all of them. */
    const char *first;
    const char *examples[2]; // command lines to paste; a backslash precedes each newline
};

enum { OPT_MAX_ROWS = 160 };

/* Returns row i, counted over all parts, or NULL past the end. *offset gets its offset in the
 * options struct; `offset` may be NULL. */
const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset);
/* Returns the number of the row called name[0..n), or -1. Positional arguments have no name
 * here. */
int opt_row_find(const struct opt_command *cmd, const char *name, size_t n);
/* Returns the row's default in this command, as typed, or NULL. */
const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r);
int         opt_row_is_arg(const struct opt_row *r);
int         opt_row_is_many(const struct opt_row *r); // a struct opt_strings

enum { OPT_HELP_BYTES = 1024 };

/* Returns the row's help with its words in place of %w. The text is in buf, or is r->help
 * itself. */
const char *opt_row_help(const struct opt_row *r, char *buf, size_t size);
/* Joins the words into buf, with `between` between two words and `last` before the last one.
 * Returns buf. */
char *opt_words_join(char *buf, size_t size, opt_words *words, const char *between,
                     const char *last);
/* Returns the number of the word text[0..n), or -1. */
int opt_words_find(opt_words *words, const char *text, size_t n);
/* Refuses --name TEXT, which is none of the words. The sentence has the nearest word, or all
 * words. */
int opt_words_refuse(const char *name, const char *text, opt_words *words, struct err *err);
/* Returns the word in `words` that is nearest to `typed` by edit distance. If none is near,
 * returns a word that begins with `typed`, or NULL. `words` is a list separated by blanks; the
 * function cuts it apart. */
const char *opt_nearest(const char *typed, char *words);

/* Returns the length of the next name in *names (struct opt_alias), or 0 past the last one. It
 * sets *names behind that name, at the ? of a flag. */
size_t opt_alias_next(const char **names);
/* Returns whether typed[0..n) is the beginning of the name. A hyphen matches an underscore. */
int    opt_name_is(const char *name, const char *typed, size_t n);

/* Parses one value into the row's field. Repeated strings get one more. Returns 0, or a misuse
 * sentence. */
int opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err);
/* Returns the text from which opt_value_parse reads the same value. Repeated strings are joined
 * by newlines; no value is "". The text is malloced; NULL means out of memory. */
char *opt_value_text(const struct opt_row *r, const void *field);
/* Frees the strings of the field, which is empty afterwards. */
void opt_value_release(const struct opt_row *r, void *field);

/* Sets *out to the path that a run keeps for --option, absolute. Refuses line breaks. Returns 0, or
 * -EINVAL or -ENOMEM with a sentence; *out is then NULL. The caller frees *out. */
int opt_place(char **out, const char *option, const char *text, struct err *err);
/* Refuses a path in /proc that is typed now. One that a run of an older version keeps is no reason
 * not to open the run. */
int opt_place_typed(const char *option, const char *text, struct err *err);
/* Returns `text`, which has one path a line, with each path replaced by place(path), which is
 * malloced and freed here. The caller frees the result. NULL: out of memory, or place returned
 * NULL. */
char *opt_place_lines(const char *text, char *(*place)(const char *path));
int opt_place_missing(const struct opt_row *r, const char *text, struct err *err); // misuse

int opt_no_memory(struct err *err); // returns -ENOMEM and writes its sentence

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon);

/* Writes a duration, such as "7s", "4m07s", "2h04m" or "3d04h", into buf and returns buf. All
 * printed durations use it. */
const char *opt_time_text(char *buf, size_t size, double seconds);
/* Writes a size in bytes, such as "1.5G", into buf and returns buf. All printed sizes use it. */
const char *opt_size_text(char *buf, size_t size, double bytes);
/* These texts in a buffer that lasts until the end of the enclosing block. */
#define TIME_TEXT(seconds) opt_time_text((char[32]){ 0 }, 32, seconds)
#define SIZE_TEXT(bytes)   opt_size_text((char[32]){ 0 }, 32, (double)(bytes))
/* Writes `bytes`, a number as text, in the largest unit that is exact: 4G for 4294967296.
 * Returns buf. */
const char *opt_size_exact(char *buf, size_t size, const char *bytes);
