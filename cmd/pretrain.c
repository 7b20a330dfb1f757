/* pretrain.c: makes a new run, or opens one, and trains it. Both end in training_run on a run that
 * is complete on disk: a new one is first made, then opened like any other. */
#include "cmd/cmd.h"
#include "cmd/terminal/say.h"
#include "cmd/train.h"
#include "data/base/machine.h"
#include "model/file/hf.h"
#include "run/folder/base_folder.h"
#include "run/folder/settings.h"
#include "run/loop/resume_opts.h"
#include "run/model_opts.h"
#include "run/newrun.h"
#include "run/ranks/job_run.h"
#include "run/sources/token_folders.h"

struct pretrain_opts {
    const char        *config, *run, *resume, *tokenizer;
    uint64_t           from;
    struct corpus_opts corpus, all; // all: with the files of folders of token files
    struct model_opts model;
    struct train_opts train;
};

#define AT(field) offsetof(struct pretrain_opts, field)

static const struct opt_row rows[] = {
    OPT_CONFIG_ROW(AT(config)),
    TRAIN_RUN_ROWS(AT(run), AT(resume), AT(from)),
    { "data", OPT_FILES, AT(corpus.data), .arg = "FILE|DIR", .max = CORPUS_MOST,
      .help = "Training data: token file (llm.c's or nanoGPT's), read in place; or text, rows with "
              "a text, a folder of these, or - (standard input), tokenised into RUN. Each --data "
              "is a source.", .kept = OPT_SOURCE },
    { "mix", OPT_STRING, AT(corpus.mix), .arg = "WEIGHT,..",
      .help = "Weights of the sources, one for each --data, such as 0.7,0.3 (default: all rows of "
              "all sources once in an epoch)", .kept = OPT_SOURCE },
    { "eval-data", OPT_FILES, AT(corpus.eval_data), .arg = "FILE|DIR", .max = CORPUS_MOST,
      .help = "Evaluation data, as --data", .kept = OPT_SOURCE },
    { "eval-split", OPT_RATIO, AT(corpus.split), .arg = "PART", .min = 0.0001, .max = 0.5,
      .help = "Part of the documents of --data to evaluate on instead of training on them, such as "
              "5% or 0.05. A hash of its contents chooses a document.", .kept = OPT_SOURCE },
    { "text-column", OPT_STRING, AT(corpus.column), .arg = "NAME",
      .help = "Column (JSON: key) of the text in rows (default: text)", .kept = OPT_SOURCE },
    OPT_DATA_FORMAT_ROW(AT(corpus.format)),
    { "tokenizer", OPT_PATH, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder: tokenizer.json, vocab.json and merges.txt, or BERT's vocab.txt "
              "(default: --init's folder). It must have the vocabulary of --init.",
      .kept = OPT_SOURCE },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Model", model_rows, AT(model) },
    { "Training", train_rows, AT(train) },
    { "Adapters (LoRA)", lora_rows, AT(train.lora) },
    { 0 }
};

static int make_run(const char *dir, struct opt_line *line, struct comm *comm, struct err *err)
{
    struct pretrain_opts *o = line->options;
    struct newrun n = { .dir = dir, .o = &o->train, .init = o->model.init,
                        .corpus = &o->all, .line = line, .comm = comm,
                        .events = say_events_of_job() };
    char          init[HF_PATH_BYTES];
    int           rc = train_opts_check(&o->train, err);

    if (rc)
        return rc;
    if (!o->corpus.data.n)
        return err_misuse(err, "--data FILE is missing: a token file, or a text with --tokenizer "
                               "DIR");
    if (o->train.eval_every && !o->corpus.eval_data.n && !(o->corpus.split > 0))
        return err_misuse(err, "--eval-every needs something to evaluate on: give --eval-data FILE "
                               "or --eval-split PART too");
    rc = model_folder_only(&o->model, err);
    rc = rc ? rc : model_choose(&n.config, &o->tokenizer, &o->model, &o->train, err);
    rc = rc ? rc : train_without_head(&n.config, o->model.init, n.events, err);
    rc = rc ? rc : model_init(init, &n.adapter, &o->model, err);
    rc = rc ? rc : lora_opts_begin(&n.config, line, &o->train.lora, n.adapter, err);
    if (!rc && n.config.lora.rank && !n.init)
        events_notice(n.events, "--lora-rank without --init: the model's random parameters stay as "
                      "they are, and only adapters are trained");
    n.init = n.base = n.init ? init : NULL;
    n.tokenizer = o->all.tokenizer = o->tokenizer;
    return rc ? rc : newrun_create(&n, err);
}

/* Refuses an imported run without data. But its devices may have moved, and that is stored. */
static int without_data(struct session *s, struct opt_line *line, struct err *err)
{
    struct pretrain_opts *o = line->options;
    int                   named = opt_given(line, "device");
    int                   rc = named ? resume_overlay(s, line, &o->train, 1, err) : 0;

    rc = rc ? rc : session_take_devices(s, err);
    if (named && !rc)
        rc = moved_settle(s->moved, &s->run, err);
    return rc ? rc
              : err_misuse(err, "%s has %s data yet: give --data FILE", s->dir,
                           named ? "its devices where --device says, but no" : "no");
}

