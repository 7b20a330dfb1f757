/* llama_config.c: reads and writes the config.json of Llama and related families, and lists the
 * sizes known by name. If transformers would compute something differently, the key is named and
 * refused. */
#include "model/family/llama_config.h"

#include "data/base/round.h"
#include "data/base/table.h"

#include <math.h>

/* The numbers are those in these models' config.json. */
#define SIZES(layers, heads, kv, width, inner, words, positions, theta_, eps, ...)               \
    { .n_layer = layers, .n_head = heads, .n_kv_head = kv, .n_embd = width, .n_inner = inner,    \
      .vocab = words, .n_positions = positions, .rope.theta = theta_, .norm_eps = eps,           \
      __VA_ARGS__ }
#define LLAMA_3(layers, heads, width, inner, times, ...)                                         \
    SIZES(layers, heads, 8, width, inner, 128256, 131072, 500000, 1e-5f,                         \
          .rope.type = ROPE_LLAMA3, .rope.factor = times, .rope.original = 8192,                 \
          .rope.low_freq_factor = 1, .rope.high_freq_factor = 4, __VA_ARGS__)

const struct arch_preset llama_presets[LLAMA_PRESETS] = {
    { "smollm2-135m", SIZES(30,  9,  3,  576, 1536, 49152, 8192, 100000, 1e-5f, .untied = 0) },
    { "smollm2-360m", SIZES(32, 15,  5,  960, 2560, 49152, 8192, 100000, 1e-5f, .untied = 0) },
    { "smollm2-1.7b", SIZES(24, 32, 32, 2048, 8192, 49152, 8192, 130000, 1e-5f, .untied = 0) },
    { "llama-3.2-1b", LLAMA_3(16, 32, 2048,  8192, 32, .untied = 0) },
    { "llama-3.2-3b", LLAMA_3(28, 24, 3072,  8192, 32, .untied = 0) },
    { "llama-3.1-8b", LLAMA_3(32, 32, 4096, 14336,  8, .untied = 1) },
};

#define QWEN(layers, heads, kv, width, inner, words, positions, own_head)                        \
    SIZES(layers, heads, kv, width, inner, words, positions, 1000000, 1e-6f,                     \
          .untied = own_head, .qkv_bias = 1)
const struct arch_preset qwen2_presets[QWEN2_PRESETS] = {
    { "qwen2.5-0.5b", QWEN(24, 14, 2,  896,  4864, 151936,  32768, 0) },
    { "qwen2.5-1.5b", QWEN(28, 12, 2, 1536,  8960, 151936, 131072, 0) },
    { "qwen2.5-3b",   QWEN(36, 16, 2, 2048, 11008, 151936,  32768, 0) },
    { "qwen2.5-7b",   QWEN(28, 28, 4, 3584, 18944, 152064, 131072, 1) },
};

#define GEMMA(layers, width, inner)                                                              \
    SIZES(layers, 4, 1, width, inner, 262144, 32768, 1000000, 1e-6f, .head_dim = 256,            \
          .window = 512, .global_every = 6, .theta_local = 10000, .qk_norm = 1)
const struct arch_preset gemma3_presets[GEMMA3_PRESETS] = {
    { "gemma-3-270m", GEMMA(18,  640, 2048) },
    { "gemma-3-1b",   GEMMA(26, 1152, 6912) },
};

void llama_settle(struct model_config *g)
{
    g->n_kv_head = g->n_kv_head ? g->n_kv_head : g->n_head;
    g->head_dim = g->head_dim ? g->head_dim : g->n_head ? g->n_embd / g->n_head : 0;
    g->rope.D = g->head_dim;
    g->global_every = size_min(g->global_every, g->n_layer + 1);
}

int llama_check(const struct model_config *g, struct err *err)
{
    const size_t most = 1u << 20;

    if (g->n_head == 0 || g->n_kv_head == 0 || g->n_head % g->n_kv_head != 0)
        return err_misuse(err, "%zu heads of queries cannot share %zu heads of keys and values",
                          g->n_head, g->n_kv_head);
    if (g->head_dim == 0 || g->head_dim % 2 != 0)
        return err_misuse(err, "a head must have an even number of elements, not %zu", g->head_dim);
    if (g->n_inner == 0 || g->n_inner > most * 4)
        return err_misuse(err, "the width of the MLP (intermediate_size) must be 1 to %zu, not %zu",
                          most * 4, g->n_inner);
    if (g->global_every && (!g->window || !(g->theta_local > 1) || !isfinite(g->theta_local)))
        return err_misuse(err, "layers of two kinds need a window, and a rotary base above 1, of "
                          "their own");
    if (g->rope.type > ROPE_YARN || !(g->rope.theta > 1) || !isfinite(g->rope.theta) ||
        (g->rope.type != ROPE_DEFAULT && !(g->rope.factor > 0)) ||
        (g->rope.type > ROPE_LINEAR && !(g->rope.original > 0)) ||
        (g->rope.type == ROPE_LLAMA3 && !(g->rope.high_freq_factor > g->rope.low_freq_factor)))
        return err_misuse(err, "the numbers of rotary embeddings are none that heads can be turned "
                          "by");
    return 0;
}

