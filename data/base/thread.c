/* thread.c: starts a module's thread, runs its loop, and stops it. */
#include "data/base/thread.h"

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    thread_lock(t);
    for (;;)
        if (!t->work(t->ctx)) {
            if (t->stop)
                break;
            thread_wait(t);
        }
    thread_unlock(t);
    return NULL;
}

void thread_init(struct thread *t, int (*work)(void *ctx), void *ctx)
{
    *t = (struct thread){ .work = work, .ctx = ctx };
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->changed, NULL);
}

void thread_release(struct thread *t)
{
    if (!t->work)
        return;
    thread_stop(t);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    t->work = NULL;
}

int thread_start(struct thread *t, const char *name, struct err *err)
{
    t->stop = 0;
    int rc = -pthread_create(&t->id, NULL, thread_main, t);
    if (rc)
        return err_set(err, rc, "start the thread %s: %s", name, strerror(-rc));
    pthread_setname_np(t->id, name);
    t->running = 1;
    return 0;
}

void thread_ask_stop(struct thread *t)
{
    thread_lock(t);
    t->stop = 1;
    thread_changed(t);
    thread_unlock(t);
}

void thread_stop(struct thread *t)
{
    if (!t->running)
        return;
    thread_ask_stop(t);
    pthread_join(t->id, NULL);
    t->running = 0;
}
