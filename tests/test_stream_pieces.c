/* test_stream_pieces.c: embeddings in pieces, of which no frame holds all (tests/orders.h), through
 * the streams over devices against the one in memory, bit for bit, and through the one that reads:
 * nothing of it is new to them, since they follow the order that they are given. */
#include "tests/orders.h"
#include "tests/variant.h"

#include "data/base/round.h"
#include "offload/streams.h"

#include <math.h>
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

    cfg.order = order_pieces(PIECES, DEEP, head);
    cfg.n_devices = devices;
    cfg.frames = frames;
    cfg.commit_every = 1;
    cfg.durable = 1;
    return cfg;
}

/* One use of a block: what it reads counts for the loss, and for the gradient if there is one. */
static void use(struct toy *t, struct stream *s, struct order_at at, uint64_t step, double *loss,
                struct stream_norm *norm)
{
    const void *wire = NULL;
    size_t      block = at.block, n = t->cfg.block_params[block];
    float      *grad;
    int         fresh;

    if (at.uses & ORDER_READ)
        must(t, stream_acquire(s, block, &wire, &t->err));
    for (size_t i = 0; wire && i < n; i++)
        *loss += dtype_get(wire, t->cfg.wire_dt, i) * (double)(i % 13);
    if (at.uses & ORDER_ADD) {
        must(t, stream_grad(s, block, &grad, &fresh, &t->err));
        assert_int_equal(fresh, 1);
        for (size_t i = 0; i < n; i++)
            grad[i] = (wire ? 0.1f * dtype_get(wire, t->cfg.wire_dt, i) : 0.01f * (float)(i % 7)) +
                      0.3f * sinf((float)(i * (block + 1) + step));
    }
    if (wire)
        stream_release(s, block);
    if (at.uses & ORDER_SEND)
        must(t, stream_send_grad(s, block, norm, &t->err));
}

static double pass(struct toy *t, struct stream *s, enum stream_pass pass, uint64_t step,
                   struct stream_norm *norm)
{
    const struct order *o = &t->cfg.order;
    double              loss = 0;

    must(t, stream_begin(s, pass, step, &t->err));
    for (size_t i = 0; order_at(o, pass, i).uses; i++)
        use(t, s, order_at(o, pass, i), step, &loss, norm);
    return loss;
}

/* Every other step is clipped. */
static double step_whole(struct toy *t, struct stream *s, uint64_t step)
{
    struct stream_norm norm = { 0 };
    struct stream_step up = { .row = { .step = step } };

    optim_scalars(&up.optim, OPTIM_ADAMW, 1e-2, 0.9, 0.95, 1e-8, 1.0, s->applied + 1);
    stream_expect(s, &up.optim);
    up.row.loss = pass(t, s, STREAM_TRAIN, step, &norm);
    if (step % 2)
        optim_scalars(&up.optim, OPTIM_ADAMW, 1e-2, 0.9, 0.95, 1e-8,
                      1.0 / (1.0 + sqrt(norm.sumsq)), s->applied + 1);
    must(t, stream_update(s, &up, &t->err));
    return up.row.loss;
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
            out.loss[step] = step_whole(&t, s, step);
            if (how == EVALUATED)
                pass(&t, s, STREAM_EVAL, step + 1, NULL);
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

    for (size_t i = 0; i < order_uses(&cfg->order, STREAM_GENERATE, ORDER_READ); i++) {
        size_t block = order_block(&cfg->order, STREAM_GENERATE, ORDER_READ, i);

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

            must(&t, stream_read_open(&s, &source, &t.cfg.order, sizes_of, t.cfg.wire_dt, frames,
                                      &t.err));
            for (int again = 0; again < 3; again++) {
                struct order_reads want =
                    order_reads(&t.cfg.order, STREAM_GENERATE, frames, sizes_of, again);

                before = c;
                assert_true(pass(&t, s, STREAM_GENERATE, 0, NULL) == pass_sum(&t.cfg));
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
