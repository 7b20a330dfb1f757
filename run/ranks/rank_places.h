/* rank_places.h: the places that several ranks give their devices. */
#pragma once

#include "comm/comm.h"

/* Misuse if two ranks of one host put a device at one file, which need not be there yet, or at one
 * drive: it holds one device. A folder holds any number. paths: (n) of this rank's devices; ranks
 * may have different numbers. All ranks call this, unless they fail, and all get the same answer.
 * comm NULL: a single process. */
int rank_places_check(struct comm *comm, const char *const *paths, size_t n, struct err *err);
