/* parts.c: opens the devices and journals of several ranks, and reads parameters from them. */
#include "offload/upkeep/parts.h"

#include "data/base/round.h"

int part_open(struct part *p, const struct run_config *cfg, int residuals, struct err *err)
{
    int rc = devices_open(&p->dev, cfg, DEVICES_READ, NULL, err);

    rc = rc ? rc : journal_open(&p->journal, cfg->log, p->dev.store.n_subs, residuals, err);
    return rc ? rc : slots_reader_open(&p->states, &p->dev, &p->journal, err);
}

void part_close(struct part *p)
{
    slots_reader_close(&p->states);
    journal_close(&p->journal);
    devices_close(&p->dev);
}

static int rank_open(struct part *p, const struct run_config *cfg, struct err *err)
{
    if (devices_fake(cfg))
        return err_misuse(err, "%s: nothing is stored behind --csd null or --disk null, "
                          "so there are no parameters to read", cfg->dir);
    int rc = part_open(p, cfg, 0, err);
    return rc ? rc : slots_half_done(cfg, &p->dev.store, &p->journal, err);
}

/* Refuses ranks that are more than one step apart: no crash leaves that (recovery.h). */
static int same_step(const struct parts *p, size_t i, struct err *err)
{
    const struct journal_state *a = &p->part[0].journal.state, *b = &p->part[i].journal.state;
    const struct run_config    *cfg = &p->cfg;
    uint64_t                    apart = a->next_step > b->next_step ? a->next_step - b->next_step
                                                                    : b->next_step - a->next_step;

    if (!apart && a->applied == b->applied)
        return 0;
    return err_set(err, apart == 1 ? -EBUSY : -EINVAL, "%s is at step %llu, but %s at %llu: %s",
                   cfg->dir, (unsigned long long)a->next_step, cfg->ranks.parts[i]->dir,
                   (unsigned long long)b->next_step,
                   apart == 1 ? "they stopped between two steps" : "they are not of one time");
}

int parts_open(struct parts *p, const struct run_config *cfg, struct err *err)
{
    const struct run_ranks *r = &cfg->ranks;
    size_t                  n = size_max(r->size, 1);
    int                     rc = 0;

    if (n > 1 && !r->parts)
        return err_misuse(err, "%s is the part of rank %zu of a run of %zu ranks: it is read "
                          "together with all the others", cfg->dir, r->rank, n);
    *p = (struct parts){ .cfg = *cfg, .part = calloc(n, sizeof *p->part) };
    if (!p->part)
        return err_set(err, -ENOMEM, "out of memory for reading %s", cfg->dir);
    for (; p->n < n && !rc; p->n++) {
        struct run_config part = n > 1 ? *r->parts[p->n] : *cfg;

        if (!devices_fake(&part))
            part.disk = cfg->disk; // the reading machine's own setting
        part.watch = cfg->watch;
        part.base = cfg->base;
        rc = rank_open(&p->part[p->n], &part, err);
    }
    for (size_t i = 1; i < n && !rc; i++)
        rc = same_step(p, i, err);
    return rc;
}

void parts_close(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        part_close(&p->part[i]);
    free(p->part);
    *p = (struct parts){ 0 };
}

struct part *parts_at(const struct parts *p, size_t block, size_t *at, size_t *n)
{
    size_t all = run_whole(&p->cfg, block), i = 0;

    while (i + 1 < p->n && *at >= ranks_first(all, i + 1, p->n))
        i++;
    *n = size_min(*n, ranks_first(all, i + 1, p->n) - *at);
    *at -= ranks_first(all, i, p->n);
    return &p->part[i];
}

int parts_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    size_t step;

    for (; n > 0; first += step, out += step, n -= step) {
        size_t       at = first;
        struct part *part;
        int          rc;

        step = n;
        part = parts_at(ctx, block, &at, &step);
        if ((rc = slots_reader_read(&part->states, block, at, step, out, err)))
            return rc;
    }
    return 0;
}
