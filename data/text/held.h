/* held.h: a text in pieces. What cannot be decided before more of the text is there is held. */
#pragma once

#include "data/base/err.h"

struct held { char *text; size_t n, cap, next_try; };

/* Take the beginning of text[0..n), *used bytes of it. final: nothing follows, so all of it. */
typedef int held_take(void *ctx, const char *text, size_t n, int final, size_t *used,
                      struct err *err);

/* Another piece. After the last one, or an error, another text can begin. A text of which `take`
 * can take little in small pieces needs linear time all the same. */
int held_feed(struct held *h, const char *text, size_t n, int last, held_take *take, void *ctx,
              struct err *err);

static inline void held_reset(struct held *h) { h->n = h->next_try = 0; }