/* ---- rotary embeddings ---- */

/* The numbers that scale rotary embeddings, and the types that have them. As in transformers 5,
 * YaRN's given factor counts, however many positions the model has. (Qwen's advice for long texts
 * does not change their number.) */
#define FOR(type) (1u << ROPE_##type)
#define AT(name)  #name, offsetof(struct rope, name)
static const struct { const char *key; size_t at; unsigned types; int needed; } rope_numbers[] = {
    { AT(factor), FOR(LINEAR) | FOR(LLAMA3) | FOR(YARN), 1 },
    { "original_max_position_embeddings", offsetof(struct rope, original),
      FOR(LLAMA3) | FOR(YARN), 1 },
    { AT(low_freq_factor), FOR(LLAMA3), 1 }, { AT(high_freq_factor), FOR(LLAMA3), 1 },
    { AT(beta_fast), FOR(YARN), 0 }, { AT(beta_slow), FOR(YARN), 0 },
    { AT(attention_factor), FOR(YARN), 0 }, { AT(mscale), FOR(YARN), 0 },
    { AT(mscale_all_dim), FOR(YARN), 0 },
};
enum { ROPE_NUMBERS = sizeof rope_numbers / sizeof *rope_numbers, ROPE_ORIGINAL = 1 };

static double *rope_at(const struct rope *r, size_t i)
{
    return (double *)((uintptr_t)r + rope_numbers[i].at);
}

/* Reads a positive number of the object that scales rotary embeddings. An absent number that is not
 * needed is 0. */
static int rope_number(double *out, const json_t *rope, const char *key, int needed,
                       const struct hf_keys *k, struct err *err)
{
    const json_t *v = json_object_get(rope, key);

    *out = json_number_value(v);
    if ((!v || json_is_null(v)) && !needed)
        return 0;
    return json_is_number(v) && *out > 0 && isfinite(*out)
               ? 0
               : err_misuse(err, "%s: rotary embeddings: \"%s\" must be a number above 0", k->path,
                            key);
}

static int rope_type(enum rope_type *out, const json_t *rope, const struct hf_keys *k,
                     struct err *err)
{
    const struct hf_keys of = { rope, k->path };
    const char *key = hf_key_has(&of, "rope_type") ? "rope_type" : "type", *name,
               *word = hf_key_has(&of, key) ? json_string_value(json_object_get(rope, key))
                                            : "default";

    for (size_t i = 0; word && (name = rope_type_name(i)); i++)
        if (!strcmp(word, name)) {
            *out = (enum rope_type)i;
            return 0;
        }
    return err_misuse(err, "%s: rotary embeddings of the type \"%s\" are not known here: default, "
                      "linear, llama3 and yarn are", k->path, word ? word : "?");
}

/* Refuses keys that none of the known types has, because other programs would compute with them. */
static int rope_members(const json_t *rope, const struct hf_keys *k, struct err *err)
{
    static const char *const known[] = {
        "rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings",
        "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "attention_factor",
        "mscale", "mscale_all_dim", "truncate", "partial_rotary_factor",
    };
    const char *key;
    json_t     *value;

    json_object_foreach((json_t *)(uintptr_t)rope, key, value)
        if (!TABLE_FIND(known, key) ||
            (!strcmp(key, "partial_rotary_factor") && json_number_value(value) != 1))
            return err_misuse(err, "%s: rotary embeddings with \"%s\" are not known here", k->path,
                              key);
    return 0;
}

/* Finds the object that describes rotary embeddings, or NULL. It is rope_parameters in transformers
 * 5 (the part for this kind of layers, if there are two), and rope_scaling in 4. A file in which
 * the two differ is refused, because the versions would choose differently. */
static int rope_object(const json_t **out, const struct hf_keys *k, const char *kind,
                       struct err *err)
{
    const json_t *now = json_object_get(k->config, "rope_parameters"),
                 *before = json_object_get(k->config, "rope_scaling");
    int both = hf_key_has(k, "rope_parameters") && hf_key_has(k, "rope_scaling");

