/* beside.c: waits for the moment at which a snapshot's thread may move bytes. It looks again and
 * again: a drive that has become free, a wait of the training and a wish to hurry all come from
 * other threads, and none of them should have to know of it. */
#include "offload/upkeep/beside.h"

#include "data/base/clock.h"

#include <unistd.h>

/* A drive that is never free is used all the same, in so small a part of the time. A slice takes
 * about SLICE_NS. */
enum { LOOK_US = 200, BUSY_PART = 20, LEAST_NS = 1000000, SLICE_NS = 4000000 };
enum { SLICE_LEAST = 64 << 10, SLICE_MOST = 1 << 20 };

static int may_move(const struct beside *b, const struct beside_move *m, uint64_t since_ns)
{
    uint64_t          now = clock_ns();
    enum stream_held is = stream_held_look(b->stream, m->unit);

    if (is == STREAM_HELD_WANTED || atomic_load(&b->hurry))
        return 1;
    if (b->rate)
        return m->dir == LINK_WRITE || now >= b->due_ns;
    return is == STREAM_HELD_IDLE || (m->dir == LINK_WRITE && m->link == LINK_FILES) ||
           now - since_ns > BUSY_PART * (b->took_ns + LEAST_NS);
}

int beside_begin(struct beside *b, const struct beside_move *m, uint64_t *over_ns,
                 const struct watch *watch, struct err *err)
{
    uint64_t since_ns = clock_ns();
    int      rc = 0;

    *over_ns = 0;
    while (b && b->stream && !may_move(b, m, since_ns) && !(rc = watch_look(watch, 0, 0, err)))
        usleep(LOOK_US);
    if (!b || rc)
        return rc;
    atomic_fetch_add(&b->moved[m->link][b->cls][m->dir], m->bytes);
    if (!b->stream)
        return 0;
    b->begun_ns = clock_ns();
    b->bytes = (size_t)m->bytes;
    if (b->rate && m->dir == LINK_READ) {
        uint64_t from_ns = b->due_ns > b->begun_ns ? b->due_ns : b->begun_ns;

        b->due_ns = from_ns + (uint64_t)((double)m->bytes * 1e9 / (double)b->rate);
    }
    if (m->link == LINK_HOST)
        *over_ns = stream_held_move(b->stream, m->unit, m->dir, m->bytes);
    return 0;
}

void beside_end(struct beside *b, uint64_t over_ns)
{
    uint64_t now = clock_ns();

    if (!b || !b->stream)
        return;
    if (over_ns > now)
        usleep((useconds_t)((over_ns - now) / 1000 + 1));
    b->took_ns = clock_ns() - b->begun_ns;
    b->slice = (size_t)((double)b->bytes * SLICE_NS / (double)(b->took_ns + 1));
}

size_t beside_slice(const struct beside *b, size_t most)
{
    size_t slice = SLICE_MOST;

    if (!b || !b->stream)
        return most;
    if (b->slice && b->slice < SLICE_MOST)
        slice = size_max(b->slice / SLICE_LEAST * SLICE_LEAST, SLICE_LEAST);
    return size_min(slice, most);
}

size_t beside_unit(const struct store *st, size_t device)
{
    for (size_t i = 0; i < st->n_subs; i++)
        if (st->subs[i].device == device)
            return i;
    return 0;
}

void beside_take(struct beside *b, struct link_meter *moved)
{
    for (int l = 0; l < LINK_KINDS; l++)
        for (int c = 0; c < LINK_CLASSES; c++)
            for (int d = 0; d < LINK_DIRS; d++)
                moved->bytes[l][c][d] += atomic_exchange(&b->moved[l][c][d], 0);
}
