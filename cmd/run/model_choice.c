/* model_choice.c: from --init, --model or sizes to a gpt_config. A model of one's own has as many
 * positions as its rows have tokens; one by name or from a folder has its own, and --seq may be
 * shorter. */
#include "cmd/run/model_choice.h"

#include "cmd/run/session.h"
#include "cmd/run/tokenise.h"
#include "data/text/tokenizer.h"
#include "model/hf.h"

#include <errno.h>
#include <string.h>

enum { OWN_POSITIONS = 1024 };

static void pick_own(struct gpt_config *gpt, const struct model_opts *m, uint64_t seq)
{
    *gpt = (struct gpt_config){ .n_layer = m->n_layer, .n_head = m->n_head, .n_embd = m->n_embd,
                                .n_positions = seq ? seq : OWN_POSITIONS, .norm_eps = 1e-5f };
}

static int pick_vocab(struct gpt_config *gpt, const char *tokenizer, const struct model_opts *m,
                      struct err *err)
{
    struct tokenizer *tok = NULL;
    int               rc = 0;

    if (m->vocab) {
        gpt->vocab = m->vocab;
        return 0;
    }
    if (tokenizer)
        rc = tokenizer_open(&tok, tokenizer, err);
    if (tok)
        gpt->vocab = tokenizer_vocab(tok);
    else if (!gpt->vocab)
        gpt->vocab = 50257;
    tokenizer_close(tok);
    return rc;
}

int model_choose(struct gpt_config *gpt, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err)
{
    int rc = model_opts_check(m, err);

    if (rc)
        return rc;
    if (*tokenizer && !tokenise_has_files(*tokenizer))
        return err_misuse(err, "%s: no tokenizer there: tokenizer.json, or vocab.json and "
                          "merges.txt, is expected", *tokenizer);
    if (m->init && session_is_run(m->init))
        rc = err_misuse(err,
                        "--init %s is a run: siTrain export %s HFDIR makes a folder to begin with",
                        m->init, m->init);
    else if (m->init)
        rc = hf_config(gpt, m->init, err);
    else if (!m->model)
        pick_own(gpt, m, o->seq);
    else if (gpt_preset(gpt, m->model))
        rc = opt_words_refuse("model", m->model, gpt_preset_name, err);
    if (!rc && !m->init)
        rc = pick_vocab(gpt, *tokenizer, m, err);
    if (!rc)
        rc = gpt_check(gpt, err);
    if (rc)
        return rc;
    if (m->init && !*tokenizer && tokenise_has_files(m->init)) {
        *tokenizer = strdup(m->init); // options own their strings: opt_release frees each
        if (!*tokenizer)
            return err_set(err, -ENOMEM, "out of memory");
    }
    if (!o->seq)
        o->seq = gpt->n_positions;
    if (o->seq > gpt->n_positions)
        return err_misuse(err, "--seq %llu: the model has %zu positions, so rows may have at most "
                          "as many tokens", (unsigned long long)o->seq, gpt->n_positions);
    o->threads = session_threads(o->threads);
    return 0;
}
