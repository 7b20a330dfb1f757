/* gguf_config.c: writes a model's sizes as llama.cpp's keys, and makes a config.json of such keys.
 *
 * A file that siTrain wrote has a few keys of its own (sitrain.*), which llama.cpp ignores: the
 * family, since Llama and Mistral are one architecture there, and the numbers of Llama 3.1's RoPE,
 * of which llama.cpp stores the results only (the tensor rope_freqs). Without them, a file's
 * factors must be those that Llama 3.1's usual numbers give. */
#include "model/file/gguf_config.h"

#include <math.h>

#define OWN_FAMILY "sitrain.family"

/* ---- checks ---- */

static int is_gemma(const struct model_config *g) { return g->arch == &gemma3_arch; }
static int is_gpt2(const struct model_config *g) { return g->arch == &gpt2_arch; }

static int refuse_family(const struct model_config *g, struct err *err)
{
    char   known[256] = "";
    size_t n = 0;

    for (size_t i = 0; gguf_family_at(i); i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "",
                              gguf_family_at(i)->arch->title);
    return err_misuse(err, "a GGUF file is written of language models of the families %s, not of "
                      "a %s%s: export a Hugging Face folder instead", known, g->arch->title,
                      arch_classifies(g) ? " that classifies" : "");
}

/* Whether llama.cpp takes it for the Gemma 3 of 27 billion, which is known by its layers there. */
static int is_27b(const struct model_config *g)
{
    return is_gemma(g) && g->n_layer == 62 && g->n_embd != g->n_head * g->head_dim;
}

/* Whether a number is given and is not the usual one. */
static int is_other(double v, double usual) { return v > 0 && fabs(v - usual) > 1e-9; }

int gguf_config_check(const struct model_config *g, struct err *err)
{
    const struct gguf_family *f = gguf_family_of(g->arch);

    if (!f || arch_classifies(g))
        return refuse_family(g, err);
    if (g->lora.rank)
        return err_misuse(err, "adapters that are not merged are no part of a GGUF file: export a "
                          "Hugging Face folder instead");
    if (g->rope.type == ROPE_LLAMA3 && strcmp(f->name, "llama"))
        return err_misuse(err, "llama.cpp scales rotary embeddings as Llama 3.1 does in Llama's "
                          "models only, not in a %s: export a Hugging Face folder instead",
                          g->arch->title);
    if (g->rope.type == ROPE_YARN &&
        (g->rope.untruncated || is_other(g->rope.beta_fast, 32) || is_other(g->rope.beta_slow, 1)))
        return err_misuse(err, "llama.cpp computes YaRN with \"beta_fast\": 32, \"beta_slow\": 1 "
                          "and \"truncate\": true only: export a Hugging Face folder instead");
    if (is_27b(g))
        return err_misuse(err, "llama.cpp takes a Gemma 3 of 62 layers for one whose attention is "
                          "scaled by width / heads: export a Hugging Face folder instead");
    return 0;
}

void gguf_config_notice(char out[GGUF_NOTICE], const struct model_config *g)
{
    *out = '\0';
    if (g->window && !is_gemma(g))
        snprintf(out, GGUF_NOTICE, "llama.cpp has no sliding window in a %s: texts of more than "
                 "%zu tokens are computed differently there", g->arch->title, g->window);
    else if (is_gemma(g) && (g->global_every != 6 || is_other(g->theta_local, 10000)))
        snprintf(out, GGUF_NOTICE, "older versions of llama.cpp do not read "
                 "attention.sliding_window_pattern and rope.freq_base_swa, which are %zu and %g "
                 "here: they take 6 and 10000, and compute this %s differently", g->global_every,
                 g->theta_local, g->arch->title);
}

/* ---- writing ---- */

static void put(struct gguf_writer *w, const struct model_config *g, const char *key, size_t v)
{
    char name[128];

    snprintf(name, sizeof name, "%s.%s", gguf_family_of(g->arch)->name, key);
    gguf_put_u32(w, name, (uint32_t)v);
}

static void put_f32(struct gguf_writer *w, const struct model_config *g, const char *key, double v)
{
    char name[128];

    snprintf(name, sizeof name, "%s.%s", gguf_family_of(g->arch)->name, key);
    gguf_put_f32(w, name, (float)v);
}

static void put_text(struct gguf_writer *w, const char *key, const char *text)
{
    gguf_put_text(w, key, text, strlen(text));
}

