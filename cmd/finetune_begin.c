/* finetune_begin.c: what a fine-tuning demands and takes, whatever its rows are. */
#include "cmd/finetune_begin.h"

#include "run/folder/settings.h"
#include "run/sources/row_sources.h"

int finetune_check(const struct opt_line *line, struct err *err)
{
    const struct finetune_opts *o = line->options;
    const struct tune_opts     *t = &o->tune;

    if (t->split > 0 && t->eval_file.n)
        return err_misuse(err, "--eval-split takes a part of --train-file to evaluate on, and "
                               "--eval-file names other rows for that: give one of them");
    if (t->train_file.n && o->train.eval_every && !t->eval_file.n && !(t->split > 0))
        return err_misuse(err, "--eval-every needs something to evaluate on: give --eval-file FILE "
                               "or --eval-split PART too");
    if (!o->init)
        return err_misuse(err, "--init is missing: a Hugging Face folder or a run to begin with");
    if (opt_given(line, "seq") && t->max_seq && t->max_seq != o->train.seq)
        return err_misuse(err, "--seq and --max-seq are the same here; give one of them");
    return row_sources_check(t, err);
}

int finetune_init(struct model_folder *init, struct newrun *n, struct err *err)
{
    const struct finetune_opts *o = n->line->options;

    if (n->comm && session_is_run(o->init))
        return err_misuse(err, "--init %s is a run, which several ranks cannot read: siTrain "
                          "export it, and give that folder to all ranks", o->init);
    int rc = model_folder_begin(init, o->init, o->base, n->events, err);

    if (rc)
        return rc;
    if (!init->hf && settings_has(init->run.log, "best.step"))
        events_notice(n->events, "training begins with the last model of %s; %s%s%s the best one",
                      o->init, init->run.config.lora.rank ? "siTrain export " : "--init ", o->init,
                      init->run.config.lora.rank ? " HFDIR writes" : "/best takes");
    n->config = init->config;
    if (opt_given(n->line, "dropout"))
        arch_drop(&n->config, (float)o->train.dropout);
    n->source_labels = init->config.n_labels;
    n->tokenizer = o->tokenizer ? o->tokenizer : init->tokenizer;
    return model_folder_pad(&n->pad, init, NULL, err);
}
