/* test_stream_pieces.c: embeddings in pieces, of which no frame holds all (tests/routes.h), through
 * the streams over devices against the one in memory, bit for bit, and through the one that reads:
 * nothing of it is new to them, since they follow the order that they are given. */
#include "tests/routes.h"
#include "tests/variant.h"

#include "data/base/round.h"
#include "offload/stream/stream_open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PIECES = 5, DEEP = 3, HEAD = 2 };
static const size_t sizes_of[] = { 9000,  9000,  9000,  9000, 5011, 17000,
                                   17000, 17000, 77,    8000, 999 };

/* How a run goes on between its steps: through, stopped and opened again, with evaluations. */
enum interruption { THROUGH, STOPPED, EVALUATED };

static struct run_config config(enum run_mode mode, size_t head, size_t devices, size_t frames)
{
    struct run_config cfg = toy_config(NULL, mode, sizes_of, BLOCKS);

    cfg.route = route_pieces(PIECES, DEEP, head);
    cfg.n_devices = devices;
    cfg.frames = frames;
    cfg.commit_every = 1;
    cfg.durable = 1;
    return cfg;
}

static double pass(struct toy *t, struct stream *s, enum stream_pass pass, uint64_t step)
{
    double loss;

    must(t, toy_pass(&t->cfg, s, pass, step, 0, &loss, NULL, &t->err));
    return loss;
}

static struct trained trained_by(const struct run_config *cfg, enum interruption how)
{
    struct trained out = { 0 };
    struct toy     t;

    toy_make(&t, cfg);
    for (uint64_t step = 0, stops = 0, applied; step < STEPS;) {
        struct stream *s = toy_open(&t);

        must(&t, run_position(&t.cfg, &step, &applied, &t.err));
        for (uint64_t end = how == STOPPED && stops++ < 2 ? size_min(step + 2, STEPS) : STEPS;
             step < end; step++) {
            must(&t, toy_order_step(&t.cfg, s, step, 0, &out.loss[step], &t.err));
            if (how == EVALUATED)
                pass(&t, s, STREAM_EVAL, step + 1);
        }
        if (step == STEPS)
            must(&t, stream_drain(s, &t.err));
        stream_close(s); // some of its steps may have to be made again
        must(&t, run_position(&t.cfg, &step, &applied, &t.err));
    }
    out.params = toy_sum(&t);
    for (uint64_t step = 1; cfg->mode != RUN_MEM && how != STOPPED && step < STEPS; step++)
        variant_traffic(&t, step);
    toy_remove(&t);
    return out;
}

static void compared(size_t head)
{
    static const struct { enum run_mode mode; size_t devices, frames; int speculate; } rows[] = {
        { RUN_BASE, 2, 1, 1 }, { RUN_SU, 1, 2, 0 }, { RUN_SUO, 3, 2, 0 }, { RUN_SUO, 2, 3, 1 },
    };
    struct run_config mem = config(RUN_MEM, head, 1, 2);
    struct trained    want = trained_by(&mem, THROUGH);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (enum interruption how = THROUGH; how <= EVALUATED; how++) {
            struct run_config cfg = config(rows[i].mode, head, rows[i].devices, rows[i].frames);

            cfg.speculate = rows[i].speculate;
            cfg.spares = cfg.speculate ? RUN_SPARES_ALL : RUN_SPARES_HALF;
            struct trained got = trained_by(&cfg, how);
            print_message("row %zu, interruption %d\n", i, (int)how);
            assert_memory_equal(got.loss, want.loss, sizeof got.loss);
            assert_int_equal(got.params, want.params);
        }
}

static void tied_head(void **state)
{
    (void)state;
    compared(0);
}

static void head_of_its_own(void **state)
{
    (void)state;
    compared(HEAD);
}

/* ---- reading */

struct counted { size_t blocks; uint64_t params; };

static int counted_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                        struct err *err)
{
    struct counted *c = ctx;

    (void)err;
    c->blocks += first == 0;
    c->params += n;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(block + 1);
    return 0;
}

/* What pass makes of that. */
static double pass_sum(const struct run_config *cfg)
{
    double sum = 0;

    for (size_t i = 0; i < route_uses(&cfg->route, STREAM_GENERATE, ROUTE_READ); i++) {
        size_t block = route_block(&cfg->route, STREAM_GENERATE, ROUTE_READ, i);

        for (size_t k = 0; k < cfg->block_params[block]; k++)
            sum += (double)(block + 1) * (double)(k % 13);
    }
    return sum;
}

/* Each pass reads what was computed, and gets what it asked for. */
static void reading(void **state)
{
    (void)state;
    for (size_t frames = 1; frames <= DEEP; frames++)
        for (size_t head = 0; head <= HEAD; head += HEAD) {
            struct toy           t = { .cfg = config(RUN_MEM, head, 1, frames) };
            struct counted       c = { 0 }, before;
            struct params_source source = { .read = counted_read, .ctx = &c };
            struct stream       *s;

            must(&t, stream_read_open(&s, &source, &t.cfg.route, sizes_of, t.cfg.wire_dt, frames,
                                      &t.err));
            for (int again = 0; again < 3; again++) {
                struct route_reads want =
                    route_reads(&t.cfg.route, STREAM_GENERATE, frames, sizes_of, again);

                before = c;
                assert_true(pass(&t, s, STREAM_GENERATE, 0) == pass_sum(&t.cfg));
                assert_int_equal(c.blocks - before.blocks, want.blocks);
                assert_int_equal(c.params - before.params, want.params);
            }
            stream_close(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_head),
        cmocka_unit_test(head_of_its_own),
        cmocka_unit_test(reading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
