/* fuzz_gguf.c: GGUF files: the header, the sizes of a model, its tokenizer, its parameters. */
#include "tests/fuzz/fuzz.h"

#include "data/tensors/gguf.h"
#include "data/text/tokenizer_gguf.h"
#include "model/file/gguf_export.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 300 };

static const char name[] = "m.gguf";

/* ---- one input ---- */

static void read_ends(struct gguf *g, const struct gguf_tensor *t)
{
    float      values[PART];
    size_t     n = t->count < PART ? (size_t)t->count : PART;
    struct err err;

    if (gguf_type_is_read(t->type))
        FUZZ_CHECK(!gguf_read(g, t, 0, n, values, &err) &&
                   !gguf_read(g, t, t->count - n, n, values, &err));
}

static void read_keys(const struct gguf *g)
{
    for (size_t i = 0; i < g->n_values; i++) {
        const struct gguf_value *v = &g->values[i];
        uint64_t                 at = 0;
        size_t                   n;
        double                   number;

        FUZZ_CHECK(gguf_find(g, v->key) == v);
        for (uint64_t k = 0; k < v->n; k++)
            FUZZ_CHECK(v->kind == GGUF_STRING ? gguf_next_text(&n, &at, g, v) != NULL
                                              : !gguf_number(&number, g, v, k));
    }
}

/* The tokenizer: what is accepted encodes a text, and the ids are below its size. */
static void use_tokenizer(const char *path)
{
    struct tokenizer *t;
    struct token_buf  ids = { 0 };
    struct err        err = { 0 };
    int               rc = tokenizer_open(&t, path, &err);

    if (rc) {
        fuzz_refused(rc, &err);
        return;
    }
    rc = tokenizer_encode(t, "the sea, 1851\n", 14, &ids, &err);
    if (rc)
        fuzz_refused(rc, &err);
    for (size_t i = 0; i < ids.n; i++)
        FUZZ_CHECK(ids.ids[i] >= 0 && (size_t)ids.ids[i] < tokenizer_vocab(t));
    token_buf_free(&ids);
    tokenizer_close(t);
}

static void use_model(const char *path)
{
    float      values[PART];
    struct hf *hf;
    struct err err = { 0 };
    int        rc = hf_open(&hf, path, NULL, &err);

    if (rc) {
        fuzz_refused(rc, &err);
        return;
    }
    struct params_source s = hf_source(hf);

    for (size_t b = 0; b < arch_blocks(hf_model(hf)) && b < 4; b++) {
        size_t size = arch_block_size(hf_model(hf), b), n = size < PART ? size : PART;

        FUZZ_CHECK(!s.read(s.ctx, b, 0, n, values, &err) &&
                   !s.read(s.ctx, b, size - n, n, values, &err));
    }
    hf_close(hf);
}

static int one(const uint8_t *bytes, size_t n)
{
    struct gguf *g;
    struct err   err = { 0 };
    int          rc;

    fuzz_put(name, bytes, n);
    rc = gguf_open(&g, fuzz_path(name), &err);
    if (rc)
        return fuzz_refused(rc, &err);
    read_keys(g);
    for (size_t i = 0; i < g->n_tensors; i++) {
        FUZZ_CHECK(gguf_tensor(g, g->tensors[i].name) == &g->tensors[i]);
        read_ends(g, &g->tensors[i]);
    }
    gguf_close(g);
    use_tokenizer(fuzz_path(name));
    use_model(fuzz_path(name));
    return 1;
}

/* ---- seeds ---- */

static void seed(struct gguf_writer *w)
{
    struct err err;
    uint8_t   *p;
    size_t     n;

    FUZZ_CHECK(!gguf_writer_flush(w, &err) && !gguf_writer_commit(w, &err));
    gguf_writer_close(w);
    fuzz_take(name, &p, &n);
    fuzz_seed(p, n);
    free(p);
}

