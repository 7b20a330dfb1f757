/* The mem mode against the same steps written down naively: bits of masters and wire copies, dense
 * and compressed, through resume, kill, skip, and damaged images. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/db/runlog_parts.h"
#include "kernels/reduce.h"
#include "kernels/rng.h"
#include "kernels/topk.h"
#include "offload/image.h"
#include "offload/run.h"
#include "offload/stream_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4 };

static const size_t sizes[BLOCKS] = { 40001, 70000, 70000, 33 };

struct fixture {
    char              dir[64], db[96];
    struct runlog    *log;
    struct run_config cfg;
    struct stream    *s;
};

static float init_value(size_t block, size_t i)
{
    return rng_uniform(1, block, i) - 0.5f;
}

static int init_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)err;
    if (ctx)
        return err_set(err, -EIO, "no values for block %zu", block);
    for (size_t i = 0; i < n; i++)
        out[i] = init_value(block, first + i);
    return 0;
}

/* The first 20,000 parameters of a block decay, the others do not. */
static void decay(void *ctx, size_t block, size_t first, size_t n,
                  void (*emit)(void *, size_t, size_t, float), void *ectx)
{
    size_t cut = first < 20000 ? 20000 - first : 0;

    (void)ctx, (void)block;
    cut = cut < n ? cut : n;
    if (cut)
        emit(ectx, 0, cut, 0.1f);
    if (n > cut)
        emit(ectx, cut, n - cut, 0.0f);
}

static float grad_value(uint64_t step, size_t block, size_t i)
{
    return rng_uniform(2 + step, block, i) - 0.5f;
}

/* The oracle. */

struct oracle {
    float   *w[BLOCKS], *m[BLOCKS], *v[BLOCKS], *g[BLOCKS], *owed[BLOCKS];
    uint64_t applied;
};

static void oracle_init(struct oracle *o)
{
    o->applied = 0;
    for (size_t b = 0; b < BLOCKS; b++) {
        o->w[b] = malloc(sizes[b] * sizeof(float));
        o->m[b] = calloc(sizes[b], sizeof(float));
        o->v[b] = calloc(sizes[b], sizeof(float));
        o->g[b] = malloc(sizes[b] * sizeof(float));
        o->owed[b] = calloc(sizes[b], sizeof(float));
        for (size_t i = 0; i < sizes[b]; i++)
            o->w[b][i] = init_value(b, i);
    }
}

static void oracle_release(struct oracle *o)
{
    for (size_t b = 0; b < BLOCKS; b++) {
        free(o->w[b]);
        free(o->m[b]);
        free(o->v[b]);
        free(o->g[b]);
        free(o->owed[b]);
    }
}

static void oracle_compress(float *g, size_t n, double ratio)
{
    size_t            k = topk_count(n, ratio);
    struct topk_pair *pairs = malloc(k * sizeof *pairs);
    void             *scratch = malloc(topk_scratch(n, k));

    topk_select(pairs, g, n, k, scratch);
    memset(g, 0, n * sizeof *g);
    for (size_t i = 0; i < k; i++)
        g[pairs[i].index] = pairs[i].value;
    free(pairs);
    free(scratch);
}

static struct optim_step scalars(const struct run_config *cfg, uint64_t t)
{
    struct optim_step s;

    optim_scalars(&s, cfg->optim, 1e-2, 0.9, 0.99, 1e-8, 0.7, t);
    return s;
}

static void oracle_step(struct oracle *o, const struct run_config *cfg, uint64_t step)
{
    struct optim_step s = scalars(cfg, ++o->applied);

    for (size_t b = 0; b < BLOCKS; b++) {
        size_t cut = sizes[b] < 20000 ? sizes[b] : 20000;

        for (size_t i = 0; i < sizes[b]; i++)
            o->g[b][i] = o->owed[b][i] += grad_value(step, b, i);
        if (cfg->compress > 0.0)
            oracle_compress(o->g[b], sizes[b], cfg->compress);
        for (size_t i = 0; i < sizes[b]; i++)
            if (!cfg->error_feedback || o->g[b][i] != 0.0f)
                o->owed[b][i] = 0.0f;
        optim_update(o->w[b], o->m[b], o->v[b], o->g[b], cut, 0.1f, &s);
        optim_update(o->w[b] + cut, o->m[b] + cut, o->v[b] + cut, o->g[b] + cut, sizes[b] - cut,
                     0.0f, &s);
    }
}

