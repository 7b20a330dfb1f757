/* test_lora_peft.c: adapters (LoRA) of tiny models against peft (tests/fixtures/make_lora.py):
 * losses, logits, the gradients of all that is trained, 12 steps of AdamW; what is frozen does not
 * move a bit. The same bits for any placement of activations and any number of threads, also with
 * dropout. Merged matrices compute what the adapters do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/tensors/safetensors.h"
#include "model/lora/lora.h"
#include "tests/family.h"
#include "tests/rig.h"
#include "tests/tempdir.h"

enum { TRAINED = 1000 }; // as make_lora.py has it

static const char *const names[] = {
    "lora_gpt2",  "lora_gpt2_last", "lora_llama_grouped", "lora_smollm",      "lora_mistral",
    "lora_qwen2", "lora_qwen2_last", "lora_qwen3",        "lora_gemma3",      "lora_bert_masked",
    "lora_bert_labels", "lora_roberta_labels",
};

/* A model with adapters, and where its trained tensors stand among the parameters. */
struct adapted {
    struct family       family;  // its tensors are the trained ones
    struct family_model base;    // without adapters
    struct model_config config;
    float              *params;
    size_t              at[FAMILY_TENSORS];
};

static float *floats_new(size_t n)
{
    float *out = calloc(n, sizeof *out);

    assert_non_null(out);
    return out;
}

/* The trained tensor of this name. */
static size_t trained_find(const struct family *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->tensor[i].name, name))
            return i;
    fail_msg("%s: peft does not train %s", m->name, name);
    return 0;
}

/* Where the block of the model without adapters begins in its parameters. */
static size_t begins(const struct model_config *g, size_t block)
{
    size_t at = 0;

    for (size_t b = 0; b < block; b++)
        at += arch_block_size(g, b);
    return at;
}

/* The parameters of a block: the model's, or adapters by random numbers. Finds trained tensors. */
static size_t block_fill(struct adapted *a, size_t block, float *out)
{
    const struct model_config *g = &a->config;
    size_t from = lora_base_block(g, block), t, end, found = 0;
    char   name[128];

    if (from != SIZE_MAX)
        memcpy(out, a->base.params + begins(&a->base.config, from),
               arch_block_size(g, block) * sizeof *out);
    for (arch_block_tensors(g, block, &t, &end); t < end; t++) {
        if (!arch_size(g, t) || !arch_trains(g, block) || arch_is_frozen(g, t))
            continue;
        arch_tensor_name(g, name, sizeof name, g->arch->prefix, block, t);
        size_t i = trained_find(&a->family, name);
        assert_int_equal(a->family.tensor[i].count, arch_size(g, t));
        a->at[i] = (size_t)(out - a->params) + arch_offset(g, t);
        if (t >= ARCH_TENSORS)
            family_values(&a->family.tensor[i], TRAINED + i, out + arch_offset(g, t));
        found++;
    }
    return found;
}

static struct arch_lora lora_of(const struct family *m, const struct arch *arch)
{
    const float     *of = fixture_f32(m->f, "lora", 3);
    struct arch_lora out = { .rank = (size_t)of[0], .alpha = of[1], .rs = of[2] > 0 };
    struct err       err;

    if (lora_targets_named(arch, fixture_text(m->f, "words"), &out.targets, &err))
        fail_msg("%s", err.text);
    return out;
}

static void adapted_open(struct adapted *a, const char *name)
{
    struct arch_lora lora;
    struct err       err;
    size_t           found = 0;

    memset(a, 0, sizeof *a);
    family_open(&a->family, name);
    a->base = family_read(&a->family, 5);
    family_list(&a->family, "trained");
    a->config = a->base.config;
    lora = lora_of(&a->family, a->config.arch);
    assert_int_equal(lora_set(&a->config, &lora, &err), 0);
    a->params = floats_new(arch_total(&a->config));
    for (size_t b = 0, at = 0; b < arch_blocks(&a->config); at += arch_block_size(&a->config, b++))
        found += block_fill(a, b, a->params + at);
    assert_int_equal(found, a->family.n);
}

static void adapted_close(struct adapted *a)
{
    family_close(&a->family);
    free(a->base.params);
    free(a->params);
}

/* The trained tensors of these parameters or gradients, as a folder. */
static const char *trained_written(const struct adapted *a, const float *values)
{
    const struct family      *m = &a->family;
    struct safetensors_writer w;
    struct err                err;
    char                      name[32], path[256];
    static int                count;

    snprintf(name, sizeof name, "trained-%d", count++);
    assert_int_equal(mkdir(tempdir_at(name), 0700), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", tempdir_at(name));
    assert_int_equal(safetensors_writer_open(&w, path, ST_F32, &err), 0);
    for (size_t i = 0; i < m->n; i++)
        assert_int_equal(safetensors_writer_declare(&w, m->tensor[i].name, m->tensor[i].n_dims,
                                                    m->tensor[i].dims, &err), 0);
    for (size_t i = 0; i < m->n; i++)
        assert_int_equal(safetensors_writer_add(&w, values + a->at[i], m->tensor[i].count, &err),
                         0);
    assert_int_equal(safetensors_writer_commit(&w, &err), 0);
    safetensors_writer_close(&w);
    return tempdir_at(name);
}

static void near(double a, double b, double tolerance, const char *what)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%s: %.9g, expected %.9g", what, a, b);
}

