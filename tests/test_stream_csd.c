/* test_stream_csd.c: the stream over devices against the one in memory, bit for bit, with a toy
 * model whose gradients are a function of its parameters: modes, devices, subgroup sizes, frames,
 * disks, compression, stops and resumes at any step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "offload/devices.h"
#include "offload/run.h"
#include "offload/traffic.h"
#include "tests/csd_hold.h"
#include "tests/disk_fault.h"
#include "tests/tempdir.h"
#include "tests/toy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 4, BLOCKS = LAYERS + 2, STEPS = 6 };
static const size_t sizes[BLOCKS] = { 30011, 17000, 17000, 17000, 17000, 77 };

struct toy { struct run_config cfg; struct err err; };

static int must(struct toy *t, int rc)
{
    if (rc)
        print_message("%s\n", t->err.text);
    assert_int_equal(rc, 0);
    return rc;
}

static double step_of(struct toy *t, struct stream *s, uint64_t step, int poison, size_t quit)
{
    double loss;

    must(t, toy_step(&t->cfg, s, step, poison, quit, &loss, &t->err));
    return loss;
}

/* Whether updates wait for the norm; if not, on devices that were made with slots for it, or have
 * to do with the few there are. */
enum speculation { WAIT, SPECULATE, SPECULATE_FEW, SPECULATIONS };

/* What a run ends with. */
struct trained { double loss[STEPS]; uint32_t params; };

static uint32_t params_sum(struct toy *t)
{
    uint32_t sum = 0;

    must(t, toy_params_sum(&t->cfg, &sum, &t->err));
    return sum;
}

struct variant {
    enum run_mode mode;
    size_t        devices, csd_mem, frames, grad_buffers;
    const char   *disk;
    enum dtype    dt;
    enum optim_kind optim;
    double        compress;
    int           stop_every; // close without drain after so many steps, and reopen
    int           poison_step; // 0: none
    enum { SENT_IS_ALL, STREAMED, IN_RAM } feedback; // what is not sent: forgotten, or kept where
    size_t quit_block; // before each of these stops half a step is made, to the gradient of this
                       // block; 0: no
};

/* A row of run.db's traffic, added to a meter. */
static int traffic_row(void *ctx, int n, const char **v, const char **names)
{
    struct link_meter *m = ctx;
    int                kind = -1, cls = -1, dir = -1;

    (void)n, (void)names;
    for (int i = 0; i < LINK_KINDS; i++)
        kind = strcmp(v[0], link_kind_names[i]) ? kind : i;
    for (int i = 0; i < LINK_CLASSES; i++)
        cls = strcmp(v[1], link_class_names[i]) ? cls : i;
    for (int i = 0; i < LINK_DIRS; i++)
        dir = strcmp(v[2], link_dir_names[i]) ? dir : i;
    assert_true(kind >= 0 && cls >= 0 && dir >= 0);
    m->bytes[kind][cls][dir] += strtoull(v[3], NULL, 10);
    return 0;
}

/* What a step moved is what was computed, to the byte. */
static void traffic_check(struct toy *t, uint64_t step)
{
    struct traffic_config c = {
        .on_host = t->cfg.mode == RUN_BASE,
        .n_blocks = BLOCKS,
        .block_params = sizes,
        .frames = t->cfg.frames,
        .wire_dt = t->cfg.wire_dt,
        .moments = optim_moments(t->cfg.optim),
        .compress = t->cfg.compress,
        .error_feedback = t->cfg.error_feedback,
        .residual_in_ram = t->cfg.residual_in_ram,
        .records = { .n = toy_records(&t->cfg, step),
                     .bytes = toy_record_bytes(&t->cfg, step),
                     .buffers = t->cfg.records.buffers },
    };
    struct link_meter want, got = { 0 };
    char              sql[128];

    traffic_computed(&want, &c);
    snprintf(sql, sizeof sql,
             "SELECT link, class, direction, bytes FROM traffic_per_step WHERE step = %llu",
             (unsigned long long)step);
    must(t, runlog_query(t->cfg.log, sql, traffic_row, &got, &t->err));
    assert_memory_equal(got.bytes, want.bytes, sizeof got.bytes);
}

