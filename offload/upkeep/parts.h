/* parts.h: the states of all ranks of a run (ranks.h), read by one process that sees all their
 * devices: as if they were one run's. One process's own run has one part. */
#pragma once

#include "offload/devices/slots.h"

struct part { struct devices dev; struct journal journal; struct slots_reader states; };
struct parts {
    struct run_config cfg; // of the first; borrows what it borrows
    size_t            n;
    struct part      *part;
};

/* Open for reading what cfg is (ranks.size 1), or cfg->ranks.parts. Every step is whole, and all
 * are at the same one: else -EBUSY. Closed by parts_close also after a failure. */
int  parts_open(struct parts *p, const struct run_config *cfg, struct err *err);
void parts_close(struct parts *p); // accepts the zero state

/* Who holds parameter *at of a block. *at is then its number there; *n is cut to those that are
 * behind it there. */
struct part *parts_at(const struct parts *p, size_t block, size_t *at, size_t *n);
/* As struct params_source's read: fp32 masters; ctx is the struct parts. */
int  parts_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err);
