/* split.h: the ways to cut a segment, which is a text between special tokens, into pre-tokens. */
#pragma once

#include "data/base/err.h"

/* Who takes the pre-tokens. fn is called for each in order: its bytes and -1, or a special token
 * and its id. Non-zero stops and is passed up. */
struct pretoken_to {
    int (*fn)(void *arg, const char *bytes, size_t n, int32_t special, struct err *err);
    void *arg;
};

/* One of the regular expressions that are known, by the words of Hugging Face's files; NULL: it is
 * another one. Whose they are, for a sentence. */
struct split_pattern;
const struct split_pattern *split_pattern_find(const char *said);
const struct split_pattern *split_pattern_named(const char *name);
const char                 *split_pattern_said(const char *name); // as files say it
const char                 *split_pattern_names(void);

/* Runs of characters of a set, which are pieces of their own before an expression cuts: of at most
 * so many characters (0: any number). By the words of Hugging Face's files; NULL: none is known. */
enum split_set { SPLIT_NUMBERS, SPLIT_CHINESE_JAPANESE };
struct split_run { enum split_set set; size_t most; };
const struct split_run *split_run_find(const char *said);

enum split_kind {
    SPLIT_PATTERN, // by an expression; bytes that are not UTF-8 are a pre-token each
    SPLIT_BERT,    // words between white space, which is left out; punctuation stands alone
    SPLIT_MARKS,   // before the mark that stands for a space
};
enum split_prefix { SPLIT_PREFIX_NEVER, SPLIT_PREFIX_FIRST, SPLIT_PREFIX_ALWAYS };
enum { SPLIT_RUNS = 4 };
enum split_at { SPLIT_AT_NONE, SPLIT_AT_RUNS, SPLIT_AT_EACH };

struct split_config {
    enum split_kind             kind;
    const struct split_pattern *pattern; // of SPLIT_PATTERN; NULL: GPT-2's
    struct split_run            runs[SPLIT_RUNS]; // of SPLIT_PATTERN: taken out before, in turn
    size_t                      n_runs;
    enum split_prefix prefix; // `mark` before the text's first segment, before each; not where one
                              // (or with replace a space) stands
    const char   *mark;       // one character; NULL: " "
    int           replace;    // of SPLIT_MARKS: each " " becomes the mark
    enum split_at at;         // of SPLIT_MARKS: before no mark, before one behind something else,
                              // before each
};

struct split;

/* config NULL: GPT-2's expression. The mark is copied. Caller closes, also after an error. */
int  split_open(struct split **out, const struct split_config *config, struct err *err);
void split_close(struct split *s);

/* From now on SPLIT_MARKS cuts nothing. */
void split_whole(struct split *s);

/* Cut text[0..n) of a segment. If nothing of it is to follow, all of it; else (`open`) as far as
 * what follows cannot matter: *used bytes, and the caller comes again with the rest and more behind
 * it. */
int  split_cut(struct split *s, const char *text, size_t n, int open, const struct pretoken_to *to,
               size_t *used, struct err *err);
void split_passed(struct split *s); // a special token stood there: no segment is the first any more
void split_reset(struct split *s);  // another text begins
