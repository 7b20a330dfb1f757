/* peft.c: reads adapter folders. Which matrices have adapters is decided by the tensors in the
 * file: target_modules may be a pattern that only Python understands, or name modules that the
 * model lacks. */
#include "model/file/peft.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "model/file/hf_tensors.h"
#include "model/lora/adapted.h"

#include <assert.h>
#include <math.h>
#include <unistd.h>

enum { SLOTS = 3 * ARCH_TENSORS, NAME_BYTES = 256 };

struct peft {
    struct model_config      config;
    struct peft_base         base;
    struct safetensors      *st;
    const struct st_tensor **slot; // [block * SLOTS + tensor]; NULL: the base's
    int                      other_base;
};

int peft_is_folder(const char *dir) { return hf_has(dir, PEFT_CONFIG); }

static int has_model(const char *dir)
{
    return hf_is_folder(dir) &&
           (hf_has(dir, "model.safetensors") || hf_has(dir, "model.safetensors.index.json"));
}

/* ---- adapter_config.json ---- */

static int read_number(float *out, double otherwise, const struct hf_keys *k, const char *key,
                       struct err *err)
{
    const json_t *v = json_object_get(k->config, key);
    double        x = hf_key_has(k, key) ? json_number_value(v) : otherwise;

    if ((hf_key_has(k, key) && !json_is_number(v)) || !isfinite(x) || x < 0 || x > 1e9)
        return err_misuse(err, "%s: \"%s\" must be a number from 0 to 1e9", k->path, key);
    *out = (float)x;
    return 0;
}

static int settings_lora(struct arch_lora *out, const struct hf_keys *k, const char *dir,
                         struct err *err)
{
    int rc = peft_settings_refuse(k, dir, err);

    *out = (struct arch_lora){ 0 };
    rc = rc ? rc : hf_key_size_or(&out->rank, 8, k, "r", err);
    if (!rc && out->rank > LORA_MOST_RANK)
        rc = err_misuse(err, "%s: \"r\" is %zu, and an adapter has a rank of at most %d", k->path,
                        out->rank, LORA_MOST_RANK);
    rc = rc ? rc : read_number(&out->alpha, 8, k, "lora_alpha", err);
    rc = rc ? rc : read_number(&out->dropout, 0, k, "lora_dropout", err);
    return rc ? rc : hf_key_flag(&out->rs, 0, k, "use_rslora", err);
}

/* ---- the base ---- */

/* The name of the base in adapter_config.json, malloced. */
static char *base_said(const char *dir, struct err *err)
{
    char    path[HF_PATH_BYTES];
    json_t *settings;
    int     rc = peft_settings(&settings, path, dir, err);
    char   *name = rc ? NULL : strdup(json_str(settings, "base_model_name_or_path"));

    if (!rc && !name)
        err_set(err, -ENOMEM, "%s: out of memory", path);
    json_decref(settings);
    return name;
}

/* The length of a name without the end that says that bitsandbytes quantized the model. */
static size_t unquantized(const char *name)
{
    static const char *const ends[] = { "-unsloth-bnb-4bit", "-bnb-4bit", "-bnb-8bit" };
    size_t                   n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);

        if (n > end && !strcmp(name + n - end, ends[i]))
            return n - end;
    }
    return n;
}

static int base_find(char *base, const char *dir, const char *name, struct err *err)
{
    char hint[HF_HINT], plain[HF_PATH_BYTES];
    int  rc = hf_path(base, dir, name, err);

    if (!rc && (*name == '/' || !hf_is_folder(base)))
        snprintf(base, HF_PATH_BYTES, "%s", name);
    if (rc || (*name && hf_is_folder(base)))
        return rc;
    snprintf(plain, sizeof plain, "%.*s", (int)unquantized(name), name);
    if (!*name)
        return err_misuse(err, "%.200s is an adapter that does not name its model "
                          "(\"base_model_name_or_path\"): give --base HFDIR, the folder of that "
                          "model", dir);
    if (strcmp(plain, name))
        return err_misuse(err, "%.200s is an adapter of the model %.100s, which is quantized: give "
                          "--base HFDIR, the folder of the model that was quantized, %.100s%s",
                          dir, name, plain, hf_hub_hint(plain, hint));
    return err_misuse(err, "%.200s is an adapter of the model %.100s, which is no folder here: "
                      "give --base HFDIR, the folder of that model%s", dir, name,
                      hf_hub_hint(name, hint));
}

