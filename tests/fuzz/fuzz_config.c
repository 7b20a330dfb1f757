/* fuzz_config.c: a Hugging Face folder's config.json, with and without generation_config.json and a
 * model beside it. What a small one says is said again by the folder that is exported from it. */
#include "tests/fuzz/fuzz.h"

#include "model/file/hf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SMALL = 4000 }; // parameters

static void start(void)
{
    FUZZ_CHECK(!mkdir(fuzz_path("f"), 0700));
}

static int zeros(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)block, (void)first, (void)err;
    memset(out, 0, n * sizeof *out);
    return 0;
}

/* Whether this model has few parameters, without computing with sizes that might overflow. */
static int is_small(const struct model_config *g)
{
    return g->n_layer < 8 && g->n_embd < 64 && g->vocab < 256 && g->n_positions < 256 &&
           g->n_labels < 64 && arch_total(g) < SMALL;
}

/* The copy says of texts that are generated what `said` does, and that none ends one where it says
 * nothing. */
static void same_generation(json_t *said, size_t vocab)
{
    json_t    *again;
    struct err err;

    if (!json_object_get(said, "eos_token_id"))
        json_object_set_new(said, "eos_token_id", json_null());
    FUZZ_CHECK(!hf_generation(&again, fuzz_path("copy"), vocab, &err) && json_equal(again, said));
    json_decref(again);
}

/* generation: of a model that continues texts, else NULL. */
static void round_trip(const struct model_config *g, const struct hf_labels *labels,
                       json_t *generation)
{
    struct hf_export  x = { .config = *g,
                            .dtype = ST_F32,
                            .source = { .read = zeros },
                            .endoftext = -1,
                            .begin = -1,
                            .pad = -1,
                            .generation = generation,
                            .labels = g->n_labels ? labels : NULL };
    struct model_config again;
    struct hf        *h;
    struct err        err;

    memset(&again, 0, sizeof again); // its padding is compared, too
    fuzz_remove("copy");
    if (hf_export(fuzz_path("copy"), &x, &err) || hf_open(&h, fuzz_path("copy"), NULL, &err))
        fuzz_fail(__FILE__, __LINE__, err.text);
    FUZZ_CHECK(!memcmp(hf_model(h), g, sizeof *g));
    FUZZ_CHECK(!hf_config(&again, fuzz_path("copy"), &err) && !memcmp(&again, g, sizeof *g));
    hf_close(h);
    if (generation)
        same_generation(generation, g->vocab);
}

static void open_model(void)
{
    struct hf *h;
    struct err err = { 0 };
    int        rc = hf_open(&h, fuzz_path("f"), NULL, &err);
    float      value;

    if (rc) {
        fuzz_refused(rc, &err);
        return;
    }
    for (size_t b = 0; b < arch_blocks(hf_model(h)); b++) {
        struct params_source s = hf_source(h);
        size_t               size = arch_block_size(hf_model(h), b);

        if (size) // an encoder without a head has nothing behind its layers
            FUZZ_CHECK(!s.read(s.ctx, b, 0, 1, &value, &err) &&
                       !s.read(s.ctx, b, size - 1, 1, &value, &err));
    }
    hf_close(h);
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in    in = { bytes, n }, config = fuzz_part(&in), generation = fuzz_part(&in);
    struct model_config g;
    long              pad;
    json_t           *said = NULL;
    struct hf_labels  labels;
    struct err        err = { 0 };
    int               rc, named;

    memset(&g, 0, sizeof g);
    fuzz_put("f/config.json", config.p, config.n);
    fuzz_remove("f/generation_config.json");
    fuzz_remove("f/model.safetensors");
    if (generation.n)
        fuzz_put("f/generation_config.json", generation.p, generation.n);
    if (in.n)
        fuzz_put("f/model.safetensors", in.p, in.n);
    rc = hf_config(&g, fuzz_path("f"), &err);
    hf_pad(&pad, fuzz_path("f"), NULL);
    if (rc)
        return fuzz_refused(rc, &err);
    named = hf_labels(&labels, fuzz_path("f"), &err);
    if (named)
        fuzz_refused(named, &err);
    else
        FUZZ_CHECK(labels.n == g.n_labels);
    if (in.n)
        open_model();
    rc = arch_classifies(&g) || g.arch->encoder
             ? 0
             : hf_generation(&said, fuzz_path("f"), g.vocab, &err);
    if (rc)
        fuzz_refused(rc, &err);
    if (!rc && !named && is_small(&g))
        round_trip(&g, &labels, said);
    json_decref(said);
    if (!named)
        hf_labels_free(&labels);
    return 1;
}

