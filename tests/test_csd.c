/* test_csd.c: devices. Updates in every mode, over every disk, must equal optim_update on arrays,
 * bit for bit, and move exactly the bytes of the traffic table; what is wrong must be refused with
 * nothing written.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cmd/opt/opt_row.h"
#include "csd/csd.h"
#include "csd/grad_wire.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "kernels/rng.h"
#include "tests/disk_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_PAD = 3 * CSD_ALIGN_PARAMS, N = N_PAD - 777, JOBS = 5 };

/* One device with JOBS subgroups: slots a, slots b, gradients. */
struct rig {
    struct csd_config cfg;
    size_t            n, n_pad; // parameters of a subgroup
    struct csd_bell   bell;
    struct csd       *c;
    char              dir[64], path[96];
    size_t            states, wire, grad, slot;
    char             *buf; // one slot or gradient
};

static uint64_t slot_off(const struct rig *r, int half, int k)
{
    return (uint64_t)(half * JOBS + k) * r->slot;
}

static uint64_t grad_off(const struct rig *r, int k)
{
    return 2 * JOBS * r->slot + (uint64_t)k * r->grad;
}

static void rig_open(struct rig *r, const struct csd_ops *ops, const struct csd_config *cfg)
{
    struct err err;
    char       notice[256];

    r->cfg = *cfg;
    r->n_pad = cfg->update_params ? cfg->update_params : N_PAD;
    r->n = r->n_pad - (N_PAD - N);
    r->states = 4 * (1 + (size_t)cfg->moments) * r->n_pad;
    r->wire = dtype_bytes(cfg->wire_dt) * r->n_pad;
    r->grad = (4 * r->n_pad > grad_wire_bytes(r->n)) ? 4 * r->n_pad : grad_wire_bytes(r->n);
    r->slot = r->states + r->wire;
    strcpy(r->dir, "/var/tmp/sitrain-csd-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->path, sizeof r->path, "%s/dev", r->dir);
    csd_bell_init(&r->bell);
    r->cfg.path = r->path;
    r->cfg.create = 1;
    r->cfg.bytes = 2 * JOBS * r->slot + JOBS * r->grad;
    r->cfg.bell = &r->bell;
    r->cfg.update_params = r->n_pad;
    if (r->cfg.mem == 0)
        r->cfg.mem = ops->memory(&r->cfg);
    r->buf = aligned_alloc(4096, r->slot + r->grad);
    if (ops->open(&r->c, &r->cfg, notice, sizeof notice, &err))
        fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
    r->c->ops->close(r->c);
    csd_bell_release(&r->bell);
    unlink(r->path);
    rmdir(r->dir);
    free(r->buf);
}

/* Each is tagged with its turn. */
static void jobs_wait(struct rig *r, int n)
{
    struct csd_job *done[4];
    uint64_t        seen = 0, turn = 0;

    while (n > 0) {
        int got = r->c->ops->reap(r->c, done, 4);

        n -= got;
        for (int i = 0; i < got; i++)
            done[i]->tag = ++turn;
        if (got == 0)
            seen = csd_bell_wait(&r->bell, seen, 100000000);
    }
}

static void job_run(struct rig *r, struct csd_job *j)
{
    r->c->ops->submit(r->c, j);
    jobs_wait(r, 1);
}

static void range_move(struct rig *r, enum csd_kind kind, uint64_t off, void *bytes, size_t n)
{
    struct csd_job j = {
        .kind = kind, .cls = CLASS_STATES, .buf = r->buf, .off = off, .bytes = n, .payload = n};

    if (kind == CSD_WRITE)
        memcpy(r->buf, bytes, n);
    job_run(r, &j);
    if (j.status)
        fail_msg("%s", j.why);
    if (kind == CSD_READ)
        memcpy(bytes, r->buf, n);
}

/* What subgroup k holds, what its gradient is, and what must come out. */
struct subgroup {
    float             *slot, *dense, *expect; // slot, expect: whole slots
    char              *packed;                // pairs
    size_t             pairs;
    struct csd_segment seg[2];
    struct csd_update  u;
};

static void subgroup_expect(const struct rig *r, struct subgroup *g)
{
    float *w = g->expect, *m = w + r->n_pad, *v = r->cfg.moments > 1 ? m + r->n_pad : NULL;
    char  *wire = (char *)g->expect + r->states;

    memcpy(g->expect, g->slot, r->slot);
    for (int i = 0; i < 2; i++) {
        size_t f = g->seg[i].first;

        optim_update(w + f, m + f, v ? v + f : NULL, g->dense + f, g->seg[i].n,
                     g->seg[i].weight_decay, &g->u.step);
    }
    for (size_t i = 0; i < r->n_pad; i++)
        dtype_put(wire, r->cfg.wire_dt, i, w[i]);
}

static void subgroup_make(struct rig *r, struct subgroup *g, int k, int pairs)
{
    enum optim_kind   kind = r->cfg.moments == 2 ? OPTIM_ADAMW : OPTIM_SGD;
    struct topk_pair *p = calloc(r->n, sizeof *p);

    *g = (struct subgroup){
        .slot = calloc(1, r->slot), .expect = calloc(1, r->slot), .dense = calloc(r->n_pad, 4)};
    g->packed = calloc(1, r->grad);
    for (int s = 0; s <= r->cfg.moments; s++)
        for (size_t i = 0; i < r->n; i++)
            g->slot[(size_t)s * r->n_pad + i] =
                (s == 2 ? 0.01f : 1.0f) * rng_uniform(7, (uint64_t)(10 * k + s), i);
    for (size_t i = 0; i < r->n; i++)
        if (!pairs || rng_uniform(7, 99, i) < (k == 1 ? 1.0f : 0.02f)) {
            g->dense[i] = rng_uniform(7, (uint64_t)(10 * k + 5), i) - 0.5f;
            p[g->pairs++] = (struct topk_pair){(uint32_t)(i + 1000), g->dense[i]};
        }
    if (pairs && k == 2) { // none at all
        memset(g->dense, 0, 4 * r->n_pad);
        g->pairs = 0;
    }
    grad_wire_pack(g->packed, p, g->pairs, 1000, r->n);
    free(p);
    g->seg[0] = (struct csd_segment){0, 2500, 0.1f};
    g->seg[1] = (struct csd_segment){2500, r->n - 2500, 0.0f};
    g->u = (struct csd_update){.src_off = slot_off(r, 0, k),
                               .dst_off = slot_off(r, 1, k),
                               .grad_off = grad_off(r, k),
                               .n = r->n,
                               .n_pad = r->n_pad,
                               .grad_form = pairs ? CSD_GRAD_PAIRS : CSD_GRAD_DENSE,
                               .pairs = g->pairs,
                               .segments = g->seg,
                               .n_segments = 2};
    optim_scalars(&g->u.step, kind, 1e-2, 0.9, 0.99, 1e-8, 0.5, 3);
    g->u.src_crc = crc32c(0, g->slot, r->states);
    g->u.grad_crc =
        pairs ? crc32c(0, g->packed, grad_wire_bytes(g->pairs)) : crc32c(0, g->dense, 4 * r->n_pad);
    subgroup_expect(r, g);
    range_move(r, CSD_WRITE, g->u.src_off, g->slot, r->slot);
    range_move(r, CSD_WRITE, g->u.grad_off, pairs ? (void *)g->packed : g->dense,
               pairs ? grad_wire_bytes(g->pairs) : 4 * r->n_pad);
}

static void subgroup_free(struct subgroup *g)
{
    free(g->slot);
    free(g->expect);
    free(g->dense);
    free(g->packed);
}

static void meter_check(const struct rig *r, const struct subgroup *g, const struct link_meter *m)
{
    enum link_kind l = r->cfg.update_link;
    size_t         states = 4 * (1 + (size_t)r->cfg.moments), wire = dtype_bytes(r->cfg.wire_dt),
           pad = r->n_pad - r->n;
    int    pairs = g->u.grad_form == CSD_GRAD_PAIRS;
    struct link_meter want = {0};

    want.bytes[l][CLASS_STATES][LINK_READ] = want.bytes[l][CLASS_STATES][LINK_WRITE] =
        states * r->n;
    want.padding[l][CLASS_STATES][LINK_READ] = want.padding[l][CLASS_STATES][LINK_WRITE] =
        states * pad;
    want.bytes[l][CLASS_WIRE][LINK_WRITE] = wire * r->n;
    want.padding[l][CLASS_WIRE][LINK_WRITE] = wire * pad;
    want.bytes[l][CLASS_GRADIENT][LINK_READ] = pairs ? 8 * g->pairs : 4 * r->n;
    want.padding[l][CLASS_GRADIENT][LINK_READ] =
        pairs ? grad_wire_bytes(g->pairs) - 8 * g->pairs : 4 * pad;
    assert_memory_equal(m, &want, sizeof want);
}

static void subgroup_check(struct rig *r, const struct subgroup *g, const struct csd_job *j)
{
    char *got = malloc(r->slot);

    if (j->status)
        fail_msg("%s", j->why);
    range_move(r, CSD_READ, g->u.dst_off, got, r->slot);
    assert_memory_equal(got, g->expect, r->slot);
    assert_int_equal(j->update.dst_crc, crc32c(0, g->expect, r->states));
    assert_int_equal(j->update.wire_crc, crc32c(0, (char *)g->expect + r->states, r->wire));
    meter_check(r, g, &j->meter);
    for (int s = 0; s < CSD_SPANS; s++)
        assert_true(j->start_ns[s] >= j->start_ns[SPAN_JOB] && j->end_ns[s] >= j->start_ns[s] &&
                    j->end_ns[s] <= j->end_ns[SPAN_JOB]);
    free(got);
}

/* What devices have mapped, and the most at once: our objects' mappings come through here. */
static size_t mapped, mapped_most;

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    mapped += n;
    mapped_most = mapped > mapped_most ? mapped : mapped_most;
    return __real_mmap(at, n, prot, flags, fd, off);
}

