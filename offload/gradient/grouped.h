/* grouped.h: a block's gradient while the groups of micro-batches that this rank computes come
 * (ranks.h), as one buffer holds it: places for whole gradients, one behind the other. Where the
 * block is added to in one run of the pass (route_once), a group is complete when the next one is
 * asked for, in rising or in falling order, and is added at once to what there is of its node
 * (sum_tree.h): the buffer has places for as many nodes as the tree leaves apart. Where it is added
 * to in several runs (tied embeddings) all groups have a place until the last run. */
#pragma once

#include "offload/layout/config.h"
#include "offload/layout/sum_tree.h"

#define GROUPED_NONE SIZE_MAX

struct grouped {
    float          *grad;          // (slots, stride)
    size_t          stride, slots;
    char           *began;         // (n) groups that were asked for in this step
    size_t          first, n, all; // this rank's groups, of all
    int             once;          // one at a time,
    size_t          group;         // this one, in this place
    float          *at;
    size_t          held;          // nodes of what has been added, in order, and where they stand
    struct sum_node node[SUM_NODES_MOST];
    float          *x[SUM_NODES_MOST];
};

/* Places that the gradient of a block needs. alone: a group is taken, in another form, before the
 * next one is asked for. */
size_t grouped_slots(const struct run_config *cfg, size_t block, int alone);

/* Of a buffer, whose grad, stride, slots and began are there, for a block: nothing is asked for. */
void grouped_begin(struct grouped *g, const struct run_config *cfg, size_t block);

/* A group that is complete when this one is asked for, and is to be added, or taken, before; or
 * GROUPED_NONE. */
size_t grouped_before(const struct grouped *g, size_t group);

/* The place of a group; *fresh: with anything in it. */
float *grouped_lend(struct grouped *g, size_t group, int *fresh);

/* One that is complete: where it stands; its first n values are added to the others'. */
float *grouped_at(const struct grouped *g, size_t group);
void   grouped_add(struct grouped *g, size_t group, size_t n);

/* The groups that are complete only now that all is. */
struct route_span grouped_last(const struct grouped *g);
