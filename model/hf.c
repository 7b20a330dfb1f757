/* hf.c: GPT-2 as Hugging Face stores it. A tensor's place in our flat blocks follows from arch.c's
 * table alone; here stand only the names' prefixes, the keys of config.json, and the refusal of
 * what we would compute differently: a folder that opens gives transformers' logits. */
#include "model/hf.h"

#include "data/base/round.h"

#include <assert.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20 };

const char HF_CLASSIFIER[] = "GPT2ForSequenceClassification";

struct hf {
    struct model_config        config;
    struct safetensors      *st;
    const struct st_tensor **tensor; // [block * n_params + tensor]
};

/* ---- config.json ---- */

int hf_path(char *out, const char *dir, const char *name, struct err *err)
{
    if (snprintf(out, HF_PATH_BYTES, "%s/%s", dir, name) >= HF_PATH_BYTES)
        return err_set(err, -ENAMETOOLONG, "%s/%s: the path is too long", dir, name);
    return 0;
}

static int is_file(const char *dir, const char *name)
{
    char        path[HF_PATH_BYTES];
    struct stat st;

    return hf_path(path, dir, name, NULL) == 0 && stat(path, &st) == 0;
}

int hf_is_folder(const char *dir) { return is_file(dir, "config.json"); }

/* ---- what is no folder of ours yet ---- */

/* The command that makes one: what `from` names (a folder, or a model of the Hub) into `to`. */
static const char *hint_write(char out[HF_HINT], const char *before, const char *class,
                              const char *from, const char *to)
{
    snprintf(out, HF_HINT,
             "%s: python3 -c \"from transformers import AutoTokenizer, %s as M; "
             "[k.from_pretrained('%.100s').save_pretrained('%.100s') for k in (M, "
             "AutoTokenizer)]\" makes the folder %.100s (pip install torch transformers)",
             before, class, from, to, to);
    return out;
}

const char *hf_hub_hint(const char *name, char out[HF_HINT])
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    const char       *slash = strchr(name, '/');

    *out = '\0';
    if (access(name, F_OK) == 0 || !*name || *name == '.' || *name == '/' ||
        name[strspn(name, plain)] || (slash && (!slash[1] || strchr(slash + 1, '/'))))
        return out;
    return hint_write(out, "; if it is the name of a model of the Hugging Face Hub",
                      "GPT2LMHeadModel", name, slash ? slash + 1 : name);
}

/* A folder with PyTorch's own format alone, which is no data but a program's objects. */
static int refuse_pickle(const char *dir, const struct model_config *g, struct err *err)
{
    static const char *const names[] = { "pytorch_model.bin", "pytorch_model.bin.index.json" };
    char                     hint[HF_HINT], to[128];
    int                      quoted = dir[strcspn(dir, "'\"\\$`")] || strlen(dir) > 90;

    if (is_file(dir, "model.safetensors") || is_file(dir, "model.safetensors.index.json"))
        return 0;
    snprintf(to, sizeof to, "%s-safetensors", quoted ? "FOLDER" : dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_file(dir, names[i]))
            return err_misuse(err, "%.200s has %s, but no model.safetensors, which is read here%s",
                              dir, names[i],
                              hint_write(hint, "",
                                         arch_classifies(g) ? HF_CLASSIFIER : "GPT2LMHeadModel",
                                         quoted ? "FOLDER" : dir, to));
    return 0;
}

static int size_key(size_t *out, const json_t *config, const char *path, const char *key,
                    struct err *err)
{
    const json_t *v = json_object_get(config, key);

    if (!json_is_integer(v) || json_integer_value(v) <= 0 || json_integer_value(v) > INT32_MAX)
        return err_misuse(err, "%s: \"%s\" must be a positive whole number", path, key);
    *out = (size_t)json_integer_value(v);
    return 0;
}

