/* test_model.c: the whole model against PyTorch (tests/fixtures): losses, every gradient, 24 steps
 * of each optimizer; kept and recomputed activations give the same bits; what is not finite is
 * skipped. */
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

/* Batches from an array of micro-batches. */
struct rows { const int32_t *x, *y; size_t micro_tokens, accum; };

static int rows_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    struct rows *r = ctx;
    size_t       at = (step * r->accum + micro) * r->micro_tokens;

    (void)err;
    memcpy(b->x, r->x + at, r->micro_tokens * sizeof *b->x);
    memcpy(b->y, r->y + at, r->micro_tokens * sizeof *b->y);
    return 0;
}

static struct gpt_config config_of(const struct fixture *f, size_t *batch, size_t *seq)
{
    const int32_t *c = fixture_i32(f, "config", 7);

    *batch = (size_t)c[5];
    *seq = (size_t)c[6];
    return (struct gpt_config){.n_layer = (size_t)c[0],
                               .n_head = (size_t)c[1],
                               .n_embd = (size_t)c[2],
                               .vocab = (size_t)c[3],
                               .n_positions = (size_t)c[4],
                               .norm_eps = 1e-5f};
}

static struct trainer_options options(struct gpt_config gpt, size_t batch, size_t seq,
                                      enum dtype dtype, enum matmul_engine engine)
{
    return (struct trainer_options){
        .model = {.gpt = gpt,
                  .batch = batch,
                  .seq = seq,
                  .grad_accum = 1,
                  .dtype = dtype,
                  .engine = engine,
                  .threads = 2,
                  .kept = gpt.n_layer,
                  .training = 1},
        .schedule = {.kind = SCHEDULE_CONSTANT, .lr = 1e-3},
        .optim = OPTIM_ADAMW,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
    };
}

