/* master_reader.h: fp32 masters on devices, read a subgroup's states at a time, for exports: of a
 * run that is closed (run_reader), or of one in training, between two steps (stream_masters). */
#ifndef OFFLOAD_MASTER_READER_H
#define OFFLOAD_MASTER_READER_H

#include "offload/devices.h"
#include "offload/journal.h"
#include "offload/meter.h"

struct master_reader {
    struct devices     *dev;   // borrowed; nobody else uses them meanwhile
    struct journal_sub *subs;  // (subgroups): which slot, which checksum; the opener fills it
    char               *buf;   // the states of one subgroup
    size_t              held;  // the subgroup that is in buf; SIZE_MAX: none
    struct meter *meter; // where what is read counts, as the evaluation of `step`; NULL: nowhere
    uint64_t            step;
};

int      master_reader_open(struct master_reader *m, struct devices *dev, struct err *err);
void     master_reader_close(struct master_reader *m); // accepts the zero state
uint64_t master_reader_bytes(const struct store *st);

/* As struct params_source's read; ctx is the struct master_reader. */
int master_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                       struct err *err);

#endif
