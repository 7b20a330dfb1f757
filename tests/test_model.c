/* test_model.c: the whole model against PyTorch (tests/fixtures): losses, every gradient, 24 steps
 * of each optimizer; kept and recomputed activations give the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixture.h"
#include "tests/rig.h"

static void check_gradients(const char *path, const char *prefix, enum dtype dtype,
                            enum matmul_engine engine, size_t kept, size_t wide_batch,
                            size_t wide_seq)
{
    struct fixture *f = fixture_open(path);
    size_t batch, seq, total;
    struct model_config config = rig_config(f, &batch, &seq);
    struct trainer_options o;
    struct rig_rows   rows;
    struct rig    rig;
    struct step_result result;
    struct err    err = { 0 };
    char   name[64];
    double expected, worst;

    if (wide_batch) {
        batch = wide_batch;
        seq = wide_seq;
    }
    rows = (struct rig_rows){fixture_i32(f, wide_batch ? "wide_x" : "x", batch * seq),
                         fixture_i32(f, wide_batch ? "wide_y" : "y", batch * seq), batch * seq, 1};
    o = rig_options(config, batch, seq, dtype, engine);
    rig_placement(&o, kept < config.n_layer ? kept : config.n_layer);
    total = arch_total(&config);
    rig = rig_open(&o, fixture_f32(f, "params", total), 0, 0);
    assert_int_equal(train_step(rig.trainer, 0, &(struct batch_source){ rig_batch, &rows },
                                &result, &err),
                     0);

    snprintf(name, sizeof name, "%sloss", prefix);
    expected = (double)fixture_f32(f, name, 1)[0];
    assert_true(fabs(result.loss - expected) / expected < (dtype == DT_F32 ? 1e-5 : 5e-3));
    snprintf(name, sizeof name, "%sgrads", prefix);
    if (dtype == DT_F32)
        worst = compare_tensors(&config, stream_plain_grads(rig.stream),
                                fixture_f32(f, name, total), max_distance, 1e-5);
    else
        worst = compare_tensors(&config, stream_plain_grads(rig.stream),
                                fixture_f32(f, name, total), norm_distance, 2e-2);
    print_message("%s %s%s, %s: loss off by %.1e, worst gradient by %.1e\n", path, prefix,
                  dtype == DT_F32 ? "fp32" : "bf16", trainer_engine(rig.trainer),
                  fabs(result.loss - expected) / expected, worst);
    assert_int_equal(result.tokens, batch * seq);
    assert_false(result.skipped);
    rig_close(&rig);
    fixture_close(f);
}

static void test_gradients_fp32(void **state)
{
    (void)state;
    for (size_t e = 0; e < 2; e++)
        for (size_t kept = 0; kept <= 3; kept += 3) {
            check_gradients("tests/fixtures/gpt_a.fix", "", DT_F32, rig_engine(e), kept, 0, 0);
            check_gradients("tests/fixtures/gpt_b.fix", "", DT_F32, rig_engine(e), kept, 0, 0);
        }
}

/* 1,200 tokens: more than a chunk of the layers; of the head two, each in two pieces, and a
 * remainder. */
static void test_gradients_over_chunks(void **state)
{
    (void)state;
    for (size_t e = 0; e < 2; e++) {
        check_gradients("tests/fixtures/gpt_a.fix", "wide_", DT_F32, rig_engine(e), 1, 50, 24);
        if (rig_runs_bf16(rig_engine(e)))
            check_gradients("tests/fixtures/gpt_a.fix", "wide_", DT_BF16, rig_engine(e), 1, 50, 24);
    }
}

static void test_gradients_bf16(void **state)
{
    (void)state;
    assert_true(rig_runs_bf16(MATMUL_OPENBLAS));
    for (size_t e = 0; e < 2; e++) {
        if (!rig_runs_bf16(rig_engine(e)))
            continue;
        check_gradients("tests/fixtures/gpt_a.fix", "bf16_", DT_BF16, rig_engine(e), 0, 0, 0);
        check_gradients("tests/fixtures/gpt_b.fix", "bf16_", DT_BF16, rig_engine(e), 3, 0, 0);
    }
}

/* ---- 24 steps ---- */

enum { STEPS = 24, ACCUM = 2 };

struct trajectory {
    enum optim_kind    kind;
    enum schedule_kind schedule;
    double             lr, min_lr;
    float              decay;
    double             eps;
};

