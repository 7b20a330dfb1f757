/* beside.h: the pace of a thread that copies a run's states while the run trains (stream_hold in
 * stream.h). Without a rate it reads when a drive has nothing else to do, and now and then if that
 * does not come. It reads at once what the training waits for, and everything when it is told to
 * hurry. */
#pragma once

#include "data/base/watch.h"
#include "offload/stream/stream.h"

#include <stdatomic.h>

struct beside {
    struct stream *stream; // whose states are held
    uint64_t       rate;   // bytes a second; 0: as the drives have time to spare
    atomic_int     hurry;
    // private
    uint64_t       due_ns;   // with a rate: the next read begins then
    uint64_t       begun_ns, took_ns; // of the last read
};

/* Wait until `bytes` of a unit may be read. *over_ns: for beside_end. A NULL b waits for nothing.
 * -EINTR: the watch wants it to end. */
int  beside_begin(struct beside *b, size_t unit, uint64_t bytes, uint64_t *over_ns,
                  const struct watch *watch, struct err *err);
/* The read is done: wait until the modelled links are, too. */
void beside_end(struct beside *b, uint64_t over_ns);
