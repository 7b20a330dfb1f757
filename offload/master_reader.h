/* master_reader.h: the states of a subgroup at a time, read from devices and checked: fp32 masters
 * for exports, of a run that is closed (run_reader) or of one in training, between two steps
 * (stream_masters); all of them for a run that is moved (reshard.c). */
#pragma once

#include "offload/devices.h"
#include "offload/journal.h"
#include "offload/meter.h"

struct master_reader {
    struct devices *dev;   // borrowed; nobody else uses them meanwhile
    const struct journal *from; // borrowed: subs say which slot, which checksum; with residuals
                                // these are read, too, those of state.applied
    char           *buf;   // the states of one subgroup, and its residual behind them
    size_t          held;  // the subgroup that is in buf; SIZE_MAX: none
    struct meter   *meter; // where what is read counts, as the evaluation of `step`; NULL: nowhere
    uint64_t        step;
};

int  master_reader_open(struct master_reader *m, struct devices *dev, const struct journal *from,
                        struct err *err);
void master_reader_close(struct master_reader *m); // accepts the zero state

/* Have the subgroup that holds parameter `at` of a block in buf. */
int master_reader_hold(struct master_reader *m, size_t block, size_t at, struct err *err);
/* As struct params_source's read; ctx is the struct master_reader. */
int master_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                       struct err *err);