static void check_gradients(const char *path, const char *prefix, enum dtype dtype,
                            enum matmul_engine engine, size_t kept, size_t wide_batch,
                            size_t wide_seq)
{
    struct fixture *f = fixture_open(path);
    size_t batch, seq, total;
    struct gpt_config gpt = config_of(f, &batch, &seq);
    struct trainer_options o;
    struct rows   rows;
    struct rig    rig;
    struct step_result result;
    struct err    err = { 0 };
    char   name[64];
    double expected, worst;

    if (wide_batch) {
        batch = wide_batch;
        seq = wide_seq;
    }
    rows = (struct rows){fixture_i32(f, wide_batch ? "wide_x" : "x", batch * seq),
                         fixture_i32(f, wide_batch ? "wide_y" : "y", batch * seq), batch * seq, 1};
    o = options(gpt, batch, seq, dtype, engine);
    o.model.kept = kept < gpt.n_layer ? kept : gpt.n_layer;
    total = gpt_total(&gpt);
    rig = rig_open(&o, fixture_f32(f, "params", total), 0, 0);
    assert_int_equal(train_step(rig.trainer, 0, &(struct batch_source){ rows_batch, &rows },
                                &result, &err),
                     0);

    snprintf(name, sizeof name, "%sloss", prefix);
    expected = (double)fixture_f32(f, name, 1)[0];
    assert_true(fabs(result.loss - expected) / expected < (dtype == DT_F32 ? 1e-5 : 5e-3));
    snprintf(name, sizeof name, "%sgrads", prefix);
    if (dtype == DT_F32)
        worst = compare_tensors(&gpt, stream_plain_grads(rig.stream), fixture_f32(f, name, total),
                                max_distance, 1e-5);
    else
        worst = compare_tensors(&gpt, stream_plain_grads(rig.stream), fixture_f32(f, name, total),
                                norm_distance, 2e-2);
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

/* oneDNN has bf16 products on CPUs with AVX-512 only. */
static int runs_bf16(enum matmul_engine engine)
{
    struct matmul_shape shape = { .form = MATMUL_NN, .m = 4, .n = 4, .k = 4, .ab_dt = DT_BF16 };
    struct matmul      *mm = NULL;
    char why[512];
    int  rc = matmul_open(&mm, engine, &shape, 1, 1, why, sizeof why);

    matmul_close(mm);
    if (rc)
        print_message("not here: %s\n", why);
    return !rc;
}

/* 1,200 tokens: more than a chunk of the layers; of the head two, each in two pieces, and a
 * remainder. */
static void test_gradients_over_chunks(void **state)
{
    (void)state;
    for (size_t e = 0; e < 2; e++) {
        check_gradients("tests/fixtures/gpt_a.fix", "wide_", DT_F32, rig_engine(e), 1, 50, 24);
        if (runs_bf16(rig_engine(e)))
            check_gradients("tests/fixtures/gpt_a.fix", "wide_", DT_BF16, rig_engine(e), 1, 50, 24);
    }
}

static void test_gradients_bf16(void **state)
{
    (void)state;
    assert_true(runs_bf16(MATMUL_OPENBLAS));
    for (size_t e = 0; e < 2; e++) {
        if (!runs_bf16(rig_engine(e)))
            continue;
        check_gradients("tests/fixtures/gpt_a.fix", "bf16_", DT_BF16, rig_engine(e), 0, 0, 0);
        check_gradients("tests/fixtures/gpt_b.fix", "bf16_", DT_BF16, rig_engine(e), 3, 0, 0);
    }
}

/* ---- 24 steps
 * ------------------------------------------------------------------------------------------ */

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

/* Added to the number of layers that keep their activations: the others' are offloaded, or from the
 * third step on. */
enum { OFFLOAD = 100, AUTO = 200 };

/* Train 24 steps; params[0..total) as they end. losses and norms NULL: not compared. */
static void train(const struct trajectory *tr, size_t kept, enum dtype dtype, float *params,
                  const float *losses, const float *norms)
{
    struct fixture *model = fixture_open("tests/fixtures/gpt_a.fix"),
                   *steps = fixture_open("tests/fixtures/steps.fix");
    size_t batch, seq, tokens;
    struct gpt_config gpt = config_of(model, &batch, &seq);
    struct trainer_options o = options(gpt, batch, seq, dtype, MATMUL_AUTO);
    struct rows rows;
    struct rig  rig;
    struct step_result result;
    struct err  err = { 0 };
    int         clipped = 0;

    tokens = STEPS * ACCUM * batch * seq;
    rows = (struct rows){ fixture_i32(steps, "x", tokens), fixture_i32(steps, "y", tokens),
                          batch * seq, ACCUM };
    o.model.grad_accum = ACCUM;
    o.model.kept = kept % OFFLOAD;
    o.model.offload = kept >= AUTO ? ACTS_AUTO : kept >= OFFLOAD ? ACTS_OFFLOAD : ACTS_STAY;
    o.model.threads = 1; // tiny products: threads would wait for each other most of the time
    o.schedule = (struct schedule){ tr->schedule, tr->lr, tr->min_lr, 5, 20 };
    o.clip = 1.0;
    o.optim = tr->kind;
    o.eps = tr->eps;
    rig = rig_open(&o, fixture_f32(model, "params", 0), tr->decay, 0);
    for (uint64_t s = 0; s < STEPS; s++) {
        assert_int_equal(train_step(rig.trainer, s, &(struct batch_source){ rows_batch, &rows },
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
    assert_int_equal(stream_applied(rig.stream), STEPS);
    memcpy(params, stream_plain_params(rig.stream), gpt_total(&gpt) * sizeof *params);
    rig_close(&rig);
    fixture_close(model);
    fixture_close(steps);
}

static void test_steps(void **state)
{
    struct fixture *model = fixture_open("tests/fixtures/gpt_a.fix"),
                   *steps = fixture_open("tests/fixtures/steps.fix");
    size_t batch, seq, total;
    struct gpt_config gpt = config_of(model, &batch, &seq);
    float *kept, *again;

    (void)state;
    total = gpt_total(&gpt);
    kept = malloc(total * sizeof *kept);
    again = malloc(total * sizeof *again);
    assert_true(kept && again);
    for (size_t i = 0; i < sizeof trajectories / sizeof trajectories[0]; i++) {
        const char *name = optim_name(trajectories[i].kind);
        char        key[3][64];

        snprintf(key[0], sizeof key[0], "%s_losses", name);
        snprintf(key[1], sizeof key[1], "%s_norms", name);
        snprintf(key[2], sizeof key[2], "%s_params", name);
        train(&trajectories[i], gpt.n_layer, DT_F32, kept, fixture_f32(steps, key[0], STEPS),
              fixture_f32(steps, key[1], STEPS));
        print_message("%s: parameters off by %.1e\n", name,
                      compare_tensors(&gpt, kept, fixture_f32(steps, key[2], total), max_distance,
                                      1e-4));
        train(&trajectories[i], 1, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
        train(&trajectories[i], 0, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
        train(&trajectories[i], OFFLOAD + i % gpt.n_layer, DT_F32, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    train(&trajectories[0], gpt.n_layer, DT_BF16, kept, NULL, NULL);
    for (size_t i = 0; i < 5; i++) {
        const size_t how[] = { 0, OFFLOAD, OFFLOAD + gpt.n_layer, AUTO, AUTO + 1 };

        train(&trajectories[0], how[i], DT_BF16, again, NULL, NULL);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    free(kept);
    free(again);
    fixture_close(model);
    fixture_close(steps);
}

/* ---- evaluation, skipping, sizes
 * ----------------------------------------------------------------------- */

static void test_eval(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_b.fix");
    size_t batch, seq, N;
    struct gpt_config gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, batch, seq, DT_F32, MATMUL_AUTO);
    struct rows rows;
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
    rows = (struct rows){ fixture_i32(f, "x", N), y, N, 1 };
    for (o.model.training = 1; o.model.training >= 0; o.model.training--) {
        struct eval_result *e = o.model.training ? &train_eval : &plain_eval;

        rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
        assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rows_batch, &rows }, 0,
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
    struct gpt_config      gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, WIDE_BATCH, WIDE_SEQ, dtype, engine);
    struct rows rows = { fixture_i32(f, "wide_x", WIDE), fixture_i32(f, "wide_y", WIDE), WIDE, 1 };
    struct eval_result     eval = { 0 };
    struct err             err = { 0 };
    struct rig             rig;

    o.model.training = training;
    rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
    assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rows_batch, &rows }, 0, 1,
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
            if (dt == DT_BF16 && !runs_bf16(rig_engine(e)))
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

/* The loss of step `step` with dropout, its gradients in *grads. scale moves the parameters along
 * `along`. */
static double dropped_loss(const struct trainer_options *o, const float *params, const float *along,
                           float scale, uint64_t step, const struct batch_source *data,
                           float *grads)
{
    size_t     total = gpt_total(&o->model.gpt);
    struct rig rig = rig_open(o, params, 0, 0);
    struct err err = { 0 };
    struct step_result result;

    for (size_t i = 0; along && i < total; i++)
        stream_plain_params(rig.stream)[i] += scale * along[i];
    assert_int_equal(train_step(rig.trainer, step, data, &result, &err), 0);
    if (grads)
        memcpy(grads, stream_plain_grads(rig.stream), total * sizeof *grads);
    rig_close(&rig);
    return result.loss;
}

/* Dropout everywhere: recomputing drops the same; each step another mask; the gradient is the
 * loss's slope; an evaluation drops nothing. */
static void test_dropout(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix");
    size_t batch, seq, total;
    struct gpt_config gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, batch, seq, DT_F32, MATMUL_OPENBLAS);
    struct rows         rows = { fixture_i32(f, "x", batch * seq), fixture_i32(f, "y", batch * seq),
                                 batch * seq, 0 };
    struct batch_source data = { rows_batch, &rows };
    const float *params = fixture_f32(f, "params", 0);
    float  *kept, *again;
    double  loss, slope = 0, size = 0;
    const float h = 1e-3f;

    (void)state;
    total = gpt_total(&gpt);
    kept = malloc(total * sizeof *kept);
    again = malloc(total * sizeof *again);
    o.model.dropout =
        (struct model_dropout){ .embd = 0.1f, .attn = 0.2f, .resid = 0.3f, .seed = 7 };
    loss = dropped_loss(&o, params, NULL, 0, 3, &data, kept);
    o.model.kept = 0;
    for (enum acts_offload way = ACTS_STAY; way <= ACTS_OFFLOAD; way++) {
        o.model.offload = way;
        assert_true(dropped_loss(&o, params, NULL, 0, 3, &data, again) == loss);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    o.model.offload = ACTS_STAY;
    assert_true(dropped_loss(&o, params, NULL, 0, 4, &data, NULL) != loss);
    for (size_t i = 0; i < total; i++)
        size += (double)kept[i] * (double)kept[i];
    for (size_t i = 0; i < total; i++)
        again[i] = kept[i] / (float)sqrt(size);
    slope = (dropped_loss(&o, params, again, h, 3, &data, NULL) -
             dropped_loss(&o, params, again, -h, 3, &data, NULL)) /
            (2 * (double)h);
    print_message("dropout: slope of the loss %.6f, norm of the gradient %.6f\n", slope,
                  sqrt(size));
    assert_true(fabs(slope / sqrt(size) - 1) < 2e-3);
    o.model.dropout.seed = 8;
    assert_true(dropped_loss(&o, params, NULL, 0, 3, &data, NULL) != loss);
    o.model.dropout = (struct model_dropout){ 0 };
    assert_true(fabs(dropped_loss(&o, params, NULL, 0, 3, &data, NULL) -
                     (double)fixture_f32(f, "loss", 1)[0]) < 1e-4);
    free(kept);
    free(again);
    fixture_close(f);
}

/* No two uses of dropout share a mask. */
static void test_dropout_sites(void **state)
{
    enum {
        SOME_STEPS = 3,
        SOME_MICROS = 3,
        BLOCKS = 4,
        USES = SOME_STEPS * SOME_MICROS * BLOCKS * PLACES
    };
    struct model m = { .o = { .gpt = { .n_layer = BLOCKS - 2 }, .grad_accum = SOME_MICROS },
                       .dropping = 1 };
    uint64_t     sites[USES];

    (void)state;
    for (size_t i = 0; i < USES; i++) {
        m.step = i / (SOME_MICROS * BLOCKS * PLACES);
        sites[i] =
            model_dropout(&m, i / (BLOCKS * PLACES) % SOME_MICROS, i / PLACES % BLOCKS, i % PLACES)
                .site;
        for (size_t k = 0; k < i; k++)
            assert_true(sites[k] != sites[i]);
    }
}

/* Evaluating between steps changes no bit of training, whatever it leaves in the activations'
 * memory. */
static void test_eval_between_steps(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix"),
                   *steps = fixture_open("tests/fixtures/steps.fix");
    size_t batch, seq, total;
    struct gpt_config gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, batch, seq, DT_BF16, MATMUL_AUTO);
    struct rows rows = { fixture_i32(steps, "x", 0), fixture_i32(steps, "y", 0), batch * seq,
                         ACCUM };
    struct batch_source data = { rows_batch, &rows };
    struct step_result  result;
    struct eval_result  eval = { 0 };
    struct err err = { 0 };
    float     *without = NULL;

    (void)state;
    total = gpt_total(&gpt);
    o.model.grad_accum = ACCUM;
    o.model.kept = 1;
    for (int with = 0; with < 3; with++) {
        struct rig rig;

        o.model.offload = with == 2 ? ACTS_OFFLOAD : ACTS_STAY;
        rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);

        for (uint64_t s = 0; s < 3; s++) {
            assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
            if (with)
                assert_int_equal(eval_step(rig.trainer, s, &data, 7, 1 + s % 2, NULL, &eval, &err),
                                 0);
        }
        if (with)
            assert_memory_equal(without, stream_plain_params(rig.stream), total * sizeof *without);
        else if ((without = malloc(total * sizeof *without)))
            memcpy(without, stream_plain_params(rig.stream), total * sizeof *without);
        rig_close(&rig);
    }
    assert_int_equal(eval.tokens, 2 * 4 * batch * seq);
    free(without);
    fixture_close(f);
    fixture_close(steps);
}

/* ---- gradients that come with anything in them
 * --------------------------------------------------------- */

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
    struct gpt_config      gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, most, WIDE_SEQ, dtype, engine);
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
    assert_int_equal(result.skipped, all == 0);
    assert_true(result.skip_block == SIZE_MAX);
    if (all)
        compare_tensors(&gpt, grads, fixture_f32(f, "wide_grads", gpt_total(&gpt)),
                        dtype == DT_F32 ? max_distance : norm_distance,
                        dtype == DT_F32 ? 1e-5 : 2e-2);
    for (size_t k = 0; !all && k < gpt_total(&gpt); k++)
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
                if (dt == DT_F32 || runs_bf16(rig_engine(e)))
                    check_spread(f, &spreads[i], dt, rig_engine(e));
    fixture_close(f);
}

static void test_not_finite_is_skipped(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix");
    size_t batch, seq, total;
    struct gpt_config gpt = config_of(f, &batch, &seq);
    struct trainer_options o = options(gpt, batch, seq, DT_F32, MATMUL_AUTO);
    struct rows rows = { fixture_i32(f, "x", 0), fixture_i32(f, "y", 0), batch * seq, 0 };
    struct rig  rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
    struct err  err = { 0 };
    struct step_result result;
    float                 *before, *params = stream_plain_params(rig.stream),
                   good = params[gpt_block_size(&gpt, 0) + 5];

    (void)state;
    total = gpt_total(&gpt);
    before = malloc(total * sizeof *before);
    params[gpt_block_size(&gpt, 0) + 5] = INFINITY;
    memcpy(before, params, total * sizeof *before);
    assert_int_equal(train_step(rig.trainer, 0, &(struct batch_source){ rows_batch, &rows },
                                &result, &err),
                     0);
    assert_true(result.skipped && !result.clipped && result.clip_factor == 1.0);
    assert_true(stream_plain_last(rig.stream)->skip && stream_plain_last(rig.stream)->row.skipped);
    assert_memory_equal(before, params, total * sizeof *before);
    params[gpt_block_size(&gpt, 0) + 5] = good;
    assert_int_equal(train_step(rig.trainer, 1, &(struct batch_source){ rows_batch, &rows },
                                &result, &err),
                     0);
    assert_false(result.skipped);
    assert_int_equal(stream_applied(rig.stream), 1);
    assert_true(stream_plain_last(rig.stream)->optim.first); // Adam's t counts applied updates
    free(before);
    rig_close(&rig);
    fixture_close(f);
}

static void test_bad_options(void **state)
{
    struct gpt_config gpt = {
        .n_layer = 2, .n_head = 3, .n_embd = 36, .vocab = 101, .n_positions = 24, .norm_eps = 1e-5f
    };
    struct trainer_options o = options(gpt, 1, 25, DT_F32, MATMUL_AUTO); // longer than the model's
                                                                         // positions
    struct trainer *t;
    struct err err = { 0 };

    (void)state;
    assert_int_equal(trainer_open(&t, &o, NULL, &err), -EINVAL);
    assert_true(err.misuse && err.text[0] && !t);
    o.model.seq = 24;
    o.beta1 = 1.0;
    assert_int_equal(trainer_open(&t, &o, NULL, &err), -EINVAL);
    trainer_close(NULL);
}

/* The plan's figures: what is kept is added layer by layer; a longer step needs more inputs, not
 * more workspace a token. */
static void test_sizes(void **state)
{
    struct gpt_config gpt;
    struct trainer_options o;
    struct acts_sizes one, two;

    (void)state;
    assert_int_equal(gpt_preset(&gpt, "gpt2"), 0);
    o = options(gpt, 4, 1024, DT_BF16, MATMUL_AUTO);
    one = trainer_sizes(&o);
    o.model.grad_accum = 2;
    o.model.kept = 0;
    two = trainer_sizes(&o);
    assert_int_equal(one.inputs, 13u * 4096 * 768 * 4);
    assert_int_equal(two.inputs, 2 * one.inputs);
    assert_int_equal(two.kept_per_layer, 2 * one.kept_per_layer);
    assert_int_equal(one.kept_per_layer, 4096u * (8 * 768 * 2 + 768 * 4 + 12 * 4 + 4 * 4));
    assert_int_equal(two.head, one.head);
    assert_int_equal(two.work - one.work, 4096u * (768 * 4 + 8)); // dx, x, y
    o.model.offload = ACTS_OFFLOAD; // inputs of a layer at work, of the next, and of the head stay;
                                    // each kept layer's; the others' go along
    one = trainer_sizes(&o);
    assert_int_equal(one.record, two.kept_per_layer / 2 + 4096u * 768 * 4);
    assert_int_equal(one.inputs, 3u * 2 * 4096 * 768 * 4);
    assert_int_equal(one.kept_per_layer, two.kept_per_layer + 2 * 4096u * 768 * 4);
    assert_int_equal(one.work, two.work);
    o.model.offload = ACTS_AUTO; // all inputs stay
    one = trainer_sizes(&o);
    assert_int_equal(one.record, two.kept_per_layer / 2);
    assert_int_equal(one.inputs, two.inputs);
    assert_int_equal(one.kept_per_layer, two.kept_per_layer);
}

/* However many are offloaded, so many are, and the kept ones are not. */
static void test_offloaded_layers(void **state)
{
    struct acts_options o = { .gpt = { .n_layer = 7,
                                       .n_head = 1,
                                       .n_embd = 4,
                                       .vocab = 8,
                                       .n_positions = 4,
                                       .norm_eps = 1e-5f },
                              .batch = 1,
                              .seq = 4,
                              .grad_accum = 1,
                              .dtype = DT_F32,
                              .threads = 1,
                              .kept = 2,
                              .offload = ACTS_AUTO,
                              .training = 1 };
    struct acts *a;
    struct err   err;

    (void)state;
    assert_int_equal(acts_open(&a, &o, &err), 0);
    for (size_t n = 0; n <= 5; n++) {
        size_t found = 0;

        acts_offload_layers(a, n);
        for (size_t layer = 0; layer <= 7; layer++) {
            found += (size_t)acts_offloads(a, layer);
            assert_true(layer <= 5 || !acts_offloads(a, layer));
        }
        assert_int_equal(found, n);
    }
    acts_close(a);
}

static void test_balance(void **state)
{
    struct balance b = { .step = 60, .busy = 14, .recompute = 0.75, .carry = 1 };

    (void)state;
    assert_int_equal(balance_layers(&b, 12), 12);
    b.carry = 4; // 40 s are there, each layer needs 4.675 of them
    assert_int_equal(balance_layers(&b, 12), 8);
    assert_int_equal(balance_layers(&b, 5), 5);
    b.busy = 54.1; // already at it nearly all of the time
    assert_int_equal(balance_layers(&b, 12), 0);
    b = (struct balance){ .step = 60, .carry = 1 }; // nothing is recomputed
    assert_int_equal(balance_layers(&b, 12), 0);
    b = (struct balance){ .step = 60, .recompute = 1 }; // devices that answer at once
    assert_int_equal(balance_layers(&b, 12), 12);
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
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_sites),
        cmocka_unit_test(test_fresh_gradients),
        cmocka_unit_test(test_not_finite_is_skipped),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_offloaded_layers),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_eval_between_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
