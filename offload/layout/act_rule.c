/* act_rule.c: decides which activations are written to the devices and which stay in memory, and
 * computes what these decisions move. */
#include "offload/layout/act_rule.h"

#include <assert.h>

size_t act_rule_stay(size_t n) { return n > 2 ? n - (n > 4 ? n / 2 : 2) : 0; }

/* Whether a is popped before b. */
static int is_before(const struct act_slot *a, const struct act_slot *b)
{
    return a->begin > b->begin || (a->begin == b->begin && a->entry < b->entry);
}

void act_rule_begin(struct act_rule *r)
{
    struct act_slot none = { .entry = SIZE_MAX };

    for (size_t i = 0; i < r->n; i++)
        r->slot[i] = none;
    r->pushed = r->begin = 0;
    r->let_go = 0;
    r->first = none;
}

size_t act_rule_push(struct act_rule *r, int first)
{
    const struct act_slot *s = r->slot;
    size_t                 oldest = SIZE_MAX;

    for (size_t i = 0; i < r->n; i++)
        if (!s[i].stays && (oldest == SIZE_MAX || s[i].since < s[oldest].since))
            oldest = i;
    assert(oldest != SIZE_MAX && (first || r->pushed > 0));
    if (first)
        r->begin = r->pushed;
    r->now = oldest;
    r->slot[oldest] = (struct act_slot){ .entry = r->pushed++, .begin = r->begin, .stays = 1 };
    return oldest;
}

size_t act_rule_pushed(struct act_rule *r, size_t left)
{
    struct act_slot *s = r->slot, *last = &s[r->now];
    size_t           held = 0, room = act_rule_stay(r->n);

    for (size_t i = 0; i < r->n; i++) {
        held += (size_t)s[i].stays;
        if (s[i].stays && is_before(last, &s[i]))
            last = &s[i];
    }
    int next_in_turn = r->first.entry == SIZE_MAX || is_before(last, &r->first);
    if (held <= room || (next_in_turn && held + left <= r->n))
        return SIZE_MAX;
    if (next_in_turn)
        r->first = *last;
    last->stays = 0;
    last->since = ++r->let_go;
    return (size_t)(last - s);
}

void act_rule_reverse(struct act_rule *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct act_slot *s = &r->slot[i];
        int near = s->begin == r->begin && s->entry - s->begin < 2 * r->n;

        if (!s->stays && !(near && act_rule_stay(r->n))) // few buffers: all are read into
            s->entry = SIZE_MAX;
    }
}

int act_rule_moves(uint64_t *written, uint64_t *read, size_t buffers, const struct act_item *item,
                   size_t n_items, struct err *err)
{
    struct act_rule r = { .slot = calloc(buffers ? buffers : 1, sizeof *r.slot), .n = buffers };

    *written = *read = 0;
    if (!r.slot)
        return err_set(err, -ENOMEM, "out of memory for a plan of activations");
    act_rule_begin(&r);
    for (size_t i = 0; i < n_items; i++) {
        act_rule_push(&r, item[i].first);
        size_t at = act_rule_pushed(&r, n_items - 1 - i);
        *written += at == SIZE_MAX ? 0 : item[r.slot[at].entry].bytes;
    }
    act_rule_reverse(&r);
    *read = *written;
    for (size_t i = 0; i < buffers; i++)
        if (!r.slot[i].stays && r.slot[i].entry != SIZE_MAX)
            *read -= item[r.slot[i].entry].bytes;
    free(r.slot);
    return 0;
}