/* Keys that may be absent or null, else must have the value that is computed with here. */
static int config_variants(const json_t *config, const char *path, size_t n_embd, struct err *err)
{
    static const struct { const char *key; int value; } flags[] = {
        { "scale_attn_weights", 1 }, { "scale_attn_by_inverse_layer_idx", 0 },
        { "add_cross_attention", 0 }, { "tie_word_embeddings", 1 },
    };
    const json_t *gelu = json_object_get(config, "activation_function"),
                 *inner = json_object_get(config, "n_inner");
    const char   *word = json_string_value(gelu);

    if (gelu && !json_is_null(gelu) &&
        (!word || (strcmp(word, "gelu_new") && strcmp(word, "gelu_pytorch_tanh"))))
        return err_misuse(err, "%s: \"activation_function\" is \"%s\", but this version knows "
                          "\"gelu_new\" only", path, word ? word : "?");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *value = json_object_get(config, flags[i].key);

        if (value && !json_is_null(value) &&
            (!json_is_boolean(value) || json_is_true(value) != flags[i].value))
            return err_misuse(err, "%s: this version trains GPT-2 with \"%s\": %s only", path,
                              flags[i].key, flags[i].value ? "true" : "false");
    }
    if (inner && !json_is_null(inner) && json_integer_value(inner) != (json_int_t)(4 * n_embd))
        return err_misuse(err, "%s: \"n_inner\" must be null or 4 x n_embd = %zu", path,
                          4 * n_embd);
    return 0;
}

/* Another family has other keys, too: it is named before one of them is missed. */
static int config_family(const json_t *config, const char *path, struct err *err)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *class =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));

    if (type ? !strcmp(type, "gpt2") : !class || !strncmp(class, "GPT2", 4))
        return 0;
    return err_misuse(err,
                      "%s: a model of the family %.60s%s%.60s%s, but this version knows GPT-2 only "
                      "(\"model_type\": \"gpt2\"): gpt2, gpt2-medium, gpt2-large, gpt2-xl, "
                      "distilgpt2 and what was made of them",
                      path, type ? type : class, type && class ? " (" : "",
                      type && class ? class : "", type && class ? ")" : "");
}

/* Sizes, and dropout, which where the folder says none is transformers' own default. */
static int config_numbers(struct model_config *g, const json_t *config, const char *path,
                          struct err *err)
{
    const char *positions = json_object_get(config, "n_positions") ? "n_positions" : "n_ctx";
    const struct { const char *key; size_t *size; float *rate; } keys[] = {
        { "n_layer", &g->n_layer, NULL }, { "n_head", &g->n_head, NULL },
        { "n_embd", &g->n_embd, NULL }, { "vocab_size", &g->vocab, NULL },
        { positions, &g->n_positions, NULL }, { "embd_pdrop", NULL, &g->drop_embd },
        { "attn_pdrop", NULL, &g->drop_attn }, { "resid_pdrop", NULL, &g->drop_resid },
    };
    const json_t *eps = json_object_get(config, "layer_norm_epsilon");
    int           rc = 0;

    for (size_t i = 0; !rc && i < sizeof keys / sizeof *keys; i++) {
        const json_t *v = json_object_get(config, keys[i].key);
        double        p = v ? json_number_value(v) : 0.1;

        if (keys[i].size)
            rc = size_key(keys[i].size, config, path, keys[i].key, err);
        else if ((v && !json_is_number(v)) || !(p >= 0 && p < 1))
            rc = err_misuse(err, "%s: \"%s\" must be a number from 0 to below 1", path,
                            keys[i].key);
        else
            *keys[i].rate = (float)p;
    }
    if (rc)
        return rc;
    if (eps &&
        (!json_is_number(eps) || !(json_number_value(eps) > 0) || json_number_value(eps) > 1))
        return err_misuse(err, "%s: \"layer_norm_epsilon\" must be a number between 0 and 1", path);
    g->norm_eps = eps ? (float)json_number_value(eps) : 1e-5f;
    return 0;
}

/* A folder that names no architecture is a classifier if it holds the tensor of one. */
static int is_classifier(const struct arch *arch, const json_t *config, const char *dir)
{
    const json_t       *list = json_object_get(config, "architectures");
    const char         *name = json_string_value(json_array_get(list, 0));
    struct safetensors *st = NULL;
    struct err          unreadable; // hf_open will say so

    if (name)
        return !strcmp(name, HF_CLASSIFIER);
    int found = safetensors_open(&st, dir, &unreadable) == 0 &&
                safetensors_find(st, arch->params[arch->score].name);
    safetensors_close(st);
    return found;
}

const char *hf_problem_type(const struct model_config *g)
{
    return g->n_labels == 1 ? "regression" : "single_label_classification";
}

/* The number of labels as transformers has it: id2label's; without it num_labels; else 2. */
static int config_labels(struct model_config *g, const json_t *config, const char *path,
                         struct err *err)
{
    const json_t *names = json_object_get(config, "id2label"),
                 *kind = json_object_get(config, "problem_type");
    const char   *word = json_string_value(kind);
    int           rc = 0;

