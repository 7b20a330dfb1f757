/* engine_thread.c: runs an engine's work in a thread and wakes the worker at its end. */
#include "csd/engine/engine_thread.h"

static int work(void *arg)
{
    struct engine_thread *t = arg;
    struct engine_set    *s = t->asked;

    if (!s)
        return 0;
    thread_unlock(&t->thread);
    int rc = t->run(&t->base, s, &t->why);
    thread_lock(&t->thread);
    t->asked = NULL;
    t->over = s;
    t->rc = rc;
    if (t->wake)
        t->wake(t->ctx); // under the lock: once s is polled, the worker may be gone
    return 1;
}

int engine_thread_open(struct engine_thread *t, int device, struct err *err)
{
    char name[16];

    snprintf(name, sizeof name, "engine%d", device);
    thread_init(&t->thread, work, t);
    return thread_start(&t->thread, name, err);
}

void engine_thread_close(struct engine_thread *t) { thread_release(&t->thread); }

void engine_thread_start(struct engine *e, struct engine_set *s)
{
    struct engine_thread *t = (struct engine_thread *)e;

    thread_lock(&t->thread);
    t->asked = s;
    thread_changed(&t->thread);
    thread_unlock(&t->thread);
}

struct engine_set *engine_thread_poll(struct engine *e)
{
    struct engine_thread *t = (struct engine_thread *)e;

    thread_lock(&t->thread);
    struct engine_set *s = t->over;
    t->over = NULL;
    thread_unlock(&t->thread);
    if (s && t->rc) {
        s->status = e->broken = t->rc;
        s->why = t->why;
    }
    return s;
}
