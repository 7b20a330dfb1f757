/* pretoken.h: splits a text into pre-tokens. It takes special tokens out first. The text between
 * them is normalized and split (split.h). The tokenizer and its training use the same code. */
#pragma once

#include "data/base/err.h"
#include "data/text/normalizer.h"
#include "data/text/origin.h"
#include "data/text/split.h"

struct pretoken;

/* Opens a splitter; config NULL selects GPT-2's expression. Caller closes, also after an error. */
int  pretoken_open(struct pretoken **out, const struct split_config *config, struct err *err);
void pretoken_close(struct pretoken *p);
/* Opens another one that splits in the same way. It borrows the special tokens of p: close p after
 * it, and give neither of them more. Caller closes, also after an error. */
int  pretoken_copy(struct pretoken **out, const struct pretoken *p, struct err *err);

/* Normalizes the text between the special tokens of the first turn before anything else. The
 * contents of special tokens of the second turn are normalized, too. Call this before the first
 * pretoken_special. */
int pretoken_normalize(struct pretoken *p, const struct normalizer_step *steps, size_t n,
                       struct err *err);

/* Makes the literal content[0..n), n > 0, a special token. If several begin at one place, the
 * longest wins. Tokens of the second turn are searched in the text that the first turn leaves;
 * Hugging Face calls these tokens normalized.
 *
 * lstrip and rstrip: the token includes the white space before or after it. single_word: it
 * matches only where no letter, number or _ is adjacent. text: it takes its place before other
 * tokens, but remains text. control: it is not found in plain text (pretoken_trace). */
struct pretoken_special {
    const char *content;
    size_t      n;
    int32_t     id;
    int         second, lstrip, rstrip, single_word, text, control;
};
int pretoken_special(struct pretoken *p, const struct pretoken_special *s, struct err *err);

/* Returns the normalized form of text[0..n) in *out, malloced; the caller frees it. *out is NULL
 * if normalization changes nothing. Do not call this between the pieces of a text. */
int pretoken_normal(struct pretoken *p, const char *text, size_t n, char **out, uint32_t *n_out,
                    struct err *err);

/* From now on marks do not split (split_whole). */
void pretoken_whole(struct pretoken *p);

/* Splits text[0..n). If `final`, no more text follows and all of it is split. Otherwise it
 * splits as far as the following text cannot matter: *used bytes. The caller then calls again
 * with the rest and more text behind it. If text is normalized, some of it may also be held
 * inside. */
int pretoken_cut(struct pretoken *p, const char *text, size_t n, int final,
                 const struct pretoken_to *to, size_t *used, struct err *err);

/* Returns the first place in text[from..n), from > 0, where the text may be cut so that both parts
 * split alone, and give the same pre-tokens as the whole. 0: there is none, or none is proven for
 * such a splitter. The character behind the cut must be in the text. */
size_t pretoken_place(const struct pretoken *p, const char *text, size_t n, size_t from);

/* The next pretoken_cut has all of the text o->text and is final. Control tokens are found only
 * where they overlap no plain bytes of it, and origin_spans(o, ...) may be called for each
 * pre-token as it is received. The caller sets text, n and plain of *o, and ends with NULL. */
void pretoken_trace(struct pretoken *p, struct origin *o);

/* Splits a text in pieces, fed in order. After the last piece, or an error, another text can
 * begin. Text that cannot be split yet is kept inside. */
int pretoken_feed(struct pretoken *p, const char *text, size_t n, int last,
                  const struct pretoken_to *to, struct err *err);
