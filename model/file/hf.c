/* hf.c: opens models as Hugging Face stores them: reads config.json, labels and
 * generation_config.json, and reads parameters from the folder's files. A tensor's place in our
 * flat blocks follows from its family's table alone. The family reads the keys of config.json and
 * refuses values that it would compute differently. A folder that opens therefore gives
 * transformers' logits. */
#include "model/file/hf.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "data/tensors/gguf.h"
#include "model/file/gguf_model.h"
#include "model/file/hf_tensors.h"

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20 };

struct hf {
    struct model_config        config;
    struct gguf_model         *gguf; // NULL: a folder, with the next two
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

int hf_is_folder(const char *dir)
{
    char path[HF_PATH_BYTES];

    return gguf_is_file(dir) ||
           (snprintf(path, sizeof path, "%s/config.json", dir) < (int)sizeof path &&
            file_may_be(path));
}

/* ---- folders that cannot be read ---- */

/* Writes the command that converts `from` (a folder, or a model of the Hub) into the folder
 * `to`. */
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
    if (file_may_be(name) || !*name || *name == '.' || *name == '/' ||
        name[strspn(name, plain)] || (slash && (!slash[1] || strchr(slash + 1, '/'))))
        return out;
    return hint_write(out, "; if it is the name of a model of the Hugging Face Hub",
                      "AutoModelForCausalLM", name, slash ? slash + 1 : name);
}

/* Refuses a folder without safetensors. PyTorch's own files hold a program's objects, not plain
 * data. */
static int refuse_files(const char *dir, const struct model_config *g, struct err *err)
{
    static const char *const names[] = { "pytorch_model.bin", "pytorch_model.bin.index.json" };
    char                     hint[HF_HINT], to[128];
    char                     word[MACHINE_PYTHON_PATH];
    const char              *from = machine_python_path(word, dir, "FOLDER");

    if (hf_has(dir, "model.safetensors") || hf_has(dir, "model.safetensors.index.json"))
        return 0;
    snprintf(to, sizeof to, "%s-safetensors", from);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hf_has(dir, names[i]))
            return err_misuse(err, "%.200s has %s, but no model.safetensors, which is read here%s",
                              dir, names[i],
                              hint_write(hint, "", hf_class(g), from, to));
    return hf_refuse_exported(dir, err);
}

static const char *known_families(char out[HF_HINT])
{
    const struct arch *of;

    *out = '\0';
    for (size_t i = 0, n = 0; (of = arch_at(i)) && n < HF_HINT; i++)
        n += (size_t)snprintf(out + n, HF_HINT - n, "%s%s", i ? ", " : "", of->name);
    return out;
}

/* Length of the beginning that a family's classes share: the part before LMHeadModel or
 * ForCausalLM. */
static size_t class_stem(const char *class)
{
    const char *end = strstr(class, "LMHead");

    end = end ? end : strstr(class, "For");
    return end ? (size_t)(end - class) : strlen(class);
}

/* The family that config.json names, or NULL if it is unknown. The oldest files, of the first
 * family, have no model_type, or only the class. */
static const struct arch *family_of(const char *type, const char *class)
{
    const struct arch *of;

    if (type)
        return arch_named(type);
    for (size_t i = 0; (of = arch_at(i)); i++)
        if (!class || !strncmp(class, of->class, class_stem(of->class)))
            return of;
    return NULL;
}

static const char *class_of(const json_t *config)
{
    return json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
}

/* Finds the family. This comes before other keys are read: another family has other keys, and one
 * of these would be reported as missing. */
static int config_family(const struct arch **out, const json_t *config, const char *path,
                         struct err *err)
{
    const json_t *said = json_object_get(config, "model_type");
    const char   *type = said && !json_is_string(said) ? "?" : json_string_value(said);
    const char   *class = class_of(config);
    char          known[HF_HINT];

    *out = family_of(type, class);
    if (*out)
        return 0;
    return err_misuse(err, "%s: a model of the family %.60s%s%.60s%s, but this version knows these "
                      "(\"model_type\"): %s", path, type ? type : class,
                      type && class ? " (" : "", type && class ? class : "",
                      type && class ? ")" : "", known_families(known));
}

/* Whether the files have this tensor, or -1 if they cannot be read, which hf_open will report. */
static int has_tensor(const char *dir, const char *name)
{
    struct safetensors *st = NULL;
    struct err          unreadable;
    int has = safetensors_open(&st, dir, &unreadable) ? -1 : safetensors_find(st, name) != NULL;

    safetensors_close(st);
    return has;
}

/* Whether the model is a classifier. If config.json names no architecture, the tensors decide. */
static int is_classifier(const struct arch *arch, const json_t *config, const char *dir)
{
    const char *name = class_of(config);

    return name ? !strcmp(name, arch->classifier)
                : has_tensor(dir, arch->params[arch->score].name) == 1;
}

