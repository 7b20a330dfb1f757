/* link.c: meters links, and models how long transfers over them take. The model is a queue: a
 * request is served when those before it are, and takes bytes / bandwidth of the link's time. A
 * link has a queue for each direction; a drive has one for both. A request is in all queues of its
 * route at the same time, because its bytes flow through all links together: the slowest link sets
 * the pace. */
#include "csd/link.h"

#include <pthread.h>
#include <stdlib.h>

const char *const link_kind_names[LINK_KINDS] = {"host", "internal", "network", "files"};
const char *const link_dir_names[LINK_DIRS] = {"read", "write"};
const char *const link_class_names[LINK_CLASSES] = {"states", "gradient", "wire", "activation",
                                                    "residual", "base", "snapshot", "parity"};

enum { CELLS = sizeof(struct link_meter) / sizeof(uint64_t) }; // a meter consists of numbers

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
    struct link_rates rates;
    struct link      *above;
    unsigned          depth; // number of links up to the host
    pthread_mutex_t   mutex;
    uint64_t          free_ns[LINK_DIRS]; // when all requests are done; under the mutex. A drive
                                          // uses the first alone
};

struct link *link_new(const struct link_rates *rates, struct link *above)
{
    struct link *l = calloc(1, sizeof *l);

    if (l)
        *l = (struct link){ *rates, above, above ? above->depth + 1 : 1, PTHREAD_MUTEX_INITIALIZER,
                            { 0 } };
    return l;
}

void link_free(struct link *l)
{
    if (l)
        pthread_mutex_destroy(&l->mutex);
    free(l);
}

struct link *link_above(const struct link *l) { return l->above; }

double link_rate(const struct link *l, enum link_dir dir) { return l->rates.bytes_per_s[dir]; }

/* Queues a request on one link. Returns when the link is done with it. */
static uint64_t one_take(struct link *l, enum link_dir dir, uint64_t bytes, uint64_t now_ns)
{
    uint64_t *free_ns = &l->free_ns[l->rates.shared ? 0 : dir];
    double    rate = l->rates.bytes_per_s[dir];

    if (rate <= 0)
        return now_ns;
    pthread_mutex_lock(&l->mutex);
    uint64_t start = *free_ns > now_ns ? *free_ns : now_ns;
    uint64_t over = start + (uint64_t)((double)bytes * 1e9 / rate);
    *free_ns = over;
    pthread_mutex_unlock(&l->mutex);
    return over;
}

uint64_t link_idle_ns(struct link *from)
{
    uint64_t last = 0;

    for (struct link *l = from; l; l = l->above) {
        pthread_mutex_lock(&l->mutex);
        uint64_t idle = l->free_ns[l->rates.shared ? 0 : LINK_READ];
        pthread_mutex_unlock(&l->mutex);
        last = idle > last ? idle : last;
    }
    return last;
}

uint64_t link_take(struct link *from, struct link *to, uint64_t bytes, uint64_t now_ns)
{
    uint64_t last = now_ns, latency_ns = 0;

    while (from != to) { // the lower of the two ends goes up, until both meet
        int            up = from && (!to || from->depth >= to->depth);
        struct link   *l = up ? from : to;
        uint64_t       over = one_take(l, up ? LINK_READ : LINK_WRITE, bytes, now_ns);

        last = over > last ? over : last;
        latency_ns += l->rates.latency_ns;
        *(up ? &from : &to) = l->above;
    }
    return last + latency_ns;
}