/* A run of v in `dir`, just made. */
static void toy_create(struct toy *t, const struct variant *v, enum speculation speculation,
                       const char *dir)
{
    struct runlog *log;
    char           path[4096];

    *t = (struct toy){ 0 };
    snprintf(path, sizeof path, "%s/run.db", dir);
    must(t, runlog_create(&log, path, 0, &t->err));
    t->cfg = (struct run_config){
        .dir = dir,
        .log = log,
        .id = "00112233445566778899aabbccddeeff",
        .mode = v->mode,
        .n_blocks = BLOCKS,
        .block_params = sizes,
        .decay = toy_decay,
        .wire_dt = v->dt,
        .optim = v->optim,
        .compress = v->compress,
        .n_devices = v->devices,
        .csd = &csd_emu,
        .disk = v->disk,
        .csd_mem = v->csd_mem,
        .frames = v->frames,
        .grad_buffers = v->grad_buffers,
        .commit_every = 1,
        .durable = 1,
        .error_feedback = v->feedback != SENT_IS_ALL,
        .residual_in_ram = v->feedback == IN_RAM,
        .speculate = speculation != WAIT,
        .spares = speculation == SPECULATE,
        .read_ahead = v->devices % 2, // one byte, or 64 MiB: more than the model has
    };
    if (v->mode != RUN_MEM) { // none, one or two a layer, through one to three buffers
        t->cfg.records.n = LAYERS * ((v->devices + v->frames) % 3);
        t->cfg.records.bytes = 10007;
        t->cfg.records.buffers = 1 + v->frames % 3;
    }
    must(t, run_format(&t->cfg, &toy_init, &t->err));
}

/* A pass that only reads, of the step to come. */
static double toy_eval(struct toy *t, struct stream *s, uint64_t step)
{
    const void *wire;
    double      sum = 0;

    must(t, stream_begin(s, STREAM_EVAL, step, &t->err));
    for (size_t b = 0; b <= BLOCKS; b++) {
        must(t, stream_acquire(s, b % BLOCKS, &wire, &t->err));
        sum += dtype_get(wire, t->cfg.wire_dt, 1);
        stream_release(s, b % BLOCKS);
    }
    return sum;
}

/* What a skipped step leaves in run.db: all that the others do. */
static int skipped_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    assert_true(strtoull(v[0], NULL, 10) > 0);
    ++*(int *)ctx;
    return 0;
}

static void skipped_check(struct toy *t)
{
    int rows = 0;

    must(t, runlog_query(t->cfg.log, "SELECT peak_rss FROM steps WHERE skipped", skipped_row, &rows,
                         &t->err));
    assert_int_equal(rows, 1);
}

/* evals: passes that only read after each step. */
static struct trained toy_run_evals(const struct variant *v, enum speculation speculation,
                                             int evals)
{
    char           *dir = tempdir_new();
    struct toy      t;
    struct trained  out = { 0 };
    struct stream  *s = NULL;
    char            notice[512];
    uint64_t        step = 0, applied, before = UINT64_MAX;

    toy_create(&t, v, speculation, dir);
    while (step < STEPS) {
        must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
        must(&t, run_position(&t.cfg, &step, &applied, &t.err));
        int stuck = step == before; // stopped before its first commit A: let it through this time

        before = step;
        for (int n = 0; step < STEPS && (v->stop_every == 0 || n < v->stop_every); n++, step++) {
            out.loss[step] = step_of(&t, s, step, v->poison_step && (int)step == v->poison_step, 0);
            for (int e = 0; e < evals; e++)
                toy_eval(&t, s, step + 1);
        }
        if (v->quit_block && step < STEPS)
            step_of(&t, s, step, 0, v->quit_block);
        if (step == STEPS || v->mode == RUN_MEM || stuck)
            must(&t, stream_drain(s, &t.err));
        stream_close(s);
        must(&t, run_position(&t.cfg, &step, &applied, &t.err)); // what was not committed is
                                                                 // computed again
    }
    assert_int_equal(step, STEPS);
    out.params = params_sum(&t);
    if (v->mode != RUN_MEM && v->stop_every == 0 && v->poison_step == 0)
        for (step = 1; step < STEPS; step++) // clipped and not
            traffic_check(&t, step);
    if (v->poison_step)
        skipped_check(&t);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
    return out;
}

