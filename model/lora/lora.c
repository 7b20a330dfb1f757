/* lora.c: computes what a model with adapters is: its frozen parameters, its targets by name, and
 * its merged matrices. */
#include "model/lora/lora.h"

#include <assert.h>
#include <math.h>

int lora_set(struct model_config *g, const struct arch_lora *lora, struct err *err)
{
    if (lora->rank > LORA_MOST_RANK)
        return err_misuse(err, "an adapter has a rank of 1 to %d, not %zu", LORA_MOST_RANK,
                          lora->rank);
    if (lora->rank && (!(lora->alpha > 0) || !isfinite(lora->alpha)))
        return err_misuse(err, "the alpha of adapters must be a positive number, not %g",
                          (double)lora->alpha);
    if (lora->rank && !(lora->dropout >= 0 && lora->dropout < 1))
        return err_misuse(err, "the dropout of adapters must be at least 0 and less than 1, not %g",
                          (double)lora->dropout);
    if (lora->rank && !lora->targets)
        return err_misuse(err, "adapters of rank %zu have no matrices to adapt: name some",
                          lora->rank);
    g->lora = lora->rank ? *lora : (struct arch_lora){ 0 };
    g->frozen = (struct arch_frozen){ 0 };
    if (!lora->rank)
        return 0;
    g->frozen.layers = g->n_layer;
    for (size_t t = 0; t < g->arch->n_params; t++)
        g->frozen.tensors |= (uint64_t)!lora_is_whole(g, t) << t;
    return 0;
}

float lora_scale(const struct arch_lora *lora)
{
    double rank = (double)lora->rank;

    return (float)((double)lora->alpha / (lora->rs ? sqrt(rank) : rank));
}

struct model_config lora_base(const struct model_config *g)
{
    struct model_config base = *g;

    base.lora = (struct arch_lora){ 0 };
    base.frozen = (struct arch_frozen){ 0 };
    return base;
}

size_t lora_base_block(const struct model_config *g, size_t block)
{
    if (arch_block_kind(g, block) == ARCH_ADAPTER)
        return SIZE_MAX;
    return block < arch_final_block(g) || !g->lora.rank ? block : block - g->n_layer;
}

size_t lora_trained(const struct model_config *g)
{
    size_t            n = 0;
    struct arch_place at;

    for (size_t b = 0; b < arch_blocks(g); b++)
        for (size_t i = 0; arch_trains(g, b) && i < arch_block_size(g, b); i += at.left) {
            at = arch_place(g, b, i);
            n += arch_is_frozen(g, at.t) ? 0 : at.left;
        }
    return n;
}

/* ---- names ---- */

/* The matrix of a layer to which tensor t belongs; ARCH_NONE: none. */
static size_t matrix_of(const struct arch *arch, size_t t)
{
    for (size_t m = 0; m < arch->n_matrices; m++)
        if (t - arch->matrices[m].weight < arch->matrices[m].n)
            return m;
    return ARCH_NONE;
}

int lora_may(const struct arch *arch, size_t t) { return matrix_of(arch, t) != ARCH_NONE; }

void lora_saved(const struct model_config *g, char *out, size_t size)
{
    const char *score = arch_param(g, g->arch->score)->name;

    snprintf(out, size, "%.*s", arch_classifies(g) ? (int)strcspn(score, ".") : 0, score);
}

int lora_is_whole(const struct model_config *g, size_t t)
{
    char        saved[64];
    const char *name = arch_param(g, t)->name;

    lora_saved(g, saved, sizeof saved);
    return *saved && strcspn(name, ".") == strlen(saved) && !strncmp(name, saved, strlen(saved));
}

/* The length of a module's path in the name of its weight; 0: a vector, or no weight. */
static size_t path_length(const struct arch *arch, size_t t)
{
    static const char end[] = ".weight";
    const char       *name = arch->params[t].name;
    size_t            n = strlen(name), more = sizeof end - 1;

    return arch->params[t].rows != DIM_ONE && n > more && !strcmp(name + n - more, end) ? n - more
                                                                                       : 0;
}

