/* csd_hold.c: csd_emu between two functions of ours. A device is asked by one thread alone: so what
 * was let go is submitted as that thread comes to reap. */
#include "tests/csd_hold.h"

#include "csd/engine/engine.h"

#include <assert.h>

enum { MAX_HELD = 256 };

static unsigned kinds_held;
static struct { struct csd *device; struct csd_job *job; } held[MAX_HELD];
static size_t n_held;

void csd_hold_set(unsigned kinds)
{
    __atomic_store_n(&kinds_held, kinds, __ATOMIC_SEQ_CST);
}

static int is_held(const struct csd_job *job)
{
    return __atomic_load_n(&kinds_held, __ATOMIC_SEQ_CST) >> job->kind & 1;
}

static void hold_submit(struct csd *c, struct csd_job *job)
{
    if (!is_held(job)) {
        csd_emu.submit(c, job);
        return;
    }
    assert(n_held < MAX_HELD);
    held[n_held].device = c;
    held[n_held++].job = job;
}

/* Jobs that are not held any more go to the device; all of them are dropped where it is closed. */
static void let_go(struct csd *c, int closes)
{
    size_t kept = 0;

    for (size_t i = 0; i < n_held; i++)
        if (held[i].device != c || (!closes && is_held(held[i].job)))
            held[kept++] = held[i];
        else if (!closes)
            csd_emu.submit(c, held[i].job);
    n_held = kept;
}

static int hold_reap(struct csd *c, struct csd_job **done, int max)
{
    let_go(c, 0);
    return csd_emu.reap(c, done, max);
}

static size_t hold_memory(const struct csd_config *cfg)
{
    return csd_emu.memory(cfg);
}

static int hold_close(struct csd *c)
{
    let_go(c, 1);
    return csd_emu.close(c);
}

static struct csd_ops ops;

static int hold_open(struct csd **out, const struct csd_config *cfg, char *notice,
                     size_t notice_size, struct err *err)
{
    int rc = csd_emu.open(out, cfg, notice, notice_size, err);

    ops = csd_emu;
    ops.submit = hold_submit;
    ops.reap = hold_reap;
    ops.close = hold_close;
    if (!rc)
        (*out)->ops = &ops;
    return rc;
}

const struct csd_ops csd_hold = { .name = "hold", .caps = &engine_cpu_caps,
                                  .memory = hold_memory, .open = hold_open };
