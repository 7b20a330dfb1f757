/* test_lora.c: which matrices have adapters, by name; the blocks of a model with adapters, its
 * frozen parameters and its initial values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/family/gpt2.h"
#include "model/lora/lora.h"

static float *floats_new(size_t n)
{
    float *out = calloc(n, sizeof *out);

    assert_non_null(out);
    return out;
}

/* ---- by name ---- */

static uint64_t targets(const char *family, const char *words)
{
    uint64_t   out;
    struct err err;

    if (lora_targets_named(arch_named(family), words, &out, &err))
        fail_msg("%s", err.text);
    return out;
}

static void refused(const char *family, const char *words, const char *why)
{
    uint64_t   out;
    struct err err = { 0 };

    assert_int_equal(lora_targets_named(arch_named(family), words, &out, &err), -EINVAL);
    if (!err.misuse || !strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void test_names(void **state)
{
    const char *const usual[][2] = {
        { "gpt2", "c_attn" }, { "llama", "q_proj,v_proj" }, { "mistral", "q_proj,v_proj" },
        { "qwen2", "v_proj,q_proj" }, { "qwen3", "self_attn.q_proj,v_proj" },
        { "gemma3_text", "q_proj,v_proj" }, { "bert", "query,value" },
        { "roberta", "attention.self.query,value" },
    };
    char path[64];

    (void)state;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const char *family = usual[i][0];

        assert_true(targets(family, NULL) == targets(family, usual[i][1]));
        assert_true(targets(family, "") == targets(family, usual[i][1]));
        assert_true(targets(family, "attention,mlp") == targets(family, "all"));
        assert_true((targets(family, "attention") & targets(family, "mlp")) == 0);
    }
    assert_true(targets("gpt2", "c_proj") == targets("gpt2", "attn.c_proj,mlp.c_proj"));
    assert_true(targets("gpt2", "attn.c_proj") != targets("gpt2", "mlp.c_proj"));
    assert_true(targets("bert", "output.dense") ==
                (targets("bert", "attention.output.dense") | targets("bert", "mlp")) -
                    targets("bert", "intermediate.dense"));
    assert_true(targets("llama", "all-linear") == targets("llama", "all")); // PEFT's word
    assert_true(targets("llama", " q_proj, v_proj ") == targets("llama", "q_proj,v_proj"));
    refused("llama", "model.layers.0.self_attn.q_proj", "they are adapted in all layers");
    assert_true(targets("llama", "mlp") == targets("llama", "gate_proj,up_proj,down_proj"));
    lora_module(arch_named("llama"), (size_t)__builtin_ctzll(targets("llama", "o_proj")), path,
                sizeof path);
    assert_string_equal(path, "self_attn.o_proj");
    refused("llama", "c_attn", "\"c_attn\" names no matrix in a layer of Llama: name some of "
            "self_attn.q_proj, self_attn.k_proj");
    refused("llama", "q_proj,", "\"\" names no matrix");
    refused("llama", "proj", "\"proj\" names no");
    refused("llama", "lm_head", "outside the layers");
    refused("bert", "dense", "outside the layers");
    refused("gpt2", "ln_1", "names no matrix");
}

/* Blocks: the layers, their adapters, the final norm. Without adapters, as ever. */
static void test_blocks(void **state)
{
    struct model_config g, plain;
    struct arch_lora    lora = { .rank = 8, .alpha = 16, .targets = targets("gpt2", NULL) }, bad;
    struct err          err = { 0 };
    char                name[96];

    (void)state;
    assert_int_equal(arch_preset(&g, "gpt2"), 0);
    plain = g;
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    assert_int_equal(arch_blocks(&plain), 1 + 12 + 1);
    assert_int_equal(arch_blocks(&g), 1 + 12 + 12 + 1);
    assert_int_equal(arch_total(&g), arch_total(&plain) + 12 * 8 * (768 + 3 * 768));
    assert_int_equal(arch_block_size(&g, 13), 8 * (768 + 3 * 768));
    assert_int_equal(arch_block_kind(&g, 13), ARCH_ADAPTER);
    assert_int_equal(arch_layer(&g, 24), 12);
    assert_int_equal(arch_final_block(&g), 25);
    assert_int_equal(lora_base_block(&g, 25), 13);
    assert_int_equal(lora_base_block(&g, 12), 12);
    assert_true(lora_base_block(&g, 13) == SIZE_MAX);
    assert_true(arch_flops_per_token(&g, 128, 1) - arch_flops_per_token(&plain, 128, 1) ==
                6 * 12 * 8 * (768 + 3 * 768) - 2 * (12 * 12 * 768 * 768 + 50257 * 768));
    arch_tensor_name(&g, name, sizeof name, "", 14, arch_b(GPT2_QKV_W));
    assert_string_equal(name, "h.1.attn.c_attn.lora_B.weight");
    for (size_t b = 0; b < arch_blocks(&g); b++)
        assert_int_equal(arch_trains(&g, b), b > 12 && b < 25);
    bad = lora;
    bad.targets = 0;
    assert_int_equal(lora_set(&g, &bad, &err), -EINVAL);
    assert_true(err.misuse && strstr(err.text, "no matrices"));
    bad = lora;
    bad.alpha = 0;
    assert_int_equal(lora_set(&g, &bad, &err), -EINVAL);
    bad = lora;
    bad.dropout = 1;
    assert_int_equal(lora_set(&g, &bad, &err), -EINVAL);
    plain = lora_base(&g);
    assert_int_equal(arch_blocks(&plain), 14);
    assert_true(arch_trains(&plain, 0));
    lora.rank = 0;
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    assert_int_equal(arch_blocks(&g), 14);
    assert_true(arch_trains(&g, 0));
}

/* A classifier's head is trained whole: of RoBERTa two matrices, of BERT without the pooler. */
static void test_heads(void **state)
{
    static const struct { const char *preset, *saved; size_t tensors; } heads[] = {
        { "gpt2", "score", 1 }, { "bert-base", "classifier", 2 },
        { "roberta-base", "classifier", 4 },
    };
    struct model_config g;
    char                saved[32];

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct arch_lora lora = { .rank = 2, .alpha = 1 };
        struct err       err;
        size_t           whole = 0, may = 0, trained;

        assert_int_equal(arch_preset(&g, heads[i].preset), 0);
        lora_saved(&g, saved, sizeof saved);
        assert_string_equal(saved, "");
        g.n_labels = 3;
        lora_saved(&g, saved, sizeof saved);
        assert_string_equal(saved, heads[i].saved);
        lora.targets = targets(g.arch->name, "all");
        assert_int_equal(lora_set(&g, &lora, &err), 0);
        for (size_t t = 0; t < g.arch->n_params; t++) {
            assert_int_equal(lora_may(g.arch, t), lora.targets >> t & 1);
            assert_int_equal(lora_is_whole(&g, t), !arch_is_frozen(&g, t));
            whole += (size_t)lora_is_whole(&g, t);
            may += (size_t)lora_may(g.arch, t);
        }
        assert_int_equal(whole, heads[i].tensors);
        assert_int_equal(may, g.arch->encoder ? 6 : 4);
        assert_true(arch_trains(&g, arch_final_block(&g)));
        trained = lora_trained(&g);
        if (!g.arch->encoder) {
            g.pieces = 5; // of the words
            assert_int_equal(lora_trained(&g), trained);
        }
        assert_true(trained > 0 && trained < arch_total(&g) - arch_block_size(&g, 0));
    }
}