/* The fixture. */

static void open_run(struct fixture *f)
{
    struct err err = { 0 };

    if (runlog_open(&f->log, f->db, 0, f->cfg.durable, &err))
        fail_msg("%s", err.text);
    f->cfg.log = f->log;
    if (stream_mem_open(&f->s, &f->cfg, &err))
        fail_msg("%s", err.text);
}

static void close_run(struct fixture *f)
{
    stream_close(f->s);
    runlog_close(f->log);
    f->s = NULL;
    f->log = NULL;
}

static int setup(void **state)
{
    struct fixture             *f = calloc(1, sizeof *f);
    const struct params_source init = { .read = init_read };
    struct err                 err = { 0 };

    strcpy(f->dir, "/var/tmp/sitrain-mem-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->db, sizeof f->db, "%s/run.db", f->dir);
    f->cfg = (struct run_config){ .dir = f->dir,
                                  .id = "0123",
                                  .mode = RUN_MEM,
                                  .n_blocks = BLOCKS,
                                  .block_params = sizes,
                                  .decay = decay,
                                  .wire_dt = DT_BF16,
                                  .optim = OPTIM_ADAMW };
    assert_int_equal(runlog_create(&f->log, f->db, 0, &err), 0);
    f->cfg.log = f->log;
    if (image_format(&f->cfg, &init, &err))
        fail_msg("%s", err.text);
    runlog_close(f->log);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture          *f = *state;
    static const char *const names[] = { "run.db",   "run.db-wal", "run.db-shm",
                                         "run.lock", "image0",     "image1" };
    char                     path[128];

    if (f->log)
        close_run(f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* Gradients in the order of a real step; block 0's is asked for twice, as a tied head does. */
static void step_grads(struct fixture *f, uint64_t step, struct stream_norm *norm)
{
    struct err err;
    float     *g, *again;
    int        fresh;

    assert_int_equal(stream_begin(f->s, STREAM_TRAIN, step, &err), 0);
    assert_int_equal(stream_grad(f->s, 0, &g, &fresh, &err), 0);
    assert_true(fresh);
    g[0] = 1.0f;
    assert_int_equal(stream_grad(f->s, 0, &again, &fresh, &err), 0);
    assert_ptr_equal(g, again);
    assert_true(!fresh && again[0] == 1.0f);
    for (size_t b = BLOCKS; b-- > 0;) {
        assert_int_equal(stream_grad(f->s, b, &g, &fresh, &err), 0);
        assert_int_equal(fresh, b > 0);
        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = grad_value(step, b, i);
        assert_int_equal(stream_send_grad(f->s, b, norm, &err), 0);
    }
}

static void run_step(struct fixture *f, uint64_t step)
{
    struct stream_norm norm = { 0 };
    struct stream_step up = { .row = { .step = step, .loss = 1.5 },
                              .optim = scalars(&f->cfg, stream_applied(f->s) + 1) };
    struct err         err = { 0 };

    step_grads(f, step, &norm);
    assert_false(norm.nonfinite);
    if (stream_update(f->s, &up, &err))
        fail_msg("%s", err.text);
}

static void same_wire(struct fixture *f, const struct oracle *o)
{
    for (size_t b = 0; b < BLOCKS; b++) {
        const void *wire;
        size_t      wrong = 0;
        struct err  err;

        assert_int_equal(stream_acquire(f->s, b, &wire, &err), 0);
        assert_int_equal((uintptr_t)wire % 64, 0);
        for (size_t i = 0; i < sizes[b]; i++)
            if (f->cfg.wire_dt == DT_F32)
                wrong += memcmp((const float *)wire + i, &o->w[b][i], 4) != 0;
            else
                wrong += ((const bf16 *)wire)[i] != bf16_from_f32(o->w[b][i]);
        assert_int_equal(wrong, 0);
        stream_release(f->s, b);
    }
}

/* What is committed, through the reader, in odd parts; while the stream is open, its images are its
 * alone. */
static void same_masters(struct fixture *f, const struct oracle *o)
{
    struct image_reader   *r;
    struct params_source source;
    struct err           err = { 0 };
    float                part[9973];

    stream_close(f->s);
    if (image_reader(&r, &source, &f->cfg, &err))
        fail_msg("%s", err.text);
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < sizes[b]; i += 9973) {
            size_t n = sizes[b] - i < 9973 ? sizes[b] - i : 9973;

            assert_int_equal(source.read(source.ctx, b, i, n, part, &err), 0);
            assert_memory_equal(part, o->w[b] + i, n * sizeof *part);
        }
    image_reader_close(r);
    if (stream_mem_open(&f->s, &f->cfg, &err))
        fail_msg("%s", err.text);
}

/* A second process is refused, whatever became of run.lock; a descriptor of our own counts as one.
 */
static void test_images_are_locked(void **state)
{
    struct fixture *f = *state;
    struct stream  *second;
    struct err      err = { 0 };

    open_run(f);
    assert_int_equal(stream_mem_open(&second, &f->cfg, &err), -EBUSY);
    assert_non_null(strstr(err.text, "image0 is in use by another process"));
    for (unsigned area = 0; area < IMAGE_AREAS; area++) { // the other one is the next to be
                                                          // committed
        char path[128];
        int  fd;

        image_path(&f->cfg, area, path, sizeof path);
        fd = open(path, O_RDONLY);
        assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), -1);
        close(fd);
    }
}