static struct trained toy_run(const struct variant *v)
{
    return toy_run_evals(v, WAIT, 0);
}

static void same_evals(const struct variant *v, const struct trained *want, int evals)
{
    for (enum speculation p = WAIT;
         p < (v->mode == RUN_BASE || v->mode == RUN_SUO ? SPECULATIONS : SPECULATE); p++) {
        struct trained got = toy_run_evals(v, p, evals);

        // which one it was, should it fail
        print_message("mode %d devices %zu csd_mem %zu frames %zu disk %s stop %d feedback %d quit "
                      "%zu speculation %d\n",
                      (int)v->mode, v->devices, v->csd_mem, v->frames, v->disk, v->stop_every,
                      (int)v->feedback, v->quit_block, (int)p);
        assert_memory_equal(got.loss, want->loss, sizeof got.loss);
        assert_int_equal(got.params, want->params);
    }
}

static void same(const struct variant *v, const struct trained *want)
{
    same_evals(v, want, 0);
}

static void all_modes_same_bits(void **state)
{
    (void)state;
    static const enum optim_kind kinds[] = { OPTIM_ADAMW, OPTIM_ADAM, OPTIM_SGD, OPTIM_ADAGRAD };

    for (size_t k = 0; k < 4; k++) {
        enum dtype          dt = k % 2 ? DT_F32 : DT_BF16;
        struct variant mem = { RUN_MEM, 1, 1 << 20, 2, 1, "sync", dt, kinds[k], 0, 0, 0, 0, 0 };
        struct trained      want = toy_run(&mem);
        const struct variant v[] = {
            { RUN_BASE, 2, 256 << 10, 3, 2, "uring", dt, kinds[k], 0, 0, 0, 0, 0 },
            { RUN_SU, 1, 128 << 10, 2, 1, "uring", dt, kinds[k], 0, 0, 0, 0, 0 },
            { RUN_SUO, 5, 128 << 10, 4, 2, "uring", dt, kinds[k], 0, 0, 0, 0, 0 },
            { RUN_SUO, 1, 4 << 20, 1, 1, "sync", dt, kinds[k], 0, 2, 0, 0, 0 },
            { RUN_SUO, 2, 200 << 10, 2, 2, "uring", dt, kinds[k], 0, 1, 0, 0, 0 },
        };

        for (size_t i = 0; i < sizeof v / sizeof *v; i++)
            same(&v[i], &want);
    }
}

static void compressed_same_bits(void **state)
{
    (void)state;
    struct variant mem = {
        RUN_MEM, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, 0, 0
    };
    struct trained       want = toy_run(&mem);
    const struct variant v[] = {
        { RUN_BASE, 3, 256 << 10, 3, 2, "uring", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, 0, 0 },
        { RUN_SUO, 1, 128 << 10, 2, 1, "uring", DT_BF16, OPTIM_ADAMW, 0.05, 1, 0, 0, 0 },
        { RUN_SUO, 5, 1 << 20, 4, 2, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, 0, 0 },
    };

    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        same(&v[i], &want);
}

/* Every mode in the variants of error feedback: streamed and in RAM, stopped, poisoned; and it is
 * not the same without it. */
