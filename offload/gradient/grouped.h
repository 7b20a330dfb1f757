/* grouped.h: a block's gradient while this rank computes its groups of micro-batches (ranks.h). The
 * buffer holds places, each for a whole gradient.
 *
 * If one run of the pass adds to the block (route_once), a group is complete when the next group is
 * asked for, in rising or falling order. It is then added to its node of the tree (sum_tree.h), and
 * the buffer has a place for each node that the tree leaves apart. If several runs add to the block
 * (tied embeddings), every group has a place until the last run. */
#pragma once

#include "offload/layout/config.h"
#include "offload/layout/sum_tree.h"

#define GROUPED_NONE SIZE_MAX

struct grouped {
    float          *grad;          // (slots, stride) the places
    size_t          stride, slots;
    char           *began;         // (n) true for groups that were asked for in this step
    size_t          first, n, all; // this rank's groups are [first, first + n) of all
    int             once;          // one run adds to the block: one group at a time
    size_t          group;         // once: the group under way, or GROUPED_NONE
    float          *at;            // once: its place
    size_t          held;          // nodes so far, in order
    struct sum_node node[SUM_NODES_MOST]; // (held)
    float          *x[SUM_NODES_MOST];    // (held) their places
};

/* The number of places that a block's gradient needs. alone: the caller takes each group in another
 * form before it asks for the next one. */
size_t grouped_slots(const struct run_config *cfg, size_t block, int alone);

/* Begin a block's gradient in a buffer, whose grad, stride, slots and began the caller has set. */
void grouped_begin(struct grouped *g, const struct run_config *cfg, size_t block);

/* The group that is complete when `group` is asked for, or GROUPED_NONE. The caller adds or takes
 * it before grouped_lend. */
size_t grouped_before(const struct grouped *g, size_t group);

/* The place of a group. *fresh: 1 if its values are undefined. */
float *grouped_lend(struct grouped *g, size_t group, int *fresh);

/* The place of a complete group; and the addition of its first n values to the nodes. */
float *grouped_at(const struct grouped *g, size_t group);
void   grouped_add(struct grouped *g, size_t group, size_t n);

/* The groups that are complete only when the whole gradient is. */
struct route_span grouped_last(const struct grouped *g);
