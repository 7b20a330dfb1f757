/* pretoken.h: cuts text into pre-tokens: by a regular expression, around special tokens. One cutter
 * serves the tokenizer and the training of one. Bytes that are not UTF-8 are a pre-token each. */
#pragma once

#include "data/base/err.h"

struct pretoken;

/* One of the regular expressions that are known, by the words of Hugging Face's files: GPT-2's,
 * Llama 3's, Qwen2's. NULL: it is another one. */
struct pretoken_pattern;
const struct pretoken_pattern *pretoken_pattern_find(const char *said);

/* pattern NULL: GPT-2's. Caller closes, also after an error. */
int  pretoken_open(struct pretoken **out, const struct pretoken_pattern *pattern, struct err *err);
void pretoken_close(struct pretoken *p);

/* From now on what is between the special tokens of the first turn is brought into Unicode's form C
 * (nfc.h) before anything else is done with it, and so is the content of those of the second turn.
 * Called before any special token is named. */
int pretoken_normalize(struct pretoken *p, struct err *err);

/* From now on the literal content[0..n), n > 0, is one special token (the longest of those that
 * begin at a place). Those of the second turn are looked for in what those of the first leave:
 * Hugging Face's normalized tokens. */
int pretoken_special(struct pretoken *p, const char *content, size_t n, int32_t id, int second,
                     struct err *err);

/* Who takes the pre-tokens. fn is called for each in order: its bytes and -1, or a special token
 * and its id. Non-zero stops and is passed up. */
struct pretoken_to {
    int (*fn)(void *arg, const char *bytes, size_t n, int32_t special, struct err *err);
    void *arg;
};

/* Cut text[0..n). If nothing is to follow (`final`), all of it; else as far as what follows cannot
 * matter: *used bytes, and the caller comes again with the rest and more behind it. (Where text is
 * normalized, what must wait may also be held.) */
int pretoken_cut(struct pretoken *p, const char *text, size_t n, int final,
                 const struct pretoken_to *to, size_t *used, struct err *err);

/* A text in pieces, fed in order; after the last one, or an error, another text can begin. What
 * must wait for more is kept in between. */
int pretoken_feed(struct pretoken *p, const char *text, size_t n, int last,
                  const struct pretoken_to *to, struct err *err);
