/* test_gathered.c: rank 0 reads the parameters of all ranks, which are threads here
 * (comm_threads.h); and what it says where it, or another rank, cannot read its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/ranks/gathered.h"
#include "tests/comm_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4, MOST = 4, LARGEST = 200001, NEVER = MOST };
static const size_t whole[BLOCKS] = { 70000, LARGEST, 2, 77 };
static const char   broken[] = "the drive of this rank is gone";

struct rank {
    struct run_config cfg;
    size_t            fails; // the rank that cannot read block 1
    float            *got;   // (LARGEST) of rank 0
    int               begun, read, ended;
    struct err        err;
    pthread_t         thread;
};

static float number(size_t block, size_t i) { return (float)(i * BLOCKS + block); }

static int own_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct rank *r = ctx;

    if (block == 1 && r->cfg.ranks.rank == r->fails)
        return err_set(err, -EIO, "%s", broken);
    for (size_t i = 0; i < n; i++)
        out[i] = number(block, run_first(&r->cfg, block) + first + i);
    return 0;
}

/* Whole blocks, and parts that begin and end within portions. */
static int read_all(struct rank *r, struct params_source *all, struct err *err)
{
    int rc = 0;

    for (size_t b = 0; b < BLOCKS && !rc; b++)
        for (size_t first = 0; first < whole[b] && !rc; first += whole[b] / 3 + 1) {
            size_t n = whole[b] - first;

            rc = all->read(all->ctx, b, first, n, r->got, err);
            for (size_t i = 0; i < n && !rc; i++)
                assert_true(r->got[i] == number(b, first + i));
        }
    return rc;
}

static void *rank_main(void *arg)
{
    struct rank         *r = arg;
    struct params_source own = { own_read, r }, all;
    struct gathered     *g;
    struct err           of_reader;

    r->begun = gathered_begin(&g, &r->cfg, &own, &all, &r->err);
    if (!r->begun && !r->cfg.ranks.rank)
        r->read = read_all(r, &all, &of_reader);
    r->ended = gathered_end(g, r->begun ? &of_reader : &r->err);
    if (r->begun || r->ended)
        comm_abort(r->cfg.ranks.comm, 1);
    return NULL;
}

static void run(struct rank *ranks, size_t n, size_t fails)
{
    struct comm_threads *t = comm_threads_new(n);
    float               *got = calloc(LARGEST, sizeof *got);

    assert_non_null(got);
    for (size_t i = 0; i < n; i++) {
        ranks[i] = (struct rank){ .fails = fails, .got = got };
        ranks[i].cfg.ranks = (struct run_ranks){ .rank = i, .size = n, .whole_params = whole,
                                                 .comm = comm_threads_rank(t, i) };
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    size_t left = comm_threads_free(t);
    assert_true(fails < n || !left);
    free(got);
}

static void all_is_read(void **state)
{
    struct rank ranks[MOST];

    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        run(ranks, n, NEVER);
        for (size_t i = 0; i < n; i++)
            assert_true(!ranks[i].begun && !ranks[i].read && !ranks[i].ended);
    }
}

/* It ends all, and the sentence is that of the rank's own read. */
static void one_cannot_read(void **state)
{
    struct rank ranks[MOST];

    (void)state;
    for (size_t fails = 0; fails < 3; fails++) {
        run(ranks, 3, fails);
        for (size_t i = 0; i < 3; i++) {
            int rc = i ? ranks[i].begun : ranks[i].ended;

            assert_int_equal(rc, i == fails ? -EIO : -ECONNABORTED);
            assert_string_equal(ranks[i].err.text,
                                i == fails ? broken : "another rank has ended the job");
        }
        assert_int_equal(ranks[0].read, ranks[0].ended);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read),
        cmocka_unit_test(one_cannot_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