/* What the project exports of such a model. */
static void seed_of(struct model_config config)
{
    struct hf_export x = { .config = config,
                           .dtype = ST_BF16,
                           .source = { .read = zeros },
                           .endoftext = 3,
                           .pad = 3 };
    struct fuzz_out  out = { 0 };
    struct err       err;
    const char      *files[] = { "w/config.json", "w/generation_config.json",
                                 "w/model.safetensors" };

    fuzz_remove("w");
    FUZZ_CHECK(!hf_export(fuzz_path("w"), &x, &err));
    if (config.n_labels || config.arch->encoder) // no such file: one to be passed over
        fuzz_put("w/generation_config.json", "{\"eos_token_id\": [3, 4]}", 24);
    for (int i = 0; i < 3; i++) {
        uint8_t *p;
        size_t   n;

        if (i)
            fuzz_add_mark(&out);
        fuzz_take(files[i], &p, &n);
        fuzz_add(&out, p, n);
        free(p);
    }
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    const struct arch *of;
    static const char gpt2[] = "{\"activation_function\": \"gelu_new\", \"architectures\": "
                               "[\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1,\"bos_token_id\": "
                               "50256, \"embd_pdrop\": 0.1, \"layer_norm_epsilon\": 1e-05, "
                               "\"model_type\": \"gpt2\", \"n_ctx\": 1024,\"n_embd\": 768, "
                               "\"n_head\": 12, \"n_layer\": 12, \"n_inner\": null, "
                               "\"n_positions\": 1024, \"resid_pdrop\": 0.1,\"vocab_size\": 50257, "
                               "\"pad_token_id\": 50256}";
    static const char labelled[] = "{\"architectures\": [\"GPT2ForSequenceClassification\"], "
                                   "\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 2,\"vocab_size\": "
                                   "4, \"n_ctx\": 3, \"num_labels\": 3, \"problem_type\": "
                                   "\"single_label_classification\"}";

    fuzz_seed(gpt2, sizeof gpt2 - 1);
    fuzz_seed(labelled, sizeof labelled - 1);
    for (size_t n = 0; n < 4; n++)
        seed_of(arch_config(&gpt2_arch, (struct model_config){
            .n_layer = 1, .n_head = 2, .n_embd = 4, .vocab = 10, .n_positions = 8,
            .norm_eps = 1e-5f, .n_labels = n }));
    for (size_t i = 1; (of = arch_at(i)); i++)
        for (enum rope_type type = ROPE_DEFAULT; type <= ROPE_YARN; type++)
            seed_of(arch_config(of, (struct model_config){
                .n_layer = 1, .n_head = 2, .n_kv_head = 1, .head_dim = 2, .n_embd = 4,
                .n_inner = 6, .vocab = 10, .n_positions = 8, .norm_eps = 1e-6f,
                .untied = (size_t)type % 2,
                .window = of == &mistral_arch || of == &gemma3_arch ? 3 : 0,
                .global_every = of == &gemma3_arch ? 1 + (size_t)type % 2 : 0,
                .theta_local = of == &gemma3_arch ? 100 : 0,
                .qkv_bias = of == &qwen2_arch, .qk_norm = of == &qwen3_arch || of == &gemma3_arch,
                .n_types = of->encoder ? 2 : 0, .pad = of->encoder ? 1 : 0,
                .n_labels = of->encoder ? (size_t)type : 0,
                .rope = { .type = type, .theta = 1e4, .factor = 2, .original = 4,
                          .low_freq_factor = 1, .high_freq_factor = 4 } }));
}

/* 2^16 labels and as many layers are the most a config can ask for. */
const struct fuzz_target fuzz_config = { "config", start, one, seeds, (size_t)48 << 20, 256, 1000 };
