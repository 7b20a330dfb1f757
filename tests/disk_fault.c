/* disk_fault.c: see the header. A request that is to be torn or cut is passed on as another one of
 * this file's own; what comes back early is held until its time. The plan is a static: tests have
 * one faulty disk open at a time. */
#include "tests/disk_fault.h"

#include "data/base/clock.h"
#include "kernels/rng.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { FAULT_REQS = 256, FAULT_UNIT = 4096 };

struct slot {
    struct disk_req  part;
    struct disk_req *r;
    size_t           rest; // bytes still to be moved after this part
    uint64_t         over_ns;
    int              busy, over, silent, held; // silent: it never ends
};

struct fault {
    struct disk  base;
    struct disk *inner;
    uint64_t     n;
    struct slot  slots[FAULT_REQS];
};

static struct disk_fault_plan plan;
static atomic_uint            met;
static atomic_ullong          requests;

void disk_fault_set(const struct disk_fault_plan *p)
{
    plan = *p;
    atomic_store(&met, 0);
    atomic_store(&requests, 0);
}

unsigned disk_fault_count(void)
{
    return atomic_load(&met);
}

uint64_t disk_fault_requests(void)
{
    return atomic_load(&requests);
}

static int fault_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct fault *d = calloc(1, sizeof *d);
    int           rc;

    if (!d)
        return err_set(err, -ENOMEM, "out of memory");
    rc = plan.inner->open(&d->inner, cfg, err);
    if (rc) {
        free(d);
        return rc;
    }
    d->base = (struct disk){&disk_fault, d->inner->align, 0};
    *out = &d->base;
    return 0;
}

static int strikes(struct fault *d, double probability)
{
    int yes = rng_uniform(plan.seed, 1, d->n++) < (float)probability;

    if (yes)
        atomic_fetch_add(&met, 1);
    return yes;
}

/* plan.hold said it. */
static void held_on(struct slot *s, int rc)
{
    s->held = rc > 0;
    s->over = rc < 0;
    s->part.status = rc < 0 ? rc : 0;
}

static int fault_submit(struct disk *base, struct disk_req *r)
{
    struct fault *d = (struct fault *)base;
    struct slot  *s = d->slots;
    int           aimed = (plan.ops & (1u << r->op)) &&
                (plan.to == 0 || (r->off < plan.to && r->off + r->bytes > plan.from));
    size_t half = r->bytes / 2 / FAULT_UNIT * FAULT_UNIT;
    int    rc;

    while (s < d->slots + FAULT_REQS && s->busy)
        s++;
    if (s == d->slots + FAULT_REQS)
        return -EAGAIN;
    *s = (struct slot){.r = r, .part = *r, .over_ns = clock_ns() + plan.delay_ns, .busy = 1};
    s->part.user = s;
    if (atomic_fetch_add(&requests, 1) + 1 == plan.nth) {
        atomic_fetch_add(&met, 1);
        s->part.status = plan.nth_status;
        s->over = plan.nth_status != 0;
        s->silent = !s->over;
    } else if (plan.hold && (rc = plan.hold(r)) != 0) {
        held_on(s, rc);
    } else if (aimed && strikes(d, plan.eio)) {
        s->part.status = -EIO;
        s->over = 1;
    } else if (aimed && r->op == DISK_WRITE && strikes(d, plan.dropped)) {
        s->part.status = 0;
        s->over = 1;
    } else if (aimed && r->op == DISK_WRITE && half > 0 && strikes(d, plan.torn)) {
        s->part.bytes = half;
    } else if (aimed && r->op != DISK_FLUSH && half > 0 && strikes(d, plan.short_io)) {
        s->part.bytes = half;
        s->rest = r->bytes - half;
    }
    if (s->over || s->silent || s->held)
        return 0;
    if (disk_submit(d->inner, &s->part) == 0)
        return 0;
    s->busy = 0;
    return -EAGAIN;
}