/* A is uniform within 1 / sqrt(in), B is zero; any part of a block alone, another seed other
 * values; a base has the values that it has without adapters. */
static void test_initial(void **state)
{
    struct model_config g, plain;
    struct arch_lora    lora = { .rank = 4, .alpha = 8, .targets = targets("gpt2", "mlp") };
    struct err          err;
    size_t              n = 4 * (768 + 3072) * 2, in = 4 * 768;
    float              *a = floats_new(n), *b = floats_new(n);
    double              sum = 0, square = 0;

    (void)state;
    assert_int_equal(arch_preset(&g, "gpt2"), 0);
    plain = g;
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    assert_int_equal(arch_block_size(&g, arch_adapter_block(&g, 3)), n);
    arch_init_values(a, &g, arch_adapter_block(&g, 3), 0, n, 5);
    for (size_t i = 0; i < in; i++) { // A of c_fc
        sum += (double)a[i];
        square += (double)a[i] * (double)a[i];
        assert_true(fabs((double)a[i]) <= 1 / sqrt(768));
    }
    assert_true(fabs(sum / (double)in) < 2e-3);
    assert_true(fabs(square / (double)in * 3 * 768 - 1) < 0.05);
    for (size_t i = in; i < in + 4 * 3072; i++)
        assert_true(a[i] == 0);
    assert_true(a[in + 4 * 3072] != 0); // A of c_proj
    arch_init_values(b, &g, arch_adapter_block(&g, 3), 1001, 77, 5);
    assert_memory_equal(a + 1001, b, 77 * sizeof *b);
    arch_init_values(b, &g, arch_adapter_block(&g, 2), 0, n, 5);
    assert_true(a[0] != b[0]);
    arch_init_values(b, &g, arch_adapter_block(&g, 3), 0, n, 6);
    assert_true(a[0] != b[0]);
    arch_init_values(a, &g, arch_layer_block(&g, 2), 0, n, 5);
    arch_init_values(b, &plain, arch_layer_block(&plain, 2), 0, n, 5);
    assert_memory_equal(a, b, n * sizeof *a);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_blocks),
                                        cmocka_unit_test(test_heads),
                                        cmocka_unit_test(test_initial) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
