/* test_arch.c: the table of parameters: sizes of known models, offsets without gaps, initial values
 * that do not depend on where they are cut, ranges of weight decay that cover everything once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/family/gpt2.h"

static struct model_config tiny(void)
{
    return arch_config(&gpt2_arch, (struct model_config){
        .n_layer = 2, .n_head = 3, .n_embd = 36, .vocab = 101, .n_positions = 24,
        .norm_eps = 1e-5f });
}

static void test_presets(void **state)
{
    static const struct {
        const char *name;
        size_t      total;
    } known[] = {
        // tied heads, as Hugging Face counts them
        {"gpt2", 124439808},
        {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},
        // as their pages on the Hub count them
        {"smollm2-135m", 134515008},
        {"smollm2-360m", 361821120},
        {"smollm2-1.7b", 1711376384},
        {"llama-3.2-1b", 1235814400},
        {"llama-3.2-3b", 3212749824},
        {"llama-3.1-8b", 8030261248},
        {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-1.5b", 1543714304},
        {"qwen2.5-3b", 3085938688},
        {"qwen2.5-7b", 7615616512},
        {"gemma-3-270m", 268098176},
        {"gemma-3-1b", 999885952},
        // as transformers counts BertForMaskedLM and RobertaForMaskedLM
        {"bert-base", 109514298},
        {"bert-large", 335174458},
        {"roberta-base", 124697433},
        {"roberta-large", 355412057},
    };
    struct model_config g;

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(arch_preset(&g, known[i].name), 0);
        assert_int_equal(arch_check(&g, NULL), 0);
        assert_int_equal(arch_total(&g), known[i].total);
    }
    assert_int_equal(arch_preset(&g, "gpt2-2.7b"), 0);
    assert_int_equal(arch_check(&g, NULL), 0);
    assert_true(arch_total(&g) > 2600000000u && arch_total(&g) < 2800000000u);
    assert_int_equal(arch_preset(&g, "gpt3"), -1);
}

static void test_blocks_without_gaps(void **state)
{
    struct model_config g = tiny();

    (void)state;
    for (size_t block = 0; block < arch_blocks(&g); block++) {
        size_t t, end;
        size_t at = 0;

        for (arch_block_tensors(&g, block, &t, &end); t < end; t++) {
            assert_int_equal(arch_param(&g, t)->block, arch_block_kind(&g, block));
            assert_int_equal(arch_offset(&g, t), at);
            at += arch_size(&g, t);
        }
        assert_int_equal(arch_block_size(&g, block), at);
    }
    assert_int_equal(arch_dim(&g, DIM_QKV), 108);
    assert_int_equal(arch_rows(&g, GPT2_MLP_PROJ_W), 144);
    assert_int_equal(arch_cols(&g, GPT2_QKV_W), 108);
}

/* A step's FLOPs by the sizes alone: no table that rows are looked up in, no norm. */
static void check_flops(const struct model_config *g, size_t seq, double head, double matrices,
                        double attention)
{
    double flops = arch_flops_per_token(g, seq, head);

    assert_true(fabs(flops - 6 * matrices - attention) < 1);
}

static void test_flops(void **state)
{
    struct model_config g;
    const double small = 12 * 12 * 768.0 * 768, words = 128256.0 * 4096,
                 layers = 32 * 4096.0 * (2 * 4096 + 2 * 1024 + 3 * 14336);

    (void)state;
    assert_int_equal(arch_preset(&g, "gpt2"), 0);
    check_flops(&g, 1024, 1, small + 50257 * 768.0, 12 * 12 * 768.0 * 512);
    g.n_labels = 2; // words are only looked up
    check_flops(&g, 1024, 1, small, 12 * 12 * 768.0 * 512);

    // embeddings beside a head of its own are looked up, too; heads of keys are fewer
    assert_int_equal(arch_preset(&g, "llama-3.1-8b"), 0);
    check_flops(&g, 2048, 1, layers + words, 12 * 32 * 4096.0 * 1024);
    g.untied = 0; // and a tied head is multiplied with
    check_flops(&g, 2048, 1, layers + words, 12 * 32 * 4096.0 * 1024);
    assert_int_equal(arch_embeddings(&g), 128256 * 4096);

    // an encoder's tokens see the whole row, its head is asked for some of them
    assert_int_equal(arch_preset(&g, "bert-base"), 0);
    check_flops(&g, 512, 0.15, small + 0.15 * (30522 * 768.0 + 768 * 768.0),
                12 * 12 * 768.0 * 512);
    assert_int_equal(arch_embeddings(&g), (30522 + 512 + 2) * 768);

    // windows in all layers but every sixth
    assert_int_equal(arch_preset(&g, "gemma-3-270m"), 0);
    double more = arch_flops_per_token(&g, 2048, 1) - arch_flops_per_token(&g, 512, 1);
    assert_true(fabs(more - 12 * 1024.0 * (3 * (1024 - 256) + 15 * (512 * 0.875 - 256))) < 1);
}