static void expect_position(struct fixture *f, uint64_t step, uint64_t applied)
{
    uint64_t   s, a;
    struct err err = { 0 };

    if (run_position(&f->cfg, &s, &a, &err))
        fail_msg("%s", err.text);
    assert_int_equal(s, step);
    assert_int_equal(a, applied);
}

static int one_number(void *ctx, int n, const char **values, const char **names)
{
    (void)names;
    assert_int_equal(n, 1);
    *(double *)ctx = values[0] ? atof(values[0]) : NAN;
    return 0;
}

static double query(struct fixture *f, const char *sql)
{
    double     x = -1.0;
    struct err err = { 0 };

    if (runlog_query(f->log, sql, one_number, &x, &err))
        fail_msg("%s", err.text);
    return x;
}

/* The tests. */

static void steps_equal(struct fixture *f)
{
    struct oracle o;
    struct err    err;

    oracle_init(&o);
    open_run(f);
    expect_position(f, 0, 0);
    same_wire(f, &o);
    same_masters(f, &o);
    for (uint64_t t = 0; t < 4; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
        same_wire(f, &o);
    }
    assert_int_equal(stream_applied(f->s), 4);
    expect_position(f, 0, 0);
    assert_int_equal(stream_drain(f->s, &err), 0);
    expect_position(f, 4, 4);
    same_masters(f, &o);
    close_run(f);
    open_run(f); // moments came back too
    run_step(f, 4);
    oracle_step(&o, &f->cfg, 4);
    same_wire(f, &o);
    oracle_release(&o);
}

static void test_adamw(void **state)
{
    steps_equal(*state);
}

static void test_fp32_compressed(void **state)
{
    struct fixture *f = *state;

    f->cfg.wire_dt = DT_F32;
    f->cfg.compress = 0.02;
    steps_equal(f);
}

static void test_norm(void **state)
{
    struct fixture    *f = *state;
    struct stream_norm norm = { 0 };
    double             want = 0.0;

    f->cfg.compress = 0.02; // of the uncompressed gradient all the same
    open_run(f);
    step_grads(f, 0, &norm);
    for (size_t b = BLOCKS; b-- > 0;) {
        float *g = malloc(sizes[b] * sizeof *g);
        void  *scratch = malloc(reduce_scratch(sizes[b]));
        int    nonfinite = 0;

        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = grad_value(0, b, i);
        want += reduce_sumsq(g, sizes[b], &nonfinite, scratch);
        free(scratch);
        free(g);
    }
    assert_memory_equal(&norm.sumsq, &want, sizeof want);
}

/* A step with a NaN goes by without a trace in the states; its gradient does not reach the next
 * one. */