/* Whether an encoder's files have no masked head. */
static int is_headless(const struct arch *arch, const json_t *config, const char *dir)
{
    const char *name = class_of(config);

    return arch->encoder && !(name && !strcmp(name, arch->class)) &&
           has_tensor(dir, arch->params[arch->masked].name) == 0;
}

const char *hf_class(const struct model_config *g)
{
    return arch_classifies(g) ? g->arch->classifier : g->arch->class;
}

const char *hf_problem_type(const struct model_config *g)
{
    return g->n_labels == 1 ? "regression" : "single_label_classification";
}

/* Reads the number of labels as transformers does: from id2label, else from num_labels, else 2. */
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
        rc = hf_key_size(&g->n_labels, &(struct hf_keys){ config, path }, "num_labels", err);
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

/* Reads dir/config.json, or the sizes of a GGUF file, into *out. The caller json_decref()s it. */
static int config_parse(json_t **out, char path[HF_PATH_BYTES], const char *dir, struct err *err)
{
    char        hint[HF_HINT];
    struct stat st;
    int         rc = hf_refuse_other(dir, err);

    *out = NULL;
    if (!rc && gguf_is_file(dir)) {
        snprintf(path, HF_PATH_BYTES, "%s", dir);
        return gguf_model_config(out, dir, err);
    }
    rc = rc ? rc : hf_path(path, dir, "config.json", err);
    if (!rc && stat(path, &st)) {
        int why = errno;

        rc = err_name(err, why, "%.300s: %s: a Hugging Face folder with config.json and "
                      "model.safetensors is needed%s", path, strerror(why),
                      hf_hub_hint(dir, hint));
    }
    return rc ? rc : json_read_object(out, path, CONFIG_MAX, err);
}

static int config_open(json_t **out, struct model_config *g, char path[HF_PATH_BYTES],
                       const char *dir, struct err *err)
{
    int rc = config_parse(out, path, dir, err);

    memset(g, 0, sizeof *g);
    rc = rc ? rc : config_family(&g->arch, *out, path, err);
    const struct hf_keys keys = { *out, path };
    rc = rc ? rc : hf_refuse_quantized(dir, &keys, err);
    rc = rc || g->arch->encoder ? rc : hf_key_must(1, &keys, "is_causal", g->arch->title, err);
    rc = rc ? rc : g->arch->config_read(g, &keys, err);
    if (!rc)
        *g = arch_config(g->arch, *g);
    if (!rc && is_classifier(g->arch, *out, dir))
        rc = config_labels(g, *out, path, err);
    else if (!rc)
        g->headless = (size_t)is_headless(g->arch, *out, dir);
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

int hf_pad(long *pad, const char *dir, struct err *err)
{
    char              path[HF_PATH_BYTES];
    struct model_config g;
    json_t           *config;
    int               rc = config_open(&config, &g, path, dir, err);
    const json_t     *v = json_object_get(config, "pad_token_id");

    *pad = !rc && json_is_integer(v) && json_integer_value(v) >= 0 ? (long)json_integer_value(v)
                                                                   : -1;
    json_decref(config);
    return rc;
}

/* ---- generation_config.json ---- */

/* Refuses a generation_config.json that is none. The whole file goes into a run and is exported
 * with the model, so somebody's other file, to which a link may lead, must not be taken. */
static int generation_check(const json_t *file, const char *path, struct err *err)
{
    static const char *const own[] = {
        "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id",
        "transformers_version", "_from_model_config", "max_length", "max_new_tokens", "min_length",
        "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty",
        "no_repeat_ngram_size", "num_beams", "suppress_tokens", "use_cache", "generation_mode" };

    if (!json_is_object(file))
        return err_misuse(err, "%s: a JSON object is expected", path);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(file, own[i]))
            return 0;
    return json_object_size(file)
               ? err_misuse(err, "%s has no setting of text generation: remove it, or the link "
                            "that it is", path)
               : 0;
}

