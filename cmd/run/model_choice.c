/* model_choice.c: from --init, --model or sizes to a arch_config. A model of one's own has as many
 * positions as its rows have tokens; one by name or from a folder has its own, and --seq may be
 * shorter. */
#include "cmd/run/model_choice.h"

#include "cmd/run/session.h"
#include "cmd/run/tokenise.h"
#include "data/text/tokenizer.h"
#include "model/hf.h"

enum { OWN_POSITIONS = 1024 };

/* Exactly one way to say which model. */
static int check_opts(const struct model_opts *o, struct err *err)
{
    int sizes = o->n_layer || o->n_head || o->n_embd, ways = !!o->init + !!o->model + sizes;

    if (!ways)
        return err_misuse(err, "which model? give --init HFDIR, or --model NAME, or --n-layer, "
                          "--n-head and --n-embd");
    if (ways > 1)
        return err_misuse(err, "%s both say which model; give one of them",
                          o->init && o->model ? "--init and --model"
                          : o->init           ? "--init and --n-layer, --n-head, --n-embd"
                                              : "--model and --n-layer, --n-head, --n-embd");
    if (sizes && !(o->n_layer && o->n_head && o->n_embd))
        return err_misuse(err, "%s is missing; a model of your own needs --n-layer, --n-head and "
                          "--n-embd", !o->n_layer  ? "--n-layer"
                                      : !o->n_head ? "--n-head"
                                                   : "--n-embd");
    if (o->vocab && o->init)
        return err_misuse(err, "--vocab %llu and --init disagree: the folder says how large the "
                          "vocabulary is", (unsigned long long)o->vocab);
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

int model_choose(struct model_config *config, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err)
{
    int rc = check_opts(m, err);

    if (!rc && *tokenizer)
        rc = tokenise_expect(*tokenizer, err);
    if (rc)
        return rc;
    if (m->init && session_is_run(m->init))
        rc = err_misuse(err, "--init %s is a run: siTrain export %s HFDIR makes a folder to begin "
                        "with", m->init, m->init);
    else if (m->init)
        rc = hf_config(config, m->init, err);
    else if (!m->model)
        *config = arch_config(&gpt2_arch, (struct model_config){
            .n_layer = m->n_layer, .n_head = m->n_head, .n_embd = m->n_embd, .norm_eps = 1e-5f,
            .n_positions = o->seq ? o->seq : OWN_POSITIONS });
    else if (arch_preset(config, m->model))
        rc = opt_words_refuse("model", m->model, arch_preset_name, err);
    if (!rc && !m->init)
        rc = pick_vocab(config, *tokenizer, m->vocab, err);
    rc = rc ? rc : arch_check(config, err);
    if (rc)
        return rc;
    if (m->init && !*tokenizer && tokenise_has_files(m->init)) {
        *tokenizer = strdup(m->init); // options own their strings: opt_release frees each
        if (!*tokenizer)
            return err_set(err, -ENOMEM, "out of memory");
    }
    if (!o->seq)
        o->seq = arch_usual_seq(config);
    if (o->seq > config->n_positions)
        return err_misuse(err, "--seq %llu: the model has %zu positions, so rows may have at most "
                          "as many tokens", (unsigned long long)o->seq, config->n_positions);
    o->threads = session_threads(o->threads);
    return 0;
}