/* What other families have is none of an encoder's, whatever stood there. */
static void test_settle(void **state)
{
    const struct arch *encoders[] = { &bert_arch, &roberta_arch, &gpt2_arch };
    struct model_config plain = { .n_layer = 2, .n_head = 3, .n_embd = 36, .vocab = 101,
                                  .n_positions = 24, .norm_eps = 1e-5f }, odd = plain;

    (void)state;
    odd.window = odd.global_every = odd.untied = odd.qkv_bias = odd.qk_norm = 1;
    odd.rope = (struct rope){ .D = 12, .theta = 1e4 };
    for (size_t i = 0; i < 3; i++) {
        struct model_config g = arch_config(encoders[i], odd), h = arch_config(encoders[i], plain);

        assert_int_equal(arch_total(&g), arch_total(&h));
        assert_int_equal(g.rope.D, 0);
        for (size_t layer = 1; layer <= g.n_layer; layer++)
            assert_int_equal(arch_window(&g, layer), 0);
    }
}

static void test_families(void **state)
{
    (void)state;
    assert_ptr_equal(arch_named("gpt2"), &gpt2_arch);
    assert_null(arch_named("gpt3"));
}

static void test_check(void **state)
{
    struct model_config good = tiny(), g;
    struct err        err;

    (void)state;
    assert_int_equal(arch_check(&good, NULL), 0);
    g = good, g.n_head = 5;
    memset(&err, 0, sizeof err);
    assert_true(arch_check(&g, &err) < 0 && err.misuse && err.text[0]);
    g = good, g.n_head = 0;
    assert_true(arch_check(&g, &err) < 0);
    g = good, g.n_layer = 0;
    assert_true(arch_check(&g, &err) < 0);
    g = good, g.vocab = ((size_t)1 << 31) + 1;
    assert_true(arch_check(&g, &err) < 0);
    g = good, g.n_positions = 0;
    assert_true(arch_check(&g, &err) < 0);
    g = good, g.norm_eps = NAN;
    assert_true(arch_check(&g, &err) < 0);
}

static void test_check_heads(void **state)
{
    struct model_config of = { .n_layer = 1, .n_head = 4, .n_embd = 64, .n_inner = 64, .vocab = 9,
                               .n_positions = 8, .norm_eps = 1e-5f, .head_dim = 256,
                               .rope.theta = 1e4 },
                        g = arch_config(&llama_arch, of);
    struct err          err;

    (void)state;
    assert_int_equal(arch_check(&g, NULL), 0);
    of.head_dim = 258; // more than attention has room for
    g = arch_config(&llama_arch, of);
    assert_true(arch_check(&g, &err) < 0 && strstr(err.text, "256"));
    of = (struct model_config){ .n_layer = 1, .n_head = 2, .n_embd = 514, .vocab = 9,
                                .n_positions = 8, .norm_eps = 1e-5f };
    g = arch_config(&gpt2_arch, of);
    assert_true(arch_check(&g, &err) < 0 && strstr(err.text, "256"));
    // its parameters' bytes would be more than a size_t has
    of = (struct model_config){ .n_layer = 1 << 16, .n_head = 1 << 14, .n_embd = 1 << 20,
                                .n_inner = 1 << 22, .vocab = 9, .n_positions = 8,
                                .norm_eps = 1e-5f, .head_dim = 256, .rope.theta = 1e4 };
    g = arch_config(&llama_arch, of);
    assert_true(arch_check(&g, &err) < 0 && strstr(err.text, "2^58"));
    g.n_head = g.n_kv_head = (size_t)1 << 56;
    assert_true(arch_check(&g, &err) < 0 && strstr(err.text, "columns"));
}