static const struct trajectory trajectories[] = { // as make_fixtures.py has them
    { OPTIM_ADAMW,   SCHEDULE_COSINE, 2e-3, 2e-4, 0.1f,  1e-8 },
    { OPTIM_ADAM,    SCHEDULE_LINEAR, 2e-3, 0.0,  0.01f, 1e-8 },
    { OPTIM_SGD,     SCHEDULE_LINEAR, 5e-2, 5e-3, 0.01f, 0 },
    { OPTIM_ADAGRAD, SCHEDULE_COSINE, 1e-2, 1e-3, 0.01f, 1e-10 },
};

/* Train 24 steps, activations as rig_placement has them; params[0..total) as they end. losses and
 * norms NULL: not compared. */
static void train(const struct trajectory *tr, size_t how, enum dtype dtype, float *params,
                  const float *losses, const float *norms)
{
    struct fixture *model = fixture_open("tests/fixtures/gpt_a.fix"),
                   *steps = fixture_open("tests/fixtures/steps.fix");
    size_t batch, seq, tokens;
    struct model_config config = rig_config(model, &batch, &seq);
    struct trainer_options o = rig_options(config, batch, seq, dtype, MATMUL_AUTO);
    struct rig_rows rows;
    struct rig  rig;
    struct step_result result;
    struct err  err = { 0 };
    int         clipped = 0;

    tokens = STEPS * ACCUM * batch * seq;
    rows = (struct rig_rows){ fixture_i32(steps, "x", tokens), fixture_i32(steps, "y", tokens),
                          batch * seq, ACCUM };
    o.model.grad_accum = ACCUM;
    rig_placement(&o, how);
    o.model.threads = 1; // tiny products: threads would wait for each other most of the time
    o.schedule = (struct schedule){ tr->schedule, tr->lr, tr->min_lr, 5, 20, 0 };
    o.clip = 1.0;
    o.optim = tr->kind;
    o.eps = tr->eps;
    rig = rig_open(&o, fixture_f32(model, "params", 0), tr->decay, 0);
    for (uint64_t s = 0; s < STEPS; s++) {
        assert_int_equal(train_step(rig.trainer, s, &(struct batch_source){ rig_batch, &rows },
                                    &result, &err),
                         0);
        clipped += result.clipped;
        if (losses && !(fabs(result.loss / (double)losses[s] - 1) < 1e-5))
            fail_msg("%s step %d: loss %.9g, expected %.9g", optim_name(tr->kind), (int)s,
                     result.loss, (double)losses[s]);
        if (norms && !(fabs(result.grad_norm / (double)norms[s] - 1) < 1e-4))
            fail_msg("%s step %d: norm %.9g, expected %.9g", optim_name(tr->kind), (int)s,
                     result.grad_norm, (double)norms[s]);
    }
    assert_true(clipped > 0);
    assert_int_equal(rig.stream->applied, STEPS);
    memcpy(params, stream_plain_params(rig.stream), arch_total(&config) * sizeof *params);
    rig_close(&rig);
    fixture_close(model);
    fixture_close(steps);
}