/* How much YaRN's attention is scaled by default, which llama.cpp multiplies by its attn_factor. */
static double yarn_usual(double factor) { return factor > 1 ? 1 + 0.1 * log(factor) : 1; }

/* Llama 3.1's numbers, by our own keys. */
static const struct { const char *key; size_t at; double usual; } llama3[] = {
    { "sitrain.rope.factor", offsetof(struct rope, factor), 0 },
    { "sitrain.rope.low_freq_factor", offsetof(struct rope, low_freq_factor), 1 },
    { "sitrain.rope.high_freq_factor", offsetof(struct rope, high_freq_factor), 4 },
    { "sitrain.rope.original", offsetof(struct rope, original), 8192 },
};
enum { LLAMA3 = sizeof llama3 / sizeof *llama3 };

static double *llama3_at(struct rope *r, size_t i) { return (double *)((char *)r + llama3[i].at); }

static void put_rope(struct gguf_writer *w, const struct model_config *g)
{
    struct rope r = g->rope;
    char        name[128];
    double      more = rope_attention_factor(&r) / yarn_usual(r.factor);

    put_f32(w, g, "rope.freq_base", r.theta);
    for (size_t i = 0; i < LLAMA3 && r.type == ROPE_LLAMA3; i++)
        gguf_put_f64(w, llama3[i].key, *llama3_at(&r, i));
    if (r.type != ROPE_LINEAR && r.type != ROPE_YARN)
        return;
    snprintf(name, sizeof name, "%s.rope.scaling.type", gguf_family_of(g->arch)->name);
    put_text(w, name, r.type == ROPE_YARN ? "yarn" : "linear");
    put_f32(w, g, "rope.scaling.factor", r.factor);
    if (r.type == ROPE_LINEAR)
        return;
    put(w, g, "rope.scaling.original_context_length", (size_t)r.original);
    if (fabs(more - 1) > 1e-7)
        put_f32(w, g, "rope.scaling.attn_factor", more);
}

static uint32_t file_type(enum gguf_type type)
{
    return type == GGUF_TYPE_F32 ? 0 : type == GGUF_TYPE_F16 ? 1 : type == GGUF_TYPE_Q8_0 ? 7 : 32;
}

void gguf_config_put(struct gguf_writer *w, const struct model_config *g, enum gguf_type type)
{
    char   name[96];
    double millions = (double)arch_total(g) / 1e6;

    put_text(w, "general.architecture", gguf_family_of(g->arch)->name);
    put_text(w, OWN_FAMILY, g->arch->name); // among the first: by it output.c knows our files
    put_text(w, "general.type", "model");
    snprintf(name, sizeof name, "%s %.4g%s", g->arch->title,
             millions < 1000 ? millions : millions / 1000, millions < 1000 ? "M" : "B");
    put_text(w, "general.name", name);
    gguf_put_u32(w, "general.file_type", file_type(type));
    gguf_put_u32(w, "general.quantization_version", 2);
    put(w, g, "vocab_size", g->vocab);
    put(w, g, "context_length", g->n_positions);
    put(w, g, "embedding_length", g->n_embd);
    put(w, g, "block_count", g->n_layer);
    put(w, g, "feed_forward_length", g->n_inner);
    put(w, g, "attention.head_count", g->n_head);
    if (is_gpt2(g)) {
        put_f32(w, g, "attention.layer_norm_epsilon", (double)g->norm_eps);
        return;
    }
    put(w, g, "attention.head_count_kv", g->n_kv_head);
    put(w, g, "attention.key_length", g->head_dim);
    put(w, g, "attention.value_length", g->head_dim);
    put_f32(w, g, "attention.layer_norm_rms_epsilon", (double)g->norm_eps);
    put(w, g, "rope.dimension_count", g->head_dim);
    put_rope(w, g);
    if (g->window)
        put(w, g, "attention.sliding_window", g->window);
    if (!is_gemma(g))
        return;
    put(w, g, "attention.sliding_window_pattern", g->global_every);
    put_f32(w, g, "rope.freq_base_swa", g->theta_local);
}

float gguf_rope_factor(const struct rope *r, size_t j)
{
    struct rope plain = { .type = ROPE_DEFAULT, .D = r->D, .theta = r->theta };

    return (float)(rope_frequency(&plain, j) / rope_frequency(r, j));
}

