/* test_families.c: tiny models of each family against transformers (tests/fixtures/families): read
 * from folders as its versions 4 and 5 write them; losses, logits, every gradient, 24 steps of
 * AdamW. A family that this program does not know is refused by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/hf.h"
#include "tests/family.h"
#include "tests/rig.h"
#include "tests/tempdir.h"

static const char *const names[] = {
    "gpt2",       "gpt2_last",   "llama_grouped", "llama_linear",   "llama3",
    "llama_yarn", "smollm",      "mistral",       "qwen2",          "qwen3",
    "gemma3",     "gemma3_local", "gemma3_last",    "qwen2_yarn",
    "qwen2_last", "bert_masked", "bert_labels",   "roberta_masked", "roberta_labels",
};

/* ---- one step ---- */

static void near(double a, double b, double tolerance, const char *what)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%s: %.9g, expected %.9g", what, a, b);
}

/* Loss and gradients of the first micro-batch. The loss. */
static double gradients(struct family *m, const struct family_model *r, enum dtype dtype,
                        enum matmul_engine engine)
{
    struct trainer_options o = rig_options(r->config, m->batch, m->seq, dtype, engine);
    struct rig             rig = rig_open(&o, r->params, 0, 0);
    struct batch_source    data = { family_batch, m };
    struct step_result     result;
    struct err             err;
    int                    fp32 = dtype == DT_F32;
    static int             count;
    char                   name[64];

    assert_int_equal(train_step(rig.trainer, 0, &data, &result, &err), 0);
    near(result.loss, (double)fixture_f32(m->f, fp32 ? "loss" : "bf16_loss", 1)[0],
         fp32 ? 1e-5 : 5e-3, "loss");
    snprintf(name, sizeof name, "gradients-%d", count++);
    double worst = family_compare(
        m, fp32 ? "grads" : "bf16_grads",
        family_written(&r->config, stream_plain_grads(rig.stream), name), !fp32, 1,
        fp32 ? 1e-5 : 2e-2);
    print_message("%s, %s, %s: gradients off by %.1e\n", m->name, fp32 ? "fp32" : "bf16",
                  trainer_engine(rig.trainer), worst);
    rig_close(&rig);
    return result.loss;
}

/* bf16's gradients are to be within 2e-2 of exact ones; or, where PyTorch's own (its autocast, of
 * the same parameters; make_families.py --bf16) are further off in these tiny models, within a
 * tenth more than those: what rounding leaves is chance, in order of sums and form of attention,
 * and most of all in weights of a few elements that a whole head shares. */
static double bf16_bound(const char *name)
{
    static const struct { const char *name; double most; } off[] = {
        { "smollm", 1.1 * 2.07e-2 },     // k_proj of the last layer, as ours
        { "qwen2", 1.1 * 2.59e-2 },      // v_proj's bias of the first
        { "qwen2_last", 1.1 * 2.32e-2 }, // k_proj's bias of the first
        { "gemma3", 1.1 * 2.30e-2 },     // a norm of queries; k_norm is ours
        { "gemma3_last", 1.1 * 2.96e-2 }, // k_norm of the last layer; q_norm is ours
        { "gemma3_local", 4.5e-2 },      // q_norm: of 12 sets of random numbers 2.2e-2 to 9.3e-2
    };

    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!strcmp(name, off[i].name))
            return off[i].most;
    return 2e-2;
}

/* Exact distances of bf16's gradients from those that fp32 computes with the same rounded
 * parameters, which `gradients` compared: sketches of so noisy values are themselves noisy. */
