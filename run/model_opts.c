/* model_opts.c: converts --init, --model or size options to a model_config. A model defined by
 * sizes has as many positions as a row has tokens. A named model, or one from a folder, has its own
 * number of positions, and --seq may be smaller. */
#include "run/model_opts.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/text/tokenizer.h"
#include "model/file/peft.h"
#include "run/folder/session.h"

#include <unistd.h>

enum { OWN_POSITIONS = 1024 };

#define AT(field) offsetof(struct model_opts, field)

const struct opt_row model_rows[] = {
    { "init", OPT_PATH, AT(init), .arg = "HFDIR", .file = OPT_FILES_MODEL,
      .help = "Hugging Face folder of the model to start from, or of an adapter to go on with. "
              "bench, and plan of a fine-tuning, take a run, too.", .kept = OPT_SOURCE },
    OPT_BASE_ROW(AT(base), OPT_SOURCE),
    { "model", OPT_STRING, AT(model), .words = arch_preset_name,
      .arg = "NAME", .kept = OPT_SOURCE,
      .help = "Size of a model to start from, with random parameters: %w. Size options override "
              "its values." },
    { "n-layer", OPT_UINT, AT(n_layer), .min = 1,
      .max = TRAIN_MOST_LAYERS,
      .help = "Number of layers (default: --model's). Without --model, --n-layer, --n-head and "
              "--n-embd describe a GPT-2.", .kept = OPT_SOURCE },
    { "n-head", OPT_UINT, AT(n_head), .min = 1,
      .max = TRAIN_MOST_HEADS,
      .help = "Number of attention heads (default: --model's). Must divide --n-embd, unless "
              "--head-dim is given.", .kept = OPT_SOURCE },
    { "n-kv-head", OPT_UINT, AT(n_kv_head), .min = 1,
      .max = TRAIN_MOST_HEADS,
      .help = "Number of key and value heads (default: --model's). Must divide --n-head. GPT-2, "
              "BERT and RoBERTa have as many as attention heads.", .kept = OPT_SOURCE },
    { "head-dim", OPT_UINT, AT(head_dim), .min = 1,
      .max = TRAIN_MOST_WIDTH,
      .help = "Size of one attention head (default: --model's; if --n-embd or --n-head is given, "
              "width / heads)", .kept = OPT_SOURCE },
    { "n-embd", OPT_UINT, AT(n_embd), .min = 1,
      .max = TRAIN_MOST_WIDTH,
      .help = "Width of embeddings and residual stream (default: --model's)",
      .kept = OPT_SOURCE },
    { "n-inner", OPT_UINT, AT(n_inner), .min = 1,
      .max = 4 * TRAIN_MOST_WIDTH,
      .help = "MLP width (default: --model's; in GPT-2, 4 times --n-embd)", .kept = OPT_SOURCE },
    { "vocab", OPT_UINT, AT(vocab), .min = 1, .max = 2147483647,
      .help = "Vocabulary size (default: the tokenizer's; without a tokenizer, --model's or "
              "50257)", .kept = OPT_SOURCE },
    { 0 },
};

int model_has_sizes(const struct model_opts *o)
{
    return o->n_layer || o->n_head || o->n_embd || o->n_kv_head || o->head_dim || o->n_inner;
}

/* Check that the options choose the model in exactly one way. */
static int check_opts(const struct model_opts *o, struct err *err)
{
    int sizes = model_has_sizes(o);

    if (!o->init && !o->model && !sizes)
        return err_misuse(err, "which model? give --init HFDIR, or --model NAME, or --n-layer, "
                          "--n-head and --n-embd");
    if (o->init && (o->model || sizes))
        return err_misuse(err, "%s both say which model; give one of them",
                          o->model ? "--init and --model" : "--init and sizes such as --n-layer");
    if (o->vocab && o->init)
        return err_misuse(err, "--vocab %llu and --init exclude each other: the folder has the "
                          "size of the vocabulary; leave --vocab out",
                          (unsigned long long)o->vocab);
    if (sizes && !o->model && !(o->n_layer && o->n_head && o->n_embd))
        return err_misuse(err, "%s is missing; a model of your own needs --n-layer, --n-head and "
                          "--n-embd, or --model NAME for those that are not given",
                          !o->n_layer  ? "--n-layer"
                          : !o->n_head ? "--n-head"
                                       : "--n-embd");
    return 0;
}

/* Override the model's sizes by the given ones, and derive the dependent sizes again. */
static int take_sizes(struct model_config *config, const struct model_opts *o, struct err *err)
{
    struct model_config g = *config;
    const struct { const char *name; uint64_t asked; size_t *size; } sizes[] = {
        { "n-layer", o->n_layer, &g.n_layer }, { "n-head", o->n_head, &g.n_head },
        { "n-embd", o->n_embd, &g.n_embd }, { "n-kv-head", o->n_kv_head, &g.n_kv_head },
        { "head-dim", o->head_dim, &g.head_dim }, { "n-inner", o->n_inner, &g.n_inner } };
    enum { SIZES = sizeof sizes / sizeof *sizes };

    if (o->n_head || o->n_embd)
        g.head_dim = 0;
    for (size_t i = 0; i < SIZES; i++)
        if (sizes[i].asked)
            *sizes[i].size = sizes[i].asked;
    g = arch_config(g.arch, g);
    for (size_t i = 0; i < SIZES; i++)
        if (sizes[i].asked && *sizes[i].size != sizes[i].asked)
            return err_misuse(err, "--%s %llu: in a %s, this size follows from the other sizes, "
                              "and is %zu here: leave the option out", sizes[i].name,
                              (unsigned long long)sizes[i].asked, g.arch->title, *sizes[i].size);
    if ((o->n_head || o->n_embd) && !o->head_dim && g.n_head && g.n_embd % g.n_head != 0)
        return err_misuse(err, "the width %zu is not divisible by %zu heads", g.n_embd, g.n_head);
    *config = g;
    return 0;
}