/* ---- reading ---- */

struct reading { struct gguf *file; const struct gguf_family *family; };

static const double MOST_SIZE = 1u << 31; // of any size in a file

/* Reads a key of the architecture. If it is absent, *out stays, or if `needed`, it is misuse. */
static int number(double *out, const struct reading *k, const char *key, int needed,
                  struct err *err)
{
    char name[128];

    snprintf(name, sizeof name, "%s.%s", k->family->name, key);
    const struct gguf_value *v = gguf_find(k->file, name);

    if (!v && !needed)
        return 0;
    if (!v)
        return err_misuse(err, "%s: the key %s is missing", k->file->path, name);
    return v->is_array || gguf_number(out, k->file, v, 0) || !isfinite(*out)
               ? err_misuse(err, "%s: the key %s must be one number", k->file->path, name)
               : 0;
}

static int size(size_t *out, const struct reading *k, const char *key, int needed, struct err *err)
{
    double v = (double)*out;
    int    rc = number(&v, k, key, needed, err);

    if (!rc && !(v >= 0 && v <= MOST_SIZE))
        rc = err_misuse(err, "%s: the key %s.%s is no size", k->file->path, k->family->name, key);
    *out = rc ? 0 : (size_t)v;
    return rc;
}

/* Every how many layers one has no window: a number, or a list of truth values. */
static int read_pattern(struct model_config *g, const struct reading *k, struct err *err)
{
    char   name[128];
    double local;

    snprintf(name, sizeof name, "%s.attention.sliding_window_pattern", k->family->name);
    const struct gguf_value *v = gguf_find(k->file, name);

    g->global_every = 6;
    if (!v || !v->is_array)
        return size(&g->global_every, k, "attention.sliding_window_pattern", 0, err);
    g->global_every = g->n_layer + 1;
    for (size_t i = v->n == g->n_layer ? g->n_layer : 0; i > 0; i--)
        if (!gguf_number(&local, k->file, v, i - 1) && !(local > 0))
            g->global_every = i;
    for (size_t i = 0; i < g->n_layer; i++)
        if (v->n != g->n_layer || gguf_number(&local, k->file, v, i) ||
            (local > 0) != !!arch_is_local(g, i + 1))
            return err_misuse(err, "%s: this version knows a key %s of which each n-th layer is "
                              "false", k->file->path, name);
    return 0;
}

static int read_gemma(struct model_config *g, const struct reading *k, struct err *err)
{
    double cap = 0;
    int    rc = read_pattern(g, k, err);

    rc = rc ? rc : number(&cap, k, "final_logit_softcapping", 0, err);
    if (!rc && cap > 0)
        rc = err_misuse(err, "%s: \"%s.final_logit_softcapping\" is not computed here",
                        k->file->path, k->family->name);
    if (!rc && is_27b(g))
        rc = err_misuse(err, "%s: the attention of a Gemma 3 of 62 layers is scaled by width / "
                        "heads, but this version knows the size of a head only", k->file->path);
    g->theta_local = 10000;
    rc = rc ? rc : number(&g->theta_local, k, "rope.freq_base_swa", 0, err);
    if (!rc && !g->window)
        g->window = g->n_positions, g->global_every = 1; // no layer has a window
    return rc;
}

/* Finds the numbers that give the factors in the file. */
static int read_llama3(struct rope *r, const struct reading *k, const struct gguf_tensor *t,
                       struct err *err)
{
    float factor, most = 0;
    int   rc = 0, same = t->count == r->D / 2 && gguf_type_is_read(t->type);

    r->type = ROPE_LLAMA3;
    for (size_t j = 0; j < r->D / 2 && same && !rc; j++) {
        rc = gguf_read(k->file, t, j, 1, &factor, err);
        most = fmaxf(most, factor);
    }
    for (size_t i = 0; i < LLAMA3; i++) {
        const struct gguf_value *v = gguf_find(k->file, llama3[i].key);

        *llama3_at(r, i) = i ? llama3[i].usual : (double)most;
        if (v && gguf_number(llama3_at(r, i), k->file, v, 0))
            same = 0;
        same = same && *llama3_at(r, i) > 0 && *llama3_at(r, i) < MOST_SIZE;
    }
    same = same && r->high_freq_factor > r->low_freq_factor;
    for (size_t j = 0; j < r->D / 2 && same && !rc; j++) {
        rc = gguf_read(k->file, t, j, 1, &factor, err);
        same = fabsf(factor - gguf_rope_factor(r, j)) <= 1e-4f * factor;
    }
    return rc || same ? rc
                      : err_misuse(err, "%s: the factors of tensor " GGUF_ROPE_FREQS " are not "
                                   "those of Llama 3.1's rotary embeddings", k->file->path);
}

