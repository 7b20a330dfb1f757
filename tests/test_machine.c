/* A machine in a file, and what it computes in how long: lines refused and read back, and times
 * against numbers computed on paper. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/lora/lora.h"
#include "plan/machine_time.h"
#include "tests/tempdir.h"

#include <math.h>
#include <string.h>

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%.12g, expected %.12g", got, want);
}

static int reads(struct machine_file *m, const char *text, struct err *err)
{
    tempdir_put("machine", text, strlen(text));
    return machine_file_read(m, tempdir_at("machine"), err);
}

static void refused(const char *text, const char *why)
{
    static struct machine_file m;
    struct err                 err = { 0 };

    assert_int_not_equal(reads(&m, text, &err), 0);
    assert_true(err.misuse);
    if (!strstr(err.text, why))
        fail_msg("%s: %s, expected: %s", text, err.text, why);
}

static void test_lines(void **state)
{
    static struct machine_file m;
    struct err                 err = { 0 };

    (void)state;
    assert_int_equal(reads(&m, "name = \"old\"\nflops = 58e12\nhost-update = 8e9\n"
                               "device-update = 5.1e8\n", &err), 0);
    near(m.flops, 58e12);
    near(m.update.host, 8e9);
    near(m.update.engine, 5.1e8);
    assert_true(m.n_drives == 0 && m.threads <= 0 && m.emulated <= 0);
    refused("host-update = 8e9\n", "flops is missing");
    refused("flops = 0\n", "flops 0: a number from 1");
    refused("flops = 1e13x\n", "flops 1e13x: a number");
    refused("flops = nan\n", "flops nan: a number");
    refused("flops = 1e13\nflops = 1e13\n", "line 2: flops is there twice");
    refused("flops = 1e13 1e13\n", "flops: 1 value is expected");
    refused("flops\n", "flops stands alone");
    refused("flops = 1e13\nwatts = 3\n", "line 2: watts is nothing that a machine has");
    refused("flops = 1e13\nserial = 1.5\n", "serial 1.5: a number from 0 to 1");
    refused("flops = 1e13\ndrive = 1e9 1e9\n", "drive: 3 values are expected");
    refused("flops = 1e13\ndrive = 1e9 1e9 1e9 1e9\n", "drive: 3 values are expected");
    refused("layer = fp16 8 8 1e9 1e9 1e9\n", "layer fp16: fp32 or bf16 is expected first");
    refused("layer = fp32 t5 8 8 1e9 1e9 1e9\n", "layer t5: a number from 1");
    refused("layer = fp32 bert bert 8 8 1e9 1e9 1e9\n", "layer bert: a number from 1");
    refused("head = fp32 bert 8 1e9\n", "head bert: a number from 1");
    refused("layer = fp32 8 8 1e9 1e9 1e9\n", "layer, attention and head go together");
    refused("name = \"a\tb\"\nflops = 1e13\n", "without control characters");
}

/* What is written reads back as it was. */
static void test_written(void **state)
{
    static const char text[] = "name = \"A # machine\"\nthreads = 2\nserial = 0.125\n"
                               "layer = bf16 64 32 1e9 2e9 3e9\n"
                               "layer = fp32 llama 64 32 4e9 5e9 6e9\n"
                               "attention = bf16 16 32 1e8 2e8\nhead = bf16 64 7e8\n"
                               "memory = 1e10\nnorm = 3e8\ntop-k = 2e8\nunpack-int8 = 5e8\n"
                               "unpack-nf4 = 6e8\nhost-update = 4e8\n"
                               "device-update = 1e8\nupdates-beside = 3e7\nemulated = 1\n"
                               "drive = 1e9 5e8 6e8\n"
                               "drive = 2e9 6e8 7e8\n";
    static struct machine_file m, again;
    struct err                 err = { 0 };

    (void)state;
    assert_int_equal(reads(&m, text, &err), 0);
    char *written = machine_file_text(&m, &err);
    assert_non_null(written);
    tempdir_put("written", written, strlen(written));
    free(written);
    assert_int_equal(machine_file_read(&again, tempdir_at("written"), &err), 0);
    assert_memory_equal(&m, &again, sizeof m);
    near(again.layer[1].rate[MACHINE_AGAIN], 6e9);
    assert_true(again.layer[0].kind == MACHINE_GPT2 && again.layer[1].kind == MACHINE_LLAMA);
    near(again.drive[1].mixed, 7e8);
    near(again.unpack_nf4, 6e8);
    assert_true(machine_has(&m, DT_BF16));
    assert_false(machine_has(&m, DT_F32)); // a layer alone
}

