/* csd.c: what all devices share: their names, the owner's bell, lists of jobs, the size of their
 * memory. */
#include "csd/csd.h"
#include "csd/updater.h"
#include "data/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct csd_ops *csd_find(const char *name)
{
    static const struct csd_ops *const all[] = {&csd_emu, &csd_null};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

size_t csd_arena_bytes(size_t n_pad, int moments, enum dtype wire_dt, int naive)
{
    return (naive ? 1 : 2) * update_area_bytes(n_pad, moments, wire_dt);
}

void csd_meter(struct link_meter *m, enum link_kind link, enum link_class cls, enum link_dir dir,
               size_t payload, size_t bytes)
{
    m->bytes[link][cls][dir] += payload;
    m->padding[link][cls][dir] += bytes - payload;
}

/* ---- what stays ---- */

struct kept {
    struct kept *before;
    void        *memory;
};

void csd_keep(void *memory)
{
    static struct kept *last;
    struct kept        *k = malloc(sizeof *k);

    if (!k)
        return; // it stays all the same
    k->memory = memory;
    k->before = __atomic_load_n(&last, __ATOMIC_RELAXED);
    while (
        !__atomic_compare_exchange_n(&last, &k->before, k, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* ---- the bell ---- */

void csd_bell_init(struct csd_bell *b)
{
    pthread_condattr_t attr;

    b->rings = 0;
    pthread_mutex_init(&b->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->cond, &attr);
    pthread_condattr_destroy(&attr);
}

void csd_bell_release(struct csd_bell *b)
{
    pthread_cond_destroy(&b->cond);
    pthread_mutex_destroy(&b->mutex);
}

void csd_bell_ring(struct csd_bell *b)
{
    pthread_mutex_lock(&b->mutex);
    b->rings++;
    pthread_cond_broadcast(&b->cond);
    pthread_mutex_unlock(&b->mutex);
}

uint64_t csd_bell_wait(struct csd_bell *b, uint64_t seen, uint64_t timeout_ns)
{
    uint64_t now = clock_ns(), end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns,
             rings;
    struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int             rc = 0;

    pthread_mutex_lock(&b->mutex);
    while (b->rings == seen && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&b->cond, &b->mutex, &ts);
    rings = b->rings;
    pthread_mutex_unlock(&b->mutex);
    return rings;
}

/* ---- lists of jobs ---- */

void csd_list_init(struct csd_list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

void csd_list_push(struct csd_list *l, struct csd_job *j)
{
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
}

struct csd_job *csd_list_pop(struct csd_list *l)
{
    struct csd_job *j = l->first;

    if (j) {
        l->first = j->next;
        if (!l->first)
            l->last = &l->first;
        j->next = NULL;
    }
    return j;
}

int csd_list_take(struct csd_list *l, struct csd_job **out, int max)
{
    int n = 0;

    while (n < max && l->first)
        out[n++] = csd_list_pop(l);
    return n;
}