static int read_rope(struct model_config *g, const struct reading *k, struct err *err)
{
    const struct gguf_tensor *freqs = gguf_tensor(k->file, GGUF_ROPE_FREQS);
    struct rope              *r = &g->rope;
    char                      name[128];
    double                    rotated = (double)g->head_dim, more = 0;
    size_t                    n, original = 0;
    int                       rc = number(&r->theta, k, "rope.freq_base", 0, err);

    snprintf(name, sizeof name, "%s.rope.scaling.type", k->family->name);
    const char *type = gguf_text(&n, k->file, gguf_find(k->file, name));

    rc = rc ? rc : number(&rotated, k, "rope.dimension_count", 0, err);
    if (!rc && fabs(rotated - (double)g->head_dim) >= 1)
        rc = err_misuse(err, "%s: this version turns whole heads: %s.rope.dimension_count must be "
                        "%zu", k->file->path, k->family->name, g->head_dim);
    rc = rc ? rc : number(&r->factor, k, "rope.scaling.factor", 0, err);
    rc = rc ? rc : size(&original, k, "rope.scaling.original_context_length", 0, err);
    r->original = (double)original;
    rc = rc ? rc : number(&r->beta_fast, k, "rope.scaling.yarn_beta_fast", 0, err);
    rc = rc ? rc : number(&r->beta_slow, k, "rope.scaling.yarn_beta_slow", 0, err);
    rc = rc ? rc : number(&more, k, "rope.scaling.attn_factor", 0, err);
    if (rc)
        return rc;
    if (type && n == 4 && !memcmp(type, "yarn", n))
        r->type = ROPE_YARN, r->attention_factor = more > 0 ? more * yarn_usual(r->factor) : 0;
    else if (type && !(n == 6 && !memcmp(type, "linear", n)) &&
             !(n == 4 && !memcmp(type, "none", n)))
        return err_misuse(err, "%s: rotary embeddings scaled as \"%s\" are not known here",
                          k->file->path, gguf_shown(name, type, n));
    else if (type && n == 6 && r->factor > 0 && fabs(r->factor - 1) > 1e-9)
        r->type = ROPE_LINEAR;
    r->D = g->head_dim;
    if (r->type != ROPE_DEFAULT && freqs)
        return err_misuse(err, "%s: rotary embeddings with %s.rope.scaling.type and with the "
                          "tensor " GGUF_ROPE_FREQS " are not known here", k->file->path,
                          k->family->name);
    return freqs ? read_llama3(r, k, freqs, err) : 0;
}