static int pick_vocab(struct model_config *config, const char *tokenizer, uint64_t vocab,
                      struct err *err)
{
    struct tokenizer *tok = NULL;
    int               rc = tokenizer && !vocab ? tokenizer_open(&tok, tokenizer, err) : 0;

    if (tok)
        vocab = tokenizer_vocab(tok);
    config->vocab = vocab ? vocab : config->vocab ? config->vocab : 50257;
    tokenizer_close(tok);
    return rc;
}

int model_folder_only(const struct model_opts *o, struct err *err)
{
    return !o->init || !session_is_run(o->init)
               ? 0
               : err_misuse(err, "--init %s is a run: siTrain export %s HFDIR makes a folder to "
                            "begin with", o->init, o->init);
}

/* The model of a run, which another process may be training, and its tokenizer, if it has one. */
static int take_run(struct model_config *config, const char **tokenizer, const char *run,
                    struct err *err)
{
    struct session s;
    int            rc = session_open(&s, run, SESSION_LIVE, NULL, err);
    char          *dir = rc || *tokenizer ? NULL : file_path(err, "%s/tokenizer", run);

    *config = lora_base(&s.config); // adapters would be merged
    session_close(&s);
    if (!rc && !*tokenizer && !dir)
        return -ENOMEM;
    if (dir && tokenizer_is_there(dir))
        *tokenizer = dir; // opt_release frees the string with the options
    else
        free(dir);
    return rc;
}

int model_init(char *dir, const char **adapter, const struct model_opts *o, struct err *err)
{
    *adapter = o->init && peft_is_folder(o->init) ? o->init : NULL;
    *dir = '\0';
    if (*adapter)
        return peft_base(dir, *adapter, o->base, err);
    if (o->base)
        return err_misuse(err, "--base is for adapter folders (with adapter_config.json): leave it "
                          "out, or give such a folder as --init");
    snprintf(dir, HF_PATH_BYTES, "%s", o->init ? o->init : "");
    return 0;
}

/* The configuration of the model in --init, with its adapters, and its tokenizer, if it has one. */
static int take_folder(struct model_config *config, const char **tokenizer,
                       const struct model_opts *o, struct err *err)
{
    char        dir[HF_PATH_BYTES];
    const char *adapter, *owner;
    int         rc = model_init(dir, &adapter, o, err);

    rc = rc ? rc : hf_config(config, dir, err);
    rc = rc || !adapter ? rc : peft_config(config, adapter, err);
    if (rc || *tokenizer)
        return rc;
    owner = adapter && tokenizer_is_there(adapter) ? adapter : dir;
    if (tokenizer_is_there(owner) && !(*tokenizer = strdup(owner))) // freed with the options
        return err_set(err, -ENOMEM, "out of memory");
    return 0;
}

int model_choose(struct model_config *config, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err)
{
    int rc = check_opts(m, err);

    if (!rc && *tokenizer)
        rc = tokenizer_expect(*tokenizer, err);
    if (rc)
        return rc;
    if (m->init && session_is_run(m->init))
        rc = take_run(config, tokenizer, m->init, err);
    else if (m->init)
        rc = take_folder(config, tokenizer, m, err);
    else if (!m->model)
        *config = (struct model_config){ .arch = &gpt2_arch, .norm_eps = 1e-5f,
                                         .n_positions = o->seq ? o->seq : OWN_POSITIONS };
    else if (arch_preset(config, m->model) && !(rc = hf_refuse_other(m->model, err)))
        rc = !file_may_be(m->model)
                 ? opt_words_refuse("model", m->model, arch_preset_name, err)
                 : err_misuse(err, "--model %s: the name of a size is expected, and random "
                              "parameters are made; --init %s begins with the model that is there",
                              m->model, m->model);
    if (!rc && !m->init)
        rc = take_sizes(config, m, err);
    if (!rc && !m->init)
        rc = pick_vocab(config, *tokenizer, m->vocab, err);
    config->headless = 0; // training needs a new head
    rc = rc ? rc : arch_check(config, err);
    if (rc)
        return rc;
    if (!o->seq)
        o->seq = arch_usual_seq(config);
    if (o->seq > config->n_positions)
        return err_misuse(err, "--seq %llu: the model has %zu positions, so rows may have at most "
                          "as many tokens", (unsigned long long)o->seq, config->n_positions);
    o->threads = threads_here(o->threads);
    return 0;
}
