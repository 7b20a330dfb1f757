/* split.h: splits a segment, the text between two special tokens, into pre-tokens. */
#pragma once

#include "data/base/err.h"

/* Receiver of the pre-tokens. fn is called for each in order, with its bytes and -1, or with a
 * special token and its id. If it returns other than 0, splitting stops and returns that. */
struct pretoken_to {
    int (*fn)(void *arg, const char *bytes, size_t n, int32_t special, struct err *err);
    void *arg;
};

/* The known regular expressions: found by their text in Hugging Face's files, or by the name of
 * their model; NULL: unknown. split_pattern_names lists the names for a sentence. */
struct split_pattern;
const struct split_pattern *split_pattern_find(const char *said);
const struct split_pattern *split_pattern_named(const char *name);
const char                 *split_pattern_said(const char *name); // its text in the files
const char                 *split_pattern_names(void);

/* Runs of characters of a set. They become separate pieces before an expression splits. A run
 * has at most `most` characters (0: any number). split_run_find finds one by its expression in
 * Hugging Face's files, or returns NULL. */
enum split_set { SPLIT_NUMBERS, SPLIT_CHINESE_JAPANESE };
#define SPLIT_SAID_CHINESE_JAPANESE /* from U+4E00 to U+9FA5, hiragana, katakana */                \
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
struct split_run { enum split_set set; size_t most; };
const struct split_run *split_run_find(const char *said);

enum split_kind {
    SPLIT_PATTERN, // by an expression; a byte that is not UTF-8 is a pre-token
    SPLIT_BERT,    // words between white space, which is dropped; punctuation is separate
    SPLIT_MARKS,   // before the mark that stands for a space
};
enum split_prefix { SPLIT_PREFIX_NEVER, SPLIT_PREFIX_FIRST, SPLIT_PREFIX_ALWAYS };
enum { SPLIT_RUNS = 4 };
enum split_at { SPLIT_AT_NONE, SPLIT_AT_RUNS, SPLIT_AT_EACH };

struct split_config {
    enum split_kind             kind;
    const struct split_pattern *pattern; // of SPLIT_PATTERN; NULL: GPT-2's
    struct split_run            runs[SPLIT_RUNS]; // of SPLIT_PATTERN: taken out first, in turn
    size_t                      n_runs;
    enum split_prefix prefix; // where `mark` is put: before the text's first segment, or before
                              // each; not before a mark (nor with replace before a space)
    const char   *mark;       // one character; NULL: " "
    int           replace;    // of SPLIT_MARKS: each " " becomes the mark
    enum split_at at;         // of SPLIT_MARKS: split before no mark, before a mark after other
                              // text, or before each mark
};

struct split;

/* Opens a splitter; config NULL selects GPT-2's expression. The mark is copied. Caller closes,
 * also after an error. */
int  split_open(struct split **out, const struct split_config *config, struct err *err);
void split_close(struct split *s);
/* Opens another one that splits in the same way. */
int  split_copy(struct split **out, const struct split *s, struct err *err);

/* Returns where a text may be cut so that both parts split alone: before a space, or behind a
 * newline, between two characters that are not white space (behind a newline not before a /).
 * SPLIT_CUTS_WORDS: only the words between white space matter. */
enum split_cuts { SPLIT_CUTS_SPACE = 1, SPLIT_CUTS_LINE = 2, SPLIT_CUTS_WORDS = 4 };
unsigned split_cuts(const struct split *s);

/* From now on SPLIT_MARKS does not split. */
void split_whole(struct split *s);

/* Splits text[0..n) of a segment. If `open`, more of the segment follows, and it splits as far
 * as the following text cannot matter: *used bytes. The caller then calls again with the rest
 * and more text behind it. Otherwise it splits all of the text. */
int  split_cut(struct split *s, const char *text, size_t n, int open, const struct pretoken_to *to,
               size_t *used, struct err *err);
void split_passed(struct split *s); // a special token was there: the next segment is not the first
void split_reset(struct split *s);  // another text begins
/* Returns the mark that may be put before a segment, and whether spaces become marks, too. */
const char *split_mark(const struct split *s, int *replaces);
