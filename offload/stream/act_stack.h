/* act_stack.h: the stack of activations on the devices (stream.h), for what forward leaves to
 * backward.
 *
 * An item has a place of its own behind each device's states, a part of it on each device, or on
 * drives for activations alone (devices_acts), one behind the other as they are pushed. It passes
 * through any of the buffers in either direction. Which one it takes when it is pushed, and whether
 * it is written at all, is act_rule.h's to say; when the first one is popped, all buffers that hold
 * nothing to be popped are read into, in the order in which items will be popped, a few MiB at a
 * time, and so is each that was popped.
 *
 *     a buffer   is                                              next
 *     IDLE       free, or with an item that may be popped or     FILLED, READING
 *                stays; `lent` while the model fills or reads it
 *     FILLED     pushed, to be written                           WRITING
 *     WRITING    on its way; may be popped (lent) meanwhile      IDLE
 *     READING    on its way back                                 IDLE
 *
 * Nothing here outlives a step, so nothing is flushed or committed; the checksum of a part is in
 * memory, taken before it is written and looked at when it comes back. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/layout/act_rule.h"

struct act_buffer {
    enum { ACT_IDLE, ACT_FILLED, ACT_WRITING, ACT_READING } state;
    void        *values;
    int          lent;       // to the model
    size_t       moves;      // the item that is FILLED to READING, whoever is to have the buffer
    size_t       unfinished; // parts
    struct task *parts;      // (devices_acts)
};
struct act_place { // of an item
    size_t   bytes, begin; // begin: the first item of its record
    uint64_t off;          // behind the states, if there are any
};
struct act_stack {
    struct scheduler        *sched;
    struct act_rule    rule;    // its slot i says what is in buffer i
    struct act_buffer *buffers; // (rule.n)
    struct arena       memory;  // theirs: apart, since it can be given back
    struct task       *tasks;   // backing of all parts
    struct act_place  *place;   // (items)
    uint32_t          *crc;     // (items, devices_acts)
    size_t             popped;  // of rule.pushed
    int                popping; // then:
    size_t             next;    // the item that is popped next; SIZE_MAX: none
    size_t             ahead;   // the first one that nobody has looked for a buffer for
};

void   act_stack_tables(struct act_stack *k, struct arena *a);
int    act_stack_open(struct act_stack *k, struct err *err); // the buffers
void   act_stack_close(struct act_stack *k);
/* Between passes: the buffers take no memory until the next item is pushed. */
void   act_stack_rest(struct act_stack *k);
size_t act_stack_buffer(const struct run_config *cfg); // bytes that an item passes through
/* Items on the stack. */
static inline size_t act_stack_depth(const struct act_stack *k)
{
    return k->rule.pushed - k->popped;
}

/* The model's, as stream.h has them; all take the lock, lending (push and pop) may wait. */
int  act_stack_push(struct act_stack *k, int first, void **item, struct err *err);
void act_stack_pushed(struct act_stack *k, size_t bytes, size_t left);
int  act_stack_pop(struct act_stack *k, void **item, struct err *err);
void act_stack_popped(struct act_stack *k);
/* The model's, before a step's update, lock held; waits: what of this step is still being written
 * is counted as its own. */
void act_stack_settle(struct act_stack *k);
/* Every item that can be written or read is; whether there was any. */
int  act_stack_advance(struct act_stack *k);
