/* engine_thread.h: the thread of an engine that works elsewhere. It runs one set's work at a time,
 * waits for its end, and wakes the worker. Work that fails breaks the engine. */
#pragma once

#include "csd/engine/engine.h"
#include "data/base/thread.h"

struct engine_thread { // first member of every engine that has one
    struct engine base;
    /* Does the work of a set; s->status is its result. 0, or -errno and why: the engine is
     * unusable. */
    int          (*run)(struct engine *e, struct engine_set *s, struct err *why);
    void         (*wake)(void *ctx); // as engine_ops.open has it; NULL: nobody waits yet
    void          *ctx;
    // private
    struct thread      thread;
    struct engine_set *asked, *over; // under the thread's lock
    int                rc;
    struct err         why;
};

/* The caller has set the members before the private ones. device: its number. 0 or -errno. close
 * waits for the work under way, and accepts the zero state. */
int  engine_thread_open(struct engine_thread *t, int device, struct err *err);
void engine_thread_close(struct engine_thread *t);
/* engine_ops.start and poll. */
void engine_thread_start(struct engine *e, struct engine_set *s);
struct engine_set *engine_thread_poll(struct engine *e);
