/* act_stack.h: the stack of activations on devices (stream.h), which forward leaves to backward.
 *
 * Every item has a place on the devices, in the order of pushes: a part of it behind the states of
 * each device, or on each drive for activations (devices_acts). Items pass through buffers in both
 * directions. act_rule.h says which buffer an item takes when it is pushed, and whether it is
 * written. When the first item is popped, items are read into all buffers that hold nothing to be
 * popped, in the order of pops, a few MiB at a time. Later reads use each buffer that was popped.
 *
 *     a buffer is                                                next
 *     IDLE       free, or holds an item that stays or may be     FILLED, READING
 *                popped; `lent` while the model fills or reads it
 *     FILLED     pushed, and to be written                       WRITING
 *     WRITING    being written; may be popped (lent) meanwhile   IDLE
 *     READING    being read back                                 IDLE
 *
 * Nothing here outlives a step, so nothing is flushed or committed. A part's checksum is kept in
 * memory: taken before the part is written, and compared when it comes back. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/layout/act_rule.h"

struct act_buffer {
    enum { ACT_IDLE, ACT_FILLED, ACT_WRITING, ACT_READING } state;
    void        *values;
    int          lent;       // true while the model has it
    size_t       moves;      // the item under way (FILLED to READING)
    size_t       unfinished; // its parts that are not done
    struct task *parts;      // (devices_acts)
};
struct act_place { // of an item
    size_t   bytes, begin; // begin: the first item of its record
    uint64_t off;          // on each device, from the beginning of the area for activations
};
struct act_stack {
    struct scheduler   *sched;
    struct act_rule    rule;    // its slot i describes buffer i
    struct act_buffer *buffers; // (rule.n)
    struct arena       memory;  // of buffers; separate, because it can be given back
    struct task       *tasks;   // (rule.n, devices_acts) memory of act_buffer.parts
    struct act_place  *place;   // (items)
    uint32_t          *crc;     // (items, devices_acts)
    size_t             popped;  // of rule.pushed items
    int                popping; // true from the first pop on; then:
    size_t             next;    // the item that is popped next; SIZE_MAX: none
    size_t             ahead;   // the next item that is to be read into a buffer
};

void   act_stack_tables(struct act_stack *k, struct arena *a);
int    act_stack_open(struct act_stack *k, struct err *err); // allocates the buffers
void   act_stack_close(struct act_stack *k);
/* The model's thread, between passes: give the buffers' memory back until the next push. */
void   act_stack_rest(struct act_stack *k);
size_t act_stack_buffer(const struct run_config *cfg); // bytes of one buffer
static inline size_t act_stack_depth(const struct act_stack *k)
{
    return k->rule.pushed - k->popped;
}

/* The model's thread, as in stream.h. All take the lock; push and pop wait. */
int  act_stack_push(struct act_stack *k, int first, void **item, struct err *err);
void act_stack_pushed(struct act_stack *k, size_t bytes, size_t left);
int  act_stack_pop(struct act_stack *k, void **item, struct err *err);
void act_stack_popped(struct act_stack *k);
/* The model's thread, before a step's update, lock held. Waits for the step's writes, so that they
 * are metered in it. */
void act_stack_settle(struct act_stack *k);
/* The scheduler's thread, lock held: submit all writes and reads that are possible. True if there
 * were any. */
int  act_stack_advance(struct act_stack *k);
