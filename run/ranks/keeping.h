/* keeping.h: `--snapshot-on hosts`: each rank's part of a snapshot lies with the rank, and once
 * more with a rank of the next host, its keeper, each time in RUN/snapshots of that rank's folder.
 * So one host may be lost. Hosts follow each other in the order of their first ranks; if all ranks
 * are on one host, each rank's keeper is the next rank.
 *
 * A part is taken as any other (snapshot_make.h), then sent (carry.h). The keeper reads it back and
 * compares it. The snapshot counts when all parts are whole with their keepers. To go back, a rank
 * whose part is gone first gets it from whoever has it. */
#pragma once

#include "run/ranks/rank_parts.h"

/* All ranks have taken a part, *made. Send all to their keepers. *meter: what this moves is added.
 * *failed: 0, or -errno on all ranks, and why says what; then no keeper has a part of it. */
int keeping_send(struct session *s, const struct snapshot *made, struct link_meter *meter,
                 int *failed, struct err *why, struct err *err);
/* All ranks have their part of the snapshot `of`, *has. Send those that are not with their keepers,
 * as after the loss of a host: the run goes on with the same snapshot in both places. A failure is
 * a notice. */
int keeping_send_again(struct session *s, const struct snapshot *has,
                       const struct parts_seen *seen, const struct part_seen *of, struct err *err);
/* Whether the snapshot of what the run is now, after `step` steps, is with the keepers, too: 1 or
 * 0. *any: one of any step is. All ranks call it. */
int keeping_is_there(int *any, const struct session *s, uint64_t step, struct err *err);
/* Remove old parts, this rank's own and those that it keeps, as snapshots_rotate. */
int keeping_rotate(struct session *s, struct err *err);

/* Every rank gets its part of the chosen snapshot into its folder, unless it sees it. All ranks
 * call it. *out: this rank's part. */
int keeping_fetch(struct snapshot *out, struct session *s, const struct parts_seen *seen,
                  const struct part_seen *of, struct err *err);
/* Take a snapshot of the present state on all ranks; with --snapshot-on hosts, send it. All ranks
 * call it. *failed: as keeping_send; then no rank has one. */
int keeping_make(struct session *s, uint64_t step, int *failed, struct err *why, struct err *err);