int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n)
{
    mapped -= n;
    return __real_munmap(at, n);
}

/* With what is ahead of it: that comes first, with the sum of what may be read. */
static void ahead_check(const struct csd_job *j, const struct csd_job *ahead)
{
    assert_null(j->update.ahead);
    assert_true(ahead->tag < j->tag);
    assert_int_equal(ahead->status, 0);
    assert_int_equal(ahead->update.wire_crc, j->update.wire_crc);
    assert_true(ahead->start_ns[SPAN_WRITE] == j->start_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_WRITE] >= ahead->start_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_WRITE] <= j->end_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_JOB] <= j->end_ns[SPAN_JOB]);
}

static void updates_run(const struct csd_ops *ops, const struct csd_config *cfg, int pairs,
                        int jobs)
{
    struct rig      r;
    struct subgroup g[JOBS];
    struct csd_job  j[JOBS], ahead[JOBS];

    mapped = mapped_most = 0;
    rig_open(&r, ops, cfg);
    for (int k = 0; k < jobs; k++) {
        subgroup_make(&r, &g[k], k, pairs);
        j[k] = (struct csd_job){.kind = CSD_UPDATE, .update = g[k].u};
        ahead[k] = (struct csd_job){.kind = CSD_AHEAD};
        j[k].update.ahead = k % 2 ? &ahead[k] : NULL;
    }
    for (int k = 0; k < jobs; k++)
        r.c->ops->submit(r.c, &j[k]);
    jobs_wait(&r, jobs + jobs / 2);
    for (int k = 0; k < jobs; k++) {
        if (k % 2)
            ahead_check(&j[k], &ahead[k]);
        subgroup_check(&r, &g[k], &j[k]);
        subgroup_free(&g[k]);
    }
    assert_int_equal(mapped_most, ops->memory(&r.cfg));
    rig_close(&r);
}

