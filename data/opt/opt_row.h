/* opt_row.h: what an option and a command are. A row is the one place that says something about an
 * option: its name, type, default and limits, the words it takes (from the table of the thing they
 * name), its sentence, and what a run keeps of it. Parsing, the refusals, --help, the man page, the
 * completion, what run.db stores, what a resume may change and a run's recipe all read rows. */
#pragma once

#include "data/base/err.h"

enum opt_type {
    OPT_FLAG = 1, // int: 1 if given
    OPT_STRING,   // const char *; NULL if there is no default
    OPT_PATH,     // the same; a run that keeps it keeps the path in full, but for its words
    OPT_STRINGS,  // struct opt_strings; repeated
    OPT_PATHS,    // the same, of paths of devices, which are made absolute; a word without a slash
                  // is the name of something that exists
    OPT_UINT,     // uint64_t
    OPT_SIZE,     // uint64_t bytes; takes K, M, G, T, or KB and KiB, ... (all powers of 1024)
    OPT_SIZES,    // struct opt_sizes; with commas between
    OPT_DOUBLE,   // double
    OPT_RATIO,    // double; takes % ("2%" is 0.02)
    OPT_WORD,     // int: the number of the word
    OPT_SET,      // uint64_t: a bit for each word of a list with commas; 0: not given
    OPT_WARMUP,   // struct opt_warmup: steps, or a part of the horizon
    OPT_ARG,      // const char *: a positional argument, required unless the row has a default;
                  // its name is in capitals
    OPT_ARGS,     // struct opt_strings: one or more positional arguments
};

struct opt_strings { const char **item; size_t n; };
struct opt_sizes   { uint64_t *item; size_t n; };
struct opt_warmup  { double value; int percent; }; // value: steps, or with percent a fraction

/* The i-th word, NULL past the last. The unit that has the enum or the table of the words owns the
 * function: a value is a place in that table. */
typedef const char *opt_words(size_t i);

/* Words that belong to one command or struct: OPT_WORDS(name, [ENUM] = "word", ...) defines such a
 * function. */
#define OPT_WORDS(name, ...)                                                                       \
    static const char *name(size_t i)                                                              \
    {                                                                                              \
        static const char *const words[] = { __VA_ARGS__ };                                        \
                                                                                                   \
        return i < sizeof words / sizeof *words ? words[i] : NULL;                                 \
    }

/* What a run keeps of an option. */
enum opt_kept {
    OPT_COMMAND, // nothing: it is the command's alone
    OPT_SOURCE,  // what the run is made from: as given.NAME, if it was given
    // all others as option.NAME:
    OPT_FIXED,   // it decides what is computed: it stays from the first step on
    OPT_LAYOUT,  // it decides what lies where on the devices: it stays from the making on
    OPT_CHANGES, // a resume may change it
    OPT_PASSING, // the same, and it is left out where a run's options are printed
};

struct opt_row {
    const char   *name;   // without "--"
    enum opt_type type;
    size_t        offset; // in the part's struct
    const char   *def;    // as typed; NULL: 0, NULL or none
    opt_words    *words;  // of OPT_WORD and OPT_SET; of strings: what is proposed
    double        min, max; // of numbers; how many strings, max; max 0: no bound
    const char   *arg;    // what --help calls the value; NULL: by type
    const char   *help;   // a noun phrase, then sentences; a line for each word, behind newlines;
                          // %w stands for all words
    const char   *file;   // of a folder's path: names of files in it, blanks between; the path of
                          // one of them stands for its folder
    const char   *twin;   // a row that says the same in another way: typed, it replaces this one of
                          // a file
    enum opt_kept kept;
};

/* The row of the file with more options (opt_file.h), which opt_parse reads. */
#define OPT_CONFIG_ROW(at)                                                                         \
    { "config", OPT_PATH, at,   .arg = "FILE",                                                     \
      .help = "Options file, with a line for each option: name = value. Options of the command "   \
              "line take precedence." }

/* What stands for a Hugging Face folder, and for a tokenizer's. */
#define OPT_FILES_MODEL                                                                            \
    "config.json generation_config.json model.safetensors model.safetensors.index.json"
#define OPT_FILES_TOKENIZER "tokenizer.json tokenizer_config.json vocab.json merges.txt vocab.txt"

struct opt_part {
    const char           *title;
    const struct opt_row *rows;   // ends with { 0 }
    size_t                offset; // of the part's struct in the options struct
};

/* An alias's value on its way to ours. */
struct opt_taken { const char *name, *value, *words, *help; char out[256]; };