int peft_base(char *base, const char *dir, const char *given, struct err *err)
{
    int rc = peft_refuse_foreign(dir, err);

    if (rc)
        return rc;
    if (given && !file_may_be(given))
        return err_misuse(err, "--base %.200s: %s: give the folder of the model that the adapter "
                          "%.200s belongs to", given, strerror(errno), dir);
    if (given && (!hf_is_folder(given) || peft_is_folder(given)))
        return err_misuse(err, "--base %.200s: the folder of the model that the adapter %.200s "
                          "belongs to is expected, with config.json and model.safetensors", given,
                          dir);
    if (given || has_model(dir)) {
        snprintf(base, HF_PATH_BYTES, "%s", given ? given : dir);
        return 0;
    }
    char *name = base_said(dir, err);

    rc = name ? base_find(base, dir, name, err) : -EINVAL;

    free(name);
    return rc;
}

/* ---- tensors ---- */

int peft_has(const struct model_config *g, size_t t)
{
    return arch_classifies(g) && arch_size(g, t) && arch_param(g, t)->block == ARCH_FINAL &&
           (lora_is_whole(g, t) || (g->arch->encoder && t - g->arch->pool < 2));
}

static const struct st_tensor *find(const struct safetensors *st, const struct model_config *g,
                                    const char *prefix, size_t block, size_t t,
                                    char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, PEFT_PREFIX);
    arch_tensor_name(g, name + strlen(name), NAME_BYTES - strlen(name), prefix, block, t);
    return safetensors_find(st, name);
}

static size_t count_layers(const struct safetensors *st, const struct model_config *g,
                           const char *prefix, size_t t)
{
    char   name[NAME_BYTES];
    size_t n = 0;

    for (size_t layer = 1; layer <= g->n_layer; layer++) {
        size_t block = arch_adapter_block(g, layer);

        n += find(st, g, prefix, block, arch_a(t), name) ||
             find(st, g, prefix, block, arch_b(t), name);
    }
    return n;
}

static int find_targets(uint64_t *targets, const struct safetensors *st,
                        const struct model_config *g, const char *dir, struct err *err)
{
    *targets = 0;
    for (int i = 0; i < 2 && !*targets; i++)
        for (size_t t = 0; t < g->arch->n_params; t++) {
            size_t n = lora_may(g->arch, t)
                           ? count_layers(st, g, i ? "" : g->arch->prefix, t) : 0;
            char   module[NAME_BYTES];

            lora_module(g->arch, t, module, sizeof module);
            if (n && n < g->n_layer)
                return peft_misuse(err, dir, "%.200s: %s has an adapter in %zu of the %zu layers "
                                   "of the base, but all layers have the same adapters here", dir,
                                   module, n, g->n_layer);
            *targets |= (uint64_t)(n > 0) << t;
        }
    return *targets ? 0
                    : err_misuse(err, "%.300s: " PEFT_MODEL " has no adapter of a matrix in the "
                                 "layers of this %s; its first tensor is %.100s", dir,
                                 g->arch->title, st->tensors[0].name);
}

/* Whether a list of modules has this one: by its name, or by the end of its name. */
static int names_module(const json_t *list, const char *module, size_t n)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        size_t        m = json_string_length(v);

        if (json_is_string(v) && m <= n && !memcmp(module + n - m, json_string_value(v), m) &&
            (m == n || module[n - m - 1] == '.'))
            return 1;
    }
    return 0;
}

/* Refuses tensors of modules that "target_modules" does not name: peft leaves such tensors out,
 * but for a head that it ties to the embeddings. A pattern is not compared. */
static int targets_refuse(const struct safetensors *st, const struct hf_keys *k, struct err *err)
{
    static const char end[] = ".lora_A.weight";
    const json_t     *list = json_object_get(k->config, "target_modules");
    const int         ties = json_is_true(json_object_get(k->config, "ensure_weight_tying"));
    const size_t      prefix = strlen(PEFT_PREFIX), suffix = strlen(end);

    for (size_t i = 0; i < st->n && json_array_size(list); i++) {
        const char *name = st->tensors[i].name;
        size_t      n = strlen(name);

        if (n <= prefix + suffix || strcmp(name + n - suffix, end))
            continue;
        n -= prefix + suffix;
        if (!names_module(list, name + prefix, n) &&
            !(ties && n == 7 && !memcmp(name + prefix, "lm_head", n)))
            return err_misuse(err, "%s: \"target_modules\" does not name %.*s, of which " PEFT_MODEL
                              " has an adapter: peft would leave that out. Name the module, or "
                              "remove its tensors", k->path, (int)size_min(n, 100), name + prefix);
    }
    return 0;
}

