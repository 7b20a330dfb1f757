/* beside.c: waits for the moment at which a copier may read. It looks again and again: a drive that
 * has become free, a wait of the training and a wish to hurry all come from other threads, and none
 * of them should have to know of it. */
#include "offload/upkeep/beside.h"

#include "data/base/clock.h"

#include <unistd.h>

/* A drive that is never free is read all the same, in so small a part of the time. */
enum { LOOK_US = 200, BUSY_PART = 20, LEAST_NS = 1000000 };

static int may_read(const struct beside *b, size_t unit, uint64_t since_ns)
{
    uint64_t          now = clock_ns();
    enum stream_held  is = stream_held_look(b->stream, unit);

    if (is == STREAM_HELD_WANTED || atomic_load(&b->hurry))
        return 1;
    if (b->rate)
        return now >= b->due_ns;
    return is == STREAM_HELD_IDLE || now - since_ns > BUSY_PART * (b->took_ns + LEAST_NS);
}

int beside_begin(struct beside *b, size_t unit, uint64_t bytes, uint64_t *over_ns,
                 const struct watch *watch, struct err *err)
{
    uint64_t since_ns = clock_ns();
    int      rc = 0;

    *over_ns = 0;
    while (b && !may_read(b, unit, since_ns) && !(rc = watch_look(watch, 0, 0, err)))
        usleep(LOOK_US);
    if (!b || rc)
        return rc;
    b->begun_ns = clock_ns();
    if (b->rate) {
        uint64_t from_ns = b->due_ns > b->begun_ns ? b->due_ns : b->begun_ns;

        b->due_ns = from_ns + (uint64_t)((double)bytes * 1e9 / (double)b->rate);
    }
    *over_ns = stream_held_read(b->stream, unit, bytes);
    return 0;
}

void beside_end(struct beside *b, uint64_t over_ns)
{
    uint64_t now = clock_ns();

    if (!b)
        return;
    if (over_ns > now)
        usleep((useconds_t)((over_ns - now) / 1000 + 1));
    b->took_ns = clock_ns() - b->begun_ns;
}