static void error_feedback_same_bits(void **state)
{
    (void)state;
    for (int poison = 0; poison <= 3; poison += 3) {
        const enum dtype      bf = DT_BF16;
        const enum optim_kind adamw = OPTIM_ADAMW;
        struct variant       mem = { RUN_MEM, 1, 1 << 20, 2, 1, "sync", bf, adamw,
                                     0.05, 0, poison, STREAMED, 0 };
        struct trained       want = toy_run(&mem), without;
        const struct variant v[] = {
            { RUN_MEM, 1, 1 << 20, 2, 1, "sync", bf, adamw, 0.05, 1, poison, STREAMED, 3 },
            { RUN_BASE, 3, 256 << 10, 3, 2, "uring", bf, adamw, 0.05, 0, poison, STREAMED, 0 },
            { RUN_BASE, 2, 1 << 20, 2, 1, "uring", bf, adamw, 0.05, 0, poison, IN_RAM, 0 },
            { RUN_SUO, 1, 128 << 10, 2, 1, "uring", bf, adamw, 0.05, 1, poison, STREAMED, 0 },
            { RUN_SUO, 2, 128 << 10, 2, 1, "uring", bf, adamw, 0.05, 2, poison, STREAMED, 2 },
            { RUN_SUO, 1, 128 << 10, 2, 1, "uring", bf, adamw, 0.05, 1, poison, IN_RAM, 0 },
            { RUN_SUO, 5, 1 << 20, 4, 2, "sync", bf, adamw, 0.05, 0, poison, STREAMED, 0 },
            { RUN_SUO, 5, 256 << 10, 1, 2, "sync", bf, adamw, 0.05, 2, poison, IN_RAM, 1 },
            { RUN_SU, 2, 200 << 10, 2, 2, "uring", bf, adamw, 0.05, 0, poison, IN_RAM, 0 },
        };

        for (size_t i = 0; i < sizeof v / sizeof *v; i++)
            // the traffic is that of steps without a stop or a skip
            if (poison || (v[i].mode != RUN_MEM && v[i].stop_every == 0))
                same(&v[i], &want);
        mem.feedback = SENT_IS_ALL;
        without = toy_run(&mem);
        assert_true(without.loss[1] == want.loss[1]); // the first step owes nothing yet
        assert_true(without.loss[2] != want.loss[2]);
        assert_int_not_equal(without.params, want.params);
    }
}

/* A damaged residual is named, and never gets into a gradient. */
static void damaged_residual_is_named(void **state)
{
    (void)state;
    const struct variant v = { RUN_SUO,     1,    1 << 20, 2, 1,      "sync", DT_BF16,
                               OPTIM_ADAMW, 0.05, 0,       0, IN_RAM, 0 };
    char              *dir = tempdir_new(), path[4096], notice[512];
    const void        *wire[BLOCKS];
    struct stream_norm norm = { 0 };
    struct toy         t;
    struct store       st;
    struct stream     *s;
    float             *grad;
    double             loss;
    FILE              *f;
    int                fresh, rc;

    toy_create(&t, &v, WAIT, dir);
    must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
    step_of(&t, s, 0, 0, 0);
    must(&t, stream_drain(s, &t.err));
    stream_close(s);
    must(&t, devices_layout(&st, &t.cfg, &t.err));
    snprintf(path, sizeof path, "%s/dev0/states", dir);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)store_residual_off(&st.subs[st.block_sub[BLOCKS - 1]], 1) + 100,
                           SEEK_SET),
                     0);
    fputc(0x55, f);
    fclose(f);
    store_release(&st);

    must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
    must(&t, toy_forward(&t.cfg, s, 1, wire, &loss, &t.err));
    rc = stream_grad(s, BLOCKS - 1, &grad, &fresh, &t.err); // it is being read by now, and may be
                                                            // known
    assert_int_equal(rc ? rc : stream_send_grad(s, BLOCKS - 1, &norm, &t.err), -EBADMSG);
    assert_non_null(strstr(t.err.text, "the residual of block 5 at offset"));
    stream_close(s);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

