/* bell.c: rings and waits, on CLOCK_MONOTONIC, which is never set back. */
#include "data/base/bell.h"

#include "data/base/clock.h"

#include <errno.h>

int bell_cond_wait(pthread_cond_t *c, pthread_mutex_t *mutex, uint64_t end_ns)
{
    struct timespec ts = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};

    return pthread_cond_clockwait(c, mutex, CLOCK_MONOTONIC, &ts);
}

uint64_t bell_end(uint64_t wait_ns)
{
    uint64_t now = clock_ns();

    return wait_ns > UINT64_MAX - now ? UINT64_MAX : now + wait_ns;
}

void bell_init(struct bell *b)
{
    b->rings = 0;
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->cond, NULL);
}

void bell_release(struct bell *b)
{
    pthread_cond_destroy(&b->cond);
    pthread_mutex_destroy(&b->mutex);
}

void bell_ring(struct bell *b)
{
    pthread_mutex_lock(&b->mutex);
    b->rings++;
    pthread_cond_broadcast(&b->cond);
    pthread_mutex_unlock(&b->mutex);
}

uint64_t bell_wait(struct bell *b, uint64_t seen, uint64_t timeout_ns)
{
    uint64_t end = bell_end(timeout_ns);
    int      rc = 0;

    pthread_mutex_lock(&b->mutex);
    while (b->rings == seen && rc != ETIMEDOUT)
        rc = bell_cond_wait(&b->cond, &b->mutex, end);
    uint64_t rings = b->rings;
    pthread_mutex_unlock(&b->mutex);
    return rings;
}
