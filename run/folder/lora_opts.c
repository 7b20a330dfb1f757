/* lora_opts.c: the option rows of adapters, and what they make of a model. A run stores what was
 * left to siTrain as if it were given, so that a resume does not depend on a version's defaults. */
#include "run/folder/lora_opts.h"

#include "data/base/round.h"
#include "model/file/peft.h"

#define AT(field) offsetof(struct lora_opts, field)

static const char *base_words(size_t kind) { return packed_name(kind); }

OPT_WORDS(target_words, "attention", "mlp", "all")

const struct opt_row lora_rows[] = {
    { "lora-rank", OPT_UINT, AT(rank), "0", .max = LORA_MOST_RANK,
      .help = "Rank of adapters (LoRA; 0: none). Training changes only adapters of some matrices "
              "(--lora-targets) and a classifier's head. The model's own parameters stay as they "
              "are. Usual values: 8 to 64.", .kept = OPT_LAYOUT },
    { "lora-alpha", OPT_DOUBLE, AT(alpha), .max = 1e6,
      .help = "Scale of adapters: their output is multiplied by alpha / rank (default: twice the "
              "rank)", .kept = OPT_FIXED },
    { "lora-dropout", OPT_RATIO, AT(dropout), "0", .max = 0.99,
      .help = "Dropout rate of the adapters' input, 0 to 99%", .kept = OPT_BRANCH },
    { "lora-targets", OPT_STRING, AT(targets), .words = target_words, .arg = "NAME,..",
      .help = "Matrices that get adapters, by PEFT's names, such as q_proj,v_proj; or groups of "
              "them\n"
              "attention: matrices of queries, keys, values and attention's output\n"
              "mlp: matrices of the MLP\n"
              "all: all matrices of all layers\n"
              "(default: PEFT's choice for the family, q_proj,v_proj for most, c_attn for GPT-2)",
      .kept = OPT_LAYOUT },
    { "lora-rs", OPT_FLAG, AT(rs),
      .help = "Multiply the adapters' output by alpha / sqrt(rank), not by alpha / rank (rsLoRA)",
      .kept = OPT_FIXED },
    { "base-dtype", OPT_WORD, AT(base), "same", base_words,
      .help = "Precision in which the frozen model's matrices are stored, with --lora-rank\n"
              "same: as --dtype says\n"
              "int8: 8 bits, with a scale for each row\n"
              "nf4: 4 bits by blocks of 64 values, with double quantisation (QLoRA)",
      .kept = OPT_LAYOUT },
    { "base-in-place", OPT_FLAG, AT(in_place),
      .help = "Read the frozen model from the safetensors files of --init's folder, where they "
              "lie, instead of a copy in the run. They must stay there unchanged.",
      .kept = OPT_LAYOUT },
    { 0 }
};

int lora_opts_has(const char *name)
{
    const struct opt_row *row = lora_rows;

    while (row->name && strcmp(row->name, name))
        row++;
    return row->name != NULL;
}

/* Refuses options of adapters if there are none. */
static int check_alone(const struct lora_opts *o, struct err *err)
{
    const char *given = o->alpha > 0     ? "alpha"
                        : o->dropout > 0 ? "dropout"
                        : o->targets     ? "targets"
                        : o->rs          ? "rs"
                                         : NULL;

    if (!o->rank && o->in_place)
        return err_misuse(err, "--base-in-place is for a model that stays as it is, next to "
                          "adapters, and there are none: give --lora-rank N, such as 16, too, or "
                          "leave it out");
    if (!o->rank && o->base)
        return err_misuse(err, "--base-dtype %s is for a model that stays as it is, next to "
                          "adapters, and there are none: give --lora-rank N, such as 16, too, or "
                          "leave it out", packed_name((size_t)o->base));
    return o->rank || !given
               ? 0
               : err_misuse(err, "--lora-%s is for adapters, and there are none: give --lora-rank "
                            "N, such as 16, too, or leave it out", given);
}

static struct arch_lora lora_of(const struct lora_opts *o)
{
    return (struct arch_lora){ .rank = o->rank, .dropout = (float)o->dropout, .rs = o->rs,
                               .base = o->base,
                               .alpha = (float)(o->alpha > 0 ? o->alpha : 2.0 * (double)o->rank) };
}

/* Refuses a rank with which the adapter of a matrix would be no smaller than the matrix. */
static int check_rank(const struct model_config *g, struct err *err)
{
    for (size_t t = 0; t < g->arch->n_params; t++) {
        size_t in = arch_cols(g, arch_a(t)), out = arch_rows(g, arch_b(t));
        char   module[128];

        if (!arch_size(g, arch_a(t)) || g->lora.rank <= size_min(in, out))
            continue;
        lora_module(g->arch, t, module, sizeof module);
        return err_misuse(err, "--lora-rank %zu: %s is a matrix of %zu x %zu, whose rank is at "
                          "most %zu: give a smaller one, or leave this matrix out (--lora-targets)",
                          g->lora.rank, module, out, in, size_min(in, out));
    }
    return 0;
}

