/* held.h: a text in pieces. What cannot be decided before more of the text is there is held. */
#pragma once

#include "data/base/err.h"

struct held { char *text; size_t n, cap, next_try; };

/* Takes the first *used bytes of text[0..n). If `final`, no text follows and it takes all. */
typedef int held_take(void *ctx, const char *text, size_t n, int final, size_t *used,
                      struct err *err);

/* Feeds another piece. After the last piece, or an error, another text can begin. Small pieces of a
 * text of which `take` takes little need linear time, too. */
int held_feed(struct held *h, const char *text, size_t n, int last, held_take *take, void *ctx,
              struct err *err);

static inline void held_reset(struct held *h) { h->n = h->next_try = 0; }
