/* scrub_order.c: chooses the portion that nobody has read for the longest time. */
#include "run/loop/scrub_order.h"

static uint64_t read_ns(const struct scrub_portion *p)
{
    return p->verified_ns > p->taken_ns ? p->verified_ns : p->taken_ns;
}

struct scrub_portion *scrub_order_next(const struct scrub_portions *all)
{
    struct scrub_portion *next = NULL;

    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].there && !all->at[i].denied &&
            (!next || read_ns(&all->at[i]) < read_ns(next)))
            next = &all->at[i];
    return next;
}

struct scrub_portion *scrub_order_find(const struct scrub_portions *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++)
        if (!strcmp(all->at[i].name, name))
            return &all->at[i];
    return NULL;
}

struct scrub_portion *scrub_order_add(struct scrub_portions *all, enum scrub_kind kind,
                                      const char *name)
{
    struct scrub_portion *p = scrub_order_find(all, name), *grown;

    if (p || !(grown = realloc(all->at, (all->n + 1) * sizeof *grown)))
        return p;
    all->at = grown;
    p = &grown[all->n++];
    *p = (struct scrub_portion){ .kind = kind };
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}
