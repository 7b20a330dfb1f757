/* continuation.c: stop strings may span tokens, and so may characters. */
#include "cmd/continuation.h"

#include "data/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the first stop string begins that ends behind `old` bytes; a->n if there is none. */
static size_t stop_at(const struct continuation *a, size_t old, const struct opt_strings *stops)
{
    size_t first = a->n;

    for (size_t s = 0; s < stops->n; s++) {
        size_t      len = strlen(stops->item[s]), from = old < len ? 0 : old - len + 1;
        const char *at =
            a->n > from ? memmem(a->text + from, a->n - from, stops->item[s], len) : NULL;

        if (at && (size_t)(at - a->text) < first)
            first = (size_t)(at - a->text);
    }
    return first;
}

int continuation_add(struct continuation *a, const char *bytes, size_t n,
                     const struct opt_strings *stops, struct err *err)
{
    size_t old = a->n, stop;

    if (a->n + n > a->cap) {
        size_t cap = 2 * (a->n + n) + 256;
        char  *more = realloc(a->text, cap);

        if (!more)
            return err_set(err, -ENOMEM, "out of memory for %zu bytes of text", cap);
        a->text = more;
        a->cap = cap;
    }
    if (n)
        memcpy(a->text + a->n, bytes, n);
    a->n += n;
    stop = stop_at(a, old, stops);
    a->ended = stop < a->n;
    a->n = stop;
    return 0;
}

/* Bytes at the end that are the beginning of a stop string. */
static size_t held_by_stops(const struct continuation *a, const struct opt_strings *stops)
{
    size_t most = 0;

    for (size_t s = 0; s < stops->n; s++) {
        size_t len = strlen(stops->item[s]) - 1;

        for (len = len < a->n ? len : a->n; len > most; len--)
            if (!memcmp(a->text + a->n - len, stops->item[s], len))
                most = len;
    }
    return most;
}

/* Bytes that are final: all once it has ended. */
static size_t ready_bytes(const struct continuation *a, const struct opt_strings *stops)
{
    size_t ready;

    if (a->ended)
        return a->n;
    ready = a->n - held_by_stops(a, stops);
    for (size_t back = 1; back <= 3 && back <= ready; back++)
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

int continuation_print(struct continuation *a, const struct opt_strings *stops, struct err *err)
{
    size_t ready = ready_bytes(a, stops), from = a->printed;

    if (ready <= from)
        return 0;
    a->printed = ready;
    return continuation_write(a->text + from, ready - from, err);
}

void continuation_free(struct continuation *a)
{
    free(a->text);
    memset(a, 0, sizeof *a);
}