/* A model's folder has no adapter_model.bin read, because such files hold a program's objects. */
static int open_file(struct safetensors **out, const char *dir, struct err *err)
{
    char        word[MACHINE_PYTHON_PATH];
    const char *path = machine_python_path(word, dir, "FOLDER");

    if (hf_has(dir, PEFT_MODEL))
        return safetensors_open_file(out, dir, PEFT_MODEL, err);
    *out = NULL;
    if (!hf_has(dir, "adapter_model.bin"))
        return err_misuse(err, "%.200s has " PEFT_CONFIG ", but no " PEFT_MODEL, dir);
    return err_misuse(err, "%.200s has adapter_model.bin, but no " PEFT_MODEL ", which is read "
                      "here: python3 -c \"import torch; from safetensors.torch import save_file as "
                      "s; s({k: v.contiguous() for k, v in torch.load('%.100s/adapter_model.bin', "
                      "map_location='cpu', weights_only=True).items()}, '%.100s/" PEFT_MODEL
                      "')\" makes it (pip install torch safetensors)", dir, path, path);
}

int peft_files_open(struct safetensors **out, const char *dir, struct err *err)
{
    return peft_is_folder(dir) ? open_file(out, dir, err) : safetensors_open(out, dir, err);
}

int peft_files_sum(uint32_t *sum, const char *dir, struct err *err)
{
    struct safetensors *st = NULL;
    int                 rc = peft_files_open(&st, dir, err);

    *sum = rc ? 0 : st->sum;
    safetensors_close(st);
    return rc;
}

/* The classes of the head in the file; the base's if there is none. */
static int take_head(struct model_config *g, const struct safetensors *st, const struct hf_keys *k,
                     const char *dir, struct err *err)
{
    const char            *task = json_str(k->config, "task_type");
    char                   name[NAME_BYTES];
    const struct st_tensor *score;

    if (*task && strcmp(task, "CAUSAL_LM") && strcmp(task, "SEQ_CLS"))
        return err_misuse(err, "%s: \"task_type\" is \"%.60s\", but this version knows "
                          "\"CAUSAL_LM\" and \"SEQ_CLS\" only", k->path, task);
    snprintf(name, sizeof name, PEFT_PREFIX "%s", g->arch->params[g->arch->score].name);
    score = safetensors_find(st, name);
    if (score && score->n_dims == 2 && score->dims[0] && score->dims[0] <= UINT16_MAX)
        g->n_labels = score->dims[0], g->headless = 0;
    if (!strcmp(task, "SEQ_CLS") && !arch_classifies(g))
        return err_misuse(err, "%.300s: a classifier's adapter (\"task_type\") without a head: "
                          "tensor %s is missing", dir, name);
    if (!strcmp(task, "CAUSAL_LM") && arch_classifies(g))
        return err_misuse(err, "%.300s: an adapter of a language model (\"task_type\"), but %s: "
                          "give --base HFDIR, the folder of its model", dir,
                          score ? "the folder has a classifier's head"
                                : "its base is a classifier");
    return 0;
}

int peft_config(struct model_config *g, const char *dir, struct err *err)
{
    char                path[HF_PATH_BYTES];
    struct safetensors *st = NULL;
    struct arch_lora    lora;
    json_t             *settings;
    struct err          why = { 0 };
    int                 rc = peft_settings(&settings, path, dir, err);
    struct hf_keys      k = { settings, path };

    rc = rc ? rc : settings_lora(&lora, &k, dir, err);
    rc = rc ? rc : open_file(&st, dir, err);
    rc = rc ? rc : take_head(g, st, &k, dir, err);
    rc = rc ? rc : peft_saved_refuse(g, &k, dir, err);
    rc = rc ? rc : targets_refuse(st, &k, err);
    if (!rc) {
        struct model_config any = *g;

        any.lora = lora; // so that adapters have names
        any.lora.targets = UINT64_MAX;
        rc = find_targets(&lora.targets, st, &any, dir, err);
    }
    if (!rc && lora_set(g, &lora, &why))
        rc = peft_misuse(err, dir, "%.200s: %.240s", path, why.text);
    rc = rc ? rc : arch_check(g, err);
    safetensors_close(st);
    json_decref(settings);
    return rc;
}

/* ---- opening ---- */

/* Whether the base has no value for tensor t of the final block. */
static int is_needed(const struct peft *p, size_t t)
{
    const struct model_config *g = &p->config;

    return p->base.n_labels != g->n_labels &&
           (g->arch->encoder ? !p->base.n_labels || t >= g->arch->score : t == g->arch->score);
}

static int find_block(struct peft *p, const char *prefix, size_t block, size_t *n, const char *dir,
                      struct err *err)
{
    const struct model_config *g = &p->config;
    int                        adapter = arch_block_kind(g, block) == ARCH_ADAPTER, rc = 0;
    char                       name[NAME_BYTES];

    for (size_t t = ARCH_BEFORE; !rc && arch_next(g, block, &t);) {
        if (!adapter && !peft_has(g, t))
            continue;
        const struct st_tensor *st = find(p->st, g, prefix, block, t, name);

        p->slot[block * SLOTS + t] = st;
        *n += st != NULL;
        if (st)
            rc = hf_tensor_check(g, t, st, dir, "its base and the rank ask", err);
        else if (adapter || is_needed(p, t))
            rc = err_misuse(err, "%.300s: tensor %s is missing", dir, name);
    }
    return rc;
}

