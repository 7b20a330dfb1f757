/* test_classify.c: classifiers and regressors against PyTorch (tests/fixtures): losses, logits,
 * every gradient, three steps of AdamW over micro-batches of different shapes; padding, rows that
 * do not count, empty micro-batches and what is kept change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixture.h"
#include "tests/rig.h"

enum { STEPS = 3, ACCUM = 2, MICROS = STEPS * ACCUM };

static const char *const models[] = { "tests/fixtures/classifier.fix", "tests/fixtures/"
                                                                       "regressor.fix" };

/* ---- a fixture's micro-batches
 * ------------------------------------------------------------------------- */

struct rows {
    struct fixture   *f;
    struct model_config config;
    size_t batch, seq;                    // the largest shape
    const int32_t *shapes, *x, *last, *label;
    const float   *value;
    size_t first_token[MICROS + 1], first_row[MICROS + 1];
    int    longest;   // pad to seq
    int    add;       // fill up to batch with rows that do not count
    int32_t pad;      // what padding is made of; -1: as the fixture has it
};

static struct rows rows_open(const char *path)
{
    struct rows    r = { .f = fixture_open(path), .pad = -1 };
    const int32_t *c = fixture_i32(r.f, "config", 8);

    r.config = arch_config(&gpt2_arch, (struct model_config){ .n_layer = (size_t)c[0],
                                                              .n_head = (size_t)c[1],
                                                              .n_embd = (size_t)c[2],
                                                              .vocab = (size_t)c[3],
                                                              .n_positions = (size_t)c[4],
                                                              .norm_eps = 1e-5f,
                                                              .n_labels = (size_t)c[7] });
    r.batch = (size_t)c[5];
    r.seq = (size_t)c[6];
    r.shapes = fixture_i32(r.f, "shapes", 2 * MICROS);
    r.x = fixture_i32(r.f, "x", 0);
    r.last = fixture_i32(r.f, "last", 0);
    if (r.config.n_labels > 1)
        r.label = fixture_i32(r.f, "label", 0);
    else
        r.value = fixture_f32(r.f, "value", 0);
    for (size_t i = 0; i < MICROS; i++) {
        size_t n = (size_t)r.shapes[2 * i];

        r.first_row[i + 1] = r.first_row[i] + n;
        r.first_token[i + 1] = r.first_token[i] + n * (size_t)r.shapes[2 * i + 1];
    }
    return r;
}

/* Tokens that are not padding in a step. */
static uint64_t rows_tokens(const struct rows *r, uint64_t step)
{
    uint64_t n = 0;

    for (size_t i = r->first_row[step * ACCUM]; i < r->first_row[(step + 1) * ACCUM]; i++)
        n += (uint64_t)r->last[i] + 1;
    return n;
}

/* Row `i` of the fixture, of `seq` tokens there, as row `to` of b. */
static void put_row(const struct rows *r, struct batch *b, size_t to, size_t i, const int32_t *x,
                    size_t seq)
{
    size_t length = (size_t)r->last[i] + 1;

    for (size_t t = 0; t < b->seq; t++)
        b->x[to * b->seq + t] = t < length || (r->pad < 0 && t < seq) ? x[t]
                                : r->pad < 0                          ? 0
                                                                      : r->pad;
    b->last[to] = r->last[i];
    b->label[to] = r->label ? r->label[i] : 0;
    b->value[to] = r->value ? r->value[i] : NAN; // a classifier does not look
}

static int rows_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct rows *r = ctx;
    size_t             i = step * ACCUM + micro, n = (size_t)r->shapes[2 * i],
           seq = (size_t)r->shapes[2 * i + 1];

    (void)err;
    b->seq = r->longest || !n ? b->seq : seq;
    for (size_t k = 0; k < n; k++)
        put_row(r, b, k, r->first_row[i] + k, r->x + r->first_token[i] + k * seq, seq);
    for (size_t k = n; r->add && k < b->rows; k++) {
        put_row(r, b, k, 0, r->x, (size_t)r->shapes[1]);
        b->label[k] = -1;
        b->value[k] = NAN;
    }
    if (!r->add)
        b->rows = n;
    return 0;
}

/* ---- a trainer over the fixture's model
 * ---------------------------------------------------------------- */

