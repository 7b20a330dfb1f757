/* holding.h: how a copier's thread sees the devices of a training (stream.h, stream_hold): which
 * subgroup it copies next, when a drive is free, and how long the modelled links take for it. Of
 * the subgroups themselves, subs.h says what is held. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/stream/subs.h"

struct holding {
    struct scheduler *sched;
    struct subs      *subs;
};

/* The model's thread, of a drained stream. */
void holding_begin(struct holding *h);

/* Any thread. */
int              holding_next(struct holding *h, size_t *sub);
enum stream_held holding_look(struct holding *h, size_t sub);
uint64_t         holding_move(struct holding *h, size_t sub, enum link_dir dir, uint64_t bytes);
void             holding_let_go(struct holding *h, size_t sub);
void             holding_end(struct holding *h);
