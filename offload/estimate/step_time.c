/* step_time.c: computes how long a step takes from the work of processor, drives and links. */
#include "offload/estimate/step_time.h"

#include <math.h>

double step_move(const struct step_move *m, double share)
{
    return fmax(fmax(fmax(m->drive * share, m->host), fmax(m->up, m->down)),
                fmax(fmax(m->in, m->out), m->files));
}

static enum step_resource step_move_by(const struct step_move *m, double share)
{
    double most = step_move(m, share);

    return m->drive * share >= most ? STEP_DRIVES
           : m->up >= most          ? STEP_UP
           : m->down >= most        ? STEP_DOWN
           : m->host >= most        ? STEP_HOST
           : m->files >= most       ? STEP_FILES
                                    : STEP_NETWORK;
}

struct step_move step_move_sum(const struct step_move *a, const struct step_move *b)
{
    return (struct step_move){ a->drive + b->drive, a->up + b->up, a->down + b->down,
                               a->host + b->host, a->in + b->in, a->out + b->out,
                               a->files + b->files };
}

struct step_move step_move_times(const struct step_move *m, double by)
{
    return (struct step_move){ m->drive * by, m->up * by,  m->down * by,
                               m->host * by,  m->in * by, m->out * by,
                               m->files * by };
}

static struct step_move less(const struct step_move *a, const struct step_move *b)
{
    return (struct step_move){ a->drive - b->drive, a->up - b->up, a->down - b->down,
                               a->host - b->host, a->in - b->in, a->out - b->out,
                               a->files - b->files };
}

/* How much earlier the first devices finish than the last, as far as their last writes hide it. */
static double early(const struct step_work *w, struct step_share share)
{
    double first = share.block_0 * step_move(&w->write_0, 1);

    return fmin(step_move(&w->tail, share.all), step_move(&w->write_0, share.block_0) - first);
}

double step_time_first(const struct step_work *w, struct step_share share)
{
    return step_move(&w->first, share.block_0) + step_move(&w->second, share.all) + w->gather_0;
}

struct step_time step_time(const struct step_work *w, struct step_share share)
{
    struct step_move all = step_move_sum(&w->update, &w->wire_forward),
                     ahead = less(&all, &w->load),
                     behind = step_move_sum(&w->wire_backward, &w->gradient);
    double computed[2] = { step_time_first(w, share) + w->F + w->A,
                           w->B + w->exchange_0 + step_move(&w->write_0, share.block_0) };
    double moved[2] = { step_move(&w->load, share.block_0) + step_move(&ahead, share.all) -
                            early(w, share) + w->last,
                        w->h + step_move(&behind, share.all) };
    struct step_time t = {
        .forward = fmax(computed[0], moved[0]),
        .backward = fmax(computed[1], moved[1]),
        .forward_by = moved[0] > computed[0] ? step_move_by(&ahead, share.all) : STEP_COMPUTING,
        .backward_by = moved[1] > computed[1] ? step_move_by(&behind, share.all) : STEP_COMPUTING,
    };

    t.step = t.forward + t.backward;
    return t;
}

struct step_time step_time_speculating(const struct step_work *w, struct step_share share)
{
    struct step_move read = step_move_sum(&w->wire_forward, &w->wire_backward),
                     host = step_move_sum(&read, &w->gradient),
                     all = step_move_sum(&w->update, &host);
    double computed = w->F + w->A + w->B + w->exchange_0 + w->gather_0 +
                      step_move(&w->write_0, share.block_0) + step_move(&w->first, share.block_0),
           moved = w->h + step_move(&all, share.all);
    struct step_time t = { .backward = w->B, .step = fmax(computed, moved) };

    t.forward = t.step - t.backward;
    t.forward_by = t.backward_by = moved > computed ? step_move_by(&all, share.all)
                                                    : STEP_COMPUTING;
    return t;
}

struct step_time_serial step_time_serial(const struct step_serial *w, double share)
{
    struct step_move both = step_move_sum(&w->read, &w->write);
    double           engine = w->engine * share, upload = w->upload.drive * share;
    struct step_time_serial t = {
        .forward = w->F,
        .backward = w->B + step_move(&w->gradient, share),
        // a drive reads and writes one after the other
        .update = w->overlapped ? fmax(both.drive * share + upload, engine)
                                : step_move(&w->read, share) + engine + w->host + upload +
                                      step_move(&w->write, share),
    };

    t.update = fmax(t.update, w->upload.up);
    t.step = t.forward + t.backward + t.update;
    return t;
}

/* ---- something else beside it ---- */

static double whole(const struct step_work *w, struct step_share share, int speculates)
{
    return (speculates ? step_time_speculating(w, share) : step_time(w, share)).step;
}

/* With a part of the extra moves next to the updates, and the rest next to backward. */
static double split(const struct step_work *w, struct step_share share,
                    const struct step_beside *b, double part)
{
    struct step_work with = *w;
    struct step_move ahead = step_move_times(&b->extra, part),
                     behind = step_move_times(&b->extra, 1 - part);

    with.update = step_move_sum(&w->update, &ahead);
    with.wire_backward = step_move_sum(&w->wire_backward, &behind);
    return whole(&with, share, b->speculates);
}

/* A step that begins when its updates are complete. */
static double drained(const struct step_work *w, struct step_share share, int speculates)
{
    struct step_work rest = *w;

    rest.update = rest.first = rest.second = rest.load = rest.tail = (struct step_move){ 0 };
    rest.A = 0;
    return step_move(&w->update, share.all) + whole(&rest, share, speculates);
}

double step_time_beside(const struct step_work *w, struct step_share share,
                        const struct step_beside *b)
{
    enum { TIMES = 60 };
    double alone = whole(w, share, b->speculates), low = 0, high = 1;

    for (int i = 0; i < TIMES && !b->evenly; i++) { // the time is convex in the part
        double third = (high - low) / 3;

        if (split(w, share, b, low + third) < split(w, share, b, high - third))
            high -= third;
        else
            low += third;
    }
    double part = b->evenly ? step_time(w, share).forward / step_time(w, share).step : low;
    double with = fmax(split(w, share, b, part), alone);
    return with + fmax(drained(w, share, b->speculates) - alone, 0) / b->every;
}