    if (kind && hf_key_has(k, "rope_parameters"))
        now = json_object_get(now, kind);
    *out = hf_key_has(k, "rope_parameters") ? now : before;
    if (both && !json_equal(now, before))
        return err_misuse(err, "%s: \"rope_parameters\" and \"rope_scaling\" say different things",
                          k->path);
    if (*out && !json_is_null(*out) && !json_is_object(*out))
        return err_misuse(err, "%s: \"rope_parameters\" or \"rope_scaling\" must be an object",
                          k->path);
    return 0;
}

/* Reads the rotary base: from the object, or from the key next to it, or else `usual`. */
static int rope_theta(double *out, const json_t *rope, const char *key, double usual,
                      const struct hf_keys *k, struct err *err)
{
    const json_t *theta = json_object_get(rope, "rope_theta");

    theta = theta ? theta : json_object_get(k->config, key);
    *out = theta ? json_number_value(theta) : usual;
    return (!theta || json_is_number(theta)) && *out > 1 && isfinite(*out)
               ? 0
               : err_misuse(err, "%s: \"%s\" must be a number above 1", k->path, key);
}

/* kind: of layers, if there are two kinds; else NULL. */
static int config_rope(struct model_config *g, const struct hf_keys *k, const char *kind,
                       struct err *err)
{
    const json_t *rope;
    struct rope  *r = &g->rope;
    int           rc = rope_object(&rope, k, kind, err), truncate = 1;

    rc = rc ? rc : rope_theta(&r->theta, rope, "rope_theta", kind ? 1000000 : 10000, k, err);
    if (rc)
        return rc;
    rc = rope_members(rope, k, err);
    rc = rc ? rc : rope_type(&r->type, rope, k, err);
    for (size_t i = 0; i < ROPE_NUMBERS && !rc; i++)
        if (rope_numbers[i].types >> r->type & 1)
            rc = rope_number(rope_at(r, i), rope, rope_numbers[i].key, rope_numbers[i].needed, k,
                             err);
    if (!rc && !(r->original <= INT32_MAX && floor(r->original) >= r->original))
        rc = err_misuse(err, "%s: \"original_max_position_embeddings\" must be a whole number",
                        k->path);
    if (!rc && r->type == ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor))
        rc = err_misuse(err, "%s: \"high_freq_factor\" must be above \"low_freq_factor\"",
                        k->path);
    if (!rc && r->type == ROPE_YARN)
        rc = hf_key_flag(&truncate, 1, &(struct hf_keys){ rope, k->path }, "truncate", err);
    r->untruncated = !truncate;
    return rc;
}

/* ---- config.json ---- */

/* How families read their common keys differently. */
struct reading {
    int needs_heads;  // the number of heads of keys must be given; transformers' default is another
    int tied;         // the head is tied unless the file says otherwise
    const char *rope; // part of "rope_parameters" for layers without window; NULL: it has no parts
};
static const struct reading llama_reading = { 0 }, other_reading = { .needs_heads = 1 },
                            gemma3_reading = { 1, 1, "full_attention" };

static int config_sizes(struct model_config *g, const struct hf_keys *k, const struct reading *r,
                        struct err *err)
{
    const struct { const char *key; size_t *to; } sizes[] = {
        { "num_hidden_layers", &g->n_layer }, { "num_attention_heads", &g->n_head },
        { "hidden_size", &g->n_embd }, { "vocab_size", &g->vocab },
        { "max_position_embeddings", &g->n_positions }, { "intermediate_size", &g->n_inner },
    };
    int rc = 0, tied = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = hf_key_size(sizes[i].to, k, sizes[i].key, err);
    if (!rc && r->needs_heads)
        rc = hf_key_size(&g->n_kv_head, k, "num_key_value_heads", err);
    rc = rc ? rc : hf_key_size_or(&g->n_kv_head, g->n_head, k, "num_key_value_heads", err);
    rc = rc ? rc : hf_key_size_or(&g->head_dim, 0, k, "head_dim", err);
    if (!rc && !g->head_dim && g->n_embd % g->n_head)
        rc = err_misuse(err, "%s: the width %zu is not divisible by %zu heads", k->path, g->n_embd,
                        g->n_head);
    rc = rc ? rc : hf_key_epsilon(&g->norm_eps, 1e-6f, k, "rms_norm_eps", err);
    rc = rc ? rc : hf_key_rate(&g->drop_attn, 0, k, "attention_dropout", err);
    rc = rc ? rc : hf_key_flag(&tied, r->tied, k, "tie_word_embeddings", err);
    g->untied = !tied;
    return rc ? rc : config_rope(g, k, r->rope, err);
}

