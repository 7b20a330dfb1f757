/* engine_proof.c: runs updates on an engine and on this processor, and compares them bit for bit.
 * The numbers are those whose results could differ: subnormal ones and those that round to them,
 * the largest, infinities. Usual numbers are between them. */
#include "csd/engine/engine_proof.h"

#include "data/base/round.h"
#include "kernels/rng.h"

#include <unistd.h>

enum { N_PAD = CSD_ALIGN_PARAMS, N = N_PAD - 333, PAIRS = N / 2, KINDS = 4, PAUSE_US = 50 };

/* UNCHECKED and LOOKED stay within bounds_advance's bounds; FAR is whatever 32 bits can be. */
enum wildness { UNCHECKED, LOOKED, FAR, WILDNESSES };

enum { ROUNDS = 2 * KINDS * WILDNESSES };

/* The bits of number i of a part. For odd i, all parts have a number of the same kind there: small
 * ones meet small ones. */
static uint32_t awkward(enum wildness how, uint64_t round, uint64_t part, size_t i)
{
    uint32_t bits = (uint32_t)rng_bits(round, part, i);

    switch (rng_bits(round, i % 2 ? 8 : 9 + part, i) & 15) {
    case 0:
        return bits & 0x807fffff; // subnormal
    case 1:
        return bits & 0x81ffffff; // subnormal or just above
    case 2:
        return (bits & 0x80000000) | 0x00ffffff; // half of it, if rounded, would be normal
    case 3:
        return how == FAR ? (bits & 0x80ffffff) | 0x7e000000 : 0;
    case 4:
        return how == FAR ? bits : bits & 0x80000000;
    default:
        return (bits & 0x83ffffff) | 0x3c000000;
    }
}

static void fill(const struct update_area *a, enum wildness how, uint64_t round)
{
    memset(a->states, 0, a->states_bytes);
    memset(a->grad, 0, a->grad_bytes);
    for (int part = 0; part <= 3; part++)
        for (size_t i = 0; i < N && (part <= a->moments || part == 3); i++) {
            float   *to = part == 3 ? &a->grad[i] : &a->states[(size_t)part * N_PAD + i];
            uint32_t bits = awkward(how, round, (uint64_t)part, i);

            if (part == a->moments) // roots are taken of these
                bits &= 0x7fffffff;
            memcpy(to, &bits, sizeof bits);
        }
}

static int work(struct engine *e, struct engine_set *s, enum engine_what what, size_t at, size_t n,
                struct err *err)
{
    s->what = what;
    s->at = at;
    s->n = n;
    e->ops->start(e, s);
    while (!e->ops->poll(e))
        usleep(PAUSE_US);
    return s->status ? err_set(err, s->status, "%s", s->why.text) : 0;
}

/* Runs update number `round` on e. A compressed gradient has no even elements, and comes in as many
 * chunks as the wire's area needs. */
static int update(struct engine *e, struct engine_set *s, struct csd_update *u, uint64_t round,
                  struct err *err)
{
    static const struct csd_segment segments[] = {{0, 1000, 0.1f}, {1000, N - 1000, 0}};
    int              late = round >= ROUNDS / 2, rc = 0;
    enum wildness    how = round / KINDS % WILDNESSES;
    struct topk_pair p[PAIRS];
    char             packed[GRAD_WIRE_HEADER + sizeof p + GRAD_WIRE_ALIGN];
    size_t           bytes = late ? grad_wire_bytes(PAIRS) : 0, k;

    *u = (struct csd_update){.n = N, .n_pad = N_PAD, .unchecked = how == UNCHECKED,
                             .segments = segments, .n_segments = 2, .pairs = PAIRS,
                             .grad_form = late ? CSD_GRAD_PAIRS : CSD_GRAD_DENSE};
    optim_scalars(&u->step, round % KINDS, 1e-2, 0.9, 0.99, 1e-8, 0.5, 1 + (uint64_t)late);
    s->u = u;
    s->sums = (struct update_sums){0};
    update_area_init(&s->area, s->base, N_PAD, optim_moments(u->step.kind),
                     late ? DT_BF16 : DT_F32);
    fill(&s->area, how, round);
    for (size_t i = 0; i < PAIRS; i++)
        p[i] = (struct topk_pair){(uint32_t)(2 * i + 1), s->area.grad[2 * i + 1]};
    grad_wire_pack(packed, p, PAIRS, 0, N);
    for (size_t at = 0; at < bytes && !rc; at += k) {
        k = size_min(bytes - at, s->area.wire_bytes);
        memcpy(s->area.wire, packed + at, k);
        rc = work(e, s, ENGINE_SCATTER, at, k, err);
    }
    return rc ? rc : work(e, s, ENGINE_PASS, 0, N_PAD, err);
}

static int same(const struct engine_set *a, const struct engine_set *b)
{
    return !memcmp(a->base, b->base, a->area.states_bytes + a->area.wire_bytes) &&
           !memcmp(&a->sums, &b->sums, sizeof a->sums) &&
           !memcmp(&a->u->overflow, &b->u->overflow, sizeof a->u->overflow) &&
           !memcmp(&a->u->bounds, &b->u->bounds, sizeof a->u->bounds);
}

int engine_prove(struct engine *e, const char *name, struct err *err)
{
    struct engine    *engine[2] = {NULL, e}; // first this processor
    struct engine_set set[2] = {0};
    struct csd_update u[2];
    size_t            bytes = update_area_bytes(N_PAD, 2, DT_F32);
    int               rc = engine_cpu.open(&engine[0], &(struct csd_config){0}, NULL, NULL, err);

    for (int i = 0; i < 2 && !rc; i++)
        rc = engine[i]->ops->alloc(engine[i], &set[i], bytes, err);
    for (uint64_t round = 0; round < ROUNDS && !rc; round++) {
        for (int i = 0; i < 2 && !rc; i++)
            rc = update(engine[i], &set[i], &u[i], round, err);
        if (!rc && !same(&set[0], &set[1]))
            rc = err_set(err, -EPROTO, "%s makes other bits of an update by %s than siTrain "
                         "defines (number %d of its proof): it cannot be used", name,
                         optim_name(u[0].step.kind), (int)round);
    }
    for (int i = 0; i < 2 && engine[0]; i++)
        engine[i]->ops->release(engine[i], &set[i]);
    if (engine[0])
        engine_cpu.close(engine[0]);
    return rc;
}
