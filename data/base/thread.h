/* thread.h: a module's thread for one kind of work, with the lock and the condition that both
 * share. The thread calls the function `work` again and again with the lock held. A caller that
 * changes data which `work` reads holds the lock and calls thread_changed. */
#pragma once

#include "data/base/err.h"

#include <pthread.h>

struct thread {
    /* Does the next piece of work. It may release the lock meanwhile with thread_unlock and take
     * it again with thread_lock. Returns 0 if there is nothing to do until something changes. A
     * function that otherwise never returns 0 must return 0 once `stop` is set. */
    int  (*work)(void *ctx);
    void  *ctx;
    int    stop;                // set by thread_ask_stop under the lock
    // private to thread.c
    int             running;    // used only by the thread that starts and stops this one
    pthread_t       id;
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
};

/* Create and destroy the lock and the condition, which outlive each start and stop.
 * thread_release also stops the thread, and accepts the zero state. */
void thread_init(struct thread *t, int (*work)(void *ctx), void *ctx);
void thread_release(struct thread *t);

/* Starts the thread. `name` is its name in tools (15 characters at most) and in the sentence of
 * a failure. Returns 0 or -errno. */
int thread_start(struct thread *t, const char *name, struct err *err);

/* Stop the thread at its first call of `work` that finds nothing to do. thread_ask_stop returns
 * at once. If the thread sleeps elsewhere than in this condition, the caller then wakes it.
 * thread_stop asks and waits for the end; it does nothing if the thread does not run. The thread
 * may be started again. */
void thread_ask_stop(struct thread *t);
void thread_stop(struct thread *t);

static inline void thread_lock(struct thread *t) { pthread_mutex_lock(&t->mutex); }
static inline void thread_unlock(struct thread *t) { pthread_mutex_unlock(&t->mutex); }
/* Call both with the lock held. thread_wait may return without a thread_changed, so the caller
 * checks again. */
static inline void thread_wait(struct thread *t) { pthread_cond_wait(&t->changed, &t->mutex); }
static inline void thread_changed(struct thread *t) { pthread_cond_broadcast(&t->changed); }
