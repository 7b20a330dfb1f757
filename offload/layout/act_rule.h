/* act_rule.h: which items of activations a step writes to the devices and reads back, and which
 * never leave memory. A rule of the order of pushes alone, not of how fast a drive is, so that the
 * stack (act_stack.h), which follows it, and the computed traffic (traffic.h) agree to the byte.
 *
 * Records are popped in the reverse order of their pushes, the items of one in the order in which
 * they were pushed. So it is known which of two items is popped first, long before it is.
 *
 * Of `n` buffers half (two at least) are what comes passes through on its way to the drives: an
 * attention is pushed whole, all its items at once, and waits for writes where these buffers are
 * few. The others hold the items that are popped first of all pushed so far. With one more than
 * that, the one that is popped last is written. In the end these are the first items that backward
 * asks for, and were never written (SSDTrain keeps the last module's). The last items of a pass
 * need no buffer for what comes, and stay, too, where nothing that is popped before them was
 * written.
 *
 * An item that was written is in its buffer until another one needs it, and buffers are given again
 * in the order in which they were let go. Those of the last record that are there when the pass
 * turns are popped from memory, whether their write is over or not (SSDTrain's forwarding), unless
 * so many are popped before them that their buffers are better read into. */
#pragma once

#include "data/base/err.h"

#include <stdint.h>

/* What buffer i is used for. */
struct act_slot {
    size_t   entry; // the item that it holds, or is getting, by the number of its push; SIZE_MAX:
                    // none
    size_t   begin; // the first item of its record
    int      stays; // it is not to be written, as far as is known now
    uint64_t since; // when it was let go; 0: it was free from the beginning
};
struct act_rule {
    struct act_slot *slot; // (n)
    size_t   n;
    size_t   pushed, begin;  // items in this pass; the first one of the record under way
    size_t   now;            // of slot: where the newest item is
    uint64_t let_go;         // how often a buffer was
    struct act_slot first;   // of the items that are written, the one that is popped first
};

size_t act_rule_stay(size_t n); // buffers whose items stay

void   act_rule_begin(struct act_rule *r); // a pass: nothing is pushed yet
/* The buffer that the next item is to take. first: it begins a record. */
size_t act_rule_push(struct act_rule *r, int first);
/* It is pushed, and `left` more come in this pass. The buffer whose item is to be written now, or
 * SIZE_MAX. */
size_t act_rule_pushed(struct act_rule *r, size_t left);
void   act_rule_reverse(struct act_rule *r); // all are: forgets what is not popped from memory

/* An item, as what a pass pushes is told in advance. first: it begins a record. */
struct act_item { size_t bytes; int first; };

/* What the rule makes of a pass of n_items through `buffers`: bytes written and read. 0 or
 * -ENOMEM. */
int act_rule_moves(uint64_t *written, uint64_t *read, size_t buffers, const struct act_item *item,
                   size_t n_items, struct err *err);
