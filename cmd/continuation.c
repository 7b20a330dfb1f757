/* continuation.c: stop strings may span tokens, and so may characters. */
#include "cmd/continuation.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where the first stop string begins that ends behind `old` bytes; a->n if there is none. */
static size_t stop_at(const struct continuation *a, size_t old)
{
    size_t first = a->n;

    for (size_t s = 0; a->stops && s < a->stops->n; s++) {
        const char *stop = a->stops->item[s];
        size_t      len = strlen(stop), from = old < len ? 0 : old - len + 1;
        const char *at = a->n > from ? memmem(a->text + from, a->n - from, stop, len) : NULL;

        if (at && (size_t)(at - a->text) < first)
            first = (size_t)(at - a->text);
    }
    return first;
}

int continuation_add(struct continuation *a, const char *bytes, size_t n, struct err *err)
{
    size_t old = a->n;
    int    rc = grow(&a->text, &a->cap, old + n, 1, "bytes of text", err);

    if (rc)
        return rc;
    if (n)
        memcpy(a->text + old, bytes, n);
    a->n += n;
    n = stop_at(a, old);
    a->ended = n < a->n;
    a->n = n;
    return 0;
}

int continuation_token(struct continuation *a, const struct tokenizer *tok, int32_t id,
                       struct err *err)
{
    size_t      n = 0; // of an id without a token
    const char *bytes = tokenizer_bytes(tok, id, &n);

    if (id != tokenizer_endoftext(tok))
        return continuation_add(a, bytes, bytes ? n : 0, err);
    a->ended = 1;
    return 0;
}

/* Bytes at the end that are the beginning of a stop string. */
static size_t held_by_stops(const struct continuation *a)
{
    size_t most = 0;

    for (size_t s = 0; a->stops && s < a->stops->n; s++) {
        size_t len = strlen(a->stops->item[s]) - 1;

        for (len = len < a->n ? len : a->n; len > most; len--)
            if (!memcmp(a->text + a->n - len, a->stops->item[s], len))
                most = len;
    }
    return most;
}

/* Bytes that are final: all once it has ended. */
static size_t ready_bytes(const struct continuation *a)
{
    size_t ready = a->ended ? a->n : a->n - held_by_stops(a);

    for (size_t back = 1; !a->ended && back <= 3 && back <= ready; back++)
        if (utf8_length((const unsigned char *)a->text + ready - back, back) == 0)
            return ready - back;
    return ready;
}

int continuation_write(const char *bytes, size_t n, struct err *err)
{
    if (fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0)
        return 0;
    if (errno == EPIPE)
        return -EPIPE;
    return err_set(err, errno ? -errno : -EIO, "writing to stdout: %s", strerror(errno));
}

int continuation_print(struct continuation *a, struct err *err)
{
    size_t ready = ready_bytes(a), from = a->printed;

    if (ready <= from)
        return 0;
    a->printed = ready;
    return continuation_write(a->text + from, ready - from, err);
}
