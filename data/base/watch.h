/* watch.h: a look at work that lasts. Who asks for such work may hand one in: it hears how far the
 * work is, and may end it. Called by the thread that was called, between pieces of well below a
 * second where that can be. */
#pragma once

#include "data/base/err.h"

struct watch {
    /* total 0: it is not known. Not 0 comes back where the work is to end. */
    int (*look)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

/* 0, or -EINTR with a sentence where the work is to end. w NULL: nobody looks. */
static inline int watch_look(const struct watch *w, uint64_t done, uint64_t total, struct err *err)
{
    if (!w || !w->look(w->ctx, done, total))
        return 0;
    return err_stopped(err, "stopped; nothing half-made is left");
}