int hf_generation(json_t **out, const char *dir, size_t vocab, struct err *err)
{
    static const char *const keys[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    char                     path[HF_PATH_BYTES];
    json_t                  *config = NULL, *file = NULL;
    int32_t                  stops[HF_STOPS];
    size_t                   n;
    int                      rc = config_parse(&config, path, dir, err);

    *out = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(*out, keys[i], json_object_get(config, keys[i])); // NULL sets nothing
    if (!rc && hf_has(dir, "generation_config.json") &&
        !(rc = hf_path(path, dir, "generation_config.json", err)) &&
        !(rc = json_read(&file, path, CONFIG_MAX, err)) &&
        !(rc = generation_check(file, path, err)) && json_object_update(*out, file))
        rc = err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = rc ? rc : hf_stops(stops, &n, *out, path, err);
    for (size_t i = 0; !rc && i < n; i++)
        if ((size_t)stops[i] >= vocab)
            rc = err_misuse(err, "%s: eos_token_id %d is not below the vocabulary of %zu", path,
                            (int)stops[i], vocab);
    json_decref(config);
    json_decref(file);
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

int hf_stops(int32_t out[HF_STOPS], size_t *n, const json_t *generation, const char *where,
             struct err *err)
{
    const json_t *ids = json_object_get(generation, "eos_token_id");
    int           list = json_is_array(ids);
    size_t        said = list ? json_array_size(ids) : ids && !json_is_null(ids);

    for (*n = 0; *n < said; ++*n) {
        const json_t *id = list ? json_array_get(ids, *n) : ids;
        json_int_t    v = json_is_integer(id) ? json_integer_value(id) : -1;

        if (v < 0 || v > INT32_MAX || *n == HF_STOPS)
            return err_misuse(err, "%s: eos_token_id is no id and no list of at most %d", where,
                              HF_STOPS);
        out[*n] = (int32_t)v;
    }
    return 0;
}

/* ---- the folder ---- */

/* verify: look at the data, too. */
static int open_as(struct hf **out, const char *dir, int verify, const struct watch *watch,
                   struct err *err)
{
    struct hf        *h = calloc(1, sizeof *h);
    struct hf_tensors t;

    *out = NULL;
    if (!h)
        return err_set(err, -ENOMEM, "%s: out of memory", dir);
    int rc = hf_config(&h->config, dir, err), gguf = !rc && gguf_is_file(dir);

    if (gguf)
        rc = gguf_model_open(&h->gguf, dir, &h->config, err);
    rc = rc || gguf ? rc : refuse_files(dir, &h->config, err);
    rc = rc || gguf ? rc : safetensors_open(&h->st, dir, err);
    if (!rc && !gguf) {
        h->tensor = calloc(arch_blocks(&h->config) * h->config.arch->n_params, sizeof *h->tensor);
        t = (struct hf_tensors){ .config = &h->config, .st = h->st, .slot = h->tensor, .dir = dir };
        rc = h->tensor ? hf_tensors_find(&t, err)
                       : err_set(err, -ENOMEM, "%s: out of memory", dir);
    }
    rc = rc || gguf || !verify ? rc : safetensors_verify(h->st, watch, err);
    rc = rc || gguf || !verify ? rc : hf_tensors_same(&t, err);
    if (rc) {
        hf_close(h);
        return rc;
    }
    *out = h;
    return 0;
}

int hf_open(struct hf **out, const char *dir, const struct watch *watch, struct err *err)
{
    return open_as(out, dir, 1, watch, err);
}

int hf_open_known(struct hf **out, const char *dir, struct err *err)
{
    return open_as(out, dir, 0, NULL, err);
}

void hf_close(struct hf *h)
{
    if (!h)
        return;
    safetensors_close(h->st);
    gguf_model_close(h->gguf);
    free(h->tensor);
    free(h);
}

const struct model_config *hf_model(const struct hf *h) { return &h->config; }

struct hf_files hf_files(const struct hf *h)
{
    struct hf_files files = { 0 };

    if (h->gguf)
        files.tensors = gguf_model_tensors(h->gguf, &files.bytes);
    else
        files = (struct hf_files){ h->st->n, h->st->bytes, h->st->summed };
    return files;
}

uint32_t hf_sum(const struct hf *h) { return h->gguf ? gguf_model_sum(h->gguf) : h->st->sum; }

const struct safetensors *hf_tensor_files(const struct hf *h) { return h->st; }

struct hf_place hf_place(const struct hf *h, size_t block, size_t first)
{
    struct arch_place at = arch_place(&h->config, block, first);

    return (struct hf_place){ h->tensor[block * h->config.arch->n_params + at.t], at.in, at.left };
}

static int source_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct hf *h = ctx;
    int        rc = 0;

    assert(first + n <= arch_block_size(&h->config, block));
    for (size_t count; n && !rc; first += count, out += count, n -= count) {
        struct arch_place at = arch_place(&h->config, block, first);

        count = size_min(at.left, n);
        rc = h->gguf ? gguf_model_read(h->gguf, block, at.t, at.in, count, out, err)
                     : safetensors_read(h->st, hf_place(h, block, first).tensor, at.in, count, out,
                                        err);
    }
    return rc;
}

struct params_source hf_source(struct hf *h)
{
    return (struct params_source){ .read = source_read, .ctx = h };
}
