/* pretoken.h: from a text to its pre-tokens: special tokens are taken out, what is between them is
 * normalized and cut (split.h). One cutter serves the tokenizer and the training of one. */
#pragma once

#include "data/base/err.h"
#include "data/text/normalizer.h"
#include "data/text/split.h"

struct pretoken;

/* config NULL: GPT-2's expression. Caller closes, also after an error. */
int  pretoken_open(struct pretoken **out, const struct split_config *config, struct err *err);
void pretoken_close(struct pretoken *p);

/* From now on what is between the special tokens of the first turn is normalized before anything
 * else is done with it, and so is the content of those of the second turn. Called before any
 * special token is named. */
int pretoken_normalize(struct pretoken *p, const struct normalizer_step *steps, size_t n,
                       struct err *err);

/* From now on the literal content[0..n), n > 0, is one special token (the longest of those that
 * begin at a place). Those of the second turn are looked for in what those of the first leave:
 * Hugging Face's normalized tokens. lstrip, rstrip: it takes the white space before or behind it
 * along. single_word: only where no letter, number or _ stands beside it. text: it takes its place
 * before others, but stays text. */
struct pretoken_special {
    const char *content;
    size_t      n;
    int32_t     id;
    int         second, lstrip, rstrip, single_word, text;
};
int pretoken_special(struct pretoken *p, const struct pretoken_special *s, struct err *err);

/* What normalization makes of text[0..n), malloced, for the caller to free; NULL where it changes
 * nothing. Not between the pieces of a text. */
int pretoken_normal(struct pretoken *p, const char *text, size_t n, char **out, uint32_t *n_out,
                    struct err *err);

/* From now on marks cut nothing (split_whole). */
void pretoken_whole(struct pretoken *p);

/* Cut text[0..n). If nothing is to follow (`final`), all of it; else as far as what follows cannot
 * matter: *used bytes, and the caller comes again with the rest and more behind it. (Where text is
 * normalized, what must wait may also be held.) */
int pretoken_cut(struct pretoken *p, const char *text, size_t n, int final,
                 const struct pretoken_to *to, size_t *used, struct err *err);

/* A text in pieces, fed in order; after the last one, or an error, another text can begin. What
 * must wait for more is kept in between. */
int pretoken_feed(struct pretoken *p, const char *text, size_t n, int last,
                  const struct pretoken_to *to, struct err *err);
