/* origin.c: finds the bytes of the given text that a pre-token comes from.
 *
 * Most pre-tokens are parts of the text that is cut, so their address shows their place. The
 * splitter copies others: with a mark before a segment, or with marks for spaces. Pre-tokens of a
 * segment follow each other without a gap, so a copy begins where the previous one ended, and is
 * compared with the text byte by byte. */
#include "data/text/origin.h"

#include "data/base/grow.h"
#include "data/base/round.h"
#include "data/base/utf8.h"

static struct token_span span_at(const struct origin *o, size_t i)
{
    return o->span ? o->span[i] : (struct token_span){ i, i + 1 };
}

static struct token_span span_of(const struct origin *o, size_t from, size_t to)
{
    if (from < to)
        return (struct token_span){ span_at(o, from).from, span_at(o, to - 1).to };
    size_t at = from < o->n ? span_at(o, from).from : from > 0 ? span_at(o, from - 1).to : 0;

    return (struct token_span){ at, at };
}

/* Length of a mark at bytes[0..n) that the text does not have at the cut; 0: the text has it,
 * too. */
static size_t mark_length(const struct origin *o, const char *bytes, size_t n)
{
    size_t len = strlen(o->mark);
    int    has = n >= len && !memcmp(bytes, o->mark, len);

    return has && (o->n - o->at < len || memcmp(o->text + o->at, o->mark, len)) ? len : 0;
}

void origin_spans(struct origin *o, const char *bytes, size_t n, struct token_span *out)
{
    uintptr_t p = (uintptr_t)bytes, text = (uintptr_t)o->text;
    size_t    i = 0;

    if (n && o->text && p >= text && p + n <= text + o->n) {
        for (o->at = p - text; i < n; i++)
            out[i] = span_at(o, o->at++);
        return;
    }
    while (i < n) {
        size_t len = mark_length(o, bytes + i, n - i), end = o->at;
        int    space = o->replaces && o->at < o->n && o->text[o->at] == ' ';

        if (len == 0 || space)
            end = size_min(o->at + 1, o->n);
        else if (o->at < o->n) // the mark was inserted
            end = o->at + (size_t)abs(utf8_length(o->text + o->at, o->n - o->at));
        struct token_span span = span_of(o, o->at, end);

        o->at += len == 0 || space;
        for (size_t k = 0; k < (len ? len : 1); k++)
            out[i++] = span;
    }
}

/* Orders spans that do not overlap, for bsearch. */
static int by_place(const void *a, const void *b)
{
    const struct token_span *x = a, *y = b;

    return x->to <= y->from ? -1 : x->from >= y->to;
}

int origin_plain(const struct origin *o, size_t from, size_t to)
{
    struct token_span s = span_of(o, from, to);

    return o->n_plain && bsearch(&s, o->plain, o->n_plain, sizeof s, by_place);
}

int traced_add(struct traced *x, const struct traced *in, size_t at, size_t len, const char *bytes,
               size_t n, struct err *err)
{
    int    same = n == len && (n == 0 || !memcmp(bytes, in->text + at, n));
    int    rc = grow(&x->span, &x->span_cap, x->n + n, sizeof *x->span, "bytes of text", err);
    size_t first = x->n;

    rc = rc ? rc : grow_add(&x->text, &x->n, &x->cap, bytes, n, 1, "bytes of text", err);
    for (size_t i = 0; i < n && !rc; i++)
        x->span[first + i] = same ? in->span[at + i]
                                  : (struct token_span){ in->span[at].from,
                                                         in->span[at + len - 1].to };
    return rc;
}

void traced_free(struct traced *x)
{
    free(x->text);
    free(x->span);
    *x = (struct traced){ 0 };
}
