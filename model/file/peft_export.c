/* peft_export.c: writes adapter_config.json, with the keys that PEFT's LoraConfig has in all of its
 * versions. */
#include "model/file/peft.h"

#include <math.h>

enum { NAME_BYTES = 256 };

/* ---- target_modules ---- */

/* Whether a name of modules also means one that has no adapter. Modules of any block count, because
 * PEFT looks at all of them. */
static int means_other(const struct model_config *g, const char *word)
{
    for (size_t t = 0; t < g->arch->n_params; t++)
        if (!(g->lora.targets >> t & 1) && lora_is_named(g->arch, t, word, strlen(word)))
            return 1;
    return 0;
}

static int has_word(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), word))
            return 1;
    return 0;
}

/* Adds the shortest name that means tensor t's module and no module without an adapter. If there is
 * none, the module of each layer is named. Returns other than 0 without memory. */
static int add_target(json_t *list, const struct model_config *g, size_t t)
{
    char path[NAME_BYTES], whole[2 * NAME_BYTES];
    int  bad = 0;

    lora_module(g->arch, t, path, sizeof path);
    for (const char *word = path + strlen(path); word >= path; word--) {
        if ((word > path && word[-1] != '.') || !*word || means_other(g, word))
            continue;
        return !has_word(list, word) && json_array_append_new(list, json_string(word));
    }
    for (size_t layer = 0; layer < g->n_layer; layer++) {
        snprintf(whole, sizeof whole, "%s.%zu.%s", g->arch->layers, layer, path);
        bad |= json_array_append_new(list, json_string(whole));
    }
    return bad;
}

static json_t *target_modules(const struct model_config *g)
{
    json_t *list = json_array();
    int     bad = !list;

    for (size_t t = 0; t < g->arch->n_params && !bad; t++)
        if (g->lora.targets >> t & 1)
            bad = add_target(list, g, t);
    if (!bad)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- adapter_config.json ---- */

/* The modules of a classifier's head; null for a language model. */
static json_t *modules_to_save(const struct model_config *g)
{
    char    saved[NAME_BYTES];
    int     pooler = g->arch->encoder && !lora_is_whole(g, g->arch->pool);

    if (!arch_classifies(g))
        return json_null();
    lora_saved(g, saved, sizeof saved);
    return pooler ? json_pack("[s, s]", saved, "pooler") : json_pack("[s]", saved);
}

static json_t *plain_number(float x)
{
    return floorf(x) == x && x < 1e9f ? json_integer((json_int_t)x) : json_real(hf_decimal(x));
}

int peft_settings_write(const char *dir, const struct hf_export *x, struct err *err)
{
    const struct model_config *g = &x->config;
    const char *task = arch_classifies(g)   ? "SEQ_CLS"
                       : g->arch->encoder ? NULL
                                          : "CAUSAL_LM";
    char    path[HF_PATH_BYTES];
    json_t *out = json_pack(
        "{s:s?, s:s, s:b, s:b, s:b, s:o, s:f, s:o, s:s, s:I, s:o, s:s?, s:b, s:b}",
        "base_model_name_or_path", *x->base ? x->base : NULL, "bias", "none", "fan_in_fan_out",
        !g->arch->linear, "inference_mode", 1, "init_lora_weights", 1, "lora_alpha",
        plain_number(g->lora.alpha), "lora_dropout", hf_decimal(g->lora.dropout),
        "modules_to_save", modules_to_save(g), "peft_type", "LORA", "r",
        (json_int_t)g->lora.rank, "target_modules", target_modules(g), "task_type", task,
        "use_dora", 0, "use_rslora", g->lora.rs);
    int rc = out ? hf_path(path, dir, PEFT_CONFIG, err)
                 : err_set(err, -EINVAL, "%s/" PEFT_CONFIG ": out of memory, or the name of the "
                           "base is not UTF-8", dir);

    rc = rc ? rc : json_write(out, path, JSON_INDENT(2) | JSON_SORT_KEYS, err);
    json_decref(out);
    return rc;
}
