/* threads.c: real threads with a baton: whoever holds it runs until it waits, ends, or passes it
 * on. */
#include "tests/crash/threads.h"

#include "kernels/rng.h"

#include <assert.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, EVERY = 4 }; // one in EVERY chances to pass the baton on is taken

enum state { UNUSED, READY, WAITING, OVER };

struct thread {
    enum state state;
    sem_t      baton;
    pthread_t  real;
    void *(*run)(void *);
    void       *arg;
    const void *what; // WAITING
    uint64_t    until;
    int         woken, host;
};

static struct thread threads[THREADS] = { { .state = READY } };
static int           current;
static uint64_t      seed_, rolls, now_ns = 1000000000;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __real_pthread_join(pthread_t t, void **value);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t t, void **value);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_getrusage(int who, struct rusage *u);
int __wrap_usleep(useconds_t us);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_madvise(void *at, size_t n, int advice);

void threads_seed(uint64_t seed)
{
    for (int i = 1; i < THREADS; i++)
        assert(threads[i].state == UNUSED);
    seed_ = seed;
    rolls = 0;
    now_ns = 1000000000;
}

uint64_t threads_roll(uint64_t sides)
{
    return rng_bits(seed_, 78, rolls++) % sides;
}

int threads_host(void) { return threads[current].host; }

void threads_host_set(int host) { threads[current].host = host; }

uint64_t threads_now(void)
{
    return now_ns;
}

/* Who is next: one that is ready, or else whose sleep ends first. */
static int pick(void)
{
    int ready[THREADS], n = 0, first = -1;

    for (int i = 0; i < THREADS; i++) {
        if (threads[i].state == READY)
            ready[n++] = i;
        else if (threads[i].state == WAITING && threads[i].until != UINT64_MAX &&
                 (first < 0 || threads[i].until < threads[first].until))
            first = i;
    }
    if (n > 0)
        return ready[threads_roll((uint64_t)n)];
    if (first < 0) {
        fprintf(stderr, "every thread waits for another one\n");
        abort();
    }
    now_ns = threads[first].until > now_ns ? threads[first].until : now_ns;
    threads[first].state = READY;
    return first;
}

/* Hand the baton on; returns when it comes back. */
static void pass(int ends)
{
    int me = current, next = pick();

    if (next == me)
        return;
    current = next;
    sem_post(&threads[next].baton);
    while (!ends && sem_wait(&threads[me].baton))
        assert(errno == EINTR);
}

void threads_yield(void)
{
    if (threads_roll(EVERY) == 0)
        pass(0);
}

int threads_wait(const void *what, uint64_t until_ns)
{
    struct thread *me = &threads[current];

    me->state = WAITING;
    me->what = what;
    me->until = until_ns;
    me->woken = 0;
    pass(0);
    return me->woken;
}

void threads_wake(const void *what, int all)
{
    int waiting[THREADS], n = 0;

    for (int i = 0; i < THREADS; i++)
        if (threads[i].state == WAITING && threads[i].what == what)
            waiting[n++] = i;
    while (n > 0) {
        int i = all ? n - 1 : (int)threads_roll((uint64_t)n);

        threads[waiting[i]].state = READY;
        threads[waiting[i]].woken = 1;
        waiting[i] = waiting[--n];
        if (!all)
            return;
    }
}

/* ---- POSIX threads ---- */

static void *thread_main(void *arg)
{
    struct thread *me = arg;

    while (sem_wait(&me->baton))
        assert(errno == EINTR);
    omp_set_num_threads(1); // a team would run beside the baton
    me->run(me->arg);
    me->state = OVER;
    threads_wake(me, 1);
    pass(1);
    return NULL;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int i = 1, rc;

    while (i < THREADS && threads[i].state != UNUSED)
        i++;
    assert(i < THREADS);
    threads[i] = (struct thread){ .state = READY, .run = run, .arg = arg,
                                  .host = threads[current].host };
    sem_init(&threads[i].baton, 0, 0);
    rc = __real_pthread_create(t, attr, thread_main, &threads[i]);
    threads[i].real = *t;
    if (rc)
        threads[i].state = UNUSED;
    return rc;
}

int __wrap_pthread_join(pthread_t t, void **value)
{
    int i = 1, rc;

    while (threads[i].state == UNUSED || !pthread_equal(threads[i].real, t))
        i++;
    while (threads[i].state != OVER)
        threads_wait(&threads[i], UINT64_MAX);
    rc = __real_pthread_join(t, value);
    sem_destroy(&threads[i].baton);
    threads[i].state = UNUSED;
    return rc;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    threads_yield();
    while (pthread_mutex_trylock(m))
        threads_wait(m, UINT64_MAX);
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    int rc = __real_pthread_mutex_unlock(m);

    threads_wake(m, 1);
    return rc;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *until)
{
    uint64_t ns =
        until ? (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec : UINT64_MAX;
    int      woken;

    __wrap_pthread_mutex_unlock(m);
    woken = threads_wait(c, ns);
    __wrap_pthread_mutex_lock(m);
    return woken ? 0 : ETIMEDOUT;
}

/* All clocks are the simulated one. */
int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *until)
{
    (void)clock;
    return __wrap_pthread_cond_timedwait(c, m, until);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return __wrap_pthread_cond_timedwait(c, m, NULL);
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    threads_wake(c, 0);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    threads_wake(c, 1);
    return 0;
}

/* ---- time, and what else would differ from run to run ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    now_ns += 1000;
    *ts = (struct timespec){ (time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u) };
    return 0;
}

int __wrap_getrusage(int who, struct rusage *u)
{
    (void)who;
    *u = (struct rusage){ .ru_maxrss = 12345 };
    return 0;
}

int __wrap_usleep(useconds_t us)
{
    threads_wait(&now_ns, now_ns + (uint64_t)us * 1000);
    return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)left;
    threads_wait(&now_ns,
                 now_ns + (uint64_t)pause->tv_sec * 1000000000u + (uint64_t)pause->tv_nsec);
    return 0;
}

/* Huge pages would be cleared for every one of thousands of short lives. */
int __wrap_madvise(void *at, size_t n, int advice)
{
    (void)at, (void)n, (void)advice;
    return 0;
}
