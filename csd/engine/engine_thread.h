/* engine_thread.h: the thread of an engine that works elsewhere: it starts a piece of work, waits
 * for its end and wakes the worker. Work that fails breaks the engine. */
#pragma once

#include "csd/engine/engine.h"
#include "data/base/thread.h"

struct engine_thread {
    struct engine *engine;
    /* The whole of one piece of work, s->status of which is its result. Else -errno and why: the
     * engine cannot be used any more. */
    int          (*run)(struct engine *e, struct engine_set *s, struct err *why);
    void         (*wake)(void *ctx); // engine_ops.open's
    void          *ctx;
    // its own
    struct thread      thread;
    struct engine_set *asked, *over; // under the thread's lock
    int                rc;
    struct err         why;
};

/* t: the first four members are set, `device` is its number. 0 or -errno. */
int  engine_thread_open(struct engine_thread *t, int device, struct err *err);
void engine_thread_close(struct engine_thread *t); // one never opened, too
// engine_ops.start, poll
void engine_thread_start(struct engine_thread *t, struct engine_set *s);
struct engine_set *engine_thread_poll(struct engine_thread *t);