int lora_opts_set(struct model_config *g, const struct lora_opts *o, struct err *err)
{
    struct arch_lora lora = lora_of(o);
    struct err       why = { 0 };

    if (o->rank && lora_targets_named(g->arch, o->targets, &lora.targets, &why))
        return err_misuse(err, "--lora-targets: %s", why.text);
    return lora_set(g, &lora, err);
}

/* ---- what a run keeps ---- */

/* The names of the modules that have adapters, with commas between: their paths, or the last parts
 * of these. with_mlp: the group stands for the modules in it. */
static void targets_text(char *out, size_t size, const struct model_config *g, int last,
                         uint64_t with_mlp)
{
    char   module[128];
    size_t at = (size_t)snprintf(out, size, "%s", with_mlp ? "mlp" : "");

    for (size_t t = 0; t < g->arch->n_params && at < size; t++) {
        if (!((g->lora.targets & ~with_mlp) >> t & 1))
            continue;
        lora_module(g->arch, t, module, sizeof module);
        const char *dot = last ? strrchr(module, '.') : NULL;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? "," : "", dot ? dot + 1 : module);
    }
}

/* Finds names that mean just the matrices that have adapters. "output.dense" of BERT also means
 * "attention.output.dense", so that only the group can name the former alone. */
static int targets_name(char *out, size_t size, const struct model_config *g, const char *from,
                        struct err *err)
{
    uint64_t mlp = 0, meant;

    lora_targets_named(g->arch, "mlp", &mlp, err);
    for (int i = 0; i < 3; i++) {
        targets_text(out, size, g, i == 0, i == 2 && (g->lora.targets & mlp) == mlp ? mlp : 0);
        if (!lora_targets_named(g->arch, out, &meant, NULL) && meant == g->lora.targets)
            return 0;
    }
    return peft_misuse(err, from, "%.200s: this version cannot name the matrices that have "
                       "adapters (%.200s) without others", from, out);
}

/* Stores one option. If it was given, it must mean what the folder has. */
static int keep(struct opt_line *line, const char *name, const char *text, int same,
                const char *from, struct err *err)
{
    if (opt_given(line, name) && !same)
        return err_misuse(err, "--%s: the adapter %.300s has %s, which training goes on with: "
                          "leave the option out", name, from, text);
    struct err why = { 0 };

    if (!opt_given(line, name) && opt_set(line, name, text, &why))
        return err_misuse(err, "%s: such an adapter is not trained here: %s", from ? from
                          : "--lora-rank", why.text);
    opt_mark_given(line, name);
    return 0;
}

static int keep_all(struct opt_line *line, const struct lora_opts *o, const struct model_config *g,
                    const char *from, struct err *err)
{
    const struct arch_lora *l = &g->lora;
    char                    text[1024], number[32];
    uint64_t                targets = 0;
    int                     rc;

    if (!from)
        snprintf(text, sizeof text, "%s", o->targets ? o->targets : g->arch->adapted);
    else if ((rc = targets_name(text, sizeof text, g, from, err)) ||
             (o->targets && (rc = lora_targets_named(g->arch, o->targets, &targets, err))))
        return rc;
    rc = keep(line, "lora-targets", text, !from || targets == l->targets, from, err);
    snprintf(number, sizeof number, "%zu", l->rank);
    rc = rc ? rc : keep(line, "lora-rank", number, o->rank == l->rank, from, err);
    snprintf(number, sizeof number, "%.9g", (double)l->alpha);
    rc = rc ? rc
            : keep(line, "lora-alpha", number, !from || (float)o->alpha == l->alpha, from, err);
    if (!rc && (l->rs || o->rs))
        rc = keep(line, "lora-rs", l->rs ? "1" : "no rsLoRA", l->rs, from, err);
    snprintf(number, sizeof number, "%.9g", (double)l->dropout);
    return rc || !from ? rc : keep(line, "lora-dropout", number, 1, from, err);
}

int lora_opts_begin(struct model_config *g, struct opt_line *line, const struct lora_opts *o,
                    const char *from, struct err *err)
{
    struct arch_lora lora = g->lora;

    if (opt_given(line, "lora-alpha") && !(o->alpha > 0))
        return err_misuse(err, "--lora-alpha 0: adapters of that scale change nothing: give a "
                          "larger number, or leave the option out");
    if (from && opt_given(line, "lora-dropout"))
        lora.dropout = (float)o->dropout;
    lora.base = o->base;
    if (o->in_place && o->base)
        return err_misuse(err, "--base-in-place reads the numbers of the model's files, and "
                          "--base-dtype %s packs them when the run is made: leave one of them out",
                          packed_name((size_t)o->base));
    int rc = from ? lora_set(g, &lora, err) : check_alone(o, err); // g may have another head now
    if (!rc && !from) {
        rc = lora_opts_set(g, o, err);
        rc = rc ? rc : check_rank(g, err);
    }
    return rc || !g->lora.rank ? rc : keep_all(line, o, g, from, err);
}
