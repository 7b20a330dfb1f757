/* slots.h: whole subgroups, apart from training: their first states on new devices, of a run that
 * is made (run.c) or moved there (reshard.c); and read from devices and checked, one at a time. */
#pragma once

#include "offload/devices/devices.h"
#include "offload/devices/journal.h"
#include "offload/devices/meter.h"

struct slots_source {
    /* A subgroup's master and moments ((1 + moments) * n_pad floats) and its residual (n_pad; NULL
     * without error feedback), all of them zero before; with masters_only all n of the master, and
     * nothing else. */
    int  (*fill)(void *ctx, const struct store_sub *u, float *states, float *residual,
                 struct err *err);
    void *ctx;
    uint64_t            version;   // what the states and residuals are of
    int                 masters_only; // moments and residuals stay zero
    size_t              bytes; // of memory for subgroups: as many as fit, but at least one
    const struct watch *watch;     // of subgroups written, or NULL
};

/* Fill all subgroups, derive their wire, write and flush them; *made is what the journal is to say
 * of them (journal_format), journal_close's also after a failure. Nothing is in flight after it. */
int slots_make(struct devices *d, const struct slots_source *from, struct journal *made,
               struct err *err);

/* Reads fp32 masters for exports, of a run that is closed (run_reader) or of one in training,
 * between two steps (stream_masters); all of the states for a run that is moved. */
struct slots_reader {
    struct devices       *dev;   // borrowed; nobody else uses them meanwhile
    const struct journal *from;  // borrowed: subs say which slot, which checksum; with residuals
                                 // these are read, too, those of state.applied
    int                   wire;  // the wire parameters instead, as fp32: a sixth of the bytes
    char                 *buf;   // the states of one subgroup, and its residual behind them; or its
                                 // wire as fp32, and as it is behind that
    size_t                held;  // the subgroup that is in buf; SIZE_MAX: none
    struct meter         *meter; // where what is read counts, as the evaluation of `step`; or NULL
    uint64_t              step;
};

int  slots_reader_open(struct slots_reader *m, struct devices *dev, const struct journal *from,
                       struct err *err);
void slots_reader_close(struct slots_reader *m); // accepts the zero state

/* Have the subgroup that holds parameter `at` of a block in buf. */
int slots_reader_hold(struct slots_reader *m, size_t block, size_t at, struct err *err);
/* As struct params_source's read; ctx is the struct slots_reader. */
int slots_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                      struct err *err);