static void test_steps(void **state)
{
    struct fixture *model = fixture_open("tests/fixtures/gpt_a.fix"),
                   *steps = fixture_open("tests/fixtures/steps.fix");
    size_t batch, seq, total;
    struct model_config config = rig_config(model, &batch, &seq);
    float *kept, *again;

    (void)state;
    total = arch_total(&config);
    kept = malloc(total * sizeof *kept);
    again = malloc(total * sizeof *again);
    assert_true(kept && again);
    for (size_t i = 0; i < sizeof trajectories / sizeof trajectories[0]; i++) {
        const char *name = optim_name(trajectories[i].kind);
        char        key[3][64];

        snprintf(key[0], sizeof key[0], "%s_losses", name);
        snprintf(key[1], sizeof key[1], "%s_norms", name);
        snprintf(key[2], sizeof key[2], "%s_params", name);
        train(&trajectories[i], config.n_layer, DT_F32, kept, fixture_f32(steps, key[0], STEPS),
              fixture_f32(steps, key[1], STEPS));
        print_message("%s: parameters off by %.1e\n", name,
                      compare_tensors(&config, kept, fixture_f32(steps, key[2], total),
                                      max_distance, 1e-4));
        train(&trajectories[i], 1, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
        train(&trajectories[i], 0, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
        train(&trajectories[i], RIG_OFFLOAD + i % config.n_layer, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    train(&trajectories[0], config.n_layer, DT_BF16, kept, NULL, NULL);
    for (size_t i = 0; i < 17; i++) {
        const size_t how[] = { 0, RIG_OFFLOAD, RIG_OFFLOAD + config.n_layer, RIG_AUTO,
                               RIG_AUTO + 1 };

        train(&trajectories[0], i < 5 ? how[i] : RIG_MIXED + i, DT_BF16, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    free(kept);
    free(again);
    fixture_close(model);
    fixture_close(steps);
}

/* ---- evaluation, skipping, sizes ---- */

static void test_eval(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_b.fix");
    size_t batch, seq, N;
    struct model_config config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, batch, seq, DT_F32, MATMUL_AUTO);
    struct rig_rows rows;
    struct err  err = { 0 };
    struct eval_result train_eval = { 0 }, plain_eval = { 0 };
    struct rig  rig;
    int32_t    *y;
    float      *losses;

    (void)state;
    N = batch * seq;
    y = malloc(N * sizeof *y);
    losses = malloc(N * sizeof *losses);
    memcpy(y, fixture_i32(f, "y", N), N * sizeof *y);
    y[3] = -1; // a target that does not count
    rows = (struct rig_rows){ fixture_i32(f, "x", N), y, N, 1 };
    for (o.model.training = 1; o.model.training >= 0; o.model.training--) {
        struct eval_result *e = o.model.training ? &train_eval : &plain_eval;

        rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
        assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rig_batch, &rows }, 0,
                                   1, losses, e, &err),
                         0);
        assert_int_equal(e->tokens, N - 1);
        assert_true(losses[3] == 0);
        losses[3] = fixture_f32(f, "losses", N)[3];
        assert_true(max_distance(losses, fixture_f32(f, "losses", N), N, 0) < 1e-5);
        rig_close(&rig);
    }
    assert_true(train_eval.loss_sum == plain_eval.loss_sum);
    free(y);
    free(losses);
    fixture_close(f);
}

enum { WIDE_BATCH = 50, WIDE_SEQ = 24, WIDE = WIDE_BATCH * WIDE_SEQ };

/* The mean loss of gpt_a's wide batch, and each token's. */
static double wide_losses(const struct fixture *f, int training, enum dtype dtype,
                          enum matmul_engine engine, float *losses)
{
    size_t                 batch, seq;
    struct model_config      config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, WIDE_BATCH, WIDE_SEQ, dtype, engine);
    struct rig_rows        rows = { fixture_i32(f, "wide_x", WIDE), fixture_i32(f, "wide_y", WIDE),
                                    WIDE, 1 };
    struct eval_result     eval = { 0 };
    struct err             err = { 0 };
    struct rig             rig;

    o.model.training = training;
    rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
    assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rig_batch, &rows }, 0, 1,
                               losses, &eval, &err),
                     0);
    assert_int_equal(eval.tokens, WIDE);
    rig_close(&rig);
    return eval.loss_sum / WIDE;
}

/* More tokens than the head makes logits of at a time, for which a training model and one that only
 * evaluates have other memory. */
static void test_eval_over_chunks(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix");
    double          want = (double)fixture_f32(f, "wide_loss", 1)[0];
    static float    exact[WIDE], losses[2][WIDE];

    (void)state;
    wide_losses(f, 1, DT_F32, MATMUL_OPENBLAS, exact);
    for (size_t e = 0; e < 2; e++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++) {
            if (dt == DT_BF16 && !rig_runs_bf16(rig_engine(e)))
                continue;
            for (int training = 0; training < 2; training++) {
                double loss = wide_losses(f, training, dt, rig_engine(e), losses[training]);

                assert_true(fabs(loss / want - 1) < (dt == DT_F32 ? 1e-5 : 5e-3));
            }
            assert_memory_equal(losses[0], losses[1], sizeof exact);
            assert_true(max_distance(losses[0], exact, WIDE, 0) < (dt == DT_F32 ? 1e-5 : 5e-3));
        }
    fixture_close(f);
}

/* ---- gradients that come with anything in them ---- */

enum { SLOTS = 4 };

/* Steps whose micro-batches have these rows of gpt_a's wide batch, each from where the one before
 * it ended; behind its last comes its first again. They vary, or are all as large as the first.
 * Every step has all rows equally often, or none. */
static const struct spread { int varying; size_t accum, rows[SLOTS]; } spreads[] = {
    { 1, 4, { 50 } },            { 1, 4, { 0, 0, 50, 0 } }, { 1, 4, { 0, 7, 0, 43 } },
    { 1, 4, { 45, 0, 4, 1 } },   { 1, 4, { 0 } },
    { 0, 2, { 25, 25 } }, // 600 tokens: a chunk of the head and a remainder
    { 0, 2, { 50, 50 } }, // 1,200: of the layers too
};