/* how: as rig_placement has it. */
static struct trainer_options options(const struct rows *r, enum matmul_engine engine,
                                      enum dtype dtype, size_t how)
{
    struct trainer_options o = {
        .model = { .config = r->config,
                   .batch = r->batch,
                   .seq = r->seq,
                   .grad_accum = ACCUM,
                   .dtype = dtype,
                   .engine = engine,
                   .threads = 1,
                   .training = 1,
                   .varying = 1 },
        .schedule = { .kind = SCHEDULE_CONSTANT, .lr = 1e-3 },
        .clip = 1.0,
        .optim = OPTIM_ADAMW,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
    };

    rig_placement(&o, how);
    return o;
}

static struct rig rig_of(const struct rows *r, const struct trainer_options *o, int decay_all)
{
    return rig_open(o, fixture_f32(r->f, "params", arch_total(&r->config)), 0.1f, decay_all);
}

static struct step_result rig_step(struct rig *rig, struct rows *r, uint64_t step)
{
    struct step_result result;
    struct err         err = { 0 };

    if (train_step(rig->trainer, step, &(struct batch_source){ rows_batch, r }, &result, &err))
        fail_msg("%s", err.text);
    assert_false(result.skipped);
    return result;
}

static void check_close(double got, double want, double tolerance, const char *what)
{
    if (!(fabs(got / want - 1) <= tolerance))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

/* ---- against PyTorch
 * ----------------------------------------------------------------------------------- */

static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rows r = rows_open(models[i / 2]);
        double      worst = 0;

        for (size_t kept = 0; kept <= r.config.n_layer; kept++) {
            struct trainer_options o = options(&r, rig_engine(i), DT_F32, kept);
            struct rig             rig = rig_of(&r, &o, 0);
            struct step_result     result = rig_step(&rig, &r, 0);

            check_close(result.loss, (double)fixture_f32(r.f, "loss", 1)[0], 1e-5, "loss");
            assert_int_equal(result.tokens, rows_tokens(&r, 0));
            worst = compare_tensors(&r.config, stream_plain_grads(rig.stream),
                                    fixture_f32(r.f, "grads", arch_total(&r.config)), max_distance,
                                    1e-5);
            if (kept == r.config.n_layer)
                print_message("%s, %s: worst gradient off by %.1e\n", models[i / 2],
                              trainer_engine(rig.trainer), worst);
            rig_close(&rig);
        }
        fixture_close(r.f);
    }
}

/* Logits as PyTorch has them, of a model that can train and of one that cannot. */
static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rows            r = rows_open(models[i / 2]);
        size_t                 L = r.config.n_labels, stride = r.batch * L;
        struct trainer_options o = options(&r, rig_engine(i), DT_F32, 0);
        const float           *want = fixture_f32(r.f, "logits", r.first_row[ACCUM] * L);
        float                 *logits = calloc(ACCUM * stride, sizeof *logits);

        for (o.model.training = 1; o.model.training >= 0; o.model.training--) {
            struct rig         rig = rig_of(&r, &o, 0);
            struct eval_result e = { 0 };
            struct err         err = { 0 };

            assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rows_batch, &r }, 0,
                                       ACCUM, logits, &e, &err),
                             0);
            assert_int_equal(e.tokens, r.first_row[ACCUM]);
            check_close(e.loss_sum / (double)e.tokens, (double)fixture_f32(r.f, "loss", 1)[0], 1e-5,
                        "evaluation's loss");
            for (size_t a = 0; a < ACCUM; a++)
                assert_true(max_distance(logits + a * stride, want + r.first_row[a] * L,
                                         (r.first_row[a + 1] - r.first_row[a]) * L, 0) < 1e-5);
            rig_close(&rig);
        }
        free(logits);
        fixture_close(r.f);
    }
}

/* Three steps, the last one of an epoch's end, whose second micro-batch of the classifier is empty.
 */
