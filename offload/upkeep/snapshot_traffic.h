/* snapshot_traffic.h: the bytes that one snapshot of a run moves, by link, class and direction, as
 * `siTrain plan` has them. They are computed, and what is measured must equal them, unless the file
 * system shares blocks. */
#pragma once

#include "csd/link.h"
#include "offload/layout/config.h"

/* All devices together. parity: how many of the devices' drives may be lost, if the snapshot
 * lies on them (--snapshot-on devices); 0: it lies in a folder. In mode mem, the frozen blocks
 * are only read back, because an earlier snapshot has them. kept: each rank sends a copy, and
 * gets another one's (--snapshot-on hosts). What is sent of run.db and of the tokenizer is
 * measured in addition. */
int snapshot_traffic(struct link_meter *out, const struct run_config *run, size_t parity, int kept,
                     struct err *err);
