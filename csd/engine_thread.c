/* engine_thread.c: see the header. */
#include "csd/engine_thread.h"

static void *thread_run(void *arg)
{
    struct engine_thread *t = arg;

    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (!t->asked && !t->stop)
            pthread_cond_wait(&t->changed, &t->mutex);
        struct engine_set *s = t->asked;
        if (!s)
            break;
        pthread_mutex_unlock(&t->mutex);
        int rc = t->run(t->engine, s, &t->why);
        pthread_mutex_lock(&t->mutex);
        t->asked = NULL;
        t->over = s;
        t->rc = rc;
        t->wake(t->ctx); // under the mutex: once s is polled nobody may be there to be woken
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

int engine_thread_open(struct engine_thread *t, int device, struct err *err)
{
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->changed, NULL);
    int rc = -pthread_create(&t->thread, NULL, thread_run, t);
    if (rc) {
        pthread_cond_destroy(&t->changed);
        pthread_mutex_destroy(&t->mutex);
        return err_set(err, rc, "device %d: start its thread: %s", device, strerror(-rc));
    }
    t->started = 1;
    return 0;
}

void engine_thread_close(struct engine_thread *t)
{
    if (!t->started)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stop = 1;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    t->started = 0;
}

void engine_thread_start(struct engine_thread *t, struct engine_set *s)
{
    pthread_mutex_lock(&t->mutex);
    t->asked = s;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

struct engine_set *engine_thread_poll(struct engine_thread *t)
{
    pthread_mutex_lock(&t->mutex);
    struct engine_set *s = t->over;
    t->over = NULL;
    pthread_mutex_unlock(&t->mutex);
    if (s && t->rc) {
        s->status = t->engine->broken = t->rc;
        s->why = t->why;
    }
    return s;
}