static void train(struct rows *r, int decay_all, enum dtype dtype, size_t kept, float *params,
                  int check)
{
    struct trainer_options o = options(r, MATMUL_AUTO, dtype, kept);
    struct rig             rig = rig_of(r, &o, decay_all);
    const float *losses = fixture_f32(r->f, decay_all ? "all_losses" : "matrices_losses", STEPS);
    const float *norms = fixture_f32(r->f, decay_all ? "all_norms" : "matrices_norms", STEPS);

    for (uint64_t s = 0; s < STEPS; s++) {
        struct step_result result = rig_step(&rig, r, s);

        assert_int_equal(result.tokens, rows_tokens(r, s));
        if (!check)
            continue;
        check_close(result.loss, (double)losses[s], 1e-5, "loss");
        check_close(result.grad_norm, (double)norms[s], 1e-4, "norm");
    }
    memcpy(params, stream_plain_params(rig.stream), arch_total(&r->config) * sizeof *params);
    rig_close(&rig);
}

static void test_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rows r = rows_open(models[i / 2]);
        int         all = i % 2 == 0;
        size_t      total = arch_total(&r.config);
        float      *params = malloc(total * sizeof *params), *again = malloc(total * sizeof *again);

        train(&r, all, DT_F32, r.config.n_layer, params, 1);
        print_message("%s, decay of %s: parameters off by %.1e\n", models[i / 2],
                      all ? "all" : "matrices",
                      compare_tensors(&r.config, params,
                                      fixture_f32(r.f, all ? "all_params" : "matrices_params",
                                                  total),
                                      max_distance, 1e-4));
        for (size_t kept = 0; kept < r.config.n_layer; kept++) {
            train(&r, all, DT_F32, kept, again, 0);
            assert_memory_equal(params, again, total * sizeof *params);
            train(&r, all, DT_F32, RIG_OFFLOAD + kept, again, 0);
            assert_memory_equal(params, again, total * sizeof *params);
            train(&r, all, DT_F32, RIG_MIXED + kept, again, 0);
            assert_memory_equal(params, again, total * sizeof *params);
        }
        train(&r, all, DT_BF16, r.config.n_layer, params, 0);
        train(&r, all, DT_BF16, 0, again, 0);
        assert_memory_equal(params, again, total * sizeof *params);
        free(params);
        free(again);
        fixture_close(r.f);
    }
}

/* bf16 stays near: the parameters here are rounded to bf16 and the fixture's are not. */
static void test_bf16(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rows            r = rows_open(models[i]);
        struct trainer_options o = options(&r, MATMUL_AUTO, DT_BF16, 1);
        struct rig             rig = rig_of(&r, &o, 0);
        struct step_result     result = rig_step(&rig, &r, 0);

        check_close(result.loss, (double)fixture_f32(r.f, "loss", 1)[0], 3e-2, "loss");
        compare_tensors(&r.config, stream_plain_grads(rig.stream),
                        fixture_f32(r.f, "grads", arch_total(&r.config)), max_distance, 6e-2);
        rig_close(&rig);
        fixture_close(r.f);
    }
}

/* ---- what changes nothing
 * ------------------------------------------------------------------------------ */

/* Loss, logits and gradients of r's first step. */
struct finetune_results { double loss; float *logits, *grads; };

static struct finetune_results outcome_of(struct rows *r)
{
    struct trainer_options o = options(r, MATMUL_AUTO, DT_F32, 1);
    struct rig             rig = rig_of(r, &o, 0);
    size_t total = arch_total(&r->config), n = ACCUM * r->batch * r->config.n_labels;
    struct finetune_results out = { 0, calloc(n, sizeof(float)), malloc(total * sizeof(float)) };
    struct eval_result     e = { 0 };
    struct err             err = { 0 };

    assert_int_equal(eval_step(rig.trainer, 0, &(struct batch_source){ rows_batch, r }, 0, ACCUM,
                               out.logits, &e, &err),
                     0);
    assert_int_equal(e.tokens, r->first_row[ACCUM]);
    out.loss = rig_step(&rig, r, 0).loss;
    assert_true(fabs(out.loss * (double)e.tokens / e.loss_sum - 1) < 1e-7);
    memcpy(out.grads, stream_plain_grads(rig.stream), total * sizeof(float));
    rig_close(&rig);
    return out;
}

static void outcome_free(struct finetune_results *o)
{
    free(o->logits);
    free(o->grads);
}

static void check_same(const struct rows *r, const struct finetune_results *want,
                       struct rows *changed)
{
    struct finetune_results got = outcome_of(changed);
    size_t         L = r->config.n_labels;

