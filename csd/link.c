/* link.c: meters and models of links. The model is a queue in each direction: a transfer starts
 * when those before it are over, and lasts bytes / bandwidth. */
#include "csd/link.h"

#include <pthread.h>
#include <stdlib.h>

const char *const link_kind_names[LINK_KINDS] = {"host", "internal"};
const char *const link_dir_names[LINK_DIRS] = {"read", "write"};
const char *const link_class_names[LINK_CLASSES] = {"states", "gradient", "wire", "activation",
                                                    "residual"};

enum { CELLS = sizeof(struct link_meter) / sizeof(uint64_t) }; // a meter is nothing but numbers

void link_meter_count(struct link_meter *m, enum link_kind link, enum link_class cls,
                      enum link_dir dir, size_t payload, size_t bytes)
{
    m->bytes[link][cls][dir] += payload;
    m->padding[link][cls][dir] += bytes - payload;
}

void link_meter_add(struct link_meter *to, const struct link_meter *from)
{
    uint64_t       *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;

    for (size_t i = 0; i < CELLS; i++)
        t[i] += f[i];
}

uint64_t link_meter_total(const struct link_meter *m)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < CELLS; i++)
        bytes += ((const uint64_t *)m)[i];
    return bytes;
}

struct link {
    double          bytes_per_s[LINK_DIRS];
    pthread_mutex_t mutex;
    uint64_t        free_ns[LINK_DIRS]; // when all that was reserved is over; under the mutex
};

struct link *link_new(const double bytes_per_s[LINK_DIRS])
{
    struct link *l = calloc(1, sizeof *l);

    if (l)
        *l = (struct link){ { bytes_per_s[LINK_READ], bytes_per_s[LINK_WRITE] },
                            PTHREAD_MUTEX_INITIALIZER, { 0 } };
    return l;
}

void link_free(struct link *l)
{
    if (l)
        pthread_mutex_destroy(&l->mutex);
    free(l);
}

uint64_t link_reserve(struct link *l, enum link_dir dir, uint64_t bytes, uint64_t now_ns)
{
    if (!l || l->bytes_per_s[dir] <= 0)
        return now_ns;
    pthread_mutex_lock(&l->mutex);
    uint64_t start = l->free_ns[dir] > now_ns ? l->free_ns[dir] : now_ns;
    uint64_t over = start + (uint64_t)((double)bytes * 1e9 / l->bytes_per_s[dir]);
    l->free_ns[dir] = over;
    pthread_mutex_unlock(&l->mutex);
    return over;
}
