/* Adapter folders: what is written is read back, for every family and head; the base's parameters
 * come from the base; merged matrices are W + scale B A; what siTrain does not train is refused by
 * its key. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/file/file.h"
#include "model/lora/adapted.h"
#include "model/file/peft.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A small model of a family, n_labels 0: a language model. */
static struct model_config small(const struct arch *of, size_t labels)
{
    return arch_config(of, (struct model_config){
        .n_layer = 2, .n_head = 3, .n_kv_head = of->linear && !of->encoder ? 1 : 3, .head_dim = 4,
        .n_embd = 12, .n_inner = of->linear ? 20 : 0, .vocab = 37, .n_positions = 11,
        .norm_eps = 1e-5f, .n_labels = labels, .qkv_bias = of == &qwen2_arch,
        .untied = of == &llama_arch, .qk_norm = of == &qwen3_arch || of == &gemma3_arch,
        .n_types = of->encoder ? 2 : 0, .window = of == &gemma3_arch ? 4 : 0,
        .global_every = of == &gemma3_arch ? 2 : 0, .theta_local = of == &gemma3_arch ? 100 : 0,
        .rope = { .theta = of->encoder || of == &gpt2_arch ? 0 : 1e4 } });
}

static void adapt(struct model_config *g, const char *words)
{
    struct arch_lora lora = { .rank = 3, .alpha = 6.5f, .dropout = 0.05f, .rs = 1 };
    struct err       err = { 0 };

    if (lora_targets_named(g->arch, words, &lora.targets, &err) || lora_set(g, &lora, &err))
        fail_msg("%s: %s", g->arch->name, err.text);
}

static int make_values(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct model_config *g = ctx;

    (void)err;
    assert_true(block < arch_blocks(g) && first + n <= arch_block_size(g, block));
    arch_init_values(out, g, block, first, n, 7);
    for (size_t i = 0; i < n; i++) // so that biases, norms and B differ from each other, too
        out[i] += (float)((first + i) % 64) / 64.0f + (float)block;
    return 0;
}

static struct params_source values_of(const struct model_config *g)
{
    return (struct params_source){ make_values, (void *)(uintptr_t)g };
}

static const char *folder(const char *tmp, const char *name)
{
    static char path[512];

    assert_true(snprintf(path, sizeof path, "%s/%s", tmp, name) < (int)sizeof path);
    return path;
}

static const char *write_adapter(const char *tmp, const char *name, const struct model_config *g,
                                 const char *base)
{
    struct hf_export x = { .config = *g, .dtype = ST_F32, .source = values_of(g), .endoftext = -1,
                           .begin = -1, .pad = -1, .base = base };
    struct err       err = { 0 };

    if (hf_export(folder(tmp, name), &x, &err))
        fail_msg("%s", err.text);
    return folder(tmp, name);
}

/* Every value of both sources, read in pieces of an odd size. */
static void same_values(const struct model_config *g, struct params_source got,
                        struct params_source want)
{
    for (size_t b = 0; b < arch_blocks(g); b++) {
        size_t n = arch_block_size(g, b);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);

        assert_int_equal(want.read(want.ctx, b, 0, n, x, NULL), 0);
        for (size_t at = 0; at < n; at += 101)
            assert_int_equal(got.read(got.ctx, b, at, n - at < 101 ? n - at : 101, y + at, NULL),
                             0);
        for (size_t i = 0; i < n; i++)
            if (memcmp(x + i, y + i, sizeof *x))
                fail_msg("%s: block %zu, value %zu: %g, not %g", g->arch->name, b, i, (double)y[i],
                         (double)x[i]);
        free(x);
        free(y);
    }
}

static void round_trip(const char *tmp, const struct arch *of, size_t labels, const char *words)
{
    struct model_config  base = small(of, labels), g = base, again = base;
    struct unadapted     bare = { &g, values_of(&g) };
    struct peft_base     from = { unadapted_source(&bare), labels, 0 };
    struct peft         *p;
    struct err           err = { 0 };

    adapt(&g, words);
    const char *dir = write_adapter(tmp, "adapter", &g, "some/where");
    assert_true(peft_is_folder(dir));
    if (peft_config(&again, dir, &err) || peft_open(&p, &again, &from, dir, NULL, &err))
        fail_msg("%s, %zu labels, %s: %s", of->name, labels, words, err.text);
    assert_memory_equal(&again.lora, &g.lora, sizeof g.lora);
    assert_int_equal(again.n_labels, labels);
    same_values(&g, peft_source(p), values_of(&g));
    peft_close(p);
    if (labels) { // on the folder of a language model, which has no such head
        again = small(of, 0);
        from = (struct peft_base){ unadapted_source(&bare), 0, 0 };
        if (peft_config(&again, dir, &err) || peft_open(&p, &again, &from, dir, NULL, &err))
            fail_msg("%s, head on a language model: %s", of->name, err.text);
        assert_int_equal(again.n_labels, labels);
        same_values(&g, peft_source(p), values_of(&g));
        peft_close(p);
    }
    file_remove_tree(dir);
}