static void test_updates(void **state)
{
    static const struct disk_ops *const disks[] = {&disk_uring, &disk_sync};

    for (int d = 0; d < 2; d++)
        for (int mode = 0; mode < 3; mode++)
            for (int pairs = 0; pairs < 2; pairs++)
                for (int moments = 1; moments <= 2; moments++) {
                    struct csd_config cfg = {.id = d,
                                             .disk = disks[d],
                                             .moments = moments,
                                             .handler = mode == 1 ? CSD_NAIVE : CSD_HANDED_OVER,
                                             .wire_dt = moments == 1 ? DT_F32 : DT_BF16,
                                             .update_link = mode == 2 ? LINK_HOST : LINK_INTERNAL};

                    updates_run(*state, &cfg, pairs, JOBS);
                }
}

/* A wrong checksum, or a disk that fails, ends the job with a sentence and leaves the slot it would
 * have written. */
static void refused(struct rig *r, struct subgroup *g, struct csd_job *j, int status,
                    const char *word)
{
    char *got = malloc(r->slot);

    job_run(r, j);
    assert_int_equal(j->status, status);
    assert_non_null(strstr(j->why, "device 0"));
    if (!strstr(j->why, word))
        fail_msg("no \"%s\" in: %s", word, j->why);
    range_move(r, CSD_READ, g->u.dst_off, got, r->slot);
    for (size_t i = 0; i < r->slot; i++)
        assert_int_equal(got[i], 0);
    free(got);
}

