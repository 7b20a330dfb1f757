/* bench_save_moves.c: measures the part of a machine file (bench_save.c) that does not depend on a
 * model: passes over memory and gradients, drives, and updates on devices. */
#include "bench/bench.h"

#include "csd/disk/disk.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/quant/quant.h"
#include "kernels/rng.h"
#include "kernels/update/optim.h"
#include "kernels/update/reduce.h"
#include "kernels/update/topk.h"
#include "plan/machine_file.h"

#include <omp.h>

enum {
    TURNS = 5, LAYERS = 2,
    PASS = 4 << 20, PIECE = 16384, // parameters in a pass; in a piece of an update
    GRAD_BLOCK = 1 << 20,          // parameters in a checksum
    ROWS = 2048,                   // of a pass, if it is a matrix
};

/* ---- passes over memory ---- */

struct passes {
    struct arena memory; float *a, *b, *c, *d; void *scratch; enum dtype dt; enum quant packed;
};

static void pass_memory(const struct passes *p) { residual_add(p->c, p->a, p->b, PASS); }

static volatile uint32_t crc_sink; // otherwise calls of pure functions with unused results vanish

/* Norm and checksum, as in gradients.c. */
static void pass_norm(const struct passes *p)
{
    int                      nonfinite = 0;

    reduce_sumsq(p->a, PASS, &nonfinite, p->scratch);
#pragma omp parallel for schedule(dynamic)
    for (size_t at = 0; at < PASS; at += GRAD_BLOCK)
        crc_sink = crc32c(0, p->a + at, sizeof(float) * GRAD_BLOCK);
}

static void pass_topk(const struct passes *p)
{
    topk_select(p->scratch, p->a, PASS, topk_count(PASS, TRAIN_COMPRESS),
                (char *)p->scratch + sizeof(struct topk_pair) * PASS / 64);
}

/* Updates as stream_mem.c does: pieces on all threads. */
static void pass_update(const struct passes *p)
{
    struct optim_step step;

    optim_scalars(&step, OPTIM_ADAMW, 1e-4, 0.9, 0.999, 1e-8, 1, 10);
#pragma omp parallel for schedule(dynamic, 4)
    for (size_t at = 0; at < PASS; at += PIECE) {
        optim_update(p->b + at, p->c + at, p->d + at, p->a + at, PIECE, 0.01f, &step);
        convert((bf16 *)p->scratch + at, DT_BF16, p->b + at, DT_F32, PIECE);
    }
}

static void pass_unpack(const struct passes *p)
{
    quant_unpack(p->packed, p->c, p->dt, p->b, ROWS, PASS / ROWS);
}

static double pass_seconds(void (*pass)(const struct passes *), const struct passes *p)
{
    double seconds[TURNS];

    for (int turn = -1; turn < TURNS; turn++) {
        uint64_t start_ns = clock_ns();

        pass(p);
        seconds[turn < 0 ? 0 : turn] = (double)(clock_ns() - start_ns) * 1e-9;
    }
    return bench_median(seconds, TURNS);
}

static double unpack_rate(struct passes *p, enum quant packed)
{
    p->packed = packed;
    quant_pack(packed, p->b, p->a, ROWS, PASS / ROWS, p->d);
    return PASS / pass_seconds(pass_unpack, p);
}

int bench_save_passes(struct machine_file *m, const struct bench *b, struct err *err)
{
    struct passes p = { .memory = { .align = ARENA_IO }, .dt = (enum dtype)b->o->train.dtype };
    size_t scratch = topk_scratch(PASS, topk_count(PASS, TRAIN_COMPRESS)) +
                     sizeof(struct topk_pair) * PASS / 64;

    scratch = size_max(size_max(scratch, reduce_scratch(PASS)), 2 * (size_t)PASS);
    for (int laid = 0; laid < 2; laid++) {
        int rc = laid ? arena_map(&p.memory, "arrays for passes", err) : 0;

        if (rc)
            return rc;
        float **each[] = { &p.a, &p.b, &p.c, &p.d };
        for (size_t i = 0; i < 4; i++)
            *each[i] = arena_take(&p.memory, sizeof(float) * PASS);
        p.scratch = arena_take(&p.memory, scratch);
    }
    omp_set_num_threads((int)b->o->train.threads);
    bench_fill(p.memory.base, p.memory.bytes, 0);
    rng_normal(p.a, PASS, 1, 1, 0, 0);
    m->memory = 3 * sizeof(float) * PASS / pass_seconds(pass_memory, &p);
    m->norm = PASS / pass_seconds(pass_norm, &p);
    m->topk = PASS / pass_seconds(pass_topk, &p);
    m->update.host = PASS / pass_seconds(pass_update, &p);
    m->unpack_int8 = unpack_rate(&p, QUANT_INT8);
    m->unpack_nf4 = unpack_rate(&p, QUANT_NF4);
    arena_free(&p.memory);
    return 0;
}

/* ---- drives and their updates ---- */

/* Measures a drive's reads, writes and their mix. A block device is written over. */
static int drive_measure(struct machine_file *m, struct bench *b, size_t device, struct err *err)
{
    struct bench_place *p = NULL;
    struct bench_item   items[BENCH_PATTERNS];
    int                 rc = bench_place_open(&p, b, device, err);

    for (int i = 0; i < BENCH_PATTERNS && !rc; i++)
        items[i] = bench_place_item(p, i);
    rc = rc ? rc : bench_rounds(items, BENCH_PATTERNS, TURNS, 0, err);
    if (!rc && m->n_drives < MACHINE_DRIVES)
        m->drive[m->n_drives++] = (struct step_drive){
            items[BENCH_READ].median, items[BENCH_WRITE].median, items[BENCH_MIXED].median };
    bench_place_close(p);
    return rc;
}

int bench_save_drives(struct machine_file *m, const struct bench *b, struct err *err)
{
    struct bench_opts o = *b->o;
    struct bench      quick = *b; // small files, few turns
    double            seconds = 0;
    int               rc = 0;

    o.quick = 1;
    o.rounds = TURNS;
    quick.o = &o;
    quick.config = arch_config(&gpt2_arch, (struct model_config){
        .n_layer = LAYERS, .n_head = 4, .n_embd = 256, .vocab = 8192,
        .n_positions = o.train.seq, .norm_eps = 1e-5f });
    for (size_t i = 0; i < (b->n_devices ? b->n_devices : 1) && !rc; i++)
        rc = drive_measure(m, &quick, i, err);
    rc = rc ? rc : bench_update_path(&quick, &disk_null, &seconds, err);
    if (rc)
        return rc;
    m->update.engine = 1 / seconds;
    m->emulated = 1;
    rc = bench_update_path(&quick, disk_at((size_t)b->o->train.disk), &seconds, err);
    // states read and written, a gradient read, parameters written
    double bytes = 8.0 * (1 + optim_moments((enum optim_kind)o.train.optimizer)) + 4 +
                   (double)dtype_bytes((enum dtype)o.train.dtype);
    double part = rc ? 1 : bytes / seconds / m->drive->mixed;
    for (size_t i = 0; i < m->n_drives; i++) // the rate that updates reach, not the disk's
        m->drive[i].mixed *= part;
    return rc;
}
