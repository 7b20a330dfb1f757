/* act_stack.h: the stack of activations on the devices (stream.h), for what forward leaves to
 * backward.
 *
 * Entry e lies at a place of its own behind each device's states, a part of it on each device, and
 * passes through buffer e % n in both directions. Pushing, a buffer is given again as soon as the
 * entry in it is written; popping, as soon as it was popped the entry n below is read into it. The
 * last n that a pass pushes are popped from memory and never written (SSDTrain keeps the last
 * module's).
 *
 *     a buffer   is                                              next
 *     IDLE       free, or with an entry that may be popped;      FILLED, READING
 *                `lent` while the model fills or reads it
 *     FILLED     pushed, to be written                           WRITING
 *     WRITING    on its way; may be popped (lent) meanwhile      IDLE
 *     READING    on its way back                                 IDLE
 *
 * Nothing here outlives a step, so nothing is flushed or committed; the checksum of a part is in
 * memory, taken when it was pushed and looked at when it comes back. */
#pragma once

#include "offload/hub.h"

struct act_buffer {
    enum { ACT_IDLE, ACT_FILLED, ACT_WRITING, ACT_READING } state;
    void        *values;
    int          lent;       // to the model
    size_t       entry;      // what it holds, or is getting; SIZE_MAX: nothing
    size_t       unfinished; // parts
    struct task *parts;      // (n devices)
};
struct act_stack {
    struct hub        *hub;
    struct act_buffer *buffers;
    size_t             n_buffers;
    struct task       *tasks; // backing of all parts
    size_t            *bytes; // (entries)
    uint32_t          *crc;   // (entries, n devices)
    size_t             depth; // entries on the stack
    int                popping;
};

void   act_stack_tables(struct act_stack *k, struct arena *a);
void   act_stack_lay(struct act_stack *k, struct arena *a); // the buffers
size_t act_stack_buffer(const struct run_config *cfg); // bytes that an entry passes through

/* The model's, as stream.h has them; all take the lock, lending (push and pop) may wait. */
int  act_stack_lend(struct act_stack *k, int popping, void **entry, struct err *err);
void act_stack_pushed(struct act_stack *k, size_t bytes, size_t left);
void act_stack_popped(struct act_stack *k);
/* The model's, before a step's update, lock held; waits: what of this step is still being written
 * is counted as its own. */
void act_stack_settle(struct act_stack *k);
/* Every entry that can be written or read is; whether there was any. */
int  act_stack_advance(struct act_stack *k);
