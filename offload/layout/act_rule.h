/* act_rule.h: the rule by which a step's activations are written to the devices and read back, or
 * stay in memory. It depends only on the order of pushes, not on the speed of drives. So the stack
 * (act_stack.h), which follows the rule, and the computed traffic (traffic.h) agree to the byte.
 *
 * Activations come as items, and items form records (stream.h). Records are popped in the reverse
 * order of their pushes; the items of one record are popped in the order in which they were pushed.
 * So of two items it is known at once which is popped first.
 *
 * Half of the `n` buffers, at least two, are for items on their way to the drives: an attention's
 * items are pushed at once, and wait for writes if these buffers are few. The other buffers keep
 * the items that are popped earliest of all pushed so far. When there is one item too many, the one
 * that is popped last is written. At the end of forward the kept items are the first that backward
 * asks for, and they are never written (SSDTrain keeps the last module's). The last items of a pass
 * need no buffers for later ones; they stay as well, if no item that is popped before them was
 * written.
 *
 * A written item stays in its buffer until another item needs the buffer. Buffers are reused in the
 * order in which they became free. When backward begins, written items of the last record that are
 * still in their buffers are popped from memory, whether their write is over or not (SSDTrain's
 * forwarding). An exception are items with so many pops before them that their buffers are better
 * used for reads. */
#pragma once

#include "data/base/err.h"

/* The state of one buffer. */
struct act_slot {
    size_t   entry; // the item in it, or on its way into it, as the number of its push; SIZE_MAX:
                    // none
    size_t   begin; // the first item of the item's record
    int      stays; // true unless the item is to be written
    uint64_t since; // value of let_go when the buffer became free; 0: it was never used
};
struct act_rule {
    struct act_slot *slot;  // (n) of each buffer
    size_t   n;
    size_t   pushed;        // items of this pass so far
    size_t   begin;         // the first item of the record under way
    size_t   now;           // the slot of the newest item
    uint64_t let_go;        // how often a buffer became free
    struct act_slot first;  // of the written items, the one that is popped first
};

size_t act_rule_stay(size_t n); // of n buffers, how many keep items in memory

void   act_rule_begin(struct act_rule *r); // a new pass, with nothing pushed
/* The buffer for the next item. first: the item begins a record. */
size_t act_rule_push(struct act_rule *r, int first);
/* The item is in its buffer, and the pass pushes `left` more. The buffer whose item is to be
 * written now, or SIZE_MAX. */
size_t act_rule_pushed(struct act_rule *r, size_t left);
/* All items are pushed, backward begins: forgets the items that are not popped from memory. */
void   act_rule_reverse(struct act_rule *r);

/* An item that a pass will push. first: it begins a record. */
struct act_item { size_t bytes; int first; };

/* Bytes that a pass writes and reads if it pushes these items through so many buffers. 0 or
 * -ENOMEM. */
int act_rule_moves(uint64_t *written, uint64_t *read, size_t buffers, const struct act_item *item,
                   size_t n_items, struct err *err);
