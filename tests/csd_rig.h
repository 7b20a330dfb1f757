/* csd_rig.h: for tests of devices: one device in a folder of its own, with subgroups on it, and
 * what their updates must make of them. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/csd.h"
#include "csd/engine/grad_wire.h"
#include "data/base/crc32c.h"
#include "kernels/rng.h"
#include "tests/disk_fault.h"
#include "tests/smartssd.h"

#include <assert.h>
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
    struct bell   bell;
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

/* What devices of this kind need beside their drive; where it is not here the test is skipped,
 * which leaves what it has allocated: such a test asks for it first. */
static void accelerator_give(struct csd_config *cfg, const struct csd_ops *ops)
{
    struct err why = {0};

    if (ops == &csd_xrt && !cfg->fpga)
        smartssd_card(cfg);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (ops == &csd_opencl) // its compiler is not built for them
        skip();
#endif
    if (ops->usable && ops->usable(&why)) {
        print_message("--csd %s: %s\n", ops->name, why.text);
        skip();
    }
}

static void rig_open(struct rig *r, const struct csd_ops *ops, const struct csd_config *cfg)
{
    struct err err;
    char       notice[256];

    r->cfg = *cfg;
    accelerator_give(&r->cfg, ops);
    r->n_pad = cfg->update_params ? cfg->update_params : N_PAD;
    r->n = r->n_pad - (N_PAD - N);
    r->states = 4 * (1 + (size_t)cfg->moments) * r->n_pad;
    r->wire = dtype_bytes(cfg->wire_dt) * r->n_pad;
    r->grad = (4 * r->n_pad > grad_wire_bytes(r->n)) ? 4 * r->n_pad : grad_wire_bytes(r->n);
    r->slot = r->states + r->wire;
    strcpy(r->dir, "/var/tmp/sitrain-csd-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->path, sizeof r->path, "%s/dev", r->dir);
    bell_init(&r->bell);
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

static void rig_close(struct rig *r) // c: NULL where it was closed
{
    if (r->c)
        r->c->ops->close(r->c);
    bell_release(&r->bell);
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
            seen = bell_wait(&r->bell, seen, 100000000);
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

/* The same again after a prime number of elements: no two chunks of an update are alike, and few of
 * its numbers are drawn, which takes long under sanitizers. */
static float uniform(uint64_t stream, size_t i)
{
    enum { DRAWN = 9973, STREAMS = 100 };
    static float  drawn[STREAMS][DRAWN];
    static char   is[STREAMS];
    static_assert(JOBS * 10 < STREAMS, "a stream for each array of each subgroup");

    for (size_t k = 0; !is[stream] && k < DRAWN; k++)
        drawn[stream][k] = rng_uniform(7, stream, k);
    is[stream] = 1;
    return drawn[stream][i % DRAWN];
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
                (s == 2 ? 0.01f : 1.0f) * uniform((uint64_t)(10 * k + s), i);
    for (size_t i = 0; i < r->n; i++)
        if (!pairs || uniform(99, i) < (k == 1 ? 1.0f : 0.02f)) {
            g->dense[i] = uniform((uint64_t)(10 * k + 5), i) - 0.5f;
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

extern const struct csd_ops csd_skeleton; // csd_skeleton.c
// the backends, each of which goes through the same tests
#define WITH(name, f) { #name ": " #f, f, NULL, NULL, (void *)(uintptr_t)&csd_##name }
#define EACH(f)       WITH(emu, f), WITH(xrt, f), WITH(opencl, f), WITH(skeleton, f)
