/* held.h: buffers a text that arrives in pieces. It holds the part that cannot be decided before
 * more text arrives. */
#pragma once

#include "data/base/err.h"

struct held { char *text; size_t n, cap, next_try; };

/* Takes the first *used bytes of text[0..n). If `final`, no more text follows and it takes all
 * bytes. */
typedef int held_take(void *ctx, const char *text, size_t n, int final, size_t *used,
                      struct err *err);

/* Feeds another piece to `take`. After the last piece, or an error, another text can begin. Time
 * is linear in the text even for small pieces of which `take` takes little. */
int held_feed(struct held *h, const char *text, size_t n, int last, held_take *take, void *ctx,
              struct err *err);

static inline void held_reset(struct held *h) { h->n = h->next_try = 0; }