static int faulty_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t size,
                       struct err *err)
{
    struct csd_config c = *cfg;

    c.disk_ops = &disk_fault;
    return csd_emu.open(out, &c, notice, size, err);
}

/* Activations that a device did not keep are named, and never get into a gradient; a device that
 * was cut is not made longer again. */
static void lost_records_are_named(void **state)
{
    (void)state;
    const struct variant   v = { RUN_SUO,     2, 1 << 20, 3, 1,           "sync", DT_BF16,
                                 OPTIM_ADAMW, 0, 0,       0, SENT_IS_ALL, 0 };
    struct disk_fault_plan plan = {
        .inner = &disk_sync, .seed = 1, .ops = 1u << DISK_WRITE, .dropped = 1
    };
    struct csd_ops         faulty = csd_emu;
    char                  *dir = tempdir_new(), path[4096], notice[512];
    struct toy             t;
    struct store           st;
    struct stream         *s;
    double                 loss;

    toy_create(&t, &v, WAIT, dir);
    must(&t, devices_layout(&st, &t.cfg, &t.err));
    assert_true(t.cfg.records.n > t.cfg.records.buffers);
    faulty.open = faulty_open;
    t.cfg.csd = &faulty;
    plan.from = st.device_bytes[1];
    plan.to = UINT64_MAX;
    disk_fault_set(&plan);
    must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
    assert_int_equal(toy_step(&t.cfg, s, 0, 0, 0, &loss, &t.err), -EIO);
    assert_non_null(strstr(t.err.text, "the activations of step 1 at offset"));
    stream_close(s);

    snprintf(path, sizeof path, "%s/dev1/states", dir);
    assert_int_equal(truncate(path, (off_t)st.device_bytes[1] - 1), 0);
    assert_int_not_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err), 0);
    assert_non_null(strstr(t.err.text, "bytes, this run needs"));
    store_release(&st);
    runlog_close(t.cfg.log);
    tempdir_remove(dir);
}

static void skipped_steps_leave_states_alone(void **state)
{
    (void)state;
    struct variant mem = { RUN_MEM, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 3, 0, 0 };
    struct trained       want = toy_run(&mem);
    const struct variant          v = { RUN_SUO,     2, 128 << 10, 2, 2, "uring", DT_BF16,
                                        OPTIM_ADAMW, 0, 0,         3, 0, 0 };

    assert_true(want.loss[STEPS - 1] == want.loss[STEPS - 1]); // no NaN got in
    same(&v, &want);
}

/* Waits until an update of the step runs, though its norm is not known; after a clipped step none
 * does. */
static void updated_before_norm(struct stream *s, uint64_t step)
{
    uint64_t ns = 0;

    while (step < 2 && ns == 0)
        ns = meter_total(stream_meter(s), step, PHASE_UPDATE);
    assert_true(step < 2 || meter_total(stream_meter(s), step, PHASE_UPDATE) == 0);
}

static int count_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    *(long *)ctx = atol(v[0]);
    return 0;
}

/* Step 0 is not clipped: what was done ahead stands. Step 1 is: it is done again, beside the table.
 * Step 2 waits for its norm. */
