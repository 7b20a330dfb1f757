/* hf_tensors.c: finds a model's tensors in its files by their names. The names may lack the
 * family's prefix, or begin with the name of a wrapper (torch.compile, DistributedDataParallel,
 * somebody's own module). Of tied tensors only the head may be there, because save_model of
 * safetensors writes a tensor with two names under one of them. */
#include "model/file/hf_tensors.h"

#include "data/base/round.h"

#include <fnmatch.h>

enum { NAME_BYTES = 160 };

static const char *const outers[] = { "", "_orig_mod.", "module.", "module._orig_mod.",
                                      "_orig_mod.module.", "model.", "model._orig_mod.",
                                      "_orig_mod.model.", "module.model." };
enum { OUTERS = sizeof outers / sizeof *outers };

/* ---- one tensor ---- */

int hf_tensor_check(const struct model_config *g, size_t t, const struct st_tensor *st,
                    const char *dir, const char *asks, struct err *err)
{
    size_t rows = arch_rows(g, t), cols = arch_cols(g, t);
    int    vector = arch_is_vector(g, t);
    char   shape[64];

    if (st->dtype == ST_OTHER)
        return err_misuse(err, "%.300s: tensor %s is neither F32 nor F16 nor BF16", dir, st->name);
    if (vector ? st->n_dims == 1 && st->dims[0] == cols
               : st->n_dims == 2 && st->dims[0] == rows && st->dims[1] == cols)
        return 0;
    if (vector)
        snprintf(shape, sizeof shape, "[%zu]", cols);
    else
        snprintf(shape, sizeof shape, "[%zu, %zu]", rows, cols);
    return err_misuse(err, "%.300s: tensor %s does not have the shape %s that %s for", dir,
                      st->name, shape, asks);
}

static const char *bare(const struct hf_tensors *h, const char *name)
{
    size_t n = strlen(h->outer);

    return strncmp(name, h->outer, n) ? name : name + n;
}

static const struct st_tensor *find_as(const struct hf_tensors *h, const char *name)
{
    char whole[2 * NAME_BYTES];

    snprintf(whole, sizeof whole, "%s%s", h->outer, name);
    return safetensors_find(h->st, whole);
}

/* The oldest files of BERT, which came from TensorFlow, call a norm's weight and bias gamma and
 * beta. */
static const struct st_tensor *find_old(const struct hf_tensors *h, const char *name)
{
    static const char *const now[] = { "LayerNorm.weight", "LayerNorm.bias" },
                      *const then[] = { "LayerNorm.gamma", "LayerNorm.beta" };
    const struct st_tensor  *found = NULL;
    size_t                   len = strlen(name);
    char                     old[NAME_BYTES];

    for (size_t i = 0; i < 2 && !found; i++) {
        size_t stem = len - size_min(len, strlen(now[i]));

        if (strcmp(name + stem, now[i]))
            continue;
        snprintf(old, sizeof old, "%.*s%s", (int)stem, name, then[i]);
        found = find_as(h, old);
    }
    return found;
}

static const struct st_tensor *find_tied(const struct hf_tensors *h, size_t t)
{
    const struct arch      *arch = h->config->arch;
    const struct st_tensor *found = NULL;

    if (arch_classifies(h->config) || !arch_is_tied(h->config))
        return NULL;
    for (size_t i = 0; i < sizeof arch->copies / sizeof *arch->copies && !found; i++)
        if (arch->copies[i].name && arch->copies[i].of == t)
            found = find_as(h, arch->copies[i].name);
    return found;
}

static const struct st_tensor *find_one(const struct hf_tensors *h, size_t block, size_t t,
                                        char name[NAME_BYTES])
{
    const struct st_tensor *found;

    arch_tensor_name(h->config, name, NAME_BYTES, h->prefix, block, t);
    found = find_as(h, name);
    found = found ? found : find_old(h, name);
    return found ? found : find_tied(h, t);
}

/* ---- all of them ---- */

/* Whether a file's tensor is no parameter and can be ignored. */
static int tensor_is_extra(const struct arch *arch, const char *name)
{
    for (size_t i = 0; i < sizeof arch->extras / sizeof *arch->extras && arch->extras[i]; i++)
        if (!fnmatch(arch->extras[i], name, 0))
            return 1;
    return 0;
}

