/* slots.h: whole subgroups outside of training. slots_make writes the first states to new devices,
 * of a run that is made (run.c) or moved (reshard.c, rerank.c). A reader reads subgroups from
 * devices one at a time and checks them. All calls wait, and return 0 or -errno. */
#pragma once

#include "offload/devices/devices.h"
#include "offload/devices/journal.h"
#include "offload/devices/meter.h"

struct slots_source {
    /* Fills a subgroup. states: (1 + moments, n_pad) master and moments; residual: (n_pad), NULL
     * without error feedback. All are zero before. With masters_only it fills only (n) the master.
     * Of a frozen subgroup only the master counts: its wire is made from it, and stored alone. */
    int  (*fill)(void *ctx, const struct store_sub *u, float *states, float *residual,
                 struct err *err);
    void *ctx;
    uint64_t            version;      // of states and residuals
    int                 masters_only; // moments and residuals stay zero
    size_t              bytes;        // of memory for subgroups under way, of which there is at
                                      // least one
    const struct watch *watch;        // progress in subgroups written, or NULL
};

/* Fill all subgroups, derive their wire parameters, write and flush them. *made: the journal's rows
 * for journal_format; the caller calls journal_close, also after a failure. Nothing is in flight
 * afterwards. */
int slots_make(struct devices *d, const struct slots_source *from, struct journal *made,
               struct err *err);

/* -EBUSY, with the command that finishes the step: a trained subgroup of cfg's run is still to be
 * updated, because the run stopped in the middle of a step. Otherwise 0. */
int slots_half_done(const struct run_config *cfg, const struct store *st, const struct journal *j,
                    struct err *err);

/* Inside the caller's transaction: the run is on devices d from now on, with these rows. */
int slots_record(const struct devices *d, const struct journal *made, struct runlog *log,
                 struct err *err);

/* Reads fp32 masters for exports, of a closed run (run_reader) or between two steps of a training
 * (stream_masters); and all states, for a run that is moved. The masters of a frozen subgroup are
 * its wire parameters as fp32. */
struct slots_reader {
    struct devices       *dev;   // borrowed; nobody else uses them meanwhile
    const struct journal *from;  // borrowed: slots and checksums. If it has residuals, those of
                                 // state.applied are read, too
    int                   wire;  // true: read wire parameters instead, as fp32: a sixth of the
                                 // bytes
    char                 *buf;   // one subgroup: states, then residual; or (also if it is frozen)
                                 // wire as fp32, then wire as stored
    size_t                held;  // the subgroup in buf; SIZE_MAX: none
    struct meter         *meter; // records the reads as the evaluation of `step`; or NULL
    uint64_t              step;
};

int  slots_reader_open(struct slots_reader *m, struct devices *dev, const struct journal *from,
                       struct err *err);
void slots_reader_close(struct slots_reader *m); // accepts the zero state

/* Read the subgroup that holds parameter `at` of a block into buf, unless it is there. */
int slots_reader_hold(struct slots_reader *m, size_t block, size_t at, struct err *err);
/* Copy parameters [at, at + n) of a block, which this reader's devices hold, into a subgroup that
 * is put together elsewhere: masters and moments to states, (1 + moments, n_pad), and the residual,
 * if it is not NULL, to residual, (n_pad), each from element `to` on. Of a frozen subgroup only the
 * masters are copied. */
struct slots_copy { float *states, *residual; size_t n_pad, to; };
int slots_reader_copy(struct slots_reader *m, size_t block, size_t at, size_t n,
                      const struct slots_copy *out, struct err *err);
/* Do open devices hold the states that the journal in cfg.log names? Reads all wire parameters that
 * are trained. 0, also if few of them are damaged, unless `all` must fit; -ESTALE: any, or more
 * than half, are others. */
int slots_fit(struct devices *d, int all, struct err *err);
/* params_source.read: masters; ctx is the struct slots_reader. */
int slots_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                      struct err *err);
