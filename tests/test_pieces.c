/* test_pieces.c: a model whose embeddings, and head of its own, are in pieces beside the same one
 * with whole ones: which models are cut, and where; losses, gradients, logits; what it begins with
 * and what is exported of it; the same bits in all modes, in the least memory, and when a run is
 * stopped and goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/base/round.h"
#include "kernels/rng.h"
#include "model/decode.h"
#include "model/file/hf.h"
#include "run/sitrain.h"
#include "tests/odd_text.h"
#include "tests/rig.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 300, BATCH = 4, SEQ = 16, ACCUM = 2, TOKENS = BATCH * SEQ };

/* pieces 0: as the rule says, which is one for so small a model. */
static struct model_config config_of(size_t pieces, size_t labels, size_t untied)
{
    struct model_config g = arch_config(&llama_arch, (struct model_config){
        .n_layer = 3, .n_head = 4, .n_kv_head = 2, .n_embd = 24, .vocab = VOCAB, .n_inner = 40,
        .n_positions = 32, .norm_eps = 1e-5f, .n_labels = labels, .pieces = pieces,
        .untied = untied, .rope = { .theta = 10000 } });
    struct err err;

    if (arch_check(&g, &err))
        fail_msg("%s", err.text);
    return g;
}

/* ---- which models, and where ---- */

static struct model_config sized(const struct arch *arch, size_t vocab, size_t width, size_t untied)
{
    return arch_config(arch, (struct model_config){ .n_layer = 2, .n_head = 16, .n_embd = width,
                                                    .vocab = vocab, .n_inner = 4 * width,
                                                    .n_positions = 1024, .untied = untied });
}

static void the_model_alone_says_how_many(void **state)
{
    struct model_config g = sized(&llama_arch, 128256, 2048, 0); // Llama 3.2 1B
    size_t              sum = 0;

    (void)state;
    assert_int_equal(arch_pieces(&g), 8);
    for (size_t b = 0; b < 8; b++) {
        struct arch_words w = arch_words(&g, b);

        assert_int_equal(w.first * g.n_embd, sum);
        assert_int_equal(arch_block_size(&g, b), w.n * g.n_embd);
        assert_true(arch_block_size(&g, b) <= ARCH_PIECE && (w.n % 64 == 0 || b == 7));
        sum += arch_block_size(&g, b);
    }
    assert_int_equal(sum, (size_t)128256 * 2048);
    assert_int_equal(arch_blocks(&g), 8 + 2 + 1);
    g.n_labels = 3; // it begins with a language model's blocks
    assert_int_equal(arch_pieces(&g), 8);

    g = sized(&llama_arch, 128256, 2048, 1); // a head of its own is cut as they are
    assert_int_equal(arch_pieces(&g), 8);
    assert_int_equal(arch_blocks(&g), 8 + 2 + 1 + 8);
    for (size_t b = 0; b < 8; b++) {
        assert_int_equal(arch_block_kind(&g, 11 + b), ARCH_OWN_HEAD);
        assert_int_equal(arch_block_size(&g, 11 + b), arch_block_size(&g, b));
    }
    g.n_labels = 3; // begins with its embeddings, and without that head
    assert_int_equal(arch_blocks(&g), 8 + 2 + 1);
    g = sized(&llama_arch, 32000, 4096, 1); // Llama 2 7B
    assert_int_equal(arch_pieces(&g), 4);
    g = sized(&llama_arch, 32000, 2048, 1); // a block of its own all the same
    assert_int_equal(arch_pieces(&g), 1);
    assert_int_equal(arch_blocks(&g), 1 + 2 + 1 + 1);
    g = sized(&llama_arch, 49152, 2048, 0); // SmolLM2 1.7B
    assert_int_equal(arch_pieces(&g), 1);
    assert_int_equal(arch_preset(&g, "gpt2-xl"), 0);
    assert_int_equal(arch_pieces(&g), 1);
    g.vocab = 1 << 20; // positions stand beside its words
    assert_int_equal(arch_pieces(&g), 1);
}