static const char *type_at(const json_t *types, size_t i)
{
    const char *word = json_string_value(json_array_get(types, i));

    return word ? word : "?";
}

/* Refuses layers that do not see all tokens before. */
static int config_full(const struct hf_keys *k, struct err *err)
{
    const json_t *types = json_object_get(k->config, "layer_types");

    if (hf_key_has(k, "layer_types") && !json_is_array(types))
        return err_misuse(err, "%s: \"layer_types\" must be a list", k->path);
    for (size_t i = 0; i < json_array_size(types); i++)
        if (strcmp(type_at(types, i), "full_attention"))
            return err_misuse(err, "%s: \"layer_types\" has \"%s\", but this version knows "
                              "\"full_attention\" only", k->path, type_at(types, i));
    return 0;
}

static int config_read(struct model_config *g, const struct hf_keys *k, const struct reading *r,
                       struct err *err)
{
    static const char *const never[] = { "attention_bias", "mlp_bias", "use_sliding_window" };
    size_t one;
    int    rc = config_sizes(g, k, r, err);

    for (size_t i = 0; i < sizeof never / sizeof *never && !rc; i++)
        rc = hf_key_must(0, k, never[i], g->arch->title, err);
    if (!rc && g->arch->gates_gelu)
        rc = hf_key_word("gelu_pytorch_tanh", "gelu_pytorch_tanh", k, "hidden_activation", err);
    else if (!rc)
        rc = hf_key_word("silu", "swish", k, "hidden_act", err);
    rc = rc ? rc : hf_key_size_or(&one, 1, k, "pretraining_tp", err);
    if (!rc && one != 1)
        rc = err_misuse(err, "%s: this version knows \"pretraining_tp\": 1 only", k->path);
    if (!rc && json_number_value(json_object_get(k->config, "partial_rotary_factor")) != 1 &&
        hf_key_has(k, "partial_rotary_factor"))
        rc = err_misuse(err, "%s: this version turns whole heads (\"partial_rotary_factor\": 1)",
                        k->path);
    return rc || r->rope ? rc : config_full(k, err); // other families read them
}

int llama_config_read(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    return config_read(g, k, &llama_reading, err);
}

/* "sliding_window": null means no window; absent, transformers' default. */
int llama_config_mistral(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    int rc = config_read(g, k, &other_reading, err);

    if (rc || json_is_null(json_object_get(k->config, "sliding_window")))
        return rc;
    return hf_key_size_or(&g->window, 4096, k, "sliding_window", err);
}

int llama_config_qwen2(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    g->qkv_bias = 1;
    return config_read(g, k, &other_reading, err);
}

int llama_config_qwen3(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    int rc = config_read(g, k, &other_reading, err);

    g->qk_norm = 1;
    return rc ? rc : hf_key_size(&g->head_dim, k, "head_dim", err);
}

/* Reads global_every: every how many layers one has no window. */
static int config_kinds(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    const json_t *types = json_object_get(k->config, "layer_types");
    int rc = hf_key_size_or(&g->global_every, 6, k, "sliding_window_pattern", err);

    if (rc || !types || json_is_null(types))
        return rc;
    g->global_every = g->n_layer + 1;
    for (size_t i = g->n_layer; i > 0; i--)
        if (!strcmp(type_at(types, i - 1), "full_attention"))
            g->global_every = i;
    for (size_t i = 0; i < g->n_layer; i++)
        if (json_array_size(types) != g->n_layer ||
            strcmp(type_at(types, i),
                   arch_is_local(g, i + 1) ? "sliding_attention" : "full_attention"))
            return err_misuse(err, "%s: this version knows \"layer_types\" of which each n-th is "
                              "\"full_attention\" and all others are \"sliding_attention\"",
                              k->path);
    return 0;
}