static void updates_do_not_wait(void **state)
{
    (void)state;
        const struct variant v[] = {
            { RUN_SUO, 2, 128 << 10, 2, 2, "uring", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
            { RUN_BASE, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, STREAMED, 0 },
        };

    for (size_t i = 0; i < 4; i++) {
        char          *dir = tempdir_new(), notice[512];
        struct toy     t;
        struct stream *s;
        long           again[3];

        toy_create(&t, &v[i / 2], i % 2 ? SPECULATE_FEW : SPECULATE, dir);
        must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
        toy_before_norm = updated_before_norm;
        for (uint64_t step = 0; step < 3; step++)
            step_of(&t, s, step, 0, 0);
        toy_before_norm = NULL;
        must(&t, stream_drain(s, &t.err));
        stream_close(s);
        for (int step = 0; step < 3; step++) {
            char sql[96];

            traffic_check(&t, (uint64_t)step);
            snprintf(sql, sizeof sql,
                     "SELECT count(*) FROM traffic WHERE phase = 'redo' AND step = %d", step);
            must(&t, runlog_query(t.cfg.log, sql, count_row, &again[step], &t.err));
        }
        assert_true(again[0] == 0 && again[1] > 0 && again[2] == 0);
        runlog_close(t.cfg.log);
        tempdir_remove(dir);
    }
}

/* A commit A that is on its way keeps no update waiting, few as the spare slots are, and the bits
 * are the same. */
static void updates_do_not_wait_for_commit_a(void **state)
{
    (void)state;
        const struct variant v[] = {
            { RUN_SUO, 2, 128 << 10, 2, 2, "uring", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
            { RUN_SU, 1, 128 << 10, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
            { RUN_BASE, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, STREAMED, 0 },
        };

    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct trained want = toy_run(&v[i]);
        char          *dir = tempdir_new(), notice[512];
        struct toy     t;
        struct stream *s;

        toy_create(&t, &v[i], WAIT, dir);
        t.cfg.csd = &csd_hold;
        must(&t, run_train(&s, &t.cfg, notice, sizeof notice, &t.err));
        for (uint64_t step = 0; step < STEPS; step++) {
            if (step == 1)
                must(&t, stream_drain(s, &t.err)); // its own A alone is to wait
            csd_hold_set(step == 1 ? 1u << CSD_FLUSH : 0);
            assert_true(step_of(&t, s, step, 0, 0) == want.loss[step]);
            for (int ms = 0; step == 1 && meter_total(stream_meter(s), step, PHASE_UPDATE) == 0;
                 ms++) {
                assert_true(ms < 20000);
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
            }
        }
        must(&t, stream_drain(s, &t.err));
        stream_close(s);
        assert_int_equal(params_sum(&t), want.params);
        runlog_close(t.cfg.log);
        tempdir_remove(dir);
    }
}

/* Evaluations between the steps change no bit, and no step's traffic (toy_run checks it): not where
 * all layers stay in frames either. */
static void evaluations_between_steps(void **state)
{
    (void)state;
    struct variant mem = { RUN_MEM, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 };
    struct trained       want = toy_run(&mem);
        const struct variant v[] = {
            { RUN_SUO, 2, 200 << 10, 2, 2, "uring", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
            { RUN_BASE, 1, 1 << 20, LAYERS, 1, "uring", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
        };

    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        same_evals(&v[i], &want, 2);
}

/* Most devices hold nothing of most blocks, some nothing at all. */
static void more_devices_than_subgroups(void **state)
{
    (void)state;
    struct variant mem = { RUN_MEM, 1, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 };
    struct trained       want = toy_run(&mem);
    const struct variant          v = { RUN_SUO,     60, 128 << 10, 2, 2, "uring", DT_BF16,
                                        OPTIM_ADAMW, 0,  0,         0, 0, 0 };

    same(&v, &want);
}

/* A run that is stored is not gone on with where nothing is, nor is one read that never was. */
static void nothing_is_stored(void **state)
{
    (void)state;
    struct variant v = { RUN_SUO, 2, 1 << 20, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 };
    struct params_source src;
    struct run_reader   *r;
    struct stream       *s;
    struct toy           t;

    for (int stored = 0; stored < 2; stored++) {
        char *dir = tempdir_new(), notice[512];

        v.disk = stored ? "sync" : "null";
        toy_create(&t, &v, WAIT, dir);
        t.cfg.disk = "null";
        assert_int_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err),
                         stored ? -EINVAL : 0);
        if (!stored) {
            step_of(&t, s, 0, 0, 0);
            must(&t, stream_drain(s, &t.err));
            stream_close(s);
        }
        assert_int_equal(run_reader(&r, &src, &t.cfg, &t.err), -EINVAL);
        runlog_close(t.cfg.log);
        tempdir_remove(dir);
    }
}

/* As far as the faults let it; 0 when the last step is committed. */
static int toy_until_fault(struct toy *t, double *loss, uint64_t *step)
{
    struct stream *s = NULL;
    char           notice[512];
    uint64_t       applied;
    int            rc = run_train(&s, &t->cfg, notice, sizeof notice, &t->err);

    must(t, run_position(&t->cfg, step, &applied, &t->err));
    for (; !rc && *step < STEPS; ++*step)
        rc = toy_step(&t->cfg, s, *step, 0, 0, &loss[*step], &t->err);
    if (!rc)
        rc = stream_drain(s, &t->err);
    stream_close(s);
    return rc;
}

/* Reads, writes and flushes of two devices fail here and there: each ends the stream with a
 * sentence, whatever else is in flight, and the run goes on from its last commit to the same end.
 */
static void faults_lose_nothing(void **state)
{
    (void)state;
        const struct variant v[] = {
            { RUN_SUO, 2, 128 << 10, 2, 2, "sync", DT_BF16, OPTIM_ADAMW, 0, 0, 0, 0, 0 },
            { RUN_SU, 2, 128 << 10, 2, 1, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, IN_RAM, 0 },
            { RUN_BASE, 2, 256 << 10, 3, 2, "sync", DT_BF16, OPTIM_ADAMW, 0.05, 0, 0, STREAMED, 0 },
        };
    struct csd_ops faulty = csd_emu;

    faulty.open = faulty_open;
    for (size_t i = 0; i < SPECULATIONS * (sizeof v / sizeof *v); i++) {
        struct disk_fault_plan plan = { .inner = &disk_sync, .ops = 7 };
        const struct variant  *of = &v[i / SPECULATIONS];
        enum speculation       speculation = i % SPECULATIONS;
        struct variant         mem = *of;
        struct trained         want, got;
        struct toy             t;
        char                  *dir = tempdir_new();
        uint64_t               step = 0;
        int                    rc, failures = 0;

        mem.mode = RUN_MEM;
        want = toy_run(&mem);
        toy_create(&t, of, of->mode == RUN_SU ? WAIT : speculation, dir);
        t.cfg.csd = &faulty;
        do {
            plan.seed++;
            plan.eio = plan.seed >= 60 ? 0
                       : failures      ? 0.003
                                       : 0.03; // surely once; in the end it gets through
            disk_fault_set(&plan);
            rc = toy_until_fault(&t, got.loss, &step);
            failures += rc != 0;
            assert_true(rc == 0 || rc == -EIO);
            assert_true(rc == 0 || strstr(t.err.text, "device "));
        } while (rc);
        t.cfg.csd = &csd_emu;
        got.params = params_sum(&t);
        print_message("%d failures\n", failures);
        assert_true(failures > 0);
        assert_memory_equal(got.loss, want.loss, sizeof got.loss);
        assert_int_equal(got.params, want.params);
        runlog_close(t.cfg.log);
        tempdir_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_modes_same_bits),
        cmocka_unit_test(compressed_same_bits),
        cmocka_unit_test(error_feedback_same_bits),
        cmocka_unit_test(damaged_residual_is_named),
        cmocka_unit_test(lost_records_are_named),
        cmocka_unit_test(skipped_steps_leave_states_alone),
        cmocka_unit_test(updates_do_not_wait),
        cmocka_unit_test(updates_do_not_wait_for_commit_a),
        cmocka_unit_test(evaluations_between_steps),
        cmocka_unit_test(more_devices_than_subgroups),
        cmocka_unit_test(nothing_is_stored),
        cmocka_unit_test(faults_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