/* The blocks [from, from + 7) of `cut` and block `at` of `whole`. */
static void same_tensor(const struct model_config *cut, size_t from,
                        const struct model_config *whole, size_t block)
{
    size_t n = arch_block_size(whole, block), at = 0;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    char   name[2][64];

    assert_true(a && b);
    arch_init_values(a, whole, block, 0, n, 5);
    arch_tensor_name(whole, name[0], sizeof name[0], "", block, arch_place(whole, block, 0).t);
    for (size_t k = from; k < from + 7; k++) {
        size_t            size = arch_block_size(cut, k);
        struct arch_place last = arch_place(cut, k, size - 1);
        struct arch_spot  spot = arch_spot(cut, from, last.t, last.in);

        assert_int_equal(last.in, at + size - 1);
        assert_int_equal(last.left, 1);
        assert_true(spot.block == k && spot.i == size - 1 && spot.left == 1);
        assert_int_equal(arch_is_later(cut, k), k > from);
        arch_tensor_name(cut, name[1], sizeof name[1], "", k, last.t);
        assert_string_equal(name[0], name[1]);
        arch_init_values(b + at, cut, k, 0, size, 5);
        at += size;
    }
    assert_int_equal(at, n);
    assert_memory_equal(a, b, n * sizeof *a);
    free(a);
    free(b);
}

static void cut_and_whole_are_one_tensor(void **state)
{
    struct model_config whole = config_of(0, 0, 1), cut = config_of(7, 0, 1);
    static float        a[10000], b[10000];
    size_t              n = arch_block_size(&whole, 2);
    char                name[64];

    (void)state;
    assert_true(n <= 10000);
    assert_int_equal(arch_total(&whole), arch_total(&cut));
    same_tensor(&cut, 0, &whole, 0);
    same_tensor(&cut, arch_head_block(&cut), &whole, arch_head_block(&whole));
    arch_init_values(a, &whole, 2, 0, n, 5);
    arch_init_values(b, &cut, arch_layer_block(&cut, 2), 0, n, 5);
    assert_memory_equal(a, b, n * sizeof *a);
    arch_tensor_name(&cut, name, sizeof name, "", arch_layer_block(&cut, 2), 1);
    assert_non_null(strstr(name, "layers.1."));
    assert_false(arch_is_later(&cut, arch_final_block(&cut)) || arch_is_later(&whole, 5));
}

static void bad_numbers_of_pieces_are_refused(void **state)
{
    struct model_config g = config_of(0, 0, 0);
    struct err          err;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        g.pieces = (const size_t[]){ VOCAB + 1, SIZE_MAX, 299 }[i]; // rows of 2 are 150 pieces
        assert_int_equal(arch_check(&g, &err), -EINVAL);
        assert_non_null(strstr(err.text, "pieces"));
    }
    g = sized(&gpt2_arch, 100, 16, 0);
    g.norm_eps = 1e-5f;
    g.pieces = 2;
    assert_int_equal(arch_check(&g, &err), -EINVAL);
}

/* ---- a step ---- */

static int rows_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    (void)ctx, (void)err;
    if (micro == 1)
        b->rows = step ? BATCH : b->reference ? BATCH - 2 : BATCH - 1;
    for (size_t i = 0; i < b->rows * b->seq; i++) {
        uint64_t at = (step * ACCUM + micro) * TOKENS + i;

        b->x[i] = (int32_t)(rng_uniform(3, 1, at) * VOCAB);
        if (b->y)
            b->y[i] = i % 11 == 5 ? -1 : (int32_t)(rng_uniform(3, 2, at) * VOCAB);
    }
    for (size_t i = 0; b->reference && i < b->rows; i++) { // about what the model says
        b->reference[i] = (double)i / 2;
        for (size_t t = 0; t < b->seq; t++)
            b->reference[i] -= b->y[i * b->seq + t] < 0 ? 0 : 5.7;
    }
    for (size_t i = 0; b->label && i < b->rows; i++) {
        b->last[i] = (int32_t)(b->seq - 1 - i);
        b->label[i] = (int32_t)((i + micro) % 3);
    }
    return 0;
}

/* Losses and gradients of two steps, or what evaluations make. */
struct made { double loss[2], norm[2]; float each[ACCUM * TOKENS], *grads, *params; };

