/* masters.h: fp32 masters on devices, read a subgroup's states at a time, for exports: of a run
 * that is closed (run_reader), or of one in training, between two steps (stream_masters). */
#ifndef OFFLOAD_MASTERS_H
#define OFFLOAD_MASTERS_H

#include "offload/devices.h"
#include "offload/journal.h"
#include "offload/meter.h"

struct masters {
    struct devices     *dev;   // borrowed; nobody else uses them meanwhile
    struct journal_sub *subs;  // (subgroups): which slot, which checksum; the opener fills it
    char               *buf;   // the states of one subgroup
    size_t              held;  // the subgroup that is in buf; SIZE_MAX: none
    struct meter       *meter; // where what is read counts, as the evaluation of `step`; NULL: nowhere
    uint64_t            step;
};

int      masters_open(struct masters *m, struct devices *dev, struct err *err);
void     masters_close(struct masters *m); // accepts the zero state
uint64_t masters_bytes(const struct store *st);

/* As struct params_source's read; ctx is the struct masters. */
int masters_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err);

#endif
