/* chat_answer.c: cuts and marks an answer's ids. */
#include "run/sources/chat_answer.h"

#include "data/base/round.h"
#include "run/sources/tokenise.h"

/* The ids as they are stored. The first one is no target. Returns how many of them count; *ended:
 * one of these ends an answer. */
static int32_t mark(const struct chat_ends *ends, int32_t *out, const struct chat_ids *ids,
                    size_t n, int *ended)
{
    int32_t counted = 0;

    *ended = 0;
    for (size_t i = 0; i < n; i++) {
        int counts = i > 0 && ids->counts[i];

        out[i] = counts ? ids->ids.ids[i] : ~ids->ids.ids[i];
        counted += counts;
        *ended |= counts && chat_ends_has(ends, ids->ids.ids[i]);
    }
    return counted;
}

int chat_answer_make(struct chat_answer *a, const struct chat_held *h,
                     const struct chat_storing *how, struct err *err)
{
    size_t most = how->most;
    char   where[SESSION_PATH];

    snprintf(where, sizeof where, "%.3900s:%zu", h->row.path, h->row.line);
    a->n = size_min(a->tokens, most);
    int rc = tokenise_known(how->tok, &(struct tokenise_ids){ a->ids->ids.ids, a->n, how->vocab,
                                                              where, 0 }, err);
    if (!rc && a->tokens > most && how->long_rows == CHAT_LONG_REFUSE)
        rc = err_misuse(err, "%s: the row has %zu tokens, more than --max-seq %zu: give a larger "
                        "--max-seq, or --long-rows cut or drop", where, a->tokens, most);
    if (!rc)
        a->counted = mark(how->ends, a->stored, a->ids, a->n, &a->ended);
    return rc;
}

int chat_answer_bare(const struct chat_answer a[2], size_t n, int *behind)
{
    int bare = 0;

    *behind = 1;
    for (size_t k = 0; k < n; k++)
        if (!a[k].counted) {
            bare = 1;
            *behind &= a[k].tokens > a[k].n && a[k].ids->counted;
        }
    return bare || (n == 2 && a[0].n == a[1].n &&
                    !memcmp(a[0].ids->ids.ids, a[1].ids->ids.ids, a[0].n * sizeof(int32_t)));
}