/* Applies the line's options to those of the run. first: it has no data yet. */
static int overlay(struct session *s, struct opt_line *line, int first, struct err *err)
{
    struct pretrain_opts *o = line->options;

    if (o->corpus.format != TOKENS_AUTO && !o->corpus.data.n && !o->corpus.eval_data.n)
        return err_misuse(err, "--data-format says what --data is, and this run keeps its own: "
                          "leave it out");
    if (first && !o->corpus.data.n)
        return without_data(s, line, err);
    int rc = resume_overlay(s, line, &o->train, first, err);
    rc = rc ? rc : masking_opts_check(line, &o->train.mask, &s->config, err);
    if (!rc && first) {
        s->o.seq = s->o.seq ? s->o.seq : arch_usual_seq(&s->config);
        s->o.threads = threads_here(s->o.threads);
        if (!s->o.schedule_steps)
            s->o.schedule_steps = s->o.steps;
    }
    rc = rc ? rc : train_opts_check(&s->o, err);
    if (!rc && first)
        rc = job_run_groups(s, err);
    if (!rc && s->o.seq > s->config.n_positions)
        rc = err_misuse(err, "--seq %" PRIu64 ": the model has %zu positions", s->o.seq,
                        s->config.n_positions);
    return rc ? rc : session_take_devices(s, err);
}

/* What --resume refuses of these options, for a run that goes back first. */
static int check_resume(struct session *s, struct opt_line *line, struct err *err)
{
    struct pretrain_opts *o = line->options;
    int                   rc = base_folder_named(s, o->model.base, err);

    rc = rc ? rc : overlay(s, line, 0, err);
    return rc ? rc : corpus_resume_check(s, &o->all, err);
}

static int resume(struct session *s, struct opt_line *line, struct err *err)
{
    struct pretrain_opts *o = line->options;
    int                   first = !settings_has(s->log, "data.path");
    struct masking        masking;
    int                   rc = overlay(s, line, first, err);

    if (!rc && first && arch_is_masked(&s->config)) // refused before data are taken
        rc = corpus_masking(&masking, s, err);
    if (!rc && first && arch_is_masked(&s->config))
        rc = masking_framed(&masking, &s->config, err);
    // options come before data: a run without data takes all options anew
    if (rc || (rc = session_config(s, err)) || (first && (rc = session_store_options(s, 0, err))) ||
        (rc = job_run_in_time(s->ranks.comm, corpus_resume(s, &o->all, err), err)))
        return rc;
    schedule_end_tell(s);
    return 0;
}

static int open_run(struct session *s, const char *dir, struct opt_line *line, struct comm *comm,
                    struct err *err)
{
    struct pretrain_opts *o = line->options;
    int rc = train_open(s, dir, o->resume != NULL, line, comm, err);

    if (!rc && settings_has(s->log, "task"))
        rc = err_misuse(err, "%s is a fine-tuning: siTrain finetune --resume %s goes on with it",
                        dir, dir);
    else if (!rc && arch_classifies(&s->config))
        rc = err_misuse(err, "%s is a classifier: siTrain finetune --run NEW --init %s --task TASK "
                        "--data DIR trains it", dir, dir);
    rc = rc ? rc : train_go_back(s, dir, o->from, line, check_resume, comm, err);
    s->o.time_limit = o->train.time_limit; // it is this process's, and not stored
    if (!rc && o->resume)
        rc = base_folder_named(s, o->model.base, err);
    return rc || !o->resume ? rc : resume(s, line, err);
}

static int run(struct opt_line *line, struct err *err)
{
    struct pretrain_opts    *o = line->options;
    const struct model_opts *m = &o->model;
    struct session           s = { 0 };
    struct comm             *comm;
    char                     dir[SESSION_PATH];
    struct token_folders *folders = NULL;
    int finished, rc = train_begin(dir, &comm, o->run, o->resume, &o->train, err);

    if (rc || (rc = train_check_from(line, o->resume, o->from, comm, err)))
        return rc;
    if (o->resume && (o->tokenizer || m->init || m->model || m->vocab || model_has_sizes(m)))
        return err_misuse(err, "--resume keeps the run's model and tokenizer: leave --tokenizer, "
                               "--init, --model and sizes out");
    rc = token_folders_open(&folders, &o->all, &o->corpus, err);
    rc = rc || o->resume ? rc : make_run(dir, line, comm, err);
    rc = rc ? rc : open_run(&s, dir, line, comm, err);
    rc = rc ? rc : train_to_end(&s, &finished, err);
    session_close(&s);
    token_folders_close(folders);
    return rc;
}

const struct opt_command pretrain_command = {
    .name = "pretrain",
    .usage = "--run RUN --data FILE (--init HFDIR | --model NAME [sizes] | --n-layer N "
             "--n-head N --n-embd N) | --resume RUN [--steps N]",
    .summary = "train a model",
    .text = "Ctrl-C finishes the step and commits it. An interrupted evaluation is repeated on "
            "resume. --resume continues from the last commit, with results identical, bit for "
            "bit, to a run that never stopped. With --resume, options that change the arithmetic "
            "are refused, unless the run goes back to a snapshot (--from).",
    .parts = parts, .size = sizeof(struct pretrain_opts), .by_ranks = 1, .run = run,
    .first = "run resume data eval-data tokenizer init model steps batch seq "
             "grad-accum lr mode devices host-mem",
    .examples = { "siTrain pretrain --run first --data my.txt --tokenizer tok \\\n"
                  "      --n-layer 8 --n-head 8 --n-embd 512 --seq 256 --devices 2 --steps 1000",
                  "siTrain pretrain --resume first --steps 1500 --schedule-steps 1500" },
};
