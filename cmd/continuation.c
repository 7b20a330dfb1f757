/* continuation.c: finds the end of a generated text, and prints the text, except for last bytes
 * that may still become a stop string. */
#include "cmd/continuation.h"

#include "data/base/visible.h"

#include <unistd.h>

/* Where the first stop string that ends behind `old` bytes begins, or the end of the text. */
static size_t stop_at(const struct continuation *a, size_t old)
{
    const char *text = a->t.text;
    size_t      first = a->t.n;

    for (size_t s = 0; a->stops && s < a->stops->n; s++) {
        const char *stop = a->stops->item[s];
        size_t      len = strlen(stop), from = old < len ? 0 : old - len + 1;
        const char *at = a->t.n > from ? memmem(text + from, a->t.n - from, stop, len) : NULL;

        if (at && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

/* Call when the text grew behind `old` bytes. If it now has a stop string, it is cut before the
 * first, and has ended. */
static void continuation_cut(struct continuation *a, size_t old)
{
    size_t n = stop_at(a, old);

    a->ended |= n < a->t.n;
    a->t.n = n;
}

int continuation_end(struct continuation *a, const struct tokenizer *tok, struct err *err)
{
    size_t old = a->t.n;
    int    rc = tokenizer_text_end(tok, &a->t, err);

    continuation_cut(a, old);
    a->ended = 1;
    return rc;
}

int continuation_token(struct continuation *a, const struct generator *g, int32_t id,
                       struct err *err)
{
    size_t old = a->t.n;

    if (generator_ends(g, id))
        return continuation_end(a, g->tok, err);
    int rc = tokenizer_text_add(g->tok, &a->t, id, 0, err);
    continuation_cut(a, old);
    return rc;
}

/* Bytes at the end that are the beginning of a stop string. */
static size_t held_by_stops(const struct continuation *a)
{
    size_t most = 0;

    for (size_t s = 0; a->stops && s < a->stops->n; s++) {
        size_t len = strlen(a->stops->item[s]) - 1;

        for (len = len < a->t.n ? len : a->t.n; len > most; len--)
            if (!memcmp(a->t.text + a->t.n - len, a->stops->item[s], len))
                most = len;
    }
    return most;
}

int continuation_write(const char *bytes, size_t n, struct err *err)
{
    clearerr(stdout);
    if (isatty(STDOUT_FILENO))
        visible_write(stdout, bytes, n, "\n\t");
    else
        fwrite(bytes, 1, n, stdout);
    if (!ferror(stdout) && fflush(stdout) == 0)
        return 0;
    if (errno == EPIPE)
        return -EPIPE;
    return err_set(err, errno ? -errno : -EIO, "writing to stdout: %s", strerror(errno));
}

int continuation_print(struct continuation *a, struct err *err)
{
    size_t ready = a->ended ? a->t.n : a->t.n - held_by_stops(a), from = a->printed;

    if (ready <= from)
        return 0;
    a->printed = ready;
    return continuation_write(a->t.text + from, ready - from, err);
}