    g->n_labels = 2;
    if (json_object_size(names))
        g->n_labels = json_object_size(names);
    else if (names && !json_is_null(names))
        rc = err_misuse(err, "%s: \"id2label\" must be an object with a name for each label", path);
    else if (json_object_get(config, "num_labels"))
        rc = size_key(&g->n_labels, config, path, "num_labels", err);
    if (rc || !kind || json_is_null(kind))
        return rc;
    if (word && !strcmp(word, hf_problem_type(g)))
        return 0;
    return err_misuse(err,
                      "%s: \"problem_type\" is \"%s\", but with %zu label%s this version knows "
                      "\"%s\" only",
                      path, word ? word : "?", g->n_labels, g->n_labels == 1 ? "" : "s",
                      hf_problem_type(g));
}

/* dir/config.json into *out, which the caller json_decref()s, and what it says into *g. */
static int config_open(json_t **out, struct model_config *g, char path[HF_PATH_BYTES],
                       const char *dir, struct err *err)
{
    char        hint[HF_HINT];
    struct stat st;
    int         rc = hf_path(path, dir, "config.json", err);

    *out = NULL;
    if (!rc && stat(path, &st)) {
        const char *why = strerror(errno);

        rc = err_misuse(err,
                        "%.300s: %s: a Hugging Face folder with config.json and "
                        "model.safetensors is needed%s",
                        path, why, hf_hub_hint(dir, hint));
    }
    rc = rc ? rc : json_read(out, path, CONFIG_MAX, err);
    if (!rc && !json_is_object(*out))
        rc = err_misuse(err, "%s: a JSON object is expected", path);
    rc = rc ? rc : config_family(*out, path, err);
    *g = (struct model_config){ .arch = &gpt2_arch };
    rc = rc ? rc : config_numbers(g, *out, path, err);
    rc = rc ? rc : config_variants(*out, path, g->n_embd, err);
    *g = arch_config(g->arch, *g);
    if (!rc && is_classifier(g->arch, *out, dir))
        rc = config_labels(g, *out, path, err);
    return rc ? rc : arch_check(g, err);
}

int hf_config(struct model_config *out, const char *dir, struct err *err)
{
    char    path[HF_PATH_BYTES];
    json_t *config;
    int     rc = config_open(&config, out, path, dir, err);

    json_decref(config);
    return rc;
}

/* ---- labels ---- */

void hf_labels_free(struct hf_labels *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (struct hf_labels){ 0 };
}

char *hf_label_name(const json_t *names, size_t i)
{
    char          text[32];

    snprintf(text, sizeof text, "%zu", i);
    const json_t *v = json_object_get(names, text);
    if (json_is_string(v))
        return strdup(json_string_value(v));
    if (json_is_integer(v))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    else if (json_object_size(names))
        return NULL;
    else
        snprintf(text, sizeof text, "LABEL_%zu", i);
    return strdup(text);
}

