/* beside.h: the pace of a thread that takes a snapshot while the run trains (stream_hold in
 * stream.h): it copies states, computes their parity, and reads everything back. All these
 * transfers are counted. Without a rate, a transfer waits until its drive has nothing else to do,
 * and is made now and then if that does not come. What the training waits for is transferred at
 * once, and everything when the thread is told to hurry. */
#pragma once

#include "csd/link.h"
#include "data/base/watch.h"
#include "offload/layout/store.h"
#include "offload/stream/stream.h"

#include <stdatomic.h>

struct beside {
    struct stream  *stream; // whose states are held; NULL: nothing trains, so nothing waits
    uint64_t        rate;   // bytes that are read in a second; 0: as the drives have time to spare
    enum link_class cls;    // of the transfers
    atomic_int      hurry;
    // private
    uint64_t        due_ns;   // with a rate: the next read begins then
    uint64_t        begun_ns, took_ns; // of the last transfer
    size_t          bytes, slice;      // of it; and of the next one at most (0: not known yet)
    atomic_uint_fast64_t moved[LINK_KINDS][LINK_CLASSES][LINK_DIRS];
};

/* A transfer of a unit's bytes. link: LINK_HOST from or to the drive of its device; LINK_FILES from
 * or to another file. A write to another file waits for nothing, because a read came before it. */
struct beside_move { size_t unit; uint64_t bytes; enum link_kind link; enum link_dir dir; };

/* Wait until a transfer may begin, and count it. *over_ns: for beside_end. A NULL b waits for
 * nothing. -EINTR: the watch wants it to end. */
int  beside_begin(struct beside *b, const struct beside_move *m, uint64_t *over_ns,
                  const struct watch *watch, struct err *err);
/* The transfer is done: wait until the modelled links are, too. */
void beside_end(struct beside *b, uint64_t over_ns);

/* The bytes of a transfer, at most `most`: few if they take long, because a training that needs the
 * drive meanwhile waits for them. */
size_t beside_slice(const struct beside *b, size_t most);
/* A unit of this device. */
size_t beside_unit(const struct store *st, size_t device);
/* Any thread: add what was moved since the last call. */
void   beside_take(struct beside *b, struct link_meter *moved);