static void test_round_trip(void **state)
{
    static const char *const words[] = { NULL, "attention", "mlp", "all" };
    char                    *tmp = tempdir_new();
    const struct arch       *of;

    (void)state;
    for (size_t f = 0; (of = arch_at(f)); f++)
        for (size_t labels = 0; labels < 4; labels += 3)
            for (size_t w = 0; w < sizeof words / sizeof *words; w++)
                round_trip(tmp, of, labels, words[w]);
    tempdir_remove(tmp);
}

/* Names of modules are as short as they can be, and mean no module without an adapter. */
static void test_targets(void **state)
{
    static const struct { const struct arch *of; const char *words, *expected; } cases[] = {
        { &gpt2_arch, "c_attn", "[\"c_attn\"]" },
        { &gpt2_arch, "attention", "[\"c_attn\",\"attn.c_proj\"]" },
        { &gpt2_arch, "c_proj", "[\"c_proj\"]" },
        { &llama_arch, "all", "[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\","
                              "\"up_proj\",\"down_proj\"]" },
        { &bert_arch, "attention", "[\"query\",\"key\",\"value\",\"attention.output.dense\"]" },
        { &bert_arch, "all", "[\"query\",\"key\",\"value\",\"output.dense\","
                             "\"intermediate.dense\"]" },
        { &bert_arch, "mlp", "[\"intermediate.dense\",\"encoder.layer.0.output.dense\","
                             "\"encoder.layer.1.output.dense\"]" },
    };
    char *tmp = tempdir_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config g = small(cases[i].of, 0);
        char                path[512];
        json_t             *settings;

        adapt(&g, cases[i].words);
        const char *dir = write_adapter(tmp, "t", &g, "");
        snprintf(path, sizeof path, "%s/adapter_config.json", dir);
        assert_int_equal(json_read(&settings, path, 1 << 16, NULL), 0);
        char *said = json_dumps(json_object_get(settings, "target_modules"), JSON_COMPACT);
        assert_string_equal(said, cases[i].expected);
        assert_int_equal(json_flag(settings, "fan_in_fan_out", -1), cases[i].of == &gpt2_arch);
        assert_true(json_is_null(json_object_get(settings, "base_model_name_or_path")));
        free(said);
        json_decref(settings);
        file_remove_tree(dir);
    }
    tempdir_remove(tmp);
}

/* Merged: W + scale B A for matrices with an adapter, in either layout; all else as it is. */
static void check_merged(const struct arch *of, const char *words)
{
    struct model_config  g = small(of, 0), base = g;
    struct params_source inner = values_of(&g), got;
    struct merged       *m;

    adapt(&g, words);
    assert_int_equal(merged_open(&m, &g, &inner, NULL), 0);
    got = merged_source(m);
    for (size_t b = 0; b < arch_blocks(&base); b++) {
        size_t n = arch_block_size(&base, b), at = b;
        float *x = malloc(n * sizeof *x), *w = malloc(n * sizeof *w);

        while (lora_base_block(&g, at) != b)
            at++;
        assert_int_equal(inner.read(inner.ctx, at, 0, n, w, NULL), 0);
        for (size_t i = 0; i < n; i += 53)
            assert_int_equal(got.read(got.ctx, b, i, n - i < 53 ? n - i : 53, x + i, NULL), 0);
        for (size_t i = 0; i < n; i++) {
            struct arch_place p = arch_place(&base, b, i);
            double            sum = 0;

            if (arch_block_kind(&base, b) == ARCH_LAYER && g.lora.targets >> p.t & 1) {
                size_t cols = arch_cols(&g, p.t), row = p.in / cols, col = p.in % cols;
                size_t o = of->linear ? row : col, k = of->linear ? col : row;
                size_t adapter = arch_adapter_block(&g, arch_layer(&g, b));

                for (size_t r = 0; r < 3; r++) {
                    float a, c;

                    inner.read(inner.ctx, adapter, arch_offset(&g, arch_a(p.t)) +
                               r * arch_cols(&g, arch_a(p.t)) + k, 1, &a, NULL);
                    inner.read(inner.ctx, adapter, arch_offset(&g, arch_b(p.t)) + o * 3 + r, 1, &c,
                               NULL);
                    sum += (double)a * (double)c;
                }
                sum *= 6.5 / sqrt(3.0);
            }
            assert_true(fabs((double)x[i] - ((double)w[i] + sum)) <= 1e-5 * fabs(sum) + 1e-12);
        }
        free(x);
        free(w);
    }
    merged_close(m);
}

static void test_merged(void **state)
{
    (void)state;
    check_merged(&gpt2_arch, "all");
    check_merged(&llama_arch, "v_proj,down_proj");
    check_merged(&bert_arch, "query,output.dense");
}