static int   pairs;     // rows are pairs of answers
static float smoothing; // of labels; then the embeddings are noisy, too

static struct made made_by(struct model_config g, enum dtype dt, size_t how)
{
    struct trainer_options o = rig_options(g, BATCH, SEQ, dt, MATMUL_AUTO);
    struct batch_source    data = { rows_batch, NULL };
    size_t                 total = arch_total(&g);
    struct made            m = { .grads = malloc(total * sizeof(float)),
                                 .params = malloc(total * sizeof(float)) };
    struct step_result     result;
    struct eval_result     sum = { 0 };
    struct err             err;

    assert_true(m.grads && m.params);
    o.model.grad_accum = ACCUM;
    o.model.varying = 1;
    o.model.paired = pairs;
    o.pairs = (struct pairs_options){ PAIRS_SIGMOID, 0.1, 0.1 };
    o.model.threads = 1;
    o.model.smoothing = smoothing;
    o.model.neftune = smoothing > 0 ? 5 : 0;
    rig_placement(&o, how);
    struct rig rig = rig_open(&o, NULL, 0.1f, 0);
    for (size_t i = 0; i < total; i++) // logits that are not all alike
        stream_plain_params(rig.stream)[i] *= 4;
    for (uint64_t s = 0; s < 2; s++) {
        assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
        m.loss[s] = result.loss;
        m.norm[s] = result.grad_norm;
        if (s == 0)
            memcpy(m.grads, stream_plain_grads(rig.stream), total * sizeof(float));
    }
    memcpy(m.params, stream_plain_params(rig.stream), total * sizeof(float));
    if (!arch_classifies(&g)) {
        assert_int_equal(eval_step(rig.trainer, 2, &data, 1, ACCUM, m.each, &sum, &err), 0);
        assert_true(sum.tokens > 0);
    }
    rig_close(&rig);
    return m;
}

static void made_free(struct made *m)
{
    free(m->grads);
    free(m->params);
}

static void compared(struct model_config whole, enum dtype dt, double loss, double gradient)
{
    struct made want = made_by(whole, dt, 1);

    for (size_t pieces = 2; pieces <= 5; pieces++) {
        struct model_config sizes = whole, cut;

        sizes.pieces = pieces;
        cut = arch_config(whole.arch, sizes);
        struct made got = made_by(cut, dt, 1), other = made_by(cut, dt, 0);

        print_message("%zu pieces: gradients off by %.1e\n", pieces,
                      compare_tensors(&whole, got.grads, want.grads, norm_distance, gradient));
        for (size_t s = 0; s < 2; s++) {
            if (s == 1 && dt != DT_F32) // AdamW makes whole steps of what rounding left
                break;
            if (!(fabs(got.loss[s] - want.loss[s]) <= loss * (double)(s ? 10 : 1)))
                fail_msg("step %zu: loss %.9g, not %.9g", s, got.loss[s], want.loss[s]);
            assert_true(fabs(got.norm[s] / want.norm[s] - 1) <= 10 * gradient);
        }
        if (dt == DT_F32)
            assert_true(max_distance(got.each, want.each, ACCUM * TOKENS, 0) <= 1e-4);
        // what is recomputed changes no bit
        assert_memory_equal(got.params, other.params, arch_total(&whole) * sizeof(float));
        made_free(&got);
        made_free(&other);
    }
    made_free(&want);
}

/* Embeddings that are multiplied by the root of the width. */
static struct model_config gemma(void)
{
    return arch_config(&gemma3_arch, (struct model_config){
        .n_layer = 3, .n_head = 4, .n_kv_head = 2, .head_dim = 8, .n_embd = 24, .vocab = VOCAB,
        .n_inner = 40, .n_positions = 32, .window = 5, .global_every = 2, .norm_eps = 1e-6f,
        .qk_norm = 1, .rope = { .theta = 10000 }, .theta_local = 100 });
}

