/* grouped.c: manages the buffer places in which a block's gradient is added up, group by group. */
#include "offload/gradient/grouped.h"

#include "data/base/round.h"

#include <assert.h>

size_t grouped_slots(const struct run_config *cfg, size_t block, int alone)
{
    size_t n = run_groups(cfg);

    if (!route_once(&cfg->route, block))
        return n;
    return alone ? 1 : sum_slots(cfg->ranks.rank * n, n, n * size_max(cfg->ranks.size, 1));
}

void grouped_begin(struct grouped *g, const struct run_config *cfg, size_t block)
{
    g->n = run_groups(cfg);
    g->first = cfg->ranks.rank * g->n;
    g->all = g->n * size_max(cfg->ranks.size, 1);
    g->once = route_once(&cfg->route, block);
    g->group = GROUPED_NONE;
    g->held = 0;
    memset(g->began, 0, g->n);
}

size_t grouped_before(const struct grouped *g, size_t group)
{
    return g->once && g->group != group ? g->group : GROUPED_NONE;
}

/* The first place that no node uses. */
static float *place_free(const struct grouped *g)
{
    for (size_t i = 0, taken; i < g->slots; i++) {
        float *at = g->grad + i * g->stride;

        taken = 0;
        for (size_t k = 0; k < g->held; k++)
            taken += g->x[k] == at;
        if (!taken)
            return at;
    }
    assert(0 && "a gradient's groups come in another order than up or down");
    return NULL;
}

float *grouped_lend(struct grouped *g, size_t group, int *fresh)
{
    assert(group < g->n);
    *fresh = !g->began[group];
    g->began[group] = 1;
    if (!g->once)
        return g->grad + group * g->stride;
    assert(*fresh == (g->group != group) && "a group is added to once more when it was complete");
    if (*fresh)
        g->at = place_free(g);
    g->group = group;
    return g->at;
}

float *grouped_at(const struct grouped *g, size_t group)
{
    assert(g->began[group] && (!g->once || g->group == group));
    return g->once ? g->at : g->grad + group * g->stride;
}

void grouped_add(struct grouped *g, size_t group, size_t n)
{
    size_t index = g->first + group, i = g->held;

    while (i > 0 && sum_first(g->node[i - 1]) > index)
        i--;
    assert(g->held < SUM_NODES_MOST);
    memmove(g->node + i + 1, g->node + i, (g->held - i) * sizeof *g->node);
    memmove(g->x + i + 1, g->x + i, (g->held - i) * sizeof *g->x);
    g->node[i] = (struct sum_node){ 0, index };
    g->x[i] = grouped_at(g, group);
    g->held = sum_merge(g->node, g->x, g->held + 1, g->all, n);
}

struct route_span grouped_last(const struct grouped *g)
{
    assert(!g->once || g->group < g->n);
    return g->once ? (struct route_span){ g->group, g->group + 1 } : (struct route_span){ 0, g->n };
}
