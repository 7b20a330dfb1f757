/* base_reader.h: reads blocks of a base in place ahead of the model, in a few threads. Frames
 * (frames.h) and mode mem ask it. Its memory is bounded: each thread has room for one read.
 *
 *     a request is
 *     idle     its owner's, until base_reader_ask
 *     waiting  the reader's: its parts are cut off one after the other, by whichever thread is free
 *     done     all parts are in their place, or one failed; the owner gets it from base_reader_take
 *
 * Reads go past the page cache (O_DIRECT) if the run's disk does, where the file system can. They
 * are not delayed by modelled links: the files lie on the host's own disk. If no read comes back
 * for cfg->io_timeout_ns, one request fails with -ETIMEDOUT, and nothing more is read. */
#pragma once

#include "data/base/bell.h"
#include "offload/devices/base_files.h"

struct base_request {
    size_t     block, first, n; // parameters [first, first + n) of the whole block
    void      *to;              // in the run's wire format
    int        status;          // when it is done: 0, or -errno with why
    struct err why;
    struct link_meter meter;    // what was read for it
    uint64_t   start_ns, end_ns;
    // the reader's own
    size_t               cut, landed; // parameters that a thread has taken on; that are in place
    unsigned             parts;       // that are under way
    struct base_request *next;
};

struct base_reader;

/* cfg->base is borrowed. Requests that are done ring the bell. 0 or -errno. */
int  base_reader_open(struct base_reader **out, const struct run_config *cfg, struct bell *bell,
                      struct err *err);
/* Waits for parts under way. NULL is allowed. 1: reads were given up, and may still write to the
 * places of their requests: these must never be freed. */
int  base_reader_close(struct base_reader *r);
/* One thread calls these. take: a request that is done, or NULL. While a request is under way, the
 * owner calls it at least every base_reader_rest_ns. */
void base_reader_ask(struct base_reader *r, struct base_request *q);
struct base_request *base_reader_take(struct base_reader *r);
uint64_t base_reader_rest_ns(const struct base_reader *r);
/* Memory that a reader allocates. */
uint64_t base_reader_memory(void);