static void test_corruption(void **state)
{
    for (int pairs = 0; pairs < 2; pairs++) {
        struct csd_config cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
        struct rig        r;
        struct subgroup   g;
        struct csd_job    j;

        rig_open(&r, *state, &cfg);
        subgroup_make(&r, &g, 0, pairs);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.src_crc ^= 1;
        refused(&r, &g, &j, -EBADMSG, "states");
        j.update = g.u;
        j.update.grad_crc ^= 1;
        refused(&r, &g, &j, -EBADMSG, "gradient");
        j.update = g.u;
        j.update.dst_off = r.cfg.bytes;
        refused(&r, &g, &j, -EINVAL, "outside");
        j.update = g.u; // and the device goes on
        job_run(&r, &j);
        subgroup_check(&r, &g, &j);
        subgroup_free(&g);
        rig_close(&r);
    }
}

static void test_faults(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync};
    struct csd_config      cfg = {
             .disk = &disk_fault, .update_link = LINK_INTERNAL, .moments = 2, .wire_dt = DT_BF16
    };
    struct rig             r;
    struct subgroup        g;
    struct csd_job         j;

    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    plan.ops = 1u << DISK_READ;
    plan.from = g.u.grad_off;
    plan.to = g.u.grad_off + 4096;
    plan.eio = 1;
    disk_fault_set(&plan);
    refused(&r, &g, &j, -EIO, "Input/output error");
    assert_non_null(strstr(j.why, "read of"));
    assert_non_null(strstr(j.why, r.path));
    plan = (struct disk_fault_plan){
        .inner = &disk_sync, .ops = 1u << DISK_WRITE, .eio = 1, .delay_ns = 1000000
    };
    disk_fault_set(&plan);
    j.update = g.u;
    refused(&r, &g, &j, -EIO, "write of");
    plan = (struct disk_fault_plan){
        .inner = &disk_sync, .ops = 3, .short_io = 1, .delay_ns = 1000000
    };
    disk_fault_set(&plan);
    j.update = g.u;
    job_run(&r, &j);
    subgroup_check(&r, &g, &j);
    assert_true(disk_fault_count() > 0);
    plan = (struct disk_fault_plan){.inner = &disk_sync, .ops = 1u << DISK_FLUSH, .eio = 1};
    disk_fault_set(&plan);
    j = (struct csd_job){.kind = CSD_FLUSH};
    job_run(&r, &j);
    assert_int_equal(j.status, -EIO);
    assert_non_null(strstr(j.why, "flush"));
    subgroup_free(&g);
    rig_close(&r);
}

