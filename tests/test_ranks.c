/* test_ranks.c: several ranks train the toy, each as threads of its own in this process
 * (comm_threads.h), with devices, a folder and a journal of its own: the bits of one process with
 * as many groups, whatever the number of ranks, modes, devices, memory, stops, skipped steps and
 * evaluations; and a rank that fails or falls silent ends the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/round.h"
#include "offload/upkeep/recovery.h"
#include "tests/comm_threads.h"
#include "tests/routes.h"
#include "tests/toy_run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 6, STEPS = 6, RANKS = 4, GROUPS = 12, TOTAL = 200077 };

/* Models: one that is trained whole; frozen blocks, and an adapter for each of two layers, of which
 * the last rank alone has parameters. */
static const struct model { size_t blocks, whole[BLOCKS]; } models[] = {
    { 5, { 70000, 40000, 40000, 50000, 77 } },
    { 6, { 70000, 40000, 40000, 9000, 9001, 77 } },
};

/* stop_every: close without drain after so many steps, and go on; poison: the step whose last group
 * has a NaN. fails: the rank that ends in the middle of step 2, and how. */
enum ending { NONE, FAILS, FALLS_SILENT };
struct row {
    size_t        ranks;
    enum run_mode mode;
    size_t        devices, csd_mem, frames, grad_buffers; // of odd ranks a device more
    int           speculate, pieces, stop_every, poison, evals;
    int           frozen; // the second model
    size_t        ending_rank;
    enum ending   ending;
};

/* What a run ends with. */
struct result { double loss[STEPS]; uint64_t skipped; float params[TOTAL]; };

struct rank {
    const struct row *row;
    struct toy        toy;
    struct comm      *comm;
    struct result    *result;
    size_t            portion[BLOCKS];
    uint64_t          step; // that it came to
    int               rc;
    pthread_t         thread;
};

static struct run_config config_of(const struct row *row, struct rank *r, size_t rank)
{
    const size_t     *whole = models[row->frozen].whole, blocks = models[row->frozen].blocks;
    struct run_config cfg = toy_config(NULL, row->mode, whole, blocks);

    cfg.ranks = (struct run_ranks){ .rank = rank, .size = row->ranks, .groups = GROUPS,
                                    .whole_params = row->ranks > 1 ? whole : NULL };
    if (row->ranks > 1) {
        ranks_portions(r->portion, &cfg.ranks, whole, blocks);
        cfg.block_params = r->portion;
        cfg.decay_ctx = &r->toy.cfg;
    }
    if (row->frozen)
        cfg.route = route_adapters(2);
    cfg.n_devices = row->devices + rank % 2;
    cfg.csd_mem = row->csd_mem;
    cfg.frames = row->frames;
    cfg.grad_buffers = row->grad_buffers;
    cfg.speculate = row->speculate;
    cfg.spares = row->speculate ? RUN_SPARES_ALL : rank % 2 ? RUN_SPARES_FEW : RUN_SPARES_HALF;
    cfg.disk = rank % 2 ? "sync" : "uring";
    cfg.durable = row->stop_every > 0;
    if (row->pieces && rank != 1) // of ranks each offloads what it wants
        cfg.acts = toy_acts(&cfg, (size_t)row->pieces, 5003, 3);
    return cfg;
}

/* ---- a rank ---- */

static int evaluate(struct rank *r, struct stream *s, uint64_t step, struct err *err)
{
    struct norm_sum none = { 0 };
    double             loss;

    return toy_pass(&r->toy.cfg, s, STREAM_EVAL, step, 0, &loss, &none, err);
}

/* Its portion of all blocks. */
static int params_read(struct rank *r, struct stream *s, struct err *err)
{
    struct run_config   *cfg = &r->toy.cfg;
    struct params_source src;
    const size_t        *whole = models[r->row->frozen].whole;
    float               *to = r->result->params;
    int                  rc = stream_masters(s, STEPS, &src, err);

    for (size_t b = 0; b < run_blocks(cfg) && !rc; to += whole[b++])
        if (cfg->block_params[b])
            rc = src.read(src.ctx, b, 0, cfg->block_params[b], to + run_first(cfg, b), err);
    int end = stream_masters_end(s, err);
    return rc ? rc : end;
}