static void test_skip(void **state)
{
    struct fixture    *f = *state;
    struct oracle      o;
    struct stream_norm norm = { 0 };
    struct stream_step up = { .row = { .step = 1, .skipped = 1 }, .skip = 1 };
    struct err         err;
    float             *g;
    int                fresh;

    f->cfg.compress = 0.02;
    f->cfg.commit_every = 1;
    oracle_init(&o);
    open_run(f);
    run_step(f, 0);
    oracle_step(&o, &f->cfg, 0);
    assert_int_equal(stream_begin(f->s, STREAM_TRAIN, 1, &err), 0);
    for (size_t b = BLOCKS; b-- > 0;) {
        assert_int_equal(stream_grad(f->s, b, &g, &fresh, &err), 0);
        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = 0.0f;
        if (b == 2)
            g[69999] = NAN;
        assert_int_equal(stream_send_grad(f->s, b, &norm, &err), 0);
    }
    assert_true(norm.nonfinite);
    assert_int_equal(stream_update(f->s, &up, &err), 0);
    same_wire(f, &o);
    assert_int_equal(stream_applied(f->s), 1);
    expect_position(f, 2, 1);
    run_step(f, 2);
    oracle_step(&o, &f->cfg, 2);
    same_wire(f, &o);
    oracle_release(&o);
}

/* Closed without a drain, as a kill: the steps since the last image are computed again, to the same
 * bits and one row each. */
static void test_kill(void **state)
{
    struct fixture *f = *state;
    struct oracle   o;

    f->cfg.commit_every = 2;
    f->cfg.durable = 1;
    oracle_init(&o);
    open_run(f);
    for (uint64_t t = 0; t < 5; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
    }
    assert_true(query(f, "PRAGMA synchronous") == 1.0);
    close_run(f);
    open_run(f);
    expect_position(f, 4, 4);
    assert_int_equal(stream_applied(f->s), 4);
    assert_true(query(f, "SELECT COUNT(*) FROM steps") == 5.0);
    run_step(f, 4);
    same_wire(f, &o);
    assert_true(query(f, "SELECT COUNT(*) FROM steps") == 5.0);
    assert_true(query(f, "SELECT loss FROM steps WHERE step = 4") == 1.5);
    assert_true(query(f, "SELECT seconds > 0 AND peak_rss > 1000000 FROM steps WHERE step = 4") ==
                1.0);
    assert_true(query(f, "SELECT COUNT(*) FROM spans WHERE step = 4 AND phase = 'update'") == 1.0);
    assert_true(query(f, "SELECT COUNT(*) FROM spans WHERE step = 3 AND phase = 'commit'") == 1.0);
    oracle_release(&o);
}

/* Without --commit-every the only commits are drains; the areas alternate. */
static void test_alternate(void **state)
{
    struct fixture    *f = *state;
    struct image_state s;
    struct err         err;

    open_run(f);
    for (uint64_t t = 0; t < 3; t++) {
        run_step(f, t);
        assert_int_equal(stream_drain(f->s, &err), 0);
        assert_int_equal(stream_drain(f->s, &err), 0); // nothing is uncommitted: nothing is written
        assert_int_equal(image_latest(&f->cfg, &s, &err), 0);
        assert_int_equal(s.area, (t + 1) % 2);
        assert_int_equal(s.step, t + 1);
    }
}