/* Soft-capping is Gemma 2's and is refused. Scores are divided by the root of head_dim here. */
int llama_config_gemma3(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    static const char *const caps[] = { "final_logit_softcapping", "attn_logit_softcapping" };
    const json_t *both = json_object_get(k->config, "rope_parameters"),
                 *local = json_object_get(both, "sliding_attention");
    struct rope   plain = { 0 };
    size_t        scale;
    int           rc = config_read(g, k, &gemma3_reading, err);

    if (!rc && hf_key_has(k, "rope_parameters") &&
        !(json_is_object(local) && json_is_object(json_object_get(both, "full_attention"))))
        rc = err_misuse(err, "%s: \"rope_parameters\" must have an object \"full_attention\" and "
                        "one \"sliding_attention\"", k->path);

    g->qk_norm = 1;
    rc = rc ? rc : hf_key_size(&g->head_dim, k, "head_dim", err);
    rc = rc ? rc : hf_key_size_or(&scale, 256, k, "query_pre_attn_scalar", err);
    if (!rc && scale != g->head_dim)
        rc = err_misuse(err, "%s: this version knows a \"query_pre_attn_scalar\" that is "
                        "\"head_dim\" only", k->path);
    for (size_t i = 0; i < sizeof caps / sizeof *caps && !rc; i++)
        if (hf_key_has(k, caps[i]))
            rc = err_misuse(err, "%s: \"%s\" is not computed here", k->path, caps[i]);
    rc = rc ? rc : hf_key_must(0, k, "use_bidirectional_attention", g->arch->title, err);
    rc = rc ? rc : hf_key_size_or(&g->window, 4096, k, "sliding_window", err);
    rc = rc ? rc : rope_theta(&g->theta_local, local, "rope_local_base_freq", 10000, k, err);
    rc = rc ? rc : rope_members(local, k, err);
    rc = rc ? rc : rope_type(&plain.type, local, k, err);
    if (!rc && plain.type != ROPE_DEFAULT)
        rc = err_misuse(err, "%s: heads of layers with a window are turned without scaling here",
                        k->path);
    return rc ? rc : config_kinds(g, k, err);
}

/* Writes rope_scaling of transformers 4, which 5 reads as well. null means the default. */
static json_t *rope_write(const struct rope *r)
{
    json_t *out = json_pack("{s:s}", "rope_type", rope_type_name(r->type));

    if (r->type == ROPE_DEFAULT) {
        json_decref(out);
        return json_null();
    }
    for (size_t i = 0; i < ROPE_NUMBERS; i++)
        if (i != ROPE_ORIGINAL && *rope_at(r, i) > 0)
            json_object_set_new(out, rope_numbers[i].key, json_real(*rope_at(r, i)));
    if (r->original > 0)
        json_object_set_new(out, "original_max_position_embeddings",
                            json_integer((json_int_t)r->original));
    if (r->untruncated)
        json_object_set_new(out, "truncate", json_false());
    return out;
}

json_t *llama_config_write(const struct model_config *g)
{
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:b}",
        g->arch->gates_gelu ? "hidden_activation" : "hidden_act",
        g->arch->gates_gelu ? "gelu_pytorch_tanh" : "silu", "num_hidden_layers",
        (json_int_t)g->n_layer, "num_attention_heads", (json_int_t)g->n_head,
        "num_key_value_heads", (json_int_t)g->n_kv_head, "head_dim", (json_int_t)g->head_dim,
        "hidden_size", (json_int_t)g->n_embd, "intermediate_size",
        (json_int_t)g->n_inner, "vocab_size", (json_int_t)g->vocab, "max_position_embeddings",
        (json_int_t)g->n_positions, "rms_norm_eps", hf_decimal(g->norm_eps), "initializer_range",
        0.02, "attention_dropout", hf_decimal(g->drop_attn), "rope_theta", g->rope.theta,
        "rope_scaling", rope_write(&g->rope), "tie_word_embeddings", (int)!g->untied);
}

json_t *llama_config_write_mistral(const struct model_config *g)
{
    json_t *out = llama_config_write(g);

    json_object_set_new(out, "sliding_window",
                        g->window ? json_integer((json_int_t)g->window) : json_null());
    return out;
}

json_t *llama_config_write_qwen(const struct model_config *g)
{
    json_t *out = llama_config_write(g);

    json_object_set_new(out, "use_sliding_window", json_false());
    return out;
}

json_t *llama_config_write_gemma3(const struct model_config *g)
{
    json_t *out = llama_config_write(g), *types = json_array();

    for (size_t l = 1; l <= g->n_layer; l++)
        json_array_append_new(types, json_string(arch_is_local(g, l) ? "sliding_attention"
                                                                     : "full_attention"));
    json_object_set_new(out, "layer_types", types);
    json_object_set_new(out, "sliding_window", json_integer((json_int_t)g->window));
    json_object_set_new(out, "rope_local_base_freq", json_real(g->theta_local));
    json_object_set_new(out, "query_pre_attn_scalar", json_integer((json_int_t)g->head_dim));
    return out;
}
