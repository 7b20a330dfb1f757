/* held.c: collects text, and calls `take` when it holds at least 4 KiB, and twice what `take` left
 * over last time. */
#include "data/text/held.h"

#include "data/base/grow.h"
#include "data/base/round.h"

#define TRY_BYTES ((size_t)4096) // least text before the first call

static int held_try(struct held *h, int final, held_take *take, void *ctx, struct err *err)
{
    size_t used = 0;
    int    rc = take(ctx, h->text, h->n, final, &used, err);

    if (rc)
        return rc;
    h->n -= used;
    if (h->n)
        memmove(h->text, h->text + used, h->n);
    h->next_try = 2 * h->n;
    return 0;
}

int held_feed(struct held *h, const char *text, size_t n, int last, held_take *take, void *ctx,
              struct err *err)
{
    int rc = 0;

    for (size_t part; n > 0 && !rc; text += part, n -= part) {
        part = size_min(n, 16 * TRY_BYTES);
        rc = grow_add(&h->text, &h->n, &h->cap, text, part, 1, "bytes of text", err);
        if (!rc && h->n >= TRY_BYTES && h->n >= h->next_try)
            rc = held_try(h, 0, take, ctx, err);
    }
    rc = rc || !last ? rc : held_try(h, 1, take, ctx, err);
    if (rc || last)
        held_reset(h);
    return rc;
}