static void a_step_is_that_of_whole_embeddings(void **state)
{
    (void)state;
    compared(gemma(), DT_F32, 1e-6, 1e-5);
    for (size_t untied = 0; untied < 2; untied++) {
        compared(config_of(0, 0, untied), DT_F32, 1e-6, 1e-5);
        if (rig_runs_bf16(MATMUL_AUTO))
            compared(config_of(0, 0, untied), DT_BF16, 1e-4, 2e-2);
    }
}

static void so_is_that_of_pairs(void **state)
{
    (void)state;
    pairs = 1;
    for (size_t untied = 0; untied < 2; untied++) {
        compared(config_of(0, 0, untied), DT_F32, 1e-5, 1e-5);
        if (rig_runs_bf16(MATMUL_AUTO))
            compared(config_of(0, 0, untied), DT_BF16, 1e-2, 5e-2);
    }
    pairs = 0;
}

static void so_it_is_with_smoothing_and_noise(void **state)
{
    (void)state;
    smoothing = 0.2f;
    a_step_is_that_of_whole_embeddings(NULL);
    smoothing = 0;
}

static void so_is_a_classifier_s(void **state)
{
    (void)state;
    compared(config_of(0, 3, 0), DT_F32, 1e-7, 1e-6);
    compared(config_of(0, 3, 1), DT_F32, 1e-7, 1e-6);
}

/* ---- generation ---- */

static void logits_of(struct model_config g, enum dtype dt, float *out)
{
    struct stream_plain_options so = { .config = g, .wire = dt };
    struct decode_options       o = { .config = g, .batch = 2, .positions = 20, .prefill = 8,
                                      .dtype = dt, .threads = 1 };
    struct stream *s = stream_plain_open(&so);
    struct decode *d;
    int32_t        text[2][12];
    const int32_t *ids[2] = { text[0], text[1] };
    const size_t   n[][2] = { { 11, 3 }, { 1, 1 }, { 0, 1 }, { 2, 1 } };
    const float   *logits;
    struct err     err;

    for (size_t i = 0; i < 24; i++)
        text[i / 12][i % 12] = (int32_t)(i * 37 % VOCAB);
    if (decode_open(&d, &o, s, &err))
        fail_msg("%s", err.text);
    for (size_t k = 0; k < 4; k++, out += 2 * VOCAB) {
        assert_int_equal(decode_feed(d, ids, n[k], &logits, &err), 0);
        for (size_t b = 0; b < 2; b++)
            if (n[k][b])
                memcpy(out + b * VOCAB, logits + b * VOCAB, VOCAB * sizeof *out);
    }
    decode_close(d);
    stream_close(s);
}

static void generation_has_the_same_bits(void **state)
{
    static float whole[8 * VOCAB], cut[8 * VOCAB];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        logits_of(config_of(0, 0, i % 2), DT_F32, whole);
        logits_of(config_of(i < 2 ? 2 : 7, 0, i % 2), DT_F32, cut);
        assert_true(whole[5] != 0);
        assert_memory_equal(whole, cut, sizeof whole);
    }
}

/* ---- runs ---- */

enum { STEPS = 4 };
static char text[4096], tok[4096];

static void make_text(void)
{
    static char bytes[20000];
    const char *path = text;
    struct err  err = { 0 };

    assert_int_equal(chdir(tempdir), 0);
    tempdir_put("text", bytes, word_text(bytes, sizeof bytes / 8));
    snprintf(text, sizeof text, "%s", tempdir_at("text"));
    snprintf(tok, sizeof tok, "%s", tempdir_at("tok"));
    struct tokenise_train t = { .texts = &path, .n = 1, .vocab = 260, .dir = tok };
    assert_int_equal(tokenise_train(&t, NULL, &err), 0);
}

struct kind { int mode; size_t devices; int speculate; double compress; int activations; };

static void make(const char *dir, const struct kind *k, struct model_config config)
{
    struct train_opts o;
    struct err        err = { 0 };
    struct corpus_opts data = { .data = { &(const char *){ text }, 1 } };
    struct newrun n = { .dir = dir, .o = &o, .tokenizer = tok, .corpus = &data, .config = config };

    assert_int_equal(train_opts_default(&o, &err), 0);
    o.mode = k->mode;
    o.devices = k->devices;
    o.speculate = k->speculate;
    o.compress = k->compress;
    o.activations = k->activations;
    o.steps = STEPS;
    o.batch = 2;
    o.lr = 1e-2;
    o.device_in_ram = 1;
    o.threads = 1;
    if (newrun_create(&n, &err))
        fail_msg("%s", err.text);
    train_opts_release(&o);
}