static int ends_here(const struct rank *r, uint64_t step)
{
    return r->row->ending && step == 2 && r->toy.cfg.ranks.rank == r->row->ending_rank;
}

static int steps(struct rank *r, struct stream *s, struct err *err)
{
    const struct row *row = r->row;
    int               rc = 0;

    for (int n = 0; r->step < STEPS && !rc && (!row->stop_every || n < row->stop_every); n++) {
        int    poison = row->poison && r->step == (uint64_t)row->poison;
        double loss;

        rc = row->frozen ? toy_order_step(&r->toy.cfg, s, r->step, poison, &loss, err)
                         : toy_step(&r->toy.cfg, s, r->step, poison,
                                    ends_here(r, r->step) ? 2 : 0, &loss, err);
        if (!rc && ends_here(r, r->step))
            return err_set(err, -EIO, "it ends here");
        if (!rc && r->toy.cfg.ranks.rank == 0)
            r->result->loss[r->step] = loss;
        if (!rc)
            r->step++;
        for (int e = 0; e < row->evals && !rc; e++)
            rc = evaluate(r, s, r->step, err);
    }
    if (rc || r->step < STEPS)
        return rc;
    rc = stream_drain(s, err);
    return rc ? rc : params_read(r, s, err);
}

static int live(struct rank *r, struct err *err)
{
    struct stream *s = NULL;
    uint64_t       applied;
    char           notice[512];
    int            rc = recovery_run(&r->toy.cfg, err);

    rc = rc ? rc : run_position(&r->toy.cfg, &r->step, &applied, err);
    rc = rc ? rc : run_train(&s, &r->toy.cfg, notice, sizeof notice, err);
    rc = rc ? rc : stream_drain(s, err);
    rc = rc ? rc : steps(r, s, err);
    stream_close(s);
    return rc;
}

static void *rank_main(void *rank)
{
    struct rank *r = rank;

    r->rc = live(r, &r->toy.err);
    if (r->rc == -EIO && r->row->ending == FAILS)
        comm_abort(r->comm, 1);
    return NULL;
}

/* ---- a job ---- */

/* All ranks go on from their last commits, in one more job; how many messages nobody took. */
static size_t job(struct rank *ranks, size_t n)
{
    struct comm_threads *t = comm_threads_new(n);

    for (size_t i = 0; i < n; i++) {
        ranks[i].comm = comm_threads_rank(t, i);
        ranks[i].comm->patience = ranks[i].row->ending == FALLS_SILENT ? 0.3 : 60;
        ranks[i].toy.cfg.ranks.comm = n > 1 ? ranks[i].comm : NULL;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    return comm_threads_free(t);
}

static void ranks_make(struct rank *ranks, const struct row *row, struct result *result)
{
    for (size_t i = 0; i < row->ranks; i++) {
        struct run_config cfg = config_of(row, &ranks[i], i);

        ranks[i].row = row;
        ranks[i].result = result;
        toy_make(&ranks[i].toy, &cfg);
        ranks[i].toy.cfg.decay_ctx = cfg.decay_ctx;
    }
}

static void ranks_remove(struct rank *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        toy_remove(&ranks[i].toy);
}

static int flag_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    *(uint64_t *)ctx |= (uint64_t)1 << atoi(v[0]);
    return 0;
}

/* From its making to its end. */
static void train(const struct row *row, struct result *result)
{
    struct rank ranks[RANKS] = { 0 };
    uint64_t    before = 0;

    memset(result, 0, sizeof *result);
    ranks_make(ranks, row, result);
    for (int stuck = 0; ranks[0].step < STEPS; before = ranks[0].step) {
        size_t left = job(ranks, row->ranks);

        for (size_t i = 0; i < row->ranks; i++)
            must(&ranks[i].toy, ranks[i].rc);
        assert_true(left == 0);
        stuck = ranks[0].step == before ? stuck + 1 : 0;
        assert_true(stuck < 50); // a stop may come before the commit, again and again
    }
    must(&ranks[0].toy, runlog_query(ranks[0].toy.cfg.log, "SELECT step FROM steps WHERE skipped",
                                     flag_row, &result->skipped, &ranks[0].toy.err));
    ranks_remove(ranks, row->ranks);
}

