/* peft_other.c: adapters that siTrain does not train. The message names what an adapter has, by its
 * key in adapter_config.json, and ends with the command that merges it into its model, if there is
 * one. */
#include "model/file/peft.h"

#include "data/base/machine.h"
#include "data/base/table.h"
#include "data/text/tokenizer.h"

#include <stdarg.h>

enum { SETTINGS_MAX = 1 << 20, WHAT_BYTES = 360, LINE_BYTES = 840 };
_Static_assert(WHAT_BYTES + LINE_BYTES <= sizeof((struct err *)0)->text,
               "a message has room for its command, which is of no use if it is cut");

int peft_settings(json_t **out, char path[HF_PATH_BYTES], const char *dir, struct err *err)
{
    int rc = hf_path(path, dir, PEFT_CONFIG, err);

    *out = NULL;
    return rc ? rc : json_read_object(out, path, SETTINGS_MAX, err);
}

/* ---- the command that merges an adapter ---- */

/* Whether a tensor's name ends in this module: its weight, also beneath LoRA or trained tokens. */
static int is_of(const char *name, const char *module)
{
    static const char *const behind[] = { ".weight", ".base_layer", ".token_adapter" };
    size_t                   n = strlen(name), m = strlen(module), end;

    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        end = strlen(behind[i]);
        if (n >= end && !strncmp(name + n - end, behind[i], end))
            n -= end;
        else if (i == 0)
            return 0;
    }
    return n >= m && !strncmp(name + n - m, module, m);
}

/* Returns the rows of the first matrix in the folder's file that is one of these modules'; 0: the
 * file has none. */
static size_t rows_of(const char *dir, const char *const *modules, size_t n_modules)
{
    struct safetensors *st = NULL;
    struct err          err;
    size_t              rows = 0;

    if (hf_has(dir, PEFT_MODEL) && !safetensors_open_file(&st, dir, PEFT_MODEL, &err))
        for (size_t i = 0; i < st->n && !rows; i++)
            for (size_t k = 0; k < n_modules; k++)
                if (st->tensors[i].n_dims == 2 && st->tensors[i].dims[1] > 0 &&
                    st->tensors[i].dims[0] <= INT32_MAX && is_of(st->tensors[i].name, modules[k]))
                    rows = st->tensors[i].dims[0];
    safetensors_close(st);
    return rows;
}

/* Whether the adapter changes the embeddings or a language model's head, each by itself or both by
 * the same LoRA. If they are tied, peft would merge each change into both. Trained tokens are those
 * of both, unless the head has its own. */
static int unties(const char *dir, const json_t *settings)
{
    static const char *const parts[] = { ".lm_head.", ".embed_tokens.", ".wte." };
    int                      ensured = json_is_true(json_object_get(settings,
                                                                    "ensure_weight_tying"));
    struct safetensors      *st = NULL;
    struct err               err;
    int                      found = 0;

    if (!hf_has(dir, PEFT_MODEL) || safetensors_open_file(&st, dir, PEFT_MODEL, &err))
        return 0;
    for (size_t i = 0; i < st->n; i++) {
        const char *name = st->tensors[i].name;
        int         tokens = strstr(name, ".token_adapter.") && !strstr(name, parts[0]);

        for (size_t k = 0; k < sizeof parts / sizeof *parts && !tokens; k++)
            found |= strstr(name, parts[k]) && (!ensured || strstr(name, ".lora_"));
    }
    safetensors_close(st);
    return found;
}

/* Writes the command of peft, which makes the model as the adapter needs it: with its classes, with
 * its rows of embeddings, which peft stores if tokens were added, and with a head of its own if
 * this `unties`. Before that the adapter is loaded: the rows of added tokens, which peft stores
 * once, go into both of the tied matrices. */
