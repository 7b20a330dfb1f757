/* test_step.c: a step beside its arithmetic: dropout, activations in items, evaluations between
 * steps, values that are not finite, options that are refused, and how much memory is planned, kept
 * and offloaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixture.h"
#include "tests/rig.h"

enum { ACCUM = 2 };

/* The loss of step `step` with dropout, its gradients in *grads. scale moves the parameters along
 * `along`. */
static double dropped_loss(const struct trainer_options *o, const float *params, const float *along,
                           float scale, uint64_t step, const struct batch_source *data,
                           float *grads)
{
    size_t     total = arch_total(&o->model.config);
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
    struct model_config config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, batch, seq, DT_F32, MATMUL_OPENBLAS);
    struct rig_rows     rows = { fixture_i32(f, "x", batch * seq),
                                 fixture_i32(f, "y", batch * seq), batch * seq, 0 };
    struct batch_source data = { rig_batch, &rows };
    const float *params = fixture_f32(f, "params", 0);
    float  *kept, *again;
    double  loss, slope = 0, size = 0;
    const float h = 1e-3f;

    (void)state;
    total = arch_total(&config);
    kept = malloc(total * sizeof *kept);
    again = malloc(total * sizeof *again);
    o.model.dropout =
        (struct model_dropout){ .embd = 0.1f, .attn = 0.2f, .resid = 0.3f, .seed = 7 };
    loss = dropped_loss(&o, params, NULL, 0, 3, &data, kept);
    for (size_t how = 0; how < 6; how++) {
        rig_placement(&o, how == 0 ? 0 : how == 1 ? RIG_OFFLOAD : RIG_MIXED + how);
        assert_true(dropped_loss(&o, params, NULL, 0, 3, &data, again) == loss);
        assert_memory_equal(kept, again, total * sizeof *kept);
    }
    rig_placement(&o, 0);
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

/* Micro-batches of several chunks, the last one shorter: what leaves item by item comes back as it
 * was, whichever parts of a layer they are of. siTrain's own products take two chunks at once, and
 * one runs beside attention, and give the bits of one after the other. */
static void chunks_as_kept(const struct arch *arch, size_t ROWS, enum matmul_engine engine,
                           int varying)
{
    enum { SEQ = 132, LAYERS = 3 };
    struct model_config config = arch_config(arch, (struct model_config){
        .n_layer = LAYERS, .n_head = 2, .n_embd = 16, .n_inner = 64, .vocab = 64,
        .n_positions = SEQ, .norm_eps = 1e-5f, .qk_norm = 1, .rope = { .theta = 10000 } });
    struct trainer_options o = rig_options(config, ROWS, SEQ, DT_BF16, engine);
    size_t   total = arch_total(&config), tokens = ACCUM * ROWS * SEQ;
    int      before = omp_get_max_threads();
    float   *params = malloc(total * sizeof *params), *kept = malloc(total * sizeof *kept),
            *other = malloc(total * sizeof *other);
    int32_t *ids = malloc((tokens + 1) * sizeof *ids);
    struct rig_rows     rows = { ids, ids + 1, ROWS * SEQ, ACCUM };
    struct batch_source data = { rig_batch, &rows };

    for (size_t i = 0; i < total; i++)
        params[i] = 0.3f * sinf((float)(7 * i + 1));
    for (size_t i = 0; i <= tokens; i++)
        ids[i] = (int32_t)(i * i % 61);
    o.model.grad_accum = ACCUM;
    o.model.varying = varying;
    omp_set_num_threads(3);
    if (engine == MATMUL_SITRAIN)
        o.model.threads = 1; // no product of one thread joins a region of three
    double loss = dropped_loss(&o, params, NULL, 0, 0, &data, kept);
    if (engine == MATMUL_SITRAIN)
        o.model.threads = 3;
    o.model.doubled = products_doubles(&o.model);
    assert_int_equal(o.model.doubled, engine == MATMUL_SITRAIN);
    for (size_t how = 0; how < 2 * LAYERS + 12; how += 1 + 3 * (size_t)o.model.doubled) {
        rig_placement(&o, how < 2 * LAYERS ? RIG_OFFLOAD + how : RIG_MIXED + how);
        assert_true(dropped_loss(&o, params, NULL, 0, 0, &data, other) == loss);
        assert_memory_equal(kept, other, total * sizeof *kept);
    }
    omp_set_num_threads(before);
    free(params);
    free(kept);
    free(other);
    free(ids);
}

