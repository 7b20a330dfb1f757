/* scrubbing.h: --scrub-bw: while a run trains, a thread reads its committed states, its best model
 * and its complete snapshots at that rate, and compares checksums (offload/upkeep/scrub.h). What
 * nobody has read for the longest time comes first (scrub_order.h).
 *
 * The thread uses neither run.db nor the callbacks of events. The training thread prints what was
 * found, between two steps. What is recorded goes into the transaction that ends a step: how far
 * scrubbing has come, at most every ten seconds, and each damage at once. Damage ends no training:
 * what training needs, it will read and refuse itself. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"

struct scrubbing;

/* Begin, while no step is under way. *out is NULL without --scrub-bw, and if the run stores
 * nothing. */
int  scrubbing_open(struct scrubbing **out, struct session *s, struct stream *stream,
                    struct err *err);
/* Between two steps, before `step`, or after the last: print what was found, and record what was
 * read as that step's. NULL is fine. */
void scrubbing_step(struct scrubbing *c, uint64_t step);
/* End the thread. Then, if the stream is drained, record how far it has come. Both accept NULL. */
void scrubbing_stop(struct scrubbing *c);
int  scrubbing_record(struct scrubbing *c, struct err *err);
void scrubbing_close(struct scrubbing *c);
