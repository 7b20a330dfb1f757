/* made_whole.h: snapshots with parity (portions.h) are made whole again: what a lost or damaged
 * drive had of them follows from the other drives. */
#pragma once

#include "run/snapshots/snapshots.h"

/* Whether a snapshot is whole: 1; 0, and `why` says what is damaged, or with at->denied what this
 * user may not read or write; or -ENOMEM, -EINTR. All of it is read, once. If it has parity, what
 * is lost or damaged is made again, and what was written is read back; *mended grows by the number
 * of these parts. The files of a device are made where they were, or next to the device's file if
 * that is elsewhere now; there nothing of them stays after a failure. In a copy of a run, snapshots
 * name the original's files, which are only read. s is open as SESSION_RESTORE. */
int made_whole(struct session *s, struct snapshot *at, uint64_t *mended, struct err *why);

/* Parts that were made again, snapshots that stay damaged, and those that could not be read or
 * written. */
struct made_whole_sum { uint64_t mended, left, unknown; };

/* Make all snapshots of the list whole that have parity, except those that were tried
 * (snapshots.h). One that cannot be made whole is a notice, also if files of its folder are
 * missing. *sum grows. 0 or -errno. */
int made_whole_all(struct session *s, struct snapshots *list, struct made_whole_sum *sum,
                   struct err *err);

/* Read all of a snapshot, and write nothing. 1: it is whole; 0: it is not, and `why` says what is
 * damaged: at->denied if this user may not read it; at->parity becomes 0 unless its parity would
 * make it whole. -ENOMEM, -EINTR. */
int made_whole_check(struct snapshot *at, const struct events *events, struct err *why);