/* The writes of moments, by offset; who waits for what is ahead of them; whether they stay, go on,
 * or fail, and whether any came before what is ahead of them was complete. */
static struct {
    uint64_t              from, to;
    const struct csd_job *ahead;
    int                   fate, early; // fate: as disk_fault_plan.hold says
} moments;

static int moments_hold(const struct disk_req *r)
{
    if (r->op != DISK_WRITE || r->off + r->bytes <= moments.from || r->off >= moments.to)
        return 0;
    moments.early |= moments.ahead->end_ns[SPAN_JOB] == 0;
    return __atomic_load_n(&moments.fate, __ATOMIC_SEQ_CST);
}

/* Parameters first: they are on the device, and their job is back, while the moments are not
 * written, and may then never be. */
static void test_ahead(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync, .hold = moments_hold};
    struct csd_config      cfg = {
             .disk = "uring", .disk_ops = &disk_fault, .moments = 2, .wire_dt = DT_BF16
    };
    int             holds = *state != (void *)(uintptr_t)&csd_skeleton; // all is done in its submit
    struct rig      r;
    struct subgroup g;
    struct csd_job  j, ahead;
    char           *got;

    moments.to = 0;
    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    got = malloc(r.slot);
    moments.from = g.u.dst_off + 4 * r.n_pad;
    moments.to = g.u.dst_off + r.states;
    moments.ahead = &ahead;
    for (int fails = 0; fails < 2; fails++) {
        moments.fate = holds ? 1 : fails ? -EIO : 0;
        moments.early = 0;
        range_move(&r, CSD_WRITE, g.u.dst_off, memset(got, 0, 4 * r.n_pad), 4 * r.n_pad);
        ahead = (struct csd_job){.kind = CSD_AHEAD};
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.ahead = &ahead;
        r.c->ops->submit(r.c, &j);
        jobs_wait(&r, 1);
        assert_int_equal(ahead.tag, 1);
        assert_int_equal(ahead.status, 0);
        range_move(&r, CSD_READ, g.u.dst_off + r.states, got, r.wire);
        assert_memory_equal(got, (char *)g.expect + r.states, r.wire);
        assert_int_equal(ahead.update.wire_crc, crc32c(0, got, r.wire));
        __atomic_store_n(&moments.fate, fails ? -EIO : 0, __ATOMIC_SEQ_CST);
        if (holds)
            jobs_wait(&r, 1);
        assert_false(moments.early);
        assert_int_equal(j.status, fails ? -EIO : 0);
        assert_true(!fails || strstr(j.why, "write of"));
        if (!fails)
            subgroup_check(&r, &g, &j);
    }
    for (int read = 0; read < 2; read++) { // what fails before fails both, with one sentence
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.ahead = &ahead;
        j.update.grad_crc ^= !read;
        j.update.src_off += read ? r.cfg.bytes : 0;
        r.c->ops->submit(r.c, &j);
        jobs_wait(&r, 2);
        assert_true(ahead.tag < j.tag);
        assert_int_equal(j.status, read ? -EINVAL : -EBADMSG);
        assert_int_equal(ahead.status, j.status);
        assert_string_equal(ahead.why, j.why);
    }
    free(got);
    subgroup_free(&g);
    rig_close(&r);
}