/* Of rows of 300 tokens, and as many of them. */
static struct machine_work gpt2_work(size_t width, size_t heads)
{
    const struct model_config g = arch_config(&gpt2_arch, (struct model_config){
        .n_layer = 1, .n_head = heads, .n_embd = width, .vocab = 1000, .n_positions = 300 });
    struct machine_work       w = machine_work_of(&g, DT_BF16, 300);

    w.words = 1000;
    w.tokens = 300;
    return w;
}

/* A layer that takes (C^2 + 100 C)(16 + N) microseconds, an attention that takes (T^2 + 50 T) C
 * nanoseconds a row, both forward; a head that takes (6 C + 12) V nanoseconds a token. */
static void test_sizes(void **state)
{
    static struct machine_file m;
    struct machine_work        w = gpt2_work(200, 2);
    const double widths[] = { 100, 400 }, tokens[] = { 64, 256 };

    (void)state;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 4; i++) {
        double C = widths[i / 2], N = tokens[i % 2], s = (C * C + 100 * C) * (16 + N) * 1e-6;

        m.layer[m.n_layers++] = (struct machine_layer){
            DT_BF16, MACHINE_GPT2, C, N, { 24 * C * C * N / s, 48 * C * C * N / (3 * s),
                                           16 * C * C * N / s } };
    }
    for (int i = 0; i < 2; i++) {
        double T = i ? 600 : 150, s = (T * T + 50 * T) * 1e-9;

        m.attention[m.n_attentions++] =
            (struct machine_attention){ DT_BF16, MACHINE_GPT2, 100, T,
                                        { 2 * T * T / s, 5 * T * T / (2 * s) } };
        m.head[m.n_heads++] = (struct machine_head){
            DT_BF16, widths[i], 6 * widths[i] / ((6 * widths[i] + 12) * 1e-9) };
    }
    // a width and a row in between, a chunk beyond what was measured
    double attention = (300.0 * 300 + 50 * 300) * 200 * 1e-9;
    near(machine_layer(&m, &w, MACHINE_FORWARD), 60000 * 316e-6 + attention);
    near(machine_layer(&m, &w, MACHINE_BACKWARD), 3 * 60000 * 316e-6 + 2 * attention);
    near(machine_layer(&m, &w, MACHINE_AGAIN), 60000 * 316e-6 + attention);
    near(machine_again_mlp(&m, &w), 60000 * 316e-6 * 10 / 16);
    near(machine_head(&m, &w), (6 * 200 + 12) * 1000 * 300 * 1e-9);
    // tokens before the first, and between two
    w.tokens = 32;
    near(machine_layer(&m, &w, MACHINE_FORWARD), 60000 * 48e-6 + attention * 32 / 300);
    w.tokens = 100;
    near(machine_layer(&m, &w, MACHINE_FORWARD), 60000 * 116e-6 + attention / 3);
    // two whole chunks and a rest
    w.tokens = 2 * 1024 + 100;
    near(machine_layer(&m, &w, MACHINE_FORWARD),
         60000 * (2 * 1040e-6 + 116e-6) + attention * 2148 / 300);
    // Amdahl: a fifth is serial, so twice the threads take 0.2 + 0.4
    m.threads = 4;
    m.serial = 0.2;
    near(machine_threads(&m, 8), 0.6);
    near(machine_threads(&m, 1), 0.2 + 3.2);
    near(machine_threads(&m, 0), 1);
    w.tokens = 300;
    w.threads = 8;
    near(machine_head(&m, &w), 0.6 * (6 * 200 + 12) * 1000 * 300 * 1e-9);
    // described by its FLOP/s alone
    m = (struct machine_file){ .flops = 1e9 };
    near(machine_layer(&m, &w, MACHINE_FORWARD), (24 * 4e4 + 2 * 200.0 * 300) * 300 / 1e9);
}

/* What a family's layer has of products and of attention, on paper: a Llama of 64 x 3 columns, one
 * head of keys and values, an MLP of 500; a BERT of 192, whose tokens see their whole row; each by
 * its own kind's lines alone. */
