/* parts.h: the states of all ranks of a run (ranks.h), read by one process that sees all their
 * devices, as if they were one run's. A run of one process has one part. */
#pragma once

#include "offload/devices/slots.h"

struct part { struct devices dev; struct journal journal; struct slots_reader states; };
struct parts {
    struct run_config cfg; // the opener's; what it points to is borrowed
    size_t            n;
    struct part      *part;
};

/* Open the devices and the journal of one run. residuals: also read where the journal has the
 * residuals of --error-feedback. The caller calls part_close, also after a failure. */
int  part_open(struct part *p, const struct run_config *cfg, int residuals, struct err *err);
void part_close(struct part *p); // accepts the zero state

/* Open cfg's run (ranks.size 1), or the runs of cfg->ranks.parts, for reading. -EBUSY if a step is
 * half done, or if ranks are not at the same step. The caller calls parts_close, also after a
 * failure. */
int  parts_open(struct parts *p, const struct run_config *cfg, struct err *err);
void parts_close(struct parts *p); // accepts the zero state

/* The part that holds parameter *at of a block. *at becomes its number in the part's portion; *n is
 * reduced to the parameters from there to the portion's end. */
struct part *parts_at(const struct parts *p, size_t block, size_t *at, size_t *n);
/* params_source.read: fp32 masters; ctx is the struct parts. */
int  parts_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err);