struct spread_rows { const int32_t *x, *y; const struct spread *spread; };

static int spread_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct spread_rows *s = ctx;
    size_t                    first = 0;

    (void)step, (void)err;
    for (size_t a = 0; a < micro; a++)
        first += s->spread->rows[a];
    first = first % WIDE_BATCH * b->seq;
    b->rows = s->spread->rows[micro];
    memcpy(b->x, s->x + first, b->rows * b->seq * sizeof *b->x);
    memcpy(b->y, s->y + first, b->rows * b->seq * sizeof *b->y);
    return 0;
}

static void check_spread(const struct fixture *f, const struct spread *spread, enum dtype dtype,
                         enum matmul_engine engine)
{
    size_t batch, seq, most = spread->varying ? WIDE_BATCH : spread->rows[0], all = 0;
    struct model_config      config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, most, WIDE_SEQ, dtype, engine);
    struct spread_rows     rows = { fixture_i32(f, "wide_x", WIDE), fixture_i32(f, "wide_y", WIDE),
                                    spread };
    struct step_result     result;
    struct err             err = { 0 };
    struct rig             rig;
    const float           *grads;

    o.model.grad_accum = spread->accum;
    o.model.threads = 1; // tiny products
    o.model.varying = spread->varying;
    rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
    grads = stream_plain_grads(rig.stream);
    for (size_t a = 0; a < spread->accum; a++)
        all += spread->rows[a];
    assert_int_equal(train_step(rig.trainer, 0, &(struct batch_source){ spread_batch, &rows },
                                &result, &err),
                     0);
    assert_true(!result.skipped && (all || result.loss == 0)); // nothing counts: no loss
    if (all)
        compare_tensors(&config, grads, fixture_f32(f, "wide_grads", arch_total(&config)),
                        dtype == DT_F32 ? max_distance : norm_distance,
                        dtype == DT_F32 ? 1e-5 : 2e-2);
    for (size_t k = 0; !all && k < arch_total(&config); k++)
        assert_true(grads[k] == 0.0f);
    rig_close(&rig);
}

/* A step over the stream, which lends gradients full of NaN: every value is written before it is
 * added to, by the first chunk of the first micro-batch that is not empty; with none, all are 0. */
static void test_fresh_gradients(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix");

    (void)state;
    for (size_t e = 0; e < 2; e++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            for (size_t i = 0; i < sizeof spreads / sizeof spreads[0]; i++)
                if (dt == DT_F32 || rig_runs_bf16(rig_engine(e)))
                    check_spread(f, &spreads[i], dt, rig_engine(e));
    fixture_close(f);
}

/* Label smoothing, and NEFTune's noise, against PyTorch: transformers' LabelSmoother, and its hook
 * on the embeddings with this noise. */
static void test_habits(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix"),
                   *want = fixture_open("tests/fixtures/habits.fix");
    size_t              batch, seq;
    struct model_config config = rig_config(f, &batch, &seq);
    size_t              total = arch_total(&config);
    struct rig_rows     rows = { fixture_i32(f, "x", batch * seq),
                                 fixture_i32(f, "y", batch * seq), batch * seq, 0 };
    struct batch_source data = { rig_batch, &rows };
    struct err          err;

    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct trainer_options o = rig_options(config, batch, seq, DT_F32, MATMUL_OPENBLAS);
        struct step_result     got;
        double loss = (double)fixture_f32(want, noisy ? "neftune_loss" : "smooth_loss", 1)[0];

        o.model.smoothing = noisy ? 0 : 0.1f;
        o.model.neftune = noisy ? 5 : 0;
        o.model.dropout.seed = 7;
        struct rig rig = rig_open(&o, fixture_f32(f, "params", total), 0, 0);
        assert_int_equal(train_step(rig.trainer, 3, &data, &got, &err), 0);
        print_message("%s: loss %.7f, PyTorch's %.7f\n", noisy ? "noise" : "smoothing", got.loss,
                      loss);
        assert_true(fabs(got.loss / loss - 1) < 1e-6);
        compare_tensors(&config, stream_plain_grads(rig.stream),
                        fixture_f32(want, noisy ? "neftune_grads" : "smooth_grads", total),
                        max_distance, 1e-5);
        rig_close(&rig);
    }
    fixture_close(f);
    fixture_close(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_fp32),
        cmocka_unit_test(test_gradients_over_chunks),
        cmocka_unit_test(test_gradients_bf16),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_eval),
        cmocka_unit_test(test_eval_over_chunks),
        cmocka_unit_test(test_fresh_gradients),
        cmocka_unit_test(test_habits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