static void merge_line(char out[LINE_BYTES], const char *dir, const json_t *settings)
{
    static const char *const heads[] = { ".score", ".classifier", ".classifier.out_proj" };
    static const char *const words[] = { ".embed_tokens", ".wte", ".word_embeddings", ".lm_head" };
    static const char        untie[] = "p = P.from_pretrained(m, d); "
                                "[setattr(k, 'weight', type(k.weight)(k.weight.clone())) for k in "
                                "m.lm_head.modules() if 'weight' in k._parameters]; "
                                "m.config.tie_word_embeddings = False; ";
    char        to[MACHINE_PYTHON_PATH], base[MACHINE_PYTHON_PATH], more[2][64] = { "", "" };
    const char *of = json_str(settings, "base_model_name_or_path");
    size_t      classes = rows_of(dir, heads, sizeof heads / sizeof *heads),
                rows = rows_of(dir, words, sizeof words / sizeof *words);
    const char *kind = strcmp(json_str(settings, "task_type"), "TOKEN_CLS")
                           ? classes ? "SequenceClassification" : "CausalLM"
                           : "TokenClassification";
    int         own_head = !strcmp(kind, "CausalLM") && unties(dir, settings);

    machine_python_path(to, dir, "FOLDER");
    machine_python_path(base, of, "MODEL");
    if (classes)
        snprintf(more[0], sizeof more[0], ", num_labels=%zu", classes);
    if (rows)
        snprintf(more[1], sizeof more[1], "m.resize_token_embeddings(%zu); ", rows);
    snprintf(out, LINE_BYTES, "python3 -c \"from transformers import AutoTokenizer as T, "
             "AutoModelFor%s as M; from peft import PeftModel as P; d = '%s'; b = '%s'; "
             "m = M.from_pretrained(b%s); %s%s[k.save_pretrained(d + '-merged') for k in "
             "(%s.merge_and_unload(), T.from_pretrained(%s))]\" makes the "
             "folder %s-merged, to begin with (pip install torch transformers peft)",
             kind, to, base, more[0], more[1], own_head ? untie : "",
             own_head ? "p" : "P.from_pretrained(m, d)", tokenizer_is_there(dir) ? "d" : "b", to);
}

int peft_misuse(struct err *err, const char *dir, const char *fmt, ...)
{
    char       path[HF_PATH_BYTES], line[LINE_BYTES], what[WHAT_BYTES];
    json_t    *settings = NULL;
    struct err unread;
    va_list    ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    peft_settings(&settings, path, dir, &unread); // no settings, no name
    merge_line(line, dir, settings);
    json_decref(settings);
    return err_misuse(err, "%s: %s", what, line);
}

/* ---- adapters of other libraries ---- */

/* mlx_lm has no key for the kind of file: these two are its own. */
static int is_mlx(const json_t *settings)
{
    return json_object_get(settings, "fine_tune_type") ||
           json_object_get(settings, "lora_parameters");
}

static int refuse_mlx(const char *dir, const json_t *settings, struct err *err)
{
    char        word[MACHINE_PYTHON_PATH], model[MACHINE_PYTHON_PATH];
    const char *of = json_str(settings, "model");

    machine_python_path(word, dir, "FOLDER");
    machine_python_path(model, of, "MODEL");
    return err_misuse(err, "%.200s is an adapter of MLX (" PEFT_CONFIG " has \"%s\"), but adapters "
                      "of PEFT are read here: python3 -m mlx_lm fuse --dequantize --model '%s' "
                      "--adapter-path '%s' --save-path '%s-merged' makes the folder %s-merged, to "
                      "begin with (pip install mlx-lm, on Linux with 'mlx[cpu]')", dir,
                      json_object_get(settings, "fine_tune_type") ? "fine_tune_type"
                                                                  : "lora_parameters",
                      model, word, word, word);
}