    check_close(got.loss, want->loss, 1e-6, "loss");
    for (size_t a = 0; a < ACCUM; a++) // the batch may have grown: row by row
        assert_true(max_distance(got.logits + a * changed->batch * L,
                                 want->logits + a * r->batch * L,
                                 (r->first_row[a + 1] - r->first_row[a]) * L, 0) < 1e-6);
    compare_tensors(&r->config, got.grads, want->grads, max_distance, 3e-6);
    outcome_free(&got);
}

static void test_padding(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rows    r = rows_open(models[i]), changed = r;
        struct finetune_results want = outcome_of(&r);

        changed.pad = 3; // another token
        check_same(&r, &want, &changed);
        changed.longest = 1; // more of it
        check_same(&r, &want, &changed);
        changed.batch += 2; // a trainer for larger batches
        check_same(&r, &want, &changed);
        changed.add = 1; // rows that do not count
        check_same(&r, &want, &changed);
        outcome_free(&want);
        fixture_close(r.f);
    }
}

/* ---- where micro-batches stand
 * ------------------------------------------------------------------------- */

enum { SLOTS = 4 };

/* A step in which micro-batch a is the fixture's number at[a], or empty (-1). */
struct spread { struct rows *r; int at[SLOTS]; };

static int spread_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct spread *s = ctx;
    int                  i = s->at[micro];

    (void)step;
    if (i >= 0)
        return rows_batch(s->r, (uint64_t)i / ACCUM, (size_t)i % ACCUM, b, err);
    b->rows = 0;
    return 0;
}

/* Step 5's loss and gradients, at a rate of 0; the losses of evaluations before and behind it,
 * which drop nothing. */
static double spread_step(const struct trainer_options *o, struct spread *s, float *grads,
                          double *evaluated)
{
    struct rig          rig = rig_of(s->r, o, 0);
    struct batch_source data = { spread_batch, s };
    struct eval_result  before = { 0 }, behind = { 0 };
    struct step_result  result;
    struct err          err = { 0 };

    assert_int_equal(eval_step(rig.trainer, 5, &data, 0, SLOTS, NULL, &before, &err), 0);
    assert_int_equal(train_step(rig.trainer, 5, &data, &result, &err), 0);
    assert_int_equal(eval_step(rig.trainer, 5, &data, 0, SLOTS, NULL, &behind, &err), 0);
    assert_true(before.loss_sum == behind.loss_sum && before.tokens == behind.tokens);
    memcpy(grads, stream_plain_grads(rig.stream), arch_total(&s->r->config) * sizeof *grads);
    *evaluated = before.loss_sum;
    rig_close(&rig);
    return result.loss;
}

/* Empty micro-batches between others: the same bits wherever those stand; under dropout other
 * masks, which recomputing gives again. */
static void check_spread(struct rows *r, enum dtype dtype)
{
    struct spread          near = { r, { 0, 1, -1, -1 } }, far = { r, { -1, 0, -1, 1 } };
    struct trainer_options o = options(r, MATMUL_AUTO, dtype, 0);
    size_t                 bytes = arch_total(&r->config) * sizeof(float);
    float                 *want = malloc(bytes), *got = malloc(bytes);
    double                 loss, evaluated, again;

    o.model.grad_accum = SLOTS;
    o.schedule.lr = 0;
    loss = spread_step(&o, &near, want, &evaluated);
    assert_true(spread_step(&o, &far, got, &again) == loss && again == evaluated);
    assert_memory_equal(got, want, bytes);

    o.model.dropout =
        (struct model_dropout){ .embd = 0.1f, .attn = 0.1f, .resid = 0.1f, .seed = 3 };
    loss = spread_step(&o, &near, want, &again);
    assert_true(again == evaluated);
    assert_true(spread_step(&o, &far, got, &again) != loss && again == evaluated);
    rig_placement(&o, r->config.n_layer);
    assert_true(spread_step(&o, &near, got, &again) == loss && again == evaluated);
    assert_memory_equal(got, want, bytes);
    free(want);
    free(got);
}

static void test_empty_micro_batches(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rows r = rows_open(models[i]);

        check_spread(&r, DT_F32);
        check_spread(&r, DT_BF16);
        fixture_close(r.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_empty_micro_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