/* New adapters on a base: the base's values in their places, B zero, A not. */
static void test_adapted(void **state)
{
    struct model_config  base = small(&llama_arch, 0), g = base;
    struct adapted       a = { &g, values_of(&base), 5 };
    struct params_source new = adapted_source(&a);
    struct unadapted     bare = { &g, new };
    float                x = 1, y;

    (void)state;
    adapt(&g, NULL);
    same_values(&base, unadapted_source(&bare), values_of(&base));
    size_t block = arch_adapter_block(&g, 2), b = 0;
    while (!arch_size(&g, arch_b(b)))
        b++;
    assert_int_equal(new.read(new.ctx, block, arch_offset(&g, arch_b(b)), 1, &x, NULL), 0);
    assert_int_equal(new.read(new.ctx, block, arch_offset(&g, arch_a(b)), 1, &y, NULL), 0);
    assert_true(x == 0.0f && y != 0.0f);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    files_write(path, text, strlen(text));
}

static void test_refusals(void **state)
{
    enum { MERGED = 8 }; // those whose message says that the adapter can be merged elsewhere
    static const struct { const char *json, *says; } cases[] = {
        { "{\"peft_type\":\"IA3\"}", "\"peft_type\" is \"IA3\"" },
        { "{\"peft_type\":\"LORA\",\"bias\":\"all\"}", "\"bias\" is \"all\"" },
        { "{\"peft_type\":\"LORA\",\"use_dora\":true}", "\"use_dora\"" },
        { "{\"peft_type\":\"LORA\",\"rank_pattern\":{\"q_proj\":4}}", "\"rank_pattern\"" },
        { "{\"peft_type\":\"LORA\",\"alpha_pattern\":{\"q_proj\":4}}", "\"alpha_pattern\"" },
        { "{\"peft_type\":\"LORA\",\"layers_to_transform\":[1]}", "\"layers_to_transform\"" },
        { "{\"peft_type\":\"LORA\",\"init_lora_weights\":\"pissa\"}", "\"init_lora_weights\"" },
        { "{\"peft_type\":\"LORA\",\"modules_to_save\":[\"embed_tokens\"]}", "\"embed_tokens\"" },
        { "{\"peft_type\":\"LORA\",\"task_type\":\"TOKEN_CLS\"}", "\"task_type\"" },
        { "{\"peft_type\":\"LORA\",\"task_type\":\"SEQ_CLS\"}", "without a head" },
        { "{\"peft_type\":\"LORA\",\"r\":0}", "\"r\"" },
        { "{\"peft_type\":\"LORA\",\"r\":3,\"lora_alpha\":-1}", "\"lora_alpha\"" },
        { "{\"peft_type\":\"LORA\",\"r\":3,\"lora_dropout\":\"much\"}", "\"lora_dropout\"" },
        { "{\"peft_type\":\"LORA\",\"r\":3,\"lora_dropout\":1.0}", "config.json: the dropout" },
    };
    char               *tmp = tempdir_new();
    struct model_config g = small(&llama_arch, 0), base = g, other;
    struct err          err;
    char                path[HF_PATH_BYTES];

    (void)state;
    adapt(&g, NULL);
    const char *dir = write_adapter(tmp, "a", &g, "org/model");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        other = base;
        put(dir, "adapter_config.json", cases[i].json);
        assert_int_not_equal(peft_config(&other, dir, &err), 0);
        if (!err.misuse || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].json, err.text);
        if (i < MERGED && !strstr(err.text, "-merged, to begin with"))
            fail_msg("%s: %s", cases[i].json, err.text);
    }
    put(dir, "adapter_config.json", "{\"peft_type\":\"LORA\",\"r\":3,"
                                    "\"base_model_name_or_path\":\"org/model\"}");
    assert_int_not_equal(peft_base(path, dir, NULL, &err), 0);
    assert_non_null(strstr(err.text, "give --base HFDIR"));
    put(dir, "adapter_config.json", "{\"peft_type\":\"LORA\",\"r\":3,"
                                    "\"base_model_name_or_path\":\"org/model-unsloth-bnb-4bit\"}");
    assert_int_not_equal(peft_base(path, dir, NULL, &err), 0);
    assert_non_null(strstr(err.text, "is quantized: give --base HFDIR"));
    assert_non_null(strstr(err.text, "from_pretrained('org/model')"));
    other = small(&llama_arch, 0);
    other.n_layer = 3; // the base has a layer that has no adapter
    assert_int_not_equal(peft_config(&other, dir, &err), 0);
    assert_non_null(strstr(err.text, "in 2 of the 3 layers"));
    other = base;
    put(dir, "adapter_config.json", "{\"peft_type\":\"LORA\",\"r\":2}");
    struct peft_base from = { values_of(&base), 0, 0 };
    struct peft     *p;
    assert_int_equal(peft_config(&other, dir, &err), 0);
    assert_int_not_equal(peft_open(&p, &other, &from, dir, NULL, &err), 0);
    assert_non_null(strstr(err.text, "does not have the shape"));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    unlink(path);
    put(dir, "adapter_model.bin", "");
    other = base;
    assert_int_not_equal(peft_config(&other, dir, &err), 0);
    assert_non_null(strstr(err.text, "save_file"));
    tempdir_remove(tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_merged),     cmocka_unit_test(test_adapted),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