int peft_refuse_foreign(const char *dir, struct err *err)
{
    char    path[HF_PATH_BYTES];
    json_t *settings;
    int     rc = peft_settings(&settings, path, dir, err);

    if (!rc && !json_object_get(settings, "peft_type"))
        rc = is_mlx(settings)
                 ? refuse_mlx(dir, settings, err)
                 : err_misuse(err, "%s has no \"peft_type\": this is an adapter of another library "
                              "than PEFT. Merge it into its model there, and begin with the merged "
                              "folder", path);
    json_decref(settings);
    return rc;
}

/* ---- PEFT's adapters that are none of LoRA, or more than LoRA ---- */

/* Whether a value switches something on: it is not null, false, 0, "", [] or {}. */
static int is_on(const json_t *v)
{
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:  return json_object_size(v) > 0;
    case JSON_ARRAY:   return json_array_size(v) > 0;
    case JSON_STRING:  return json_string_length(v) > 0;
    case JSON_INTEGER: return json_integer_value(v) != 0;
    case JSON_REAL:    return json_real_value(v) != 0.0;
    default:           return json_is_true(v);
    }
}

/* Refuses other types than LoRA. Some change what goes into a model: no matrices express them. */
static int type_refuse(const struct hf_keys *k, const char *dir, struct err *err)
{
    static const char *const inputs[] = { "PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING",
                                          "PREFIX_TUNING", "ADAPTION_PROMPT", "CPT", "CARTRIDGE" };
    const char *type = json_str(k->config, "peft_type");

    if (TABLE_FIND(inputs, type))
        return err_misuse(err, "%s: \"peft_type\" is \"%s\", which adds to a model's inputs, so "
                          "that it cannot be merged into its matrices: begin with the model "
                          "without it", k->path, type);
    return strcmp(type, "LORA")
               ? peft_misuse(err, dir, "%.200s: \"peft_type\" is \"%.60s\", but this version knows "
                             "adapters of the type \"LORA\" only", k->path, type)
               : 0;
}

int peft_settings_refuse(const struct hf_keys *k, const char *dir, struct err *err)
{
    static const char *const off[] = {
        "use_dora", "use_qalora", "lora_bias", "rank_pattern", "alpha_pattern",
        "layers_to_transform", "layer_replication", "trainable_token_indices", "target_parameters",
        "alora_invocation_tokens", "use_bdlora", "arrow_config", "kasa_config",
        "velora_config", "monteclora_config"
    };
    static const char *const starts[] = { "gaussian", "eva", "orthogonal" };
    const char   *bias = json_str(k->config, "bias");
    const json_t *init = json_object_get(k->config, "init_lora_weights");
    int           rc = type_refuse(k, dir, err);

    if (rc)
        return rc;
    if (*bias && strcmp(bias, "none"))
        return peft_misuse(err, dir, "%.200s: \"bias\" is \"%.60s\", but adapters are trained with "
                           "\"none\" here", k->path, bias);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (is_on(json_object_get(k->config, off[i])))
            return peft_misuse(err, dir, "%.200s: \"%s\" is set, which this version does not "
                               "compute", k->path, off[i]);
    return !json_is_string(init) || TABLE_FIND(starts, json_string_value(init))
               ? 0
               : peft_misuse(err, dir, "%.200s: \"init_lora_weights\" is \"%.60s\", which changes "
                             "the base, too", k->path, json_string_value(init));
}

int peft_saved_refuse(const struct model_config *g, const struct hf_keys *k, const char *dir,
                      struct err *err)
{
    static const char *const heads[] = { "score", "classifier", "pooler" };
    const json_t            *saved = json_object_get(k->config, "modules_to_save");

    for (size_t i = 0; i < json_array_size(saved); i++) {
        const char *name = json_string_value(json_array_get(saved, i));

        if (!name || !arch_classifies(g) || !TABLE_FIND(heads, name))
            return peft_misuse(err, dir, "%.200s: \"modules_to_save\" has \"%.60s\", but of the "
                               "base only the head of a classifier is trained whole here", k->path,
                               name ? name : "?");
    }
    return 0;
}