static void test_kinds(void **state)
{
    static struct machine_file m;
    const struct model_config  sizes = { .n_layer = 1, .n_head = 3, .n_embd = 192, .n_kv_head = 1,
                                         .n_inner = 500, .vocab = 1000, .n_positions = 300,
                                         .rope.theta = 1e4, .window = 100 },
                               llama = arch_config(&llama_arch, sizes),
                               bert = arch_config(&bert_arch, sizes);
    struct machine_work l = machine_work_of(&llama, DT_F32, 300),
                        b = machine_work_of(&bert, DT_F32, 300);

    (void)state;
    memset(&m, 0, sizeof m);
    l.tokens = b.tokens = 300;
    assert_true(l.kind == MACHINE_LLAMA && b.kind == MACHINE_BERT);
    near(machine_dense_flop(&l, MACHINE_FORWARD),
         2.0 * 300 * (192 * (192 + 2 * 64) + 192 * 192 + 3 * 192 * 500));
    near(machine_dense_flop(&l, MACHINE_AGAIN), // all but the last one
         2.0 * 300 * (192 * (192 + 2 * 64) + 192 * 192 + 2 * 192 * 500));
    near(machine_dense_flop(&b, MACHINE_AGAIN), 2.0 * 300 * (4 * 192 * 192 + 2 * 192 * 500));
    near(machine_attention_flop(&b, MACHINE_BACKWARD), 10.0 * 192 * 300 * 300);
    near(machine_dense_flop(&l, MACHINE_BACKWARD), 2 * machine_dense_flop(&l, MACHINE_FORWARD));
    // with adapters of the first tensor, the matrices' own gradients are not computed
    struct model_config adapted = llama;
    struct err          err;
    const struct arch_lora lora = { .rank = 4, .alpha = 8,
                                    .targets = 1ull << llama.arch->matrices[0].weight };
    assert_int_equal(lora_set(&adapted, &lora, &err), 0);
    struct machine_work a = machine_work_of(&adapted, DT_F32, 300);
    a.tokens = 300;
    near(machine_dense_flop(&a, MACHINE_FORWARD),
         machine_dense_flop(&l, MACHINE_FORWARD) + 2.0 * 300 * 4 * (192 + 192));
    near(machine_dense_flop(&a, MACHINE_BACKWARD),
         machine_dense_flop(&l, MACHINE_FORWARD) + 4.0 * 300 * 4 * (192 + 192));
    near(l.head_products, 3);
    near(a.head_products, 2);
    // keys of a window of 100: 1, 2, .. 100, and then 100 each
    near(machine_attention_flop(&l, MACHINE_FORWARD),
         4.0 * 192 * 300 * (100.0 * 100 / 2 + 200 * 100) / 300);
    m.layer[m.n_layers++] = (struct machine_layer){ DT_F32, MACHINE_GPT2, 192, 300,
                                                    { 1e9, 1e9, 1e9 } };
    m.layer[m.n_layers++] = (struct machine_layer){ DT_F32, MACHINE_BERT, 192, 300,
                                                    { 2e9, 4e9, 1e9 } };
    m.attention[m.n_attentions++] =
        (struct machine_attention){ DT_F32, MACHINE_BERT, 64, 300, { 5e9, 2e9 } };
    m.head[m.n_heads++] = (struct machine_head){ DT_F32, 192, 1e9 };
    assert_true(machine_has(&m, DT_F32) && machine_has_kind(&m, DT_F32, MACHINE_BERT));
    assert_false(machine_has_kind(&m, DT_F32, MACHINE_GPT2)); // no attention
    assert_false(machine_has_kind(&m, DT_F32, MACHINE_LLAMA));
    near(machine_layer(&m, &b, MACHINE_BACKWARD),
         4.0 * 300 * (4 * 192 * 192 + 2 * 192 * 500) / 4e9 + 10.0 * 192 * 300 * 300 / 2e9);
    near(machine_again_mlp(&m, &b), 2.0 * 300 * (192 * 192 + 2 * 192 * 500) / 1e9);
}

/* A family names what its layers are made of, and a machine file has a word for it. */
static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; arch_at(i); i++)
        assert_string_equal(machine_kinds[machine_kind_of(arch_at(i))], arch_at(i)->passes);
    assert_int_equal(machine_kind_of(&qwen3_arch), MACHINE_LLAMA);
    assert_int_equal(machine_kind_of(&gemma3_arch), MACHINE_GEMMA);
    assert_int_equal(machine_kind_of(&roberta_arch), MACHINE_BERT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_lines), IN_TEMPDIR(test_written), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_families),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