void lora_module(const struct arch *arch, size_t t, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)path_length(arch, t), arch->params[t].name);
}

int lora_is_named(const struct arch *arch, size_t t, const char *word, size_t n)
{
    const char *name = arch->params[t].name;
    size_t      length = path_length(arch, t);

    return length >= n && !strncmp(name + length - n, word, n) &&
           (length == n || name[length - n - 1] == '.');
}

/* The group of tensor t: attention, mlp; all, which PEFT calls all-linear. The first matrix of a
 * layer gives attention's input, and the second is applied to its output. */
static int in_group(const struct arch *arch, size_t t, const char *word, size_t n)
{
    int attention = matrix_of(arch, t) < 2;

    return (n == 3 && !strncmp(word, "all", n)) ||
           (n == 10 && !strncmp(word, "all-linear", n)) ||
           (n == 9 && !strncmp(word, "attention", n) && attention) ||
           (n == 3 && !strncmp(word, "mlp", n) && !attention);
}

/* A refusal of a word, with the paths that the family has. */
static int refuse(const struct arch *arch, const char *word, size_t n, const char *why,
                  struct err *err)
{
    char   paths[512] = "", path[96];
    size_t at = 0;

    for (size_t t = 0; t < arch->n_params; t++) {
        if (!lora_may(arch, t) || at + sizeof path > sizeof paths)
            continue;
        lora_module(arch, t, path, sizeof path);
        at += (size_t)snprintf(paths + at, sizeof paths - at, "%s, ", path);
    }
    return err_misuse(err, "\"%.*s\" %s of %s: name some of %sattention, mlp, all; they "
                      "are adapted in all layers", (int)n, word, why, arch->title, paths);
}

static int word_add(const struct arch *arch, const char *word, size_t n, uint64_t *targets,
                    struct err *err)
{
    uint64_t found = 0;
    int      outside = 0;

    for (size_t t = 0; t < arch->n_params; t++) {
        int group = lora_may(arch, t) && in_group(arch, t, word, n);

        if (!group && !(n && lora_is_named(arch, t, word, n)))
            continue;
        found |= (uint64_t)1 << t;
        outside |= !lora_may(arch, t);
    }
    if (!found)
        return refuse(arch, word, n, "names no matrix in a layer", err);
    if (outside)
        return refuse(arch, word, n, "also names a matrix outside the layers", err);
    *targets |= found;
    return 0;
}

int lora_targets_named(const struct arch *arch, const char *words, uint64_t *targets,
                       struct err *err)
{
    int rc = 0;

    *targets = 0;
    if (!words || !*words)
        words = arch->adapted;
    for (size_t n; !rc; words += n + 1) {
        words += strspn(words, " ");
        n = strcspn(words, ",");
        size_t length = n;

        while (length && words[length - 1] == ' ')
            length--;
        rc = word_add(arch, words, length, targets, err);
        if (!words[n])
            break;
    }
    return rc;
}

/* ---- merging ---- */

void lora_merged(float *out, const struct model_config *g, size_t t, size_t first, size_t n,
                 const float *w, const float *a, const float *b)
{
    size_t rank = g->lora.rank, cols = arch_cols(g, t), in = arch_cols(g, arch_a(t));
    double scale = (double)lora_scale(&g->lora);
    int    linear = g->arch->linear;

    assert(arch_size(g, arch_a(t)) && first + n <= arch_size(g, t));
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        size_t row = (first + i) / cols, col = (first + i) % cols;
        size_t o = linear ? row : col, k = linear ? col : row;
        double sum = 0;

        for (size_t r = 0; r < rank; r++)
            sum += (double)b[o * rank + r] * (double)a[r * in + k];
        out[i] = (float)((double)w[i] + scale * sum);
    }
}