/* ---- against peft ---- */

static void gradients(struct adapted *a, enum matmul_engine engine)
{
    struct family         *m = &a->family;
    struct trainer_options o = rig_options(a->config, m->batch, m->seq, DT_F32, engine);
    struct rig             rig = rig_open(&o, a->params, 0, 0);
    struct batch_source    data = { family_batch, m };
    struct step_result     result;
    struct err             err;

    if (train_step(rig.trainer, 0, &data, &result, &err))
        fail_msg("%s", err.text);
    near(result.loss, (double)fixture_f32(m->f, "loss", 1)[0], 1e-5, "loss");
    print_message("%s, %s: gradients off by %.1e\n", m->name, trainer_engine(rig.trainer),
                  family_compare(m, "grads",
                                 trained_written(a, stream_plain_grads(rig.stream)), 0, 1, 1e-5));
    rig_close(&rig);
}

/* The losses of an evaluation. */
static void losses(struct adapted *a)
{
    struct family         *m = &a->family;
    struct trainer_options o = rig_options(a->config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct rig             rig = rig_open(&o, a->params, 0, 0);
    struct batch_source    data = { family_batch, m };
    struct eval_result     sum = { 0 };
    struct err             err;

    assert_int_equal(eval_step(rig.trainer, 0, &data, 0, 1, NULL, &sum, &err), 0);
    near(sum.loss_sum / (double)sum.tokens, (double)fixture_f32(m->f, "loss", 1)[0], 1e-5,
         "loss of an evaluation");
    rig_close(&rig);
}

/* What is frozen is as it was, to the bit. */
static void untouched(const struct adapted *a, const float *now)
{
    size_t same = 0, trained = 0, total = arch_total(&a->config);

    for (size_t i = 0; i < a->family.n; i++)
        trained += a->family.tensor[i].count;
    for (size_t i = 0; i < total; i++)
        same += !memcmp(now + i, a->params + i, sizeof *now);
    assert_int_equal(total - same, trained); // all that is trained has moved
}

static void steps(struct adapted *a, size_t how)
{
    struct family         *m = &a->family;
    struct trainer_options o = rig_options(a->config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct batch_source    data = { family_batch, m };
    const float           *loss = fixture_f32(m->f, "step_losses", m->steps);
    const float           *norm = fixture_f32(m->f, "step_norms", m->steps);
    struct step_result     result;
    struct err             err;

    o.model.grad_accum = m->accum;
    o.schedule = (struct schedule){ SCHEDULE_COSINE, 2e-3, 2e-4, 5, 20, 0 };
    o.clip = 1.0;
    rig_placement(&o, how);
    struct rig rig = rig_open(&o, a->params, 0.1f, 0);
    for (uint64_t s = 0; s < m->steps; s++) {
        assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
        near(result.loss, (double)loss[s], 1e-5, "a step's loss");
        near(result.grad_norm, (double)norm[s], 1e-5, "a step's norm");
    }
    const float *params = stream_plain_params(rig.stream);
    untouched(a, params);
    print_message("%s: trained parameters after %zu steps off by %.1e\n", m->name, m->steps,
                  family_compare(m, "step_params", trained_written(a, params), 0, 0, 1e-5));
    rig_close(&rig);
}

/* The model without adapters, with merged matrices, has the same loss. */
static void merged(struct adapted *a)
{
    const struct model_config *g = &a->config;
    struct family             *m = &a->family;
    float                     *params = floats_new(arch_total(&a->base.config));
    struct trainer_options o = rig_options(a->base.config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct batch_source    data = { family_batch, m };
    struct eval_result     sum = { 0 };
    struct err             err;

    memcpy(params, a->base.params, arch_total(&a->base.config) * sizeof *params);
    for (size_t layer = 1; layer <= g->n_layer; layer++)
        for (size_t t = 0; t < g->arch->n_params; t++) {
            float *w = params + begins(&a->base.config, arch_layer_block(g, layer)) +
                       arch_offset(g, t);
            const float *adapter = a->params + begins(g, arch_adapter_block(g, layer));
            size_t       size = arch_size(g, t), half = size / 2;

            if (!arch_size(g, arch_a(t)))
                continue;
            for (size_t from = 0; from < size; from += half, half = size - half) // in two parts
                lora_merged(w + from, g, t, from, half, w + from,
                            adapter + arch_offset(g, arch_a(t)),
                            adapter + arch_offset(g, arch_b(t)));
        }
    struct rig rig = rig_open(&o, params, 0, 0);
    assert_int_equal(eval_step(rig.trainer, 0, &data, 0, 1, NULL, &sum, &err), 0);
    near(sum.loss_sum / (double)sum.tokens, (double)fixture_f32(m->f, "loss", 1)[0], 1e-5,
         "loss of merged matrices");
    rig_close(&rig);
    free(params);
}

/* ---- the same bits ---- */

/* The parameters after three steps with dropout. */
static float *dropped_steps(struct adapted *a, enum dtype dtype, int threads, size_t how)
{
    struct family         *m = &a->family;
    struct trainer_options o = rig_options(a->config, m->batch, m->seq, dtype, MATMUL_AUTO);
    struct batch_source    data = { family_batch, m };
    size_t                 total = arch_total(&a->config);
    float                 *out = floats_new(total);
    struct step_result     result;
    struct err             err;

    o.model.config.lora.dropout = 0.3f;
    o.model.grad_accum = m->accum;
    o.model.threads = threads;
    rig_placement(&o, how);
    struct rig rig = rig_open(&o, a->params, 0.1f, 0);
    for (uint64_t s = 0; s < 3; s++)
        assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
    memcpy(out, stream_plain_params(rig.stream), total * sizeof *out);
    untouched(a, out);
    rig_close(&rig);
    return out;
}

static void placements(struct adapted *a, enum dtype dtype)
{
    static const size_t ways[] = { 0, 1, RIG_OFFLOAD, RIG_OFFLOAD + 1, RIG_MIXED + 3, RIG_AUTO };
    size_t              bytes = arch_total(&a->config) * sizeof(float);
    float              *kept = dropped_steps(a, dtype, 1, 2);

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *other = dropped_steps(a, dtype, 1 + (int)(i % 2), ways[i]);

        if (memcmp(kept, other, bytes))
            fail_msg("%s, %s: other bits with ways %zu", a->family.name, dtype_name(dtype),
                     ways[i]);
        free(other);
    }
    free(kept);
}

/* The gradients of a step's micro-batches [first, first + n), of two. */
static float *micro_grads(struct adapted *a, size_t first, size_t n)
{
    struct family         *m = &a->family;
    struct trainer_options o = rig_options(a->config, m->batch, m->seq, DT_F32, MATMUL_AUTO);
    struct batch_source    data = { family_batch, m };
    size_t                 total = arch_total(&a->config);
    float                 *out = floats_new(total);
    struct step_result     result;
    struct err             err;

    o.model.config.lora.dropout = 0.3f;
    o.model.micros = 2;
    o.model.grad_accum = n;
    o.model.first_micro = first;
    struct rig rig = rig_open(&o, a->params, 0, 0);
    assert_int_equal(train_step(rig.trainer, 1, &data, &result, &err), 0);
    memcpy(out, stream_plain_grads(rig.stream), total * sizeof *out);
    rig_close(&rig);
    return out;
}

/* A rank that computes one of two micro-batches has the masks that one process has. */
static void micro_batches(struct adapted *a)
{
    size_t total = arch_total(&a->config);
    float *both = micro_grads(a, 0, 2), *first = micro_grads(a, 0, 1),
          *second = micro_grads(a, 1, 1);

    assert_int_equal(a->family.accum, 2);
    for (size_t i = 0; i < total; i++)
        first[i] = (first[i] + second[i]) / 2; // each is the mean of its own tokens
    assert_true(max_distance(first, both, total, 0) < 1e-6);
    free(both);
    free(first);
    free(second);
}

/* ---- */

static void adapted_test(void **state)
{
    static const char *const placed[] = { "lora_gpt2", "lora_qwen2", "lora_gemma3",
                                          "lora_bert_labels" };
    struct adapted           a;

    adapted_open(&a, *state);
    for (size_t e = 0; e < 2; e++)
        gradients(&a, rig_engine(e));
    losses(&a);
    for (size_t single = 0; a.family.ids && single < 3; single++)
        family_logits(&a.family, &a.config, a.params, single);
    steps(&a, 2);
    merged(&a);
    for (size_t i = 0; i < sizeof placed / sizeof *placed; i++)
        if (!strcmp(a.family.name, placed[i]))
            placements(&a, rig_runs_bf16(MATMUL_AUTO) ? DT_BF16 : DT_F32);
    if (!strcmp(a.family.name, "lora_qwen2"))
        micro_batches(&a);
    adapted_close(&a);
}

int main(void)
{
    enum { N = sizeof names / sizeof *names };
    struct CMUnitTest tests[N];

    for (size_t i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ names[i], adapted_test, tempdir_set_up, tempdir_tear_down,
                                        (void *)(uintptr_t)names[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