/* Another way to write options, taken from another program: --name VALUE (or --name=VALUE) stands
 * for --row VALUE. row NULL: accepted, with a line of notice that it changes nothing here (help
 * says why; help NULL: without a line). A name that is also a row's is the row. */
struct opt_alias {
    const char *names; // without "--", as typed there, blanks between; a hyphen is taken for each
                       // underscore. NAME? is a flag: it has no value, but True and False where
                       // they follow; False: not given
    const char *row;
    const char *value; // of flags: what --row gets; NULL: --row is a flag, too
    const char *words; // for `translate`
    /* Writes t->value as ours into t->out and returns 0; or returns 1 where this value changes
     * nothing, with the reason for the notice in t->out ("": without a line); or -EINVAL with a
     * sentence. */
    int (*translate)(struct opt_taken *t, struct err *err);
    const char *help;  // with a row: a notice that says what is other here, or NULL
};

/* A default of a shared row that is another one in this command. */
struct opt_default { const char *row, *text; };

struct opt_line;

struct opt_command {
    const char *name, *usage, *summary, *text; // text: more for --help and the man page, or NULL
    const struct opt_part *parts;              // ends with { 0 }
    size_t                 size;               // of the options struct
    int                    killed;             // by Ctrl-C, at once; 0: it is caught (stop.h)
    int                    by_ranks;           // knows what several processes of one job are
    /* The exit code, or -errno with a sentence. The options are in line->options. */
    int (*run)(struct opt_line *line, struct err *err);
    /* Both end with { 0 }; NULL: none. --help says that aliases are taken, the man page which. */
    const struct opt_alias   *aliases;
    const struct opt_default *defaults;
    /* Names of the options that --help lists, blanks between; NULL: all of them. */
    const char *first;
    const char *examples[2]; // command lines to be pasted; a newline stands behind a backslash
};

enum { OPT_MAX_ROWS = 128 };

/* Row i over all parts, with its offset in the options struct (offset may be NULL); NULL past the
 * end. */
const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset);
/* The number of the row called name[0..n), or -1. Positional arguments have no name here. */
int opt_row_find(const struct opt_command *cmd, const char *name, size_t n);
/* The row's default in this command, as typed, or NULL. */
const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r);
int         opt_row_is_arg(const struct opt_row *r);
int         opt_row_is_many(const struct opt_row *r); // a struct opt_strings

enum { OPT_HELP_BYTES = 1024 };

/* The row's help, in which %w stands for its words: into buf, or as it is. */
const char *opt_row_help(const struct opt_row *r, char *buf, size_t size);
/* The words with `between` between two of them, and `last` before the last one. */
char *opt_words_join(char *buf, size_t size, opt_words *words, const char *between,
                     const char *last);
/* The number of the word text[0..n), or -1. */
int opt_words_find(opt_words *words, const char *text, size_t n);
/* Refuse --name TEXT: none of the words; the sentence has the nearest one, or all. */
int opt_words_refuse(const char *name, const char *text, opt_words *words, struct err *err);
/* The word nearest to what was typed (by edit distance) of those in `words`, where blanks stand
 * between, and which is taken apart for it; NULL if none is near and has half of it in common. */
const char *opt_nearest(const char *typed, char *words);

/* The next name in *names (struct opt_alias): its length; 0 past the last one. *names is behind it
 * then, at the ? of a flag. */
size_t opt_alias_next(const char **names);
/* Whether typed[0..n) is the beginning of the name: a hyphen may stand for an underscore. */
int    opt_name_is(const char *name, const char *typed, size_t n);

/* Read one value into the row's field; of repeated strings it is one more. 0, or a misuse
 * sentence. */
int opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err);
/* The text that opt_value_parse takes back with the same result; repeated strings joined by
 * newlines; none: "". Malloced; NULL: out of memory. */
char *opt_value_text(const struct opt_row *r, const void *field);
/* Free the strings; the field holds none after that. */
void opt_value_release(const struct opt_row *r, void *field);

int opt_no_memory(struct err *err); // -ENOMEM with its sentence

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon);

/* "7s", "4m07s", "2h04m", "3d04h"; shared by everything that says how long something lasts. */
const char *opt_time_text(char *buf, size_t size, double seconds);
/* "1.5G" and the like; shared by everything that prints bytes. */
const char *opt_size_text(char *buf, size_t size, double bytes);
/* 4G rather than 4294967296, where that is the same. */
const char *opt_size_exact(char *buf, size_t size, const char *bytes);
