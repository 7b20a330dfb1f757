/* thread.h: a thread that a module has for one kind of work, with the lock and the condition that
 * the module and the thread share. The work is a function, `work`, which the thread calls again and
 * again with the lock held. Whoever changes what `work` looks at holds the lock and calls
 * thread_changed. */
#pragma once

#include "data/base/err.h"

#include <pthread.h>

struct thread {
    /* Does the next piece of work. It may give the lock up meanwhile, with thread_unlock and
     * thread_lock. 0: there is nothing to do until something changes. A call that never returns 0
     * by itself returns 0 once `stop` is set. */
    int  (*work)(void *ctx);
    void  *ctx;
    int    stop;                // under the lock, set by thread_ask_stop
    // the helper's own
    int             running;    // of the thread that starts and stops it
    pthread_t       id;
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
};

/* The lock and the condition, which outlive each start and stop. thread_release stops the thread,
 * too, and accepts the zero state. */
void thread_init(struct thread *t, int (*work)(void *ctx), void *ctx);
void thread_release(struct thread *t);

/* name: of the thread, as tools show it (15 characters at most), and in the sentence of a failure.
 * 0 or -errno. */
int thread_start(struct thread *t, const char *name, struct err *err);

/* The thread ends at the first call that finds nothing to do. thread_ask_stop returns at once: the
 * caller then wakes the thread where it sleeps elsewhere than in this condition. thread_stop asks,
 * and waits for the end; a thread that does not run is left alone. It may be started again. */
void thread_ask_stop(struct thread *t);
void thread_stop(struct thread *t);

static inline void thread_lock(struct thread *t) { pthread_mutex_lock(&t->mutex); }
static inline void thread_unlock(struct thread *t) { pthread_mutex_unlock(&t->mutex); }
/* Lock held. thread_wait returns after a thread_changed, or without one: the caller looks again. */
static inline void thread_wait(struct thread *t) { pthread_cond_wait(&t->changed, &t->mutex); }
static inline void thread_changed(struct thread *t) { pthread_cond_broadcast(&t->changed); }