static void rounding(struct family *m, const struct family_model *r, enum matmul_engine engine)
{
    size_t       total = arch_total(&r->config);
    float       *params = malloc(total * sizeof *params), *exact = malloc(total * sizeof *exact);
    struct batch_source data = { family_batch, m };
    struct step_result  result;
    struct err          err;

    assert_true(params && exact);
    for (size_t i = 0; i < total; i++)
        params[i] = bf16_to_f32(bf16_from_f32(r->params[i]));
    for (int rounded = 0; rounded < 2; rounded++) {
        struct trainer_options o = rig_options(r->config, m->batch, m->seq,
                                               rounded ? DT_BF16 : DT_F32, engine);
        struct rig             rig = rig_open(&o, params, 0, 0);

        assert_int_equal(train_step(rig.trainer, 0, &data, &result, &err), 0);
        const float *grads = stream_plain_grads(rig.stream);
        if (rounded)
            print_message("%s, bf16, %s: gradients off by %.1e of fp32's\n", m->name,
                          trainer_engine(rig.trainer),
                          compare_tensors(&r->config, grads, exact, norm_distance,
                                          bf16_bound(m->name)));
        else
            memcpy(exact, grads, total * sizeof *exact);
        rig_close(&rig);
    }
    free(params);
    free(exact);
}

/* ---- losses, logits ---- */

/* The largest difference, over the largest expected one. */
static void same_values(const float *a, const float *b, size_t n, double tolerance,
                        const char *what)
{
    double d = max_distance(a, b, n, 0);

    if (!(d <= tolerance))
        fail_msg("%s: off by %g", what, d);
}