/* Whether a name is of a classifier's head, which a language model leaves out. */
static int is_left_out(const struct model_config *g, const char *name)
{
    struct model_config with = *g;
    char                own[NAME_BYTES];
    int                 same = 0;

    if (arch_classifies(g))
        return 0;
    with.n_labels = 1;
    for (size_t t = 0; t < 2 * g->arch->n_params && !same; t++) {
        if (!peft_has(&with, t / 2))
            continue;
        snprintf(own, sizeof own, PEFT_PREFIX);
        arch_tensor_name(&with, own + strlen(own), sizeof own - strlen(own),
                         t % 2 ? "" : g->arch->prefix, arch_final_block(&with), t / 2);
        same = !strcmp(own, name);
    }
    return same;
}

static int refuse_other(const struct peft *p, const char *dir, struct err *err)
{
    const struct model_config *g = &p->config;
    size_t                     slots = arch_blocks(g) * SLOTS;

    for (size_t i = 0; i < p->st->n; i++) {
        size_t at = 0;

        while (at < slots && p->slot[at] != &p->st->tensors[i])
            at++;
        if (at == slots && !is_left_out(g, p->st->tensors[i].name))
            return peft_misuse(err, dir, "%.200s: tensor %.100s is no part of an adapter of "
                               "matrices in the layers of this %s", dir, p->st->tensors[i].name,
                               g->arch->title);
    }
    return 0;
}

static int find_all(struct peft *p, const char *dir, struct err *err)
{
    const struct model_config *g = &p->config;
    char                       name[NAME_BYTES];
    size_t                     t = 0, n = 0;
    int                        rc = 0;

    while (!(g->lora.targets >> t & 1))
        t++;
    const char *prefix = find(p->st, g, g->arch->prefix, arch_adapter_block(g, 1), arch_a(t), name)
                             ? g->arch->prefix : "";
    for (size_t b = 0; b < arch_blocks(g) && !rc; b++)
        if (arch_block_kind(g, b) == ARCH_ADAPTER || arch_block_kind(g, b) == ARCH_FINAL)
            rc = find_block(p, prefix, b, &n, dir, err);
    return rc || n == p->st->n ? rc : refuse_other(p, dir, err);
}

/* Compares the base with what the folder says of its base. Next to a run's own adapter, the base is
 * the run's, whose values may be rounded. */
static int compare_base(struct peft *p, struct err *err)
{
    char sum[BASE_SUM];
    int  says = *p->st->base && !p->base.adapted;
    int  rc = says ? base_sum(sum, &p->config, &p->base.source, err) : 0;

    p->other_base = says && !rc && strcmp(sum, p->st->base);
    return rc;
}

int peft_open(struct peft **out, const struct model_config *g, const struct peft_base *base,
              const char *dir, const struct watch *watch, struct err *err)
{
    struct peft *p = calloc(1, sizeof *p);
    int          rc = p ? open_file(&p->st, dir, err) : err_set(err, -ENOMEM, "%s: out of memory",
                                                                dir);

    assert(g->lora.rank);
    *out = NULL;
    if (!rc) {
        p->config = *g;
        p->base = *base;
        p->slot = calloc(arch_blocks(g) * SLOTS, sizeof *p->slot);
        rc = p->slot ? find_all(p, dir, err) : err_set(err, -ENOMEM, "%s: out of memory", dir);
    }
    rc = rc ? rc : safetensors_verify(p->st, watch, err);
    rc = rc ? rc : compare_base(p, err);
    if (rc) {
        peft_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void peft_close(struct peft *p)
{
    if (!p)
        return;
    safetensors_close(p->st);
    free(p->slot);
    free(p);
}

uint32_t peft_sum(const struct peft *p) { return p->st->sum; }

const char *peft_base_sum(const struct peft *p) { return *p->st->base ? p->st->base : NULL; }

int peft_other_base(const struct peft *p) { return p->other_base; }

static int source_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct peft               *p = ctx;
    const struct model_config *g = &p->config;
    struct params_source      *base = &p->base.source;
    size_t of = p->base.adapted ? block : lora_base_block(g, block);
    int                        rc = 0;

    assert(first + n <= arch_block_size(g, block));
    for (size_t count; n && !rc; first += count, out += count, n -= count) {
        struct arch_place       at = arch_place(g, block, first);
        const struct st_tensor *st = p->slot[block * SLOTS + at.t];

        count = size_min(at.left, n);
        rc = st ? safetensors_read(p->st, st, at.in, count, out, err)
                : base->read(base->ctx, of, first, count, out, err);
    }
    return rc;
}

struct params_source peft_source(struct peft *p)
{
    return (struct params_source){ .read = source_read, .ctx = p };
}