static int read_sizes(struct model_config *g, const struct reading *k, struct err *err)
{
    const struct { const char *key; size_t *to; int needed; } sizes[] = {
        { "context_length", &g->n_positions, 1 }, { "embedding_length", &g->n_embd, 1 },
        { "block_count", &g->n_layer, 1 }, { "feed_forward_length", &g->n_inner, 1 },
        { "attention.head_count", &g->n_head, 1 },
        { "attention.head_count_kv", &g->n_kv_head, 0 },
        { "attention.key_length", &g->head_dim, 0 },
        { "attention.sliding_window", &g->window, 0 },
    };
    const struct gguf_tensor *words = gguf_tensor(k->file, "token_embd.weight");
    double                    eps = 0;
    int                       rc = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = size(sizes[i].to, k, sizes[i].key, sizes[i].needed, err);
    rc = rc ? rc : number(&eps, k, is_gpt2(g) ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon", 1, err);
    g->norm_eps = (float)eps;
    if (!rc && (!words || words->n_dims != 2))
        rc = err_misuse(err, "%s: the tensor token_embd.weight is missing", k->file->path);
    g->vocab = rc ? 0 : words->dims[1];
    g->untied = !is_gpt2(g) && gguf_tensor(k->file, "output.weight") != NULL;
    return rc;
}

static int refuse_part(const struct gguf *file, struct err *err)
{
    char                     shown[GGUF_SHOWN];
    size_t                   n;
    double                   parts = 1;
    const char              *type = gguf_text(&n, file, gguf_find(file, "general.type"));
    const struct gguf_value *split = gguf_find(file, "split.count");

    if (type && (n != 5 || memcmp(type, "model", n)))
        return err_misuse(err, "%s: its type (general.type) is \"%s\", but a model is expected; "
                          "of an adapter, give the folder with adapter_config.json", file->path,
                          gguf_shown(shown, type, n));
    if (split && !gguf_number(&parts, file, split, 0) && parts > 1)
        return err_misuse(err, "%s is one of the %.0f files of a model: llama-gguf-split --merge "
                          "FIRST.gguf WHOLE.gguf (of llama.cpp) joins them, where FIRST.gguf is "
                          "the first one", file->path, parts);
    return 0;
}

/* The family: our own key tells Mistral from Llama. In other files, a window does. */
static int read_family(struct reading *k, struct err *err)
{
    char        shown[GGUF_SHOWN];
    size_t      n, own;
    const char *name = gguf_text(&n, k->file, gguf_find(k->file, "general.architecture")),
               *said = gguf_text(&own, k->file, gguf_find(k->file, OWN_FAMILY));

    k->family = name ? gguf_family_named(name, n) : NULL;
    if (!k->family)
        return err_misuse(err, "%s: a model of llama.cpp's architecture \"%s\", but this version "
                          "reads gpt2, llama, qwen2, qwen3 and gemma3", k->file->path,
                          gguf_shown(shown, name, n));
    for (size_t i = 0; gguf_family_at(i); i++) {
        const struct gguf_family *f = gguf_family_at(i);

        if (!strcmp(f->name, k->family->name) &&
            (said ? strlen(f->arch->name) == own && !memcmp(f->arch->name, said, own)
                  : f->arch == &mistral_arch &&
                        gguf_find(k->file, "llama.attention.sliding_window")))
            k->family = f;
    }
    return 0;
}

/* The ids that begin, end and pad a text, as config.json has them. */
static int put_ids(json_t *config, const struct gguf *file)
{
    static const struct { const char *key, *to; } ids[] = {
        { "tokenizer.ggml.bos_token_id", "bos_token_id" },
        { "tokenizer.ggml.eos_token_id", "eos_token_id" },
        { "tokenizer.ggml.padding_token_id", "pad_token_id" },
        { "tokenizer.ggml.eot_token_id", NULL }, // another end: the end of a turn
    };
    json_t *value;
    double  id;
    int     bad = 0;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct gguf_value *v = gguf_find(file, ids[i].key);

        if (!v || gguf_number(&id, file, v, 0) || !(id >= 0 && id < (double)(1u << 31)))
            continue;
        value = json_integer((json_int_t)id);
        if (!ids[i].to && json_object_get(config, "eos_token_id"))
            value = json_pack("[O, o]", json_object_get(config, "eos_token_id"), value);
        bad |= json_object_set_new(config, ids[i].to ? ids[i].to : "eos_token_id", value);
    }
    return bad;
}

int gguf_config_json(json_t **out, struct gguf *file, struct err *err)
{
    struct reading      k = { .file = file };
    struct model_config g = { 0 };
    int                 rc = refuse_part(file, err);

    rc = rc ? rc : read_family(&k, err);
    *out = NULL;
    if (rc)
        return rc;
    g = (struct model_config){ .arch = k.family->arch, .rope.theta = 10000 };
    if (is_gpt2(&g)) // no file has a GPT-2's dropout: it is transformers' default
        g.drop_embd = g.drop_attn = g.drop_resid = 0.1f;
    rc = read_sizes(&g, &k, err);
    if (!rc && !g.head_dim)
        g.head_dim = g.n_head ? g.n_embd / g.n_head : 0;
    rc = rc || is_gpt2(&g) ? rc : read_rope(&g, &k, err);
    rc = rc || !is_gemma(&g) ? rc : read_gemma(&g, &k, err);
    if (rc)
        return rc;
    json_t *own = g.arch->config_write(&g);

    *out = json_pack("{s:s, s:[s]}", "model_type", g.arch->name, "architectures", g.arch->class);
    if (!*out || !own || json_object_update(*out, own) || put_ids(*out, file)) {
        json_decref(*out);
        *out = NULL;
        rc = err_set(err, -ENOMEM, "no memory for the sizes of %s", file->path);
    }
    json_decref(own);
    return rc;
}