int hf_labels(struct hf_labels *out, const char *dir, struct err *err)
{
    char              path[HF_PATH_BYTES];
    struct model_config g;
    json_t           *config;
    int               rc = config_open(&config, &g, path, dir, err);

    *out = (struct hf_labels){ 0 };
    if (!rc && g.n_labels && !(out->name = calloc(g.n_labels, sizeof *out->name)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", path);
    for (; !rc && out->n < g.n_labels; out->n++) {
        out->name[out->n] = hf_label_name(json_object_get(config, "id2label"), out->n);
        if (!out->name[out->n])
            rc = err_misuse(err, "%s: \"id2label\" must name every label from \"0\" to \"%zu\", "
                            "but \"%zu\" has no name", path, g.n_labels - 1, out->n);
    }
    if (rc)
        hf_labels_free(out);
    json_decref(config);
    return rc;
}

long hf_pad(const char *dir)
{
    char              path[HF_PATH_BYTES];
    struct model_config g;
    json_t           *config;
    int               rc = config_open(&config, &g, path, dir, NULL);
    const json_t     *v = json_object_get(config, "pad_token_id");
    long pad = !rc && json_is_integer(v) && json_integer_value(v) >= 0 ? (long)json_integer_value(v)
                                                                       : -1;

    json_decref(config);
    return pad;
}

/* ---- tensors by name ---- */

static int tensor_check(const struct model_config *g, size_t t, const struct st_tensor *st,
                        const char *dir, struct err *err)
{
    size_t rows = arch_rows(g, t), cols = arch_cols(g, t);
    int    vector = arch_is_vector(g, t);
    char   shape[64];

    if (st->dtype == ST_OTHER)
        return err_misuse(err, "%s: tensor %s is neither F32 nor F16 nor BF16", dir, st->name);
    if (vector ? st->n_dims == 1 && st->dims[0] == cols
               : st->n_dims == 2 && st->dims[0] == rows && st->dims[1] == cols)
        return 0;
    if (vector)
        snprintf(shape, sizeof shape, "[%zu]", cols);
    else
        snprintf(shape, sizeof shape, "[%zu, %zu]", rows, cols);
    return err_misuse(err, "%s: tensor %s does not have the shape %s that config.json asks for",
                      dir, st->name, shape);
}

/* What transformers' older files hold beside parameters: the causal mask, and the tied head once
 * more. */
static int tensor_is_extra(const char *name)
{
    return !fnmatch("*.attn.bias", name, 0) || !fnmatch("*.attn.masked_bias", name, 0) ||
           !strcmp(name, "lm_head.weight");
}

static int refuse_unknown(const struct hf *h, const char *dir, struct err *err)
{
    size_t n_known = arch_blocks(&h->config) * h->config.arch->n_params;

    for (size_t i = 0; i < h->st->n; i++) {
        const struct st_tensor *st = &h->st->tensors[i];
        int                     known = tensor_is_extra(st->name);

        for (size_t k = 0; k < n_known && !known; k++)
            known = h->tensor[k] == st;
        if (!known)
            return err_misuse(err,
                              "%s: tensor %s does not belong to a GPT-2 of %zu layers with a %s "
                              "head",
                              dir, st->name, h->config.n_layer,
                              arch_classifies(&h->config) ? "classifier's" : "tied");
    }
    return 0;
}

static int find_tensors(struct hf *h, const char *dir, struct err *err)
{
    const char *prefix = safetensors_find(h->st, "transformer.wte.weight") ? "transformer." : "";
    int         rc = 0;

    for (size_t b = 0; b < arch_blocks(&h->config); b++) {
        size_t first, end;

        arch_block_tensors(&h->config, b, &first, &end);
        for (size_t t = first; t < end && !rc; t++) {
            const struct st_tensor **slot = &h->tensor[b * h->config.arch->n_params + t];
            char                     name[HF_NAME_BYTES];

            if (!arch_size(&h->config, t))
                continue;
            arch_tensor_name(&h->config, name, sizeof name, prefix, b, t);
            *slot = safetensors_find(h->st, name);
            if (!*slot)
                return err_misuse(err, "%s: tensor %s is missing", dir, name);
            rc = tensor_check(&h->config, t, *slot, dir, err);
        }
    }
    return rc ? rc : refuse_unknown(h, dir, err);
}

int hf_open(struct hf **out, const char *dir, const struct watch *watch, struct err *err)
{
    struct hf *h = calloc(1, sizeof *h);

    *out = NULL;
    if (!h)
        return err_set(err, -ENOMEM, "%s: out of memory", dir);
    int rc = hf_config(&h->config, dir, err);
    rc = rc ? rc : refuse_pickle(dir, &h->config, err);
    rc = rc ? rc : safetensors_open(&h->st, dir, err);
    if (!rc) {
        h->tensor = calloc(arch_blocks(&h->config) * h->config.arch->n_params, sizeof *h->tensor);
        rc = h->tensor ? find_tensors(h, dir, err)
                       : err_set(err, -ENOMEM, "%s: out of memory", dir);
    }
    rc = rc ? rc : safetensors_verify(h->st, watch, err);
    if (rc) {
        hf_close(h);
        return rc;
    }
    *out = h;
    return 0;
}

void hf_close(struct hf *h)
{
    if (!h)
        return;
    safetensors_close(h->st);
    free(h->tensor);
    free(h);
}

const struct model_config *hf_model(const struct hf *h) { return &h->config; }

static int source_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct hf *h = ctx;
    int        rc = 0;

    assert(first + n <= arch_block_size(&h->config, block));
    for (size_t count; n && !rc; first += count, out += count, n -= count) {
        struct arch_place at = arch_place(&h->config, block, first);

        count = size_min(at.left, n);
        rc = safetensors_read(h->st, h->tensor[block * h->config.arch->n_params + at.t], at.in,
                              count, out, err);
    }
    return rc;
}

struct params_source hf_source(struct hf *h)
{
    return (struct params_source){ .read = source_read, .ctx = h };
}