static void image_poke(struct fixture *f, unsigned area, off_t at)
{
    char          path[128];
    unsigned char byte;
    int           fd;

    image_path(&f->cfg, area, path, sizeof path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void expect_refused(struct fixture *f, const char *what, const char *rest)
{
    struct err           err = { 0 };
    struct stream       *s;
    struct image_reader   *r;
    struct params_source source;

    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(stream_mem_open(&s, &f->cfg, &err), -EBADMSG);
    assert_null(s);
    if (!strstr(err.text, what) || !strstr(err.text, rest))
        fail_msg("%s", err.text);
    assert_int_equal(image_reader(&r, &source, &f->cfg, &err), -EBADMSG);
    assert_null(r);
    runlog_close(f->log);
    f->log = NULL;
}

static void test_damage(void **state)
{
    struct fixture *f = *state;
    char            path[128];
    struct err      err;

    f->cfg.commit_every = 1;
    open_run(f);
    run_step(f, 0); // image1
    close_run(f);
    image_poke(f, 1, (off_t)image_block_offset(&f->cfg, 2) + 12345);
    expect_refused(f, "/image1: block 2 at offset 1320012 is damaged: its checksum is ",
                   "; the last whole committed state is that after step 0, in image0");
    image_poke(f, 0, 7);
    expect_refused(f, "/image1: block 2", "; no other whole committed state is left");
    image_poke(f, 1, (off_t)image_block_offset(&f->cfg, 2) + 12345); // mended
    open_run(f); // the other area's damage does not matter
    run_step(f, 1);
    assert_int_equal(stream_drain(f->s, &err), 0);
    close_run(f);
    image_path(&f->cfg, 0, path, sizeof path);
    assert_int_equal(truncate(path, (off_t)image_block_offset(&f->cfg, 1) + 5), 0);
    expect_refused(f, "/image0: block 1 is cut off at offset 480017, it should end at 1320012",
                   "; the last whole committed state is that after step 1, in image1");
}

static void test_damaged_row(void **state)
{
    struct fixture *f = *state;
    struct err      err = { 0 };

    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(sqlite3_exec(f->log->db.sql,
                                  "UPDATE journal_image SET applied = 9 WHERE block = 3", NULL,
                                  NULL, NULL),
                     0);
    runlog_close(f->log);
    expect_refused(f, "row 3 of image0 in the journal is damaged", "");
}

/* A source that fails leaves nothing behind. */
static void test_format_fails(void **state)
{
    struct fixture            *f = *state;
    const struct params_source broken = { .read = init_read, .ctx = f };
    char                       path[128];
    struct err                 err = { 0 };

    image_path(&f->cfg, 0, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &broken, &err), -EIO);
    assert_string_equal(err.text, "no values for block 0");
    assert_int_equal(access(path, F_OK), -1); // and teardown finds the folder without anything else
    runlog_close(f->log);
    f->log = NULL;
}

/* What was not sent is owed: through steps, a skip, a clean stop and the resume. */
static void test_error_feedback(void **state)
{
    struct fixture            *f = *state;
    const struct params_source init = { .read = init_read };
    struct oracle              o;
    struct stream_norm         norm = { 0 };
    struct stream_step         skipped = { .row = { .step = 1 }, .skip = 1 };
    struct err                 err = { 0 };

    f->cfg.compress = 0.05;
    f->cfg.error_feedback = 1;
    unlink(f->db); // an image without residuals
    assert_int_equal(runlog_create(&f->log, f->db, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &init, &err), 0);
    runlog_close(f->log);
    open_run(f);
    oracle_init(&o);
    run_step(f, 0);
    oracle_step(&o, &f->cfg, 0);
    step_grads(f, 1, &norm); // these blocks' gradients are sent, and then the step is skipped
    assert_int_equal(stream_update(f->s, &skipped, &err), 0);
    run_step(f, 2);
    oracle_step(&o, &f->cfg, 2);
    same_wire(f, &o);
    assert_int_equal(stream_drain(f->s, &err), 0);
    close_run(f);
    open_run(f);
    for (uint64_t t = 3; t < 5; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
        same_wire(f, &o);
    }
    oracle_release(&o);
}

/* The other optimizers have one moment, and images of another size. */
static void test_one_moment(void **state)
{
    struct fixture            *f = *state;
    const struct params_source init = { .read = init_read };
    struct run_memory          mem;
    struct oracle              o;
    struct err                 err = { 0 };
    char                       db2[128];

    snprintf(db2, sizeof db2, "%s/run2.db", f->dir);
    f->cfg.optim = OPTIM_SGD;
    assert_int_equal(runlog_create(&f->log, db2, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &init, &err), 0);
    assert_int_equal(stream_mem_open(&f->s, &f->cfg, &err), 0);
    oracle_init(&o);
    for (uint64_t t = 0; t < 3; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
    }
    same_wire(f, &o);
    stream_mem_memory(&f->cfg, &mem);
    assert_int_equal(mem.device_bytes, 2 * 8 * 180034);
    assert_int_equal(mem.layer_grad, 280000);
    oracle_release(&o);
    close_run(f);
    unlink(db2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adamw, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fp32_compressed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_norm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_skip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alternate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_format_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_error_feedback, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_images_are_locked, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
