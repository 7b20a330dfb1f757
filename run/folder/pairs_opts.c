/* pairs_opts.c: the option rows of preferences, their checks, and their settings in run.db. */
#include "run/folder/pairs_opts.h"

#include "run/folder/settings.h"

#include <math.h>

#define AT(field) offsetof(struct pairs_opts, field)

OPT_WORDS(loss_words, [PAIRS_SIGMOID] = "sigmoid", [PAIRS_ROBUST] = "robust", [PAIRS_IPO] = "ipo")

const struct opt_row pairs_opt_rows[] = {
    { "loss", OPT_WORD, AT(loss), "sigmoid", loss_words,
      .help = "Loss of a pair of answers\n"
              "sigmoid: of DPO; with --label-smoothing, of conservative DPO\n"
              "robust: as sigmoid, without the bias that wrong labels bring\n"
              "ipo: squared distance of the margin to 1 / (2 beta), by the token",
      .kept = OPT_SOURCE },
    { "beta", OPT_DOUBLE, AT(beta), "0.1", .max = 1e6,
      .help = "Strength with which the model stays close to the model that it began as",
      .kept = OPT_SOURCE },
    { "chosen-column", OPT_STRING, AT(chosen), .arg = "NAME",
      .help = "Key of the chosen answer (default: chosen)", .kept = OPT_SOURCE },
    { "rejected-column", OPT_STRING, AT(rejected), .arg = "NAME",
      .help = "Key of the rejected answer (default: rejected)", .kept = OPT_SOURCE },
    { 0 }
};

const char *pairs_opts_given(const struct opt_line *line)
{
    for (const struct opt_row *row = pairs_opt_rows; row->name; row++)
        if (opt_given(line, row->name))
            return row->name;
    return NULL;
}

int pairs_opts_check(const struct pairs_opts *o, const struct chat_opts *chat,
                     const struct train_opts *train, struct err *err)
{
    if (!(o->beta > 0) || !isfinite(o->beta))
        return err_misuse(err, "--beta %g: a number above 0 is expected", o->beta);
    if (!(train->label_smoothing < 0.5))
        return err_misuse(err, "--label-smoothing %g: with --task dpo a number of at least 0 and "
                          "below 0.5 is expected", train->label_smoothing);
    if (o->loss == PAIRS_IPO && train->label_smoothing > 0)
        return err_misuse(err, "--loss ipo has no --label-smoothing: leave one of them out");
    if (chat->packing)
        return err_misuse(err, "--packing is for --task chat: the two answers of a pair are rows "
                          "of their own");
    if (chat->loss_on != CHAT_LOSS_ANSWERS)
        return err_misuse(err, "--loss-on is for --task chat: of a pair, the two answers count");
    if (train->batch % 2)
        return err_misuse(err, "--batch %" PRIu64 ": each pair takes two rows, so an even number "
                          "is expected", train->batch);
    return 0;
}

struct chat_names pairs_opts_names(const struct pairs_opts *o, const struct chat_opts *chat,
                                   const struct task_names *columns)
{
    struct chat_names names = chat_opts_names(chat, columns);

    names.chosen = o ? o->chosen : NULL;
    names.rejected = o ? o->rejected : NULL;
    return names;
}

struct pairs_options pairs_opts_of(const struct pairs_opts *o, const struct train_opts *train)
{
    return (struct pairs_options){ (enum pairs_loss)o->loss, o->beta, train->label_smoothing };
}

int pairs_opts_store(struct runlog *log, const struct pairs_options *o, struct err *err)
{
    return settings_set(log, err, "pairs.loss=%s\npairs.beta=%.17g\npairs.smoothing=%.17g",
                        loss_words(o->loss), o->beta, o->smoothing);
}

int pairs_opts_load(struct pairs_options *out, struct runlog *log)
{
    char *loss = settings_get(log, "pairs.loss");
    int   i = loss ? opt_words_find(loss_words, loss, strlen(loss)) : -1;

    free(loss);
    if (i < 0)
        return 0;
    out->loss = (enum pairs_loss)i;
    return settings_scan(log, "%lf", &out->beta, "pairs.beta") &&
           settings_scan(log, "%lf", &out->smoothing, "pairs.smoothing");
}
