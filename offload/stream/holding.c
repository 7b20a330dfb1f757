/* holding.c: hands out what a snapshot's copier reads of a training's devices. The copier reads the
 * files itself, next to the scheduler, so it takes its time of the modelled links itself. */
#include "offload/stream/holding.h"

#include "data/base/clock.h"

void holding_begin(struct holding *h)
{
    scheduler_lock(h->sched);
    subs_hold(h->subs);
    scheduler_unlock(h->sched, 0, NULL);
}

int holding_next(struct holding *h, size_t *sub)
{
    scheduler_lock(h->sched);
    int any = subs_held_next(h->subs, h->sched->cfg.speculate, sub);
    scheduler_unlock(h->sched, 0, NULL);
    return any;
}

static const struct link_ends *ends_of(const struct holding *h, size_t sub)
{
    return topology_ends(h->sched->dev.links, h->sched->dev.store.subs[sub].device);
}

enum stream_held holding_look(struct holding *h, size_t sub)
{
    const struct link_ends *e = ends_of(h, sub);
    size_t                  device = h->sched->dev.store.subs[sub].device;

    scheduler_lock(h->sched);
    int wanted = h->subs->wanted, tasks = h->sched->dev.device[device].tasks > 0;
    scheduler_unlock(h->sched, 0, NULL);
    if (wanted)
        return STREAM_HELD_WANTED;
    return tasks || (e && link_idle_ns(e->drive, NULL) > clock_ns()) ? STREAM_HELD_BUSY
                                                                     : STREAM_HELD_IDLE;
}

uint64_t holding_move(struct holding *h, size_t sub, enum link_dir dir, uint64_t bytes)
{
    const struct link_ends *e = ends_of(h, sub);
    uint64_t                now = clock_ns();

    struct link            *drive = e ? e->drive : NULL;

    return dir == LINK_READ ? link_take(drive, NULL, bytes, now)
                            : link_take(NULL, drive, bytes, now);
}

void holding_let_go(struct holding *h, size_t sub)
{
    scheduler_lock(h->sched);
    subs_let_go(h->subs, sub);
    scheduler_unlock(h->sched, 1, NULL);
}

void holding_end(struct holding *h)
{
    scheduler_lock(h->sched);
    for (size_t i = 0; h->subs->held && i < h->subs->store->n_subs; i++)
        subs_let_go(h->subs, i);
    scheduler_unlock(h->sched, 1, NULL);
}