static void part_done(struct fault *d, struct slot *s)
{
    if (s->part.status == 0 && s->rest > 0) {
        s->part.buf = (char *)s->part.buf + s->part.bytes;
        s->part.off += s->part.bytes;
        s->part.bytes = s->rest;
        s->rest = 0;
        if (disk_submit(d->inner, &s->part) == 0)
            return;
        s->part.status = -EIO;
    }
    s->over = 1;
}

/* What is kept no longer goes on; when to look again. */
static uint64_t held_look(struct fault *d)
{
    enum { AGAIN_NS = 1000000 };
    uint64_t next = UINT64_MAX;

    for (struct slot *s = d->slots; s < d->slots + FAULT_REQS; s++) {
        if (!s->busy || !s->held)
            continue;
        held_on(s, plan.hold(s->r));
        if (s->held || (!s->over && disk_submit(d->inner, &s->part))) {
            s->held = 1;
            next = clock_ns() + AGAIN_NS;
        }
    }
    return next;
}

static int slots_take(struct fault *d, struct disk_req **done, int max, uint64_t *next_ns)
{
    uint64_t now = clock_ns();
    int      n = 0;

    *next_ns = UINT64_MAX;
    for (struct slot *s = d->slots; s < d->slots + FAULT_REQS && n < max; s++) {
        if (!s->busy || !s->over)
            continue;
        if (s->over_ns <= now) {
            s->r->status = s->part.status;
            s->busy = 0;
            done[n++] = s->r;
        } else if (s->over_ns < *next_ns) {
            *next_ns = s->over_ns;
        }
    }
    return n;
}

static int fault_reap(struct disk *base, struct disk_req **done, int max, int64_t wait_ns)
{
    struct fault    *d = (struct fault *)base;
    struct disk_req *parts[16];
    uint64_t         end = wait_ns < 0 ? UINT64_MAX : clock_ns() + (uint64_t)wait_ns, next;

    for (;;) {
        uint64_t again = held_look(d), now = clock_ns();
        int      n = slots_take(d, done, max, &next), got;

        next = again < next ? again : next;
        uint64_t until = next < end ? next : end;
        got = disk_reap(d->inner, parts, 16,
                        n > 0 || until <= now ? 0
                        : until == UINT64_MAX ? -1
                                              : (int64_t)(until - now));
        for (int i = 0; i < got; i++)
            part_done(d, parts[i]->user);
        __atomic_store_n(&d->base.moved, disk_moved(d->inner), __ATOMIC_RELAXED);
        if (n > 0 || got < 0)
            return n > 0 ? n : got;
        if (got == 0 && (next > clock_ns() || next == again)) // woken, or out of time, perhaps
            return slots_take(d, done, max, &next);
    }
}

static void fault_wake(struct disk *base)
{
    disk_wake(((struct fault *)base)->inner);
}

static void fault_abandon(struct disk *base)
{
    struct fault *d = (struct fault *)base;

    disk_close(d->inner); // its own requests end
    free(d);
}

/* As a real disk: it waits for all, and for what never ends it waits for ever. */
static void fault_close(struct disk *base)
{
    struct fault *d = (struct fault *)base;

    for (struct slot *s = d->slots; s < d->slots + FAULT_REQS; s++)
        while (s->busy && s->silent)
            pause();
    fault_abandon(base);
}

const struct disk_ops disk_fault = {.name = "fault",
                                    .open = fault_open,
                                    .submit = fault_submit,
                                    .reap = fault_reap,
                                    .wake = fault_wake,
                                    .close = fault_close,
                                    .abandon = fault_abandon};

static const struct csd_ops *under;

static int faulty_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t size,
                       struct err *err)
{
    struct csd_config c = *cfg;

    c.disk = &disk_fault;
    return under->open(out, &c, notice, size, err);
}

const struct csd_ops *disk_fault_csd(const struct csd_ops *kind)
{
    static struct csd_ops faulty;

    under = kind;
    faulty = *kind;
    faulty.open = faulty_open;
    return &faulty;
}