/* Steps [0, until) of what there is to train, within host_mem; the losses, how many frames layers
 * had, how many buffers the pieces of offloaded activations. */
struct told {
    double   loss[STEPS];
    uint64_t until, host_mem;
    int      stop;
    size_t   frames, buffers;
};

static void on_step(void *ctx, const struct training_step *s)
{
    struct told *t = ctx;

    t->loss[s->step] = s->result->loss;
    t->stop = s->step + 1 == t->until;
}

static int on_asked(void *ctx) { return ((struct told *)ctx)->stop; }

static int try(const char *dir, struct told *t, struct err *err)
{
    struct events       events = { .ctx = t, .step = on_step, .asked_to_stop = on_asked };
    struct session      s;
    struct training_end end = { 0 };
    int                 rc = session_open(&s, dir, SESSION_WRITE, &events, err);

    t->stop = 0;
    s.o.host_mem = t->host_mem;
    rc = rc ? rc : training_run(&s, &end, err);
    t->frames = s.run.frames;
    t->buffers = s.run.acts.buffers;
    session_close(&s);
    return rc;
}

static void train(const char *dir, struct told *t)
{
    struct err err = { 0 };

    if (try(dir, t, &err))
        fail_msg("%s", err.text);
}

/* Every parameter; and they are those of a folder that is made of it, whose model is not cut. */
static float *parameters(const char *dir, size_t pieces)
{
    struct model_folder m;
    struct err          err = { 0 };
    struct hf          *h = NULL;
    char                out[64];

    if (model_folder_open(&m, dir, NULL, MODEL_LAST, NULL, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(arch_pieces(&m.config), pieces);
    size_t total = arch_total(&m.config);
    float *all = malloc(total * sizeof *all), *again = malloc(total * sizeof *all), *at = all;
    for (size_t b = 0; b < arch_blocks(&m.config); at += m.run.block_params[b++])
        assert_int_equal(m.source.read(m.source.ctx, b, 0, m.run.block_params[b], at, &err), 0);

    struct hf_export x = { .config = m.config, .dtype = ST_F32, .source = m.source,
                           .endoftext = -1, .begin = -1, .pad = -1 };
    snprintf(out, sizeof out, "%s-hf", dir);
    if (hf_export(out, &x, &err) || hf_open(&h, out, NULL, &err))
        fail_msg("%s", err.text);
    struct params_source from = hf_source(h);
    assert_int_equal(arch_pieces(hf_model(h)), 1);
    at = again;
    for (size_t b = 0; b < arch_blocks(hf_model(h)); at += arch_block_size(hf_model(h), b++))
        assert_int_equal(from.read(from.ctx, b, 0, arch_block_size(hf_model(h), b), at, &err), 0);
    assert_memory_equal(all, again, total * sizeof *all);
    hf_close(h);
    free(again);
    model_folder_close(&m);
    return all;
}

static void modes_agree(size_t untied)
{
    static const struct kind kinds[] = {
        { .mode = RUN_MEM, .devices = 1 }, { .mode = RUN_BASE, .devices = 2 },
        { .mode = RUN_SU, .devices = 1, .activations = TRAIN_RECOMPUTE },
        { .mode = RUN_SUO, .devices = 3 }, { .mode = RUN_SUO, .devices = 2, .speculate = 1 },
        { .mode = RUN_SUO, .devices = 2, .activations = TRAIN_OFFLOAD },
        { .mode = RUN_MEM, .devices = 1, .compress = 0.1 },
        { .mode = RUN_SUO, .devices = 2, .compress = 0.1 },
    };
    struct told want = { 0 };
    struct model_config g = config_of(3, 0, untied);
    size_t              bytes = arch_total(&g) * sizeof(float);
    float              *first = NULL;

    g.n_positions = SEQ;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct told got = { .until = i % 2 ? 2 : STEPS };
        char        dir[16];

        snprintf(dir, sizeof dir, "run%zu-%zu", i, untied);
        make(dir, &kinds[i], g);
        train(dir, &got);
        if (got.until < STEPS) {
            got.until = STEPS;
            train(dir, &got);
        }
        float *params = parameters(dir, 3);
        print_message("kind %zu: last loss %.9g\n", i, got.loss[STEPS - 1]);
        if (i == 0 || (kinds[i].compress > 0 && kinds[i - 1].compress <= 0)) {
            free(first);
            first = params;
            want = got;
            continue;
        }
        assert_memory_equal(got.loss, want.loss, sizeof got.loss);
        assert_memory_equal(params, first, bytes);
        free(params);
    }
    free(first);
}

static void all_modes_have_the_same_bits(void **state)
{
    (void)state;
    make_text();
    modes_agree(0);
    modes_agree(1);
}

/* Within the least --host-mem that the run accepts: what a refusal names or, since what the program
 * itself takes differs a little from time to time, some MiB more. */
static void train_tight(const char *dir, struct told *t)
{
    static const char *const words = "needs at least ";
    struct err               err = { 0 };
    const char              *at;
    uint64_t                 least;

    t->host_mem = 1 << 20;
    assert_int_equal(try(dir, t, &err), -EINVAL);
    at = strstr(err.text, words);
    assert_non_null(at);
    least = strtoull(at + strlen(words), NULL, 10);
    t->host_mem = least << 20;
    while (try(dir, t, &err)) {
        t->host_mem += 1 << 20;
        if (!strstr(err.text, words) || t->host_mem > (least + 3) << 20)
            fail_msg("%s", err.text);
    }
    print_message("within %zu MiB: %zu frames of layers, %zu buffers of activations\n",
                  (size_t)(t->host_mem >> 20), t->frames, t->buffers);
}

/* Layers of 4 MB, so that within the least memory no more than two of them have frames;
 * activations go to the devices. */
static void so_has_the_least_memory(void **state)
{
    (void)state;
    make_text();
    for (size_t untied = 0; untied < 2; untied++) {
        struct model_config g = arch_config(&llama_arch, (struct model_config){
            .n_layer = 8, .n_head = 4, .n_kv_head = 2, .n_embd = 256, .vocab = 3000,
            .n_inner = 2048, .n_positions = 64, .norm_eps = 1e-5f, .pieces = 4, .untied = untied,
            .rope = { .theta = 10000 } });
        struct told plenty = { .until = STEPS }, tight = plenty;
        char        dirs[2][16];

        for (size_t i = 0; i < 2; i++) {
            snprintf(dirs[i], sizeof *dirs, "%s%zu", i ? "tight" : "plenty", untied);
            make(dirs[i], &(struct kind){ .mode = RUN_SUO, .devices = 2,
                                          .activations = i ? TRAIN_OFFLOAD : TRAIN_KEEP }, g);
        }
        train(dirs[0], &plenty);
        train_tight(dirs[1], &tight);
        assert_true(plenty.frames == 8 && plenty.buffers == 0);
        assert_true(tight.frames == 2 && tight.buffers >= 3);
        assert_memory_equal(tight.loss, plenty.loss, sizeof tight.loss);
        float *a = parameters(dirs[0], 4), *b = parameters(dirs[1], 4);
        assert_memory_equal(a, b, arch_total(&g) * sizeof *a);
        free(a);
        free(b);
    }
}

int main(void)
{
#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, tempdir_set_up, tempdir_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_alone_says_how_many),
        cmocka_unit_test(cut_and_whole_are_one_tensor),
        cmocka_unit_test(bad_numbers_of_pieces_are_refused),
        cmocka_unit_test(a_step_is_that_of_whole_embeddings),
        cmocka_unit_test(so_is_that_of_pairs),
        cmocka_unit_test(so_it_is_with_smoothing_and_noise),
        cmocka_unit_test(so_is_a_classifier_s),
        cmocka_unit_test(generation_has_the_same_bits),
        WITH_DIR(all_modes_have_the_same_bits),
        WITH_DIR(so_has_the_least_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