static int read_source(void *ctx, size_t block, size_t first, size_t n, float *out,
                       struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(block + first + i) * 0.01f;
    return 0;
}

static void model_seed(const struct arch *arch, enum gguf_type type)
{
    struct hf_export x = {
        .config = arch_config(arch, (struct model_config){ .n_layer = 1, .n_head = 2, .n_embd = 8,
            .vocab = 4, .n_positions = 3, .n_inner = 32, .norm_eps = 1e-5f, .head_dim = 4,
            .window = arch == &gemma3_arch ? 2 : 0, .global_every = arch == &gemma3_arch ? 2 : 0,
            .theta_local = 100, .qk_norm = arch == &gemma3_arch, .qkv_bias = arch == &qwen2_arch,
            .rope = { .type = arch == &llama_arch ? ROPE_LLAMA3 : ROPE_DEFAULT, .theta = 10000,
                      .factor = 4, .original = 16, .low_freq_factor = 1,
                      .high_freq_factor = 4 } }),
        .source = { .read = read_source }, .endoftext = -1, .begin = -1, .pad = -1 };
    struct gguf_export g = { .model = &x, .type = type };
    struct gguf_writer w;
    struct err         err;

    fuzz_remove(name);
    FUZZ_CHECK(!gguf_export(&w, fuzz_path(name), &g, &err));
    seed(&w);
}

/* special: how many of the first tokens are: none, or two. */
static void tokenizer_seed(const char *model, const char *pre, const char *const *tokens, size_t n,
                           const char *merge, size_t special)
{
    struct gguf_writer w;
    struct err         err;

    fuzz_remove(name);
    FUZZ_CHECK(!gguf_writer_open(&w, fuzz_path(name), &err));
    gguf_put_text(&w, "tokenizer.ggml.model", model, strlen(model));
    gguf_put_text(&w, "tokenizer.ggml.pre", pre, strlen(pre));
    gguf_put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_text(&w, tokens[i], strlen(tokens[i]));
    gguf_put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_i32(&w, i >= special ? GGUF_TOKEN_NORMAL : i ? GGUF_TOKEN_CONTROL
                                                              : GGUF_TOKEN_UNKNOWN);
    gguf_put_array(&w, "tokenizer.ggml.scores", GGUF_F32, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_f32(&w, -(float)i);
    gguf_put_array(&w, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_add_text(&w, merge, strlen(merge));
    if (special) {
        gguf_put_u32(&w, "tokenizer.ggml.bos_token_id", 1);
        gguf_put_bool(&w, "tokenizer.ggml.add_bos_token", 1);
    }
    gguf_put_text(&w, "tokenizer.chat_template", "{{ bos_token }}", 15);
    seed(&w);
}

static void seeds(void)
{
    static const char *const tokens[] = { "<unk>", "<s>", "t", "h", "e", "th", "the", "s", "a",
                                          GGUF_MARK, GGUF_MARK "t", "<0x0A>", "\xC4\xA0",
                                          "[PAD13]" };
    enum { TOKENS = sizeof tokens / sizeof *tokens };

    tokenizer_seed("gpt2", "gpt-2", tokens, TOKENS, "t h", 2);
    tokenizer_seed("gpt2", "gpt-2", tokens, TOKENS, "t h", 0);
    tokenizer_seed("gpt2", "deepseek-v3", tokens, TOKENS, "th e", 2);
    tokenizer_seed("llama", "default", tokens, TOKENS, "", 2);
    model_seed(&gpt2_arch, GGUF_TYPE_F32);
    model_seed(&llama_arch, GGUF_TYPE_Q8_0);
    model_seed(&gemma3_arch, GGUF_TYPE_F16);
    model_seed(&qwen2_arch, GGUF_TYPE_BF16);
}

const struct fuzz_target fuzz_gguf = { "gguf", NULL, one, seeds, 32 << 20, 2000, 1500 };
