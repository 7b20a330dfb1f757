/* What --activations auto does while it trains, on a machine made up here: steps take as long as
 * its own arithmetic says, which is not what the trainer was told, and others use it, too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/adapt.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 6 };

/* What stands behind the adapter: a stream that says what a byte costs, and how long it takes. */
struct made {
    struct stream  stream; // first
    struct model   model;
    struct adapt   adapt;
    double         told, costs;  // seconds of a byte, each way
    double         load;         // all takes so many times as long
    uint64_t       step;
    struct runlog_choice last;
    size_t         choices;
};

static int made_work(struct stream *s, struct stream_work *out, struct err *err)
{
    const struct made *m = (const struct made *)s;

    (void)err;
    *out = (struct stream_work){ .may_offload = 1, .buffers = 3,
                                 .write = { .down = m->told }, .read = { .up = m->told } };
    return 0;
}

static const struct stream_ops made_ops = { .work = made_work };

/* One second forward, two backward, and one for all layers' parts computed again; the pool has room
 * for all inputs. */
static void made_open(struct made *m, double told, double costs, enum adapt_policy policy)
{
    struct acts_sizes sizes;
    struct err        err;

    *m = (struct made){ .stream = { &made_ops, meter_new(16, 1), 0 }, .told = told, .costs = costs,
                        .load = 1 };
    m->model.o = (struct model_options){
        .config = arch_config(&gpt2_arch, (struct model_config){
            .n_layer = LAYERS, .n_head = 1, .n_embd = 16, .vocab = 16, .n_positions = 64,
            .norm_eps = 1e-5f }),
        .batch = 4, .seq = 64, .grad_accum = 1, .dtype = DT_F32, .threads = 1, .training = 1,
        .placement = placement_recompute(LAYERS, 0) };
    sizes = acts_sizes(&m->model.o);
    m->model.o.pool = LAYERS * sizes.kept_per_layer[ACTS_INPUT];
    assert_int_equal(acts_open(&m->model.acts, &m->model.o, &err), 0);
    adapt_open(&m->adapt, policy, &m->model, &m->stream);
}

static void made_close(struct made *m)
{
    acts_close(&m->model.acts);
    meter_free(m->stream.meter);
}

static double made_again(const struct made *m, enum acts_part part)
{
    const struct placement *w = &m->model.acts.placement;

    return part == ACTS_INPUT ? 0
                              : 0.5 * (double)(LAYERS - w->of[part].kept - w->of[part].offloaded) /
                                    LAYERS;
}

static double made_seconds(const struct made *m)
{
    const struct placement *w = &m->model.acts.placement;
    struct acts_sizes       sizes = acts_sizes(&m->model.o);
    double                  bytes = 0, again = 0;

    for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
        bytes += (double)w->of[p].offloaded * (double)sizes.moved_per_layer[p];
        again += made_again(m, p);
    }
    return m->load * (fmax(1, bytes * m->costs) + fmax(2 + again, bytes * m->costs));
}

/* Train so many steps; noise: of them, others take up to so much more. */
static void made_train(struct made *m, size_t steps, double noise)
{
    struct err err;

    for (; steps > 0; steps--, m->step++) {
        struct runlog_choice choice = { 0 };
        double               again = 0, tokens = (double)model_tokens(&m->model);

        assert_int_equal(adapt_begin(&m->adapt, m->step, &choice, &err), 0);
        m->choices += choice.layers > 0;
        if (choice.layers)
            m->last = choice;
        for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
            double part = made_again(m, p) * m->load;

            again += part;
            m->model.again[p].ns += (uint64_t)(part * 1e9);
            m->model.again[p].tokens += (uint64_t)(made_again(m, p) * 2 * LAYERS * tokens);
        }
        adapt_head(&m->adapt);
        adapt_count(&m->adapt, made_seconds(m) * (1 + noise * rand() / RAND_MAX), m->load,
                    2 * m->load + again, 0);
    }
}

static size_t offloaded(const struct made *m)
{
    const struct placement *w = &m->model.acts.placement;

    return w->of[ACTS_INPUT].offloaded + w->of[ACTS_ATTN].offloaded + w->of[ACTS_MLP].offloaded;
}

/* A link that is as it was said to be: what it carries in the time of computing is offloaded, and
 * no more is looked for. */
static void test_finds(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-7, 1e-7, ADAPT_BEST); // all of it in 0.13 s
    made_train(&m, 30, 0);
    assert_true(offloaded(&m) > LAYERS); // some may be kept, for inputs that go instead
    assert_true(fabs(made_seconds(&m) - 3) < 1e-9);
    size_t choices = m.choices;
    made_train(&m, 25, 0.1);
    assert_int_equal(m.choices, choices);
    made_close(&m);
}

/* A link that is a thousand times as slow as was said: what was tried is taken back, and in the end
 * steps are no longer than without; likewise where others use the machine. */
static void test_takes_back(void **state)
{
    (void)state;
    for (int noise = 0; noise < 20; noise++) {
        struct made m;

        srand((unsigned)noise);
        made_open(&m, 1e-7, 1e-4, ADAPT_BEST);
        made_train(&m, 60, 0.02 * noise);
        assert_true(m.choices >= 2);
        assert_int_equal(offloaded(&m), 0);
        made_close(&m);
    }
}

/* Others are at work until the first placement was measured: what is tried after that takes less
 * time, though it would take more, and is taken back when the first placement was measured once
 * more. */
static void test_first_window(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-7, 1e-4, ADAPT_BEST);
    m.load = 1e3;
    made_train(&m, 5, 0);
    m.load = 1;
    made_train(&m, 60, 0.1);
    assert_true(m.choices >= 2);
    assert_int_equal(offloaded(&m), 0);
    made_close(&m);
}

/* The same speed from the beginning: nothing is tried. */
static void test_leaves_alone(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-4, 1e-4, ADAPT_BEST);
    made_train(&m, 60, 0.2);
    assert_int_equal(m.choices, 0);
    made_close(&m);
}

/* The link becomes slow while it trains: steps are others, and it looks again. */
static void test_looks_again(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-7, 1e-7, ADAPT_BEST);
    made_train(&m, 30, 0.05);
    assert_true(offloaded(&m) > 0);
    m.told = m.costs = 1e-4;
    made_train(&m, 60, 0.05);
    assert_int_equal(offloaded(&m), 0);
    made_close(&m);
}

/* Evaluations leave too few steps in a row for a window: those between them count together. */
static void test_evaluations(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-7, 1e-7, ADAPT_BEST);
    for (size_t i = 0; i < 30; i++) {
        made_train(&m, 2, 0);
        adapt_disturb(&m.adapt);
    }
    assert_true(offloaded(&m) > LAYERS);
    assert_true(fabs(made_seconds(&m) - 3) < 1e-9);
    made_close(&m);
}

static void test_ssdtrain(void **state)
{
    struct made m;

    (void)state;
    made_open(&m, 1e-7, 1e-7, ADAPT_SSDTRAIN);
    made_train(&m, 30, 0.1);
    const struct placement *w = &m.model.acts.placement;
    for (enum acts_part p = 0; p < ACTS_PARTS; p++) // nothing is computed again
        assert_int_equal(w->of[p].kept + w->of[p].offloaded, LAYERS);
    assert_string_equal(m.last.why, "expected to be shorter");
    made_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds),
        cmocka_unit_test(test_takes_back),
        cmocka_unit_test(test_first_window),
        cmocka_unit_test(test_leaves_alone),
        cmocka_unit_test(test_looks_again),
        cmocka_unit_test(test_evaluations),
        cmocka_unit_test(test_ssdtrain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