static void compare(const struct row *rows, size_t n, const struct row *alone)
{
    struct result *want = malloc(sizeof *want), *got = malloc(sizeof *got);

    train(alone, want);
    assert_int_equal(want->skipped, alone->poison ? 1u << alone->poison : 0);
    for (size_t i = 0; i < n; i++) {
        print_message("%zu ranks, row %zu\n", rows[i].ranks, i);
        train(&rows[i], got);
        assert_memory_equal(got->loss, want->loss, sizeof got->loss);
        assert_memory_equal(got->params, want->params, sizeof got->params);
        assert_int_equal(got->skipped, want->skipped);
    }
    free(want);
    free(got);
}

/* ---- tests ---- */

static const struct row one = { 1, RUN_SUO, 1, 1 << 20, 2, .grad_buffers = 1 };

static void same_bits(void **state)
{
    static const struct row rows[] = {
        { 1, RUN_BASE, 2, 256 << 10, 3, 2, .speculate = 1, .pieces = 3, .evals = 1 },
        { 2, RUN_SUO, 1, 256 << 10, 2, .grad_buffers = 1 },
        { 2, RUN_BASE, 2, 128 << 10, 4, 3, .speculate = 1, .evals = 2 },
        { 3, RUN_SU, 1, 1 << 20, 1, 2, .pieces = 4 },
        { 3, RUN_SUO, 2, 128 << 10, 3, 1, .speculate = 1, .pieces = 5, .evals = 1 },
        { 4, RUN_SUO, 1, 128 << 10, 2, .grad_buffers = 2 },
        { 4, RUN_BASE, 1, 256 << 10, 4, 1, .evals = 1 },
    };

    (void)state;
    compare(rows, sizeof rows / sizeof *rows, &one);
}

static void stops_between_steps(void **state)
{
    static const struct row rows[] = {
        { 2, RUN_SUO, 1, 128 << 10, 2, 1, .stop_every = 2 },
        { 3, RUN_SUO, 2, 128 << 10, 4, 2, .stop_every = 2, .speculate = 1 },
        { 4, RUN_BASE, 1, 256 << 10, 2, 1, .stop_every = 3, .evals = 1 },
    };

    (void)state;
    compare(rows, sizeof rows / sizeof *rows, &one);
}

/* The NaN is in one group, of one rank, in one's portion of block 2. */
static void skipped_everywhere(void **state)
{
    static const struct row rows[] = {
        { 2, RUN_SUO, 1, 128 << 10, 2, 1, .poison = 3, .speculate = 1 },
        { 3, RUN_BASE, 2, 128 << 10, 3, 2, .poison = 3 },
        { 4, RUN_SU, 1, 256 << 10, 2, 1, .poison = 3, .stop_every = 2 },
    };
    struct row alone = one;

    (void)state;
    alone.poison = 3;
    compare(rows, sizeof rows / sizeof *rows, &alone);
}

/* Ranks without a trained parameter take part in all of it. */
static void frozen_blocks(void **state)
{
    static const struct row rows[] = {
        { 2, RUN_SUO, 1, 128 << 10, 2, 1, .frozen = 1, .speculate = 1, .evals = 1 },
        { 2, RUN_BASE, 2, 128 << 10, 1, 2, .frozen = 1, .stop_every = 2 },
        { 3, RUN_SU, 1, 128 << 10, 3, 1, .frozen = 1, .stop_every = 3, .poison = 3 },
    };
    struct row alone = one;

    (void)state;
    alone.frozen = 1;
    compare(rows, 2, &alone);
    alone.poison = 3;
    compare(rows + 2, 1, &alone);
}

/* In the middle of a step, with gathers and exchanges under way: the others end, too, with the
 * reason; and all go on from there. */