static void test_chunks(void **state)
{
    (void)state;
    chunks_as_kept(&gpt2_arch, 16, MATMUL_OPENBLAS, 0);
    chunks_as_kept(&qwen3_arch, 16, MATMUL_OPENBLAS, 0);
    chunks_as_kept(&gemma3_arch, 16, MATMUL_OPENBLAS, 0);
    chunks_as_kept(&gpt2_arch, 16, MATMUL_SITRAIN, 0);
    chunks_as_kept(&gpt2_arch, 25, MATMUL_SITRAIN, 1);
    chunks_as_kept(&qwen3_arch, 16, MATMUL_SITRAIN, 0);
    chunks_as_kept(&gemma3_arch, 25, MATMUL_SITRAIN, 0);
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
    struct model m = { .o = { .config = { .n_layer = BLOCKS - 2 }, .micros = SOME_MICROS },
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
    struct model_config config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, batch, seq, DT_BF16, MATMUL_AUTO);
    struct rig_rows rows = { fixture_i32(steps, "x", 0), fixture_i32(steps, "y", 0), batch * seq,
                         ACCUM };
    struct batch_source data = { rig_batch, &rows };
    struct step_result  result;
    struct eval_result  eval = { 0 };
    struct err err = { 0 };
    float     *without = NULL;

    (void)state;
    total = arch_total(&config);
    o.model.grad_accum = ACCUM;
    for (int with = 0; with < 3; with++) {
        struct rig rig;

        rig_placement(&o, with == 2 ? RIG_OFFLOAD + 1 : 1);
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

static void test_not_finite_is_skipped(void **state)
{
    struct fixture *f = fixture_open("tests/fixtures/gpt_a.fix");
    size_t batch, seq, total;
    struct model_config config = rig_config(f, &batch, &seq);
    struct trainer_options o = rig_options(config, batch, seq, DT_F32, MATMUL_AUTO);
    struct rig_rows rows = { fixture_i32(f, "x", 0), fixture_i32(f, "y", 0), batch * seq, 0 };
    struct rig  rig = rig_open(&o, fixture_f32(f, "params", 0), 0, 0);
    struct err  err = { 0 };
    struct step_result result;
    float                 *before, *params = stream_plain_params(rig.stream),
                   good = params[arch_block_size(&config, 0) + 5];

    (void)state;
    total = arch_total(&config);
    before = malloc(total * sizeof *before);
    params[arch_block_size(&config, 0) + 5] = INFINITY;
    memcpy(before, params, total * sizeof *before);
    assert_int_equal(train_step(rig.trainer, 0, &(struct batch_source){ rig_batch, &rows },
                                &result, &err),
                     0);
    assert_true(result.skipped && !result.clipped && result.clip_factor == 1.0);
    assert_true(stream_plain_last(rig.stream)->skip && stream_plain_last(rig.stream)->row.skipped);
    assert_memory_equal(before, params, total * sizeof *before);
    params[arch_block_size(&config, 0) + 5] = good;
    assert_int_equal(train_step(rig.trainer, 1, &(struct batch_source){ rig_batch, &rows },
                                &result, &err),
                     0);
    assert_false(result.skipped);
    assert_int_equal(rig.stream->applied, 1);
    assert_true(stream_plain_last(rig.stream)->optim.first); // Adam's t counts applied updates
    free(before);
    rig_close(&rig);
    fixture_close(f);
}

static void test_bad_options(void **state)
{
    struct model_config config = arch_config(&gpt2_arch, (struct model_config){
        .n_layer = 2, .n_head = 3, .n_embd = 36, .vocab = 101, .n_positions = 24,
        .norm_eps = 1e-5f });
    struct trainer_options o = rig_options(config, 1, 25, DT_F32, MATMUL_AUTO); // too long
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

/* The plan's figures. A longer step needs more of the residual stream, not more workspace. */
static void test_sizes(void **state)
{
    struct model_config      config;
    struct trainer_options o;
    struct acts_sizes      one, two;

    (void)state;
    assert_int_equal(arch_preset(&config, "gpt2"), 0);
    o = rig_options(config, 4, 1024, DT_BF16, MATMUL_AUTO);
    one = acts_sizes(&o.model);
    o.model.grad_accum = 2;
    two = acts_sizes(&o.model);
    assert_int_equal(one.flow, 4096u * 768 * 4);
    assert_int_equal(two.flow, 2 * one.flow);
    assert_int_equal(one.kept_per_layer[ACTS_INPUT], 4096u * 768 * 4);
    assert_int_equal(one.kept_per_layer[ACTS_ATTN], 4096u * (4 * 768 * 2 + 12 * 4 + 2 * 4));
    assert_int_equal(one.kept_per_layer[ACTS_MLP], 4096u * (4 * 768 * 2 + 768 * 4 + 2 * 4));
    assert_int_equal(one.moved_per_layer[ACTS_MLP], 4096u * 4 * 768 * 2);
    assert_int_equal(one.moved_per_layer[ACTS_ATTN], one.kept_per_layer[ACTS_ATTN]);
    assert_int_equal(one.item, 1024u * 4 * 768 * 2);
    o.model.whole = 1;
    assert_int_equal(acts_sizes(&o.model).moved_per_layer[ACTS_MLP], two.kept_per_layer[ACTS_MLP]);
    assert_int_equal(acts_sizes(&o.model).item, one.item);
    assert_int_equal(two.kept_per_layer[ACTS_MLP], 2 * one.kept_per_layer[ACTS_MLP]);
    assert_int_equal(two.head, one.head);
    assert_int_equal(two.work - one.work, 4096u * (768 * 4 + 8)); // dx, x, y
}

/* However many are offloaded, so many are, and the kept ones are not. */
static void test_ways(void **state)
{
    struct placement w = { .of[ACTS_MLP].kept = 2 };

    (void)state;
    for (size_t n = 0; n <= 5; n++) {
        size_t found = 0;

        w.of[ACTS_MLP].offloaded = n;
        for (size_t layer = 1; layer <= 7; layer++) {
            enum acts_policy way = placement_of(&w, 7, layer, ACTS_MLP);

            found += way == ACTS_OFFLOADED;
            assert_true((way == ACTS_KEPT) == (layer > 5));
        }
        assert_int_equal(found, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_dropout_sites),
        cmocka_unit_test(test_eval_between_steps),
        cmocka_unit_test(test_not_finite_is_skipped),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
