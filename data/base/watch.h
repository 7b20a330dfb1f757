/* watch.h: progress of long work. A caller may pass a watch to it. The work reports its progress
 * to the watch, which may end it. The watch is called on the thread that does the work, well
 * within a second of the last call if possible. */
#pragma once

#include "data/base/err.h"

struct watch {
    /* Gets the progress, `done` of `total` units; total 0 means unknown. A result other than 0
     * ends the work. */
    int (*look)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

/* Returns 0, or -EINTR with a sentence if the work is to end. If w is NULL, it returns 0. */
static inline int watch_look(const struct watch *w, uint64_t done, uint64_t total, struct err *err)
{
    if (!w || !w->look(w->ctx, done, total))
        return 0;
    return err_stopped(err, "stopped; nothing half-made is left");
}