static void one_ends_all_end(void **state)
{
    static const struct row rows[] = {
        { 2, RUN_SUO, 1, 128 << 10, 2, 1, .ending = FAILS, .ending_rank = 1 },
        { 3, RUN_BASE, 1, 128 << 10, 3, 2, .ending = FAILS, .ending_rank = 0 },
        { 2, RUN_SUO, 1, 128 << 10, 2, 1, .ending = FALLS_SILENT, .ending_rank = 0 },
        { 3, RUN_SU, 1, 256 << 10, 3, 2, .ending = FALLS_SILENT, .ending_rank = 2 },
    };
    struct result *result = calloc(1, sizeof *result);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rank ranks[RANKS] = { 0 };
        struct row  on = rows[i];
        char        name[64];
        size_t      named = 0;

        ranks_make(ranks, &rows[i], result);
        job(ranks, rows[i].ranks);
        snprintf(name, sizeof name, "rank %zu (thread %zu) has not answered", rows[i].ending_rank,
                 rows[i].ending_rank);
        for (size_t r = 0; r < rows[i].ranks; r++) {
            if (r == rows[i].ending_rank)
                assert_int_equal(ranks[r].rc, -EIO);
            else if (rows[i].ending == FAILS)
                assert_int_equal(ranks[r].rc, -ECONNABORTED);
            else
                assert_int_equal(ranks[r].rc, -ETIMEDOUT);
            named += strstr(ranks[r].toy.err.text, name) != NULL;
        }
        assert_true(rows[i].ending == FAILS || named >= 1);
        on.ending = NONE;
        for (size_t r = 0; r < on.ranks; r++)
            ranks[r].row = &on;
        assert_int_equal(job(ranks, on.ranks), 0);
        for (size_t r = 0; r < on.ranks; r++)
            must(&ranks[r].toy, ranks[r].rc);
        ranks_remove(ranks, on.ranks);
    }
    free(result);
}

/* What a resume does is known from where the journals are: one step apart, its update not begun, is
 * a crash; all else is folders of several times. */
static void judged(void **state)
{
    static const struct {
        struct recovery_position all[3];
        int                      does[3];
        const char              *says;
    } rows[] = {
        { { { 5, 5, 5, 5, { 0 }, 0 }, { 5, 5, 4, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 } },
          { 0, 0, 0 }, "" },
        { { { 6, 6, 5, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 6, 6, 5, 5, { 0 }, 0 } },
          { 1, 0, 1 }, "" },
        { { { 6, 5, 5, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 6, 5, 5, 5, { 0 }, 0 } },
          { 1, 0, 1 }, "" }, // was skipped
        { { { 6, 6, 6, 6, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 } },
          { -EBADMSG, 0, 0 }, "has begun" },
        { { { 6, 6, 5, 6, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 } },
          { -EBADMSG, 0, 0 }, "has begun" },
        { { { 6, 6, 5, 5, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 7, 7, 6, 6, { 0 }, 0 } },
          { 1, 0, -EBADMSG }, "another time" },
        { { { 5, 5, 5, 5, { 0 }, 0 }, { 5, 4, 4, 4, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 } },
          { 0, -EBADMSG, 0 }, "4 updates" },
        { { { 6, 6, 5, 5, { 8, 7 }, 0 }, { 5, 5, 5, 5, { 7, 1 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 } },
          { 1, 0, 0 }, "" },
        { { { 6, 6, 5, 5, { 7, 8 }, 0 }, { 5, 5, 5, 5, { 7, 1 }, 0 }, { 5, 5, 5, 5, { 9, 1 }, 0 } },
          { -EBADMSG, 0, -EBADMSG }, "another loss" },
        { { { 6, 6, UINT64_MAX, 0, { 0 }, 0 }, { 5, 5, 5, 5, { 0 }, 0 }, { 6, 6, 5, 5, { 0 }, 0 } },
          { 1, 0, 1 }, "" }, // the first one has nothing to update
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t r = 0; r < 3; r++) {
            struct err err = { 0 };

            assert_int_equal(recovery_check(rows[i].all, 3, r, "it", &err), rows[i].does[r]);
            if (rows[i].does[r] < 0)
                assert_non_null(strstr(err.text, rows[i].says));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judged),
        cmocka_unit_test(same_bits), cmocka_unit_test(stops_between_steps),
        cmocka_unit_test(skipped_everywhere), cmocka_unit_test(frozen_blocks),
        cmocka_unit_test(one_ends_all_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