/* So large that an update comes in chunks, more than are on their way at once. */
static void test_large_updates(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync};
    struct csd_config      cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
    struct rig             r;
    struct subgroup        g;
    struct csd_job         j;

    cfg.update_params = (1 << 20) + N_PAD;
    for (int naive = 1; naive >= 0; naive--)
        for (int pairs = 0; pairs < 2; pairs++) {
            cfg.handler = naive ? CSD_NAIVE : CSD_HANDED_OVER;
            updates_run(*state, &cfg, pairs, 2);
        }
    cfg.disk = &disk_fault;
    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    j.update.src_crc ^= 1;
    refused(&r, &g, &j, -EBADMSG, "states");
    plan.ops = 1u << DISK_READ; // the end of the master
    plan.from = g.u.src_off + sizeof(float) * r.n_pad - 4096;
    plan.to = plan.from + 4096;
    plan.eio = 1;
    disk_fault_set(&plan);
    j.update = g.u;
    refused(&r, &g, &j, -EIO, "read of");
    subgroup_free(&g);
    rig_close(&r);
}

/* What a faulty disk lost or tore is noticed when it is read next. */
static void test_lost_writes(void **state)
{
    for (int torn = 0; torn < 2; torn++) {
        struct disk_fault_plan plan = {.inner = &disk_sync};
        struct csd_config      cfg = {
                 .disk = &disk_fault, .update_link = LINK_INTERNAL, .moments = 2, .wire_dt = DT_BF16
        };
        struct rig        r;
        struct subgroup   g;
        struct csd_job    j;

        disk_fault_set(&plan);
        rig_open(&r, *state, &cfg);
        subgroup_make(&r, &g, 0, 0);
        plan = (struct disk_fault_plan){
            .inner = &disk_sync, .ops = 1u << DISK_WRITE, .torn = torn, .dropped = !torn};
        disk_fault_set(&plan);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        job_run(&r, &j);
        assert_int_equal(j.status, 0);
        assert_true(disk_fault_count() > 0);
        g.u.src_crc = j.update.dst_crc;
        g.u.src_off = j.update.dst_off;
        g.u.dst_off = slot_off(&r, 1, 1);
        plan = (struct disk_fault_plan){.inner = &disk_sync};
        disk_fault_set(&plan);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        refused(&r, &g, &j, -EBADMSG, "states");
        subgroup_free(&g);
        rig_close(&r);
    }
}

/* Many host jobs at once, mixed with updates; nothing gets lost, and each is metered on the host
 * link. */
static void test_host_jobs(void **state)
{
    enum { MANY = 200 };
    struct csd_config cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
    struct rig        r;
    struct subgroup   g;
    struct csd_job    u, *j = calloc(MANY, sizeof *j);
    char             *mem = aligned_alloc(4096, (size_t)MANY * 4096);

    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    u = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    r.c->ops->submit(r.c, &u);
    for (int i = 0; i < MANY; i++) {
        memset(mem + i * 4096, i, 4096);
        j[i] = (struct csd_job){.kind = CSD_WRITE,
                                .cls = CLASS_ACTIVATION,
                                .buf = mem + i * 4096,
                                .bytes = 4096,
                                .payload = 4000,
                                .off = grad_off(&r, 2) + (uint64_t)(i % 12) * 4096};
        r.c->ops->submit(r.c, &j[i]);
    }
    jobs_wait(&r, MANY + 1);
    subgroup_check(&r, &g, &u);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(j[i].status, 0);
        assert_int_equal(j[i].meter.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 4000);
        assert_int_equal(j[i].meter.padding[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 96);
    }
    u = (struct csd_job){.kind = CSD_FLUSH};
    job_run(&r, &u);
    assert_int_equal(u.status, 0);
    u = (struct csd_job){
        .kind = CSD_READ, .buf = mem, .bytes = 4096, .payload = 4096, .off = r.cfg.bytes
    };
    job_run(&r, &u);
    assert_int_equal(u.status, -EINVAL);
    subgroup_free(&g);
    rig_close(&r);
    free(j);
    free(mem);
}