static int refuse_unknown(const struct hf_tensors *h, struct err *err)
{
    const struct arch *arch = h->config->arch;
    size_t             n_known = arch_blocks(h->config) * arch->n_params;

    for (size_t i = 0; i < h->st->n; i++) {
        const struct st_tensor *st = &h->st->tensors[i];
        int                     known = tensor_is_extra(arch, bare(h, st->name));

        for (size_t k = 0; k < n_known && !known; k++)
            known = h->slot[k] == st;
        if (!known)
            return err_misuse(err,
                              "%s: tensor %s does not belong to a %s of %zu layers with %s "
                              "head",
                              h->dir, st->name, arch->title, h->config->n_layer,
                              arch_classifies(h->config) ? "a classifier's"
                              : arch_is_tied(h->config)  ? "a tied"
                                                         : "an untied");
    }
    return 0;
}

/* Finds the wrapper and prefix with which the words' embeddings or the first layer's first tensor
 * is there. */
static void find_prefixes(struct hf_tensors *h)
{
    const struct model_config *g = h->config;
    size_t                     layer = 0, first, end;
    char                       name[NAME_BYTES];

    do
        arch_block_tensors(g, layer, &first, &end);
    while (arch_param(g, first)->block != ARCH_LAYER && ++layer < arch_blocks(g));
    for (size_t i = 0; i < 2 * OUTERS; i++) {
        h->outer = outers[i / 2];
        h->prefix = i % 2 ? "" : g->arch->prefix;
        arch_tensor_name(g, name, sizeof name, h->prefix, 0, g->arch->tokens);
        if (find_as(h, name))
            return;
        arch_tensor_name(g, name, sizeof name, h->prefix, layer, first);
        if (layer < arch_blocks(g) && find_as(h, name))
            return;
    }
    h->outer = h->prefix = "";
}

int hf_tensors_find(struct hf_tensors *h, struct err *err)
{
    const struct model_config *g = h->config;
    int                        rc = 0;

    find_prefixes(h);
    for (size_t b = 0; b < arch_blocks(g); b++)
        for (size_t t = ARCH_BEFORE; !rc && arch_next(g, b, &t);) {
            const struct st_tensor **slot = &h->slot[b * g->arch->n_params + t];
            char                     name[NAME_BYTES];

            *slot = find_one(h, b, t, name);
            if (!*slot)
                return err_misuse(err, "%s: tensor %s%s is missing; the first that is there is "
                                  "%.100s", h->dir, h->outer, name,
                                  h->st->n ? h->st->tensors[0].name : "none");
            rc = hf_tensor_check(g, t, *slot, h->dir, "config.json asks", err);
        }
    return rc ? rc : refuse_unknown(h, err);
}

/* ---- one tensor under two names ---- */

static int check_copy(struct hf_tensors *h, const struct arch_copy *copy, struct err *err)
{
    enum { PIECE = 4096 };
    const struct model_config *g = h->config;
    size_t block = arch_param(g, copy->of)->block == ARCH_EMBEDDINGS ? 0 : arch_final_block(g);
    const struct st_tensor *again = find_as(h, copy->name),
                           *once = h->slot[block * g->arch->n_params + copy->of];
    float a[PIECE], b[PIECE];

    if (!again || !once || again == once)
        return 0;
    int rc = hf_tensor_check(g, copy->of, again, h->dir, "config.json asks", err);
    for (uint64_t at = 0; at < again->count && !rc; at += PIECE) {
        size_t n = size_min(again->count - at, PIECE);

        rc = safetensors_read(h->st, again, at, n, a, err);
        rc = rc ? rc : safetensors_read(h->st, once, at, n, b, err);
        if (!rc && memcmp(a, b, n * sizeof *a))
            rc = err_misuse(err, "%s: config.json ties the head to the embeddings, but the files "
                            "have %s, which is not %s: versions of transformers compute "
                            "differently then (\"tie_word_embeddings\")", h->dir, again->name,
                            once->name);
    }
    return rc;
}

int hf_tensors_same(struct hf_tensors *h, struct err *err)
{
    const struct arch *arch = h->config->arch;
    int                rc = 0;

    if (arch_classifies(h->config) || !arch_is_tied(h->config))
        return 0;
    for (size_t i = 0; i < sizeof arch->copies / sizeof *arch->copies && !rc; i++)
        rc = arch->copies[i].name ? check_copy(h, &arch->copies[i], err) : 0;
    return rc;
}
