/* origin.h: follows a text through its splitting: which bytes of the given text the bytes of a
 * pre-token come from, and which bytes of the given text are plain. */
#pragma once

#include "data/base/err.h"

struct token_span { size_t from, to; };

/* A text with the span of each of its bytes in another text. Spans are in order. */
struct traced { char *text; struct token_span *span; size_t n, cap, span_cap; };

struct origin {
    const struct token_span *plain; // in order, of the given text
    size_t                   n_plain;
    // what is being cut: the given text, or a part of it that was normalized
    const char              *text;
    const struct token_span *span; // of each byte of `text`; NULL: it is the given text
    size_t                   n, at; // a pre-token that is not a part of `text` begins at `at`
    // of the splitter: a mark may be put before a segment, and may replace spaces
    const char *mark;
    int         replaces;
    // control tokens that plain bytes spell, and that were not found; the latest of these
    size_t  spelled;
    int32_t spelled_id;
};

/* Set out[0..n) to the spans, in the given text, of the bytes of a pre-token or special token. A
 * mark that was put before a text has the span of the character behind it. The pre-tokens must
 * come in order. */
void origin_spans(struct origin *o, const char *bytes, size_t n, struct token_span *out);

/* Whether bytes [from, to) of the text being cut come from a plain byte, or plain bytes lie
 * between. */
int origin_plain(const struct origin *o, size_t from, size_t to);

/* Append bytes to x, which come from in[at..at+len). Bytes that did not change keep their spans,
 * others get the span of all. */
int  traced_add(struct traced *x, const struct traced *in, size_t at, size_t len, const char *bytes,
                size_t n, struct err *err);
void traced_free(struct traced *x);