static void losses(struct family *m, const struct family_model *r)
{
    struct trainer_options o = rig_options(r->config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct rig             rig = rig_open(&o, r->params, 0, 0);
    struct batch_source    data = { family_batch, m };
    struct eval_result     sum = { 0 };
    struct err             err;
    int                    causal = !arch_classifies(&r->config);
    size_t                 n = m->batch * (causal ? m->seq : r->config.n_labels);
    float                 *each = malloc(n * sizeof *each);

    assert_non_null(each);
    assert_int_equal(eval_step(rig.trainer, 0, &data, 0, 1, each, &sum, &err), 0);
    near(sum.loss_sum / (double)sum.tokens, (double)fixture_f32(m->f, "loss", 1)[0], 1e-5, "loss");
    same_values(each, fixture_f32(m->f, causal ? "losses" : "last_logits", n), n, 1e-5,
                causal ? "losses" : "logits");
    free(each);
    rig_close(&rig);
}

/* ---- 24 steps ---- */

static void steps(struct family *m, const struct family_model *r)
{
    struct trainer_options o = rig_options(r->config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct batch_source    data = { family_batch, m };
    const float           *loss = fixture_f32(m->f, "step_losses", m->steps);
    const float           *norm = fixture_f32(m->f, "step_norms", m->steps);
    struct step_result     result;
    struct err             err;
    int                    clipped = 0;
    // slow pairs hardly turn in so few positions: the loss hardly sees biases of their keys, but
    // AdamW makes whole steps of the noise in it
    double                 tolerance = r->config.qkv_bias ? 1e-3 : 1e-4;

    o.model.grad_accum = m->accum;
    o.model.threads = 1;
    o.schedule = (struct schedule){ SCHEDULE_COSINE, 2e-3, 2e-4, 5, 20, 0 };
    o.clip = 1.0;
    struct rig rig = rig_open(&o, r->params, 0.1f, 0);
    for (uint64_t s = 0; s < m->steps; s++) {
        assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
        near(result.loss, (double)loss[s], 1e-5, "a step's loss");
        near(result.grad_norm, (double)norm[s], 1e-4, "a step's norm");
        clipped += result.clipped;
    }
    assert_true(clipped > 0);
    print_message("%s: parameters after %zu steps off by %.1e\n", m->name, m->steps,
                  family_compare(m, "step_params",
                                 family_written(&r->config, stream_plain_params(rig.stream),
                                                "steps"),
                                 0, 0, tolerance));
    rig_close(&rig);
}

/* ---- */

static void refused(const struct family *m, const char *type)
{
    struct hf *h;
    struct err err;
    char       dir[512];

    snprintf(dir, sizeof dir, "%s", tempdir_at(m->name));
    family_folder(m, 5, dir);
    assert_int_equal(hf_open(&h, dir, NULL, &err), -EINVAL);
    assert_true(err.misuse);
    if (!strstr(err.text, type))
        fail_msg("%s", err.text);
}

/* ---- label smoothing and noise in the embeddings ---- */

/* The loss of step `step`, with the parameters moved by `by` along `along`; its gradients, and the
 * loss of an evaluation behind it. */
static double noisy_loss(struct family *m, const struct family_model *r, float neftune, float by,
                         const float *along, float *grads, double *evaluated)
{
    struct trainer_options o = rig_options(r->config, m->batch, m->seq, DT_F32, MATMUL_OPENBLAS);
    struct batch_source    data = { family_batch, m };
    struct step_result     result;
    struct eval_result     sum = { 0 };
    struct err             err;
    size_t                 total = arch_total(&r->config);

    o.schedule.lr = 0; // the evaluation is of the same parameters
    o.model.smoothing = r->config.n_labels == 1 ? 0 : 0.1f;
    o.model.neftune = neftune;
    struct rig rig = rig_open(&o, r->params, 0, 0);
    for (size_t i = 0; along && i < total; i++)
        stream_plain_params(rig.stream)[i] += by * along[i];
    assert_int_equal(train_step(rig.trainer, 0, &data, &result, &err), 0);
    if (grads)
        memcpy(grads, stream_plain_grads(rig.stream), total * sizeof *grads);
    if (evaluated) {
        assert_int_equal(eval_step(rig.trainer, 1, &data, 0, 1, NULL, &sum, &err), 0);
        *evaluated = sum.loss_sum;
    }
    rig_close(&rig);
    return result.loss;
}

/* The gradient is the slope of the noisy, smoothed loss; an evaluation is not noisy. */
static void noisy(struct family *m, const struct family_model *r)
{
    const float h = 1e-3f;
    size_t      total = arch_total(&r->config);
    float      *grads = malloc(total * sizeof *grads);
    double      size = 0, with, without;

    assert_non_null(grads);
    assert_true(noisy_loss(m, r, 30, 0, NULL, grads, &with) !=
                noisy_loss(m, r, 0, 0, NULL, NULL, &without));
    assert_true(with == without);
    for (size_t i = 0; i < total; i++)
        size += (double)grads[i] * (double)grads[i];
    size = sqrt(size);
    for (size_t i = 0; i < total; i++)
        grads[i] /= (float)size;
    double slope = (noisy_loss(m, r, 30, h, grads, NULL, NULL) -
                    noisy_loss(m, r, 30, -h, grads, NULL, NULL)) / (2 * (double)h);
    print_message("%s: slope of the noisy loss %.6f, norm of the gradient %.6f\n", m->name, slope,
                  size);
    near(slope, size, 5e-3, "slope");
    free(grads);
}

static void compared(struct family *m)
{
    struct family_model r = family_read(m, 5), other = family_read(m, 4);
    double      loss = gradients(m, &r, DT_F32, rig_engine(0));

    assert_true(gradients(m, &other, DT_F32, rig_engine(0)) == loss);
    gradients(m, &r, DT_F32, rig_engine(1));
    for (size_t e = 0; e < 2; e++)
        if (rig_runs_bf16(rig_engine(e)))
            rounding(m, &r, rig_engine(e));
    losses(m, &r);
    for (size_t single = 0; m->ids && single < 3; single++)
        family_logits(m, &r.config, r.params, single);
    steps(m, &r);
    noisy(m, &r);
    free(r.params);
    free(other.params);
}

static void family_test(void **state)
{
    struct family m;
    char         *type;

    family_open(&m, *state);
    type = family_type(&m);
    if (arch_named(type))
        compared(&m);
    else
        refused(&m, type);
    free(type);
    family_close(&m);
}

int main(void)
{
    enum { N = sizeof names / sizeof *names };
    struct CMUnitTest tests[N];

    for (size_t i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ names[i], family_test, tempdir_set_up, tempdir_tear_down,
                                        (void *)(uintptr_t)names[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
