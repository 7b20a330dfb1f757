/* made_whole.h: snapshots with parity (run/snapshots/portions.h) are made whole again: what a lost
 * or damaged drive had of them follows from the other drives. */
#pragma once

#include "run/snapshots/snapshots.h"

/* Read all snapshots with parity, and make whole those that can be. The files of a device are made
 * where they were, or next to the device's file if that is elsewhere now. In a copy of a run,
 * snapshots name the original's files, which are only read: damage is a notice. s is open as
 * SESSION_RESTORE. What is beyond its parity is a notice. 0 or -errno: nothing can be written, or
 * the end was asked for. */
int made_whole(struct session *s, struct err *err);

/* Whether a snapshot that is damaged would be whole by its parity: 1 or 0, and `why` says what is
 * damaged; -errno. Nothing is written. */
int made_whole_can(const struct snapshot *at, const struct events *events, struct err *why,
                   struct err *err);