/* A modelled link delays; only lower bounds are certain. */
static void test_link_delay(void **state)
{
    const struct link_rates rates = {.bytes_per_s = {10e6, 10e6}, .shared = 1};
    struct link            *l = link_new(&rates, NULL);
    struct link_ends        ends = {.drive = l};
    struct csd_config       cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                                   .wire_dt = DT_BF16, .links = &ends};
    struct rig              r;
    struct subgroup         g;
    struct csd_job          j;

    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    job_run(&r, &j);
    subgroup_check(&r, &g, &j);
    assert_true((double)(j.end_ns[SPAN_READ] - j.start_ns[SPAN_READ]) >
                16.0 * N_PAD / 10e6 * 1e9 * 0.99);
    assert_true((double)(j.end_ns[SPAN_WRITE] - j.start_ns[SPAN_WRITE]) >
                14.0 * N_PAD / 10e6 * 1e9 * 0.99);
    subgroup_free(&g);
    rig_close(&r);
    link_free(l);
}

static void test_memory_limit(void **state)
{
    const struct csd_ops *ops = *state;
    struct csd_config     one = {
        .moments = 2, .wire_dt = DT_BF16, .update_params = CSD_ALIGN_PARAMS};
    struct csd_config     cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                                 .wire_dt = DT_BF16, .path = "/var/tmp/sitrain-never", .create = 1,
                                 .bytes = 1 << 20, .update_params = 8192, .mem = 128 << 10};
    struct csd           *c;
    struct err            err = {0};
    char                  notice[64];

    assert_true(ops->memory(&one) <= 128 << 10);
    assert_true(ops->open(&c, &cfg, notice, sizeof notice, &err) < 0);
    assert_true(err.misuse);
    assert_non_null(strstr(err.text, "131072"));
    assert_int_equal(access(cfg.path, F_OK), -1);
}

static void test_null(void **state)
{
    struct csd_bell   bell;
    struct csd_config cfg = {.moments = 2, .wire_dt = DT_BF16, .update_link = LINK_INTERNAL,
                             .bell = &bell, .path = "x"};
    struct csd       *c;
    struct err        err;
    struct csd_job    ahead = {.kind = CSD_AHEAD}, *done[3];
    struct csd_job    j = {
           .kind = CSD_UPDATE, .update = {.n = N, .n_pad = N_PAD, .ahead = &ahead}
    };
    uint64_t          seen;

    (void)state;
    csd_bell_init(&bell);
    assert_int_equal(opt_words_find(csd_name, "null", 4), 1);
    assert_ptr_equal(csd_at(1), &csd_null);
    assert_int_equal(opt_words_find(csd_name, "emu", 3), 0);
    assert_ptr_equal(csd_at(0), &csd_emu);
    assert_true(opt_words_find(csd_name, "cloud", 5) < 0);
    assert_true(opt_words_find(csd_name, "skeleton", 8) < 0);
    assert_int_equal(csd_null.open(&c, &cfg, NULL, 0, &err), 0);
    c->ops->submit(c, &j);
    seen = csd_bell_wait(&bell, 0, 1000000000);
    assert_int_equal(seen, 1);
    assert_int_equal(csd_bell_wait(&bell, seen, 1000), 1);
    assert_int_equal(c->ops->reap(c, done, 3), 2);
    assert_ptr_equal(done[0], &ahead);
    assert_ptr_equal(done[1], &j);
    assert_int_equal(j.meter.bytes[LINK_INTERNAL][CLASS_STATES][LINK_READ], 12 * N);
    assert_int_equal(c->ops->reap(c, done, 2), 0);
    c->ops->close(c);
    csd_bell_release(&bell);
}

// the backends, each of which goes through the same tests
#define WITH(name, f) { #name ": " #f, f, NULL, NULL, (void *)(uintptr_t)&csd_##name }
#define EACH(f)       WITH(emu, f), WITH(skeleton, f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_updates),
        EACH(test_corruption),
        EACH(test_faults),
        EACH(test_ahead),
        EACH(test_large_updates),
        EACH(test_lost_writes),
        EACH(test_host_jobs),
        EACH(test_link_delay),
        EACH(test_memory_limit),
        cmocka_unit_test(test_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