static void test_init_values(void **state)
{
    struct model_config g = tiny();

    (void)state;
    for (size_t block = 0; block < arch_blocks(&g); block++) {
        size_t n = arch_block_size(&g, block);
        float *whole = malloc(n * sizeof *whole), *pieces = malloc(n * sizeof *pieces);

        assert_true(whole && pieces);
        arch_init_values(whole, &g, block, 0, n, 7);
        for (size_t at = 0, piece = 1; at < n; at += piece, piece = piece * 3 + 1) // 1, 4,
                                                                                   // 13, 40...
            arch_init_values(pieces + at, &g, block, at, piece < n - at ? piece : n - at, 7);
        assert_memory_equal(whole, pieces, n * sizeof *whole);
        arch_init_values(pieces, &g, block, 0, n, 8);
        if (block <= g.n_layer)
            assert_memory_not_equal(whole, pieces, n * sizeof *whole); // another seed
        free(whole);
        free(pieces);
    }
}

static void check_std(const float *x, size_t n, double std)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / (double)n) < 5 * std / sqrt((double)n));
    assert_true(fabs(sqrt(squares / (double)n) / std - 1) < 0.06);
}

static void test_init_distribution(void **state)
{
    struct model_config g = tiny();
    size_t n = arch_block_size(&g, 1), square = g.n_embd * g.n_embd;
    float *one = malloc(n * sizeof *one), *two = malloc(n * sizeof *two);

    (void)state;
    assert_true(one && two);
    arch_init_values(one, &g, 1, 0, n, 3);
    arch_init_values(two, &g, 2, 0, n, 3);
    check_std(one + arch_offset(&g, GPT2_QKV_W), 3 * square, 0.02);
    check_std(one + arch_offset(&g, GPT2_FC_W), 4 * square, 0.02);
    check_std(one + arch_offset(&g, GPT2_ATTN_PROJ_W), square, 0.02 / 2); // sqrt(2 n_layer) = 2
    check_std(one + arch_offset(&g, GPT2_MLP_PROJ_W), 4 * square, 0.02 / 2);
    for (size_t i = 0; i < g.n_embd; i++) {
        assert_true(one[arch_offset(&g, GPT2_LN1_W) + i] == 1.0f &&
                    one[arch_offset(&g, GPT2_LN2_W) + i] == 1.0f);
        assert_true(one[arch_offset(&g, GPT2_LN1_B) + i] == 0.0f &&
                    one[arch_offset(&g, GPT2_MLP_PROJ_B) + i] == 0.0f);
    }
    assert_memory_not_equal(one + arch_offset(&g, GPT2_QKV_W), two + arch_offset(&g, GPT2_QKV_W),
                            square * sizeof *one);
    free(one);
    free(two);
}

struct cover { size_t next, decayed, pieces; int last; };

static struct cover count_ranges(const struct model_config *g, size_t block, size_t first, size_t n,
                                 int decay_all)
{
    struct cover c = { 0 };

    for (size_t count; c.next < n; c.next += count, c.pieces++) {
        int decays = arch_decays(g, block, first + c.next, n - c.next, decay_all, &count);

        assert_true(count > 0 && count <= n - c.next);
        assert_true(c.pieces == 0 || decays != c.last); // pieces are as long as they can be
        c.decayed += decays ? count : 0;
        c.last = decays;
    }
    return c;
}

static void test_decay_ranges(void **state)
{
    struct model_config g = tiny();
    size_t n = arch_block_size(&g, 1), C = g.n_embd, decayed = 0;
    struct cover c = count_ranges(&g, 1, 0, n, 0);

    (void)state;
    assert_int_equal(c.next, n);
    assert_int_equal(c.decayed, 12 * C * C);
    c = count_ranges(&g, 1, 0, n, 1);
    assert_true(c.next == n && c.decayed == n && c.pieces == 1);
    for (size_t at = 0; at < n; at += 777) { // any cut
        c = count_ranges(&g, 1, at, n - at < 777 ? n - at : 777, 0);
        assert_int_equal(c.next, n - at < 777 ? n - at : 777);
        decayed += c.decayed;
    }
    assert_int_equal(decayed, 12 * C * C);
    c = count_ranges(&g, 0, 0, arch_block_size(&g, 0), 0);
    assert_int_equal(c.decayed, arch_block_size(&g, 0));
    c = count_ranges(&g, 3, 0, 2 * C, 0);
    assert_int_equal(c.decayed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_blocks_without_gaps),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_heads),
        cmocka_unit_test(test_init_values),
        cmocka_unit_test(test_init_distribution),
        cmocka_unit_test(test_decay_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
