/* finetune.c: a classifier or regressor from a language model: a GLUE task, or one's own rows.
 * finetune_chat.c makes a run of conversations. A new run is made complete, with its rows
 * tokenised, then opened and trained like any other. What comes after training, results and
 * predictions, is made from the run alone (run/loop/finetune_results.c), so that it can be made
 * again. */
#include "cmd/cmd.h"
#include "cmd/finetune_chat.h"
#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "cmd/train.h"
#include "data/base/number.h"
#include "data/file/stdin_spool.h"
#include "data/base/visible.h"
#include "run/folder/base_folder.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/folder/train_opts.h"
#include "run/loop/finetune_results.h"
#include "run/loop/resume_opts.h"
#include "run/sources/task_files.h"
#include "run/sources/row_sources.h"
#include "run/sources/source.h"

#define AT(field) offsetof(struct finetune_opts, field)

static const struct opt_row rows[] = {
    OPT_CONFIG_ROW(AT(config)),
    TRAIN_RUN_ROWS(AT(run), AT(resume), AT(from)),
    { "init", OPT_PATH, AT(init), .arg = "HFDIR|RUN", .file = OPT_FILES_MODEL,
      .help = "Hugging Face folder or run to start from, or folder of an adapter to go on with. "
              "The head is kept if its number of classes fits.", .kept = OPT_SOURCE },
    OPT_BASE_ROW(AT(base), OPT_SOURCE),
    { "tokenizer", OPT_PATH, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder (default: --init's)", .kept = OPT_SOURCE },
    { "data", OPT_PATH, AT(data), .arg = "DIR",
      .help = "Folder of --task, with train.tsv and dev.tsv as in GLUE", .kept = OPT_SOURCE },
    { "mix", OPT_STRING, AT(tune.mix), .arg = "WEIGHT,..",
      .help = "Weights of several --train-file, such as 0.7,0.3: their shares of the training's "
              "rows. By default all rows are one pool.", .kept = OPT_SOURCE },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Task", tune_rows, AT(tune) },
    { "Your own rows", column_rows, AT(columns) },
    { "Conversations", chat_opt_rows, AT(chat) },
    { "Preferences", pairs_opt_rows, AT(pairs) },
    { "Training", train_rows, AT(train) },
    { "Adapters (LoRA)", lora_rows, AT(train.lora) },
    { 0 }
};
static const struct opt_default defaults[] = { { "steps", NULL },        { "batch", "32" },
                                               { "lr", "5e-5" },         { "warmup", "6%" },
                                               { "schedule", "linear" }, { 0 } };

/* ---- a new run ---- */

/* What a new run is made from. */
struct material {
    const struct finetune_opts *o;
    struct model_folder  init;
    struct classes       classes; // of a classifier to begin with
    struct params_source source;
    char                 notice[512]; // of its head
    const struct task   *task;
    struct task         *own;     // the same where the rows are one's own
    struct text_list      rows[3]; // own rows: of training, evaluation, prediction
    struct task_file     file[1 + 2 * TASK_SPLITS];
    size_t               files;
    struct hf_labels     labels;  // borrows the task's
    struct newrun        n;
};

/* One's own: the columns of the training file, which comes first, are those of the others. own: its
 * files; NULL: `file` of the task's folder. */
static int add_file(struct material *m, const char *name, const struct text_list *own,
                    const char *file, int labels, struct err *err)
{
    const struct finetune_opts *o = m->o;
    const struct tune_opts     *t = &o->tune;
    struct task_file           *e = &m->file[m->files++];
    int                         first = e == m->file;

    *e = (struct task_file){
        .name = name,
        .task = m->task,
        .own = own,
        .asked = first ? o->columns : m->file[0].read,
        .mix = t->mix,
        .labels = labels,
        .split = labels ? t->split : 0,
        .held = !first && t->split > 0,
        .most = first || (labels && t->split > 0) ? t->max_train
                : labels                          ? t->max_eval
                                                  : t->max_predict,
        .most_held = t->max_eval,
        .events = say_events_of_job()
    };
    return task_file_check(e, o->data, file, err);
}

static int add_own(struct material *m, struct err *err)
{
    const struct tune_opts *t = &m->o->tune;
    struct text_list        *own = m->rows;
    int                     rc = add_file(m, RUN_TRAIN, &own[0], NULL, 1, err);

    if (!rc && (t->split > 0 || own[1].n))
        rc = add_file(m, run_dev[0], &own[t->split > 0 ? 0 : 1], NULL, 1, err);
    if (!rc && t->predict && own[2].n)
        rc = add_file(m, run_test[0], &own[2], NULL, 0, err);
    return rc;
}

static int add_files(struct material *m, struct err *err)
{
    const struct tune_opts *t = &m->o->tune;
    const char *const      *devs = m->task->dev, *const *tests = m->task->tests;

    if (m->own)
        return add_own(m, err);
    int rc = add_file(m, RUN_TRAIN, NULL, TASK_TRAIN_FILE, 1, err);

    for (size_t i = 0; i < TASK_SPLITS && devs[i] && !rc; i++)
        rc = add_file(m, run_dev[i], NULL, devs[i], 1, err);
    for (size_t i = 0; i < TASK_SPLITS && t->predict && tests[i] && !rc; i++)
        rc = add_file(m, run_test[i], NULL, tests[i], 0, err);
    return rc;
}

static int check_source(const struct opt_line *line, struct err *err)
{
    const struct finetune_opts *o = line->options;
    const struct tune_opts     *t = &o->tune;
    const char                 *chat = opt_given_of(line, chat_opt_rows),
                               *pairs = opt_given_of(line, pairs_opt_rows);

    if (t->task && !task_find(t->task))
        return opt_words_refuse("task", t->task, tune_task_word, err);
    if (chat && !strcmp(chat, "group-by-length")) // as run_glue.py takes it
        events_notice(say_events_of_job(), "--group-by-length has no effect on labelled rows: they "
                      "are shuffled, and a batch is padded to its longest row");
    else if (chat)
        return err_misuse(err, "--%s is for conversations: give --task chat, or leave it out",
                          chat);
    if (pairs)
        return err_misuse(err, "--%s is for preferences: give --task dpo, or leave it out", pairs);
    if (t->task && t->mix)
        return err_misuse(err, "--mix has weights of several --train-file, and --task %s takes its "
                          "rows from --data: leave it out", t->task);
    if (!t->task && !t->train_file.n)
        return err_misuse(err, "training rows are missing: give --task TASK and --data DIR, or "
                               "--train-file FILE");
    if (t->task && (t->train_file.n || t->eval_file.n || t->test_file))
        return err_misuse(err, "--task takes its rows from --data: leave --train-file, --eval-file "
                               "and --test-file out");
    if (t->task && !o->data)
        return err_misuse(err, "--data DIR is missing: the folder of %s with train.tsv and its "
                          "development set", t->task);
    if (t->task && t->regression)
        return err_misuse(err, "--regression is for your own rows: leave it out with --task");
    if (t->train_file.n && o->data)
        return err_misuse(err, "--data goes with --task: leave it out where --train-file says what "
                               "to train on");
    if (t->task && t->split > 0)
        return err_misuse(err, "--eval-split is for your own rows: %s has a development set",
                          t->task);
    if (t->predict && t->train_file.n && !t->test_file)
        return err_misuse(err, "--predict needs --test-file FILE, the rows to predict");
    if (t->test_file && !t->predict)
        return err_misuse(err, "--test-file says what to predict: give --predict too, or leave it "
                               "out");
    if (t->max_predict && !t->predict)
        return err_misuse(err, "--max-predict-samples is for predictions: give --predict too, or "
                               "leave it out");
    int rc = finetune_check(line, err);

    return rc ? rc : columns_check(&o->columns, !t->task, err);
}

static int find_task(struct material *m, struct err *err)
{
    const struct tune_opts *t = &m->o->tune;
    int rc = text_list_make(&m->rows[0], t->train_file.item, t->train_file.n, NULL, err);

    rc = rc ? rc : text_list_make(&m->rows[1], t->eval_file.item, t->eval_file.n, NULL, err);
    rc = rc ? rc : text_list_make(&m->rows[2], &t->test_file, !!t->test_file, NULL, err);
    if (!rc && !t->task)
        rc = task_own(&m->own, m->rows[0].item, m->rows[0].n, &m->o->columns, t->regression, err);
    m->task = t->task ? task_find(t->task) : m->own;
    if (!rc && m->task && m->task->n_labels == 1 && m->o->train.label_smoothing > 0)
        rc = err_misuse(err, "--label-smoothing is for words and classes, and a regressor has "
                        "neither: leave it out");
    return rc;
}

static int check_tokenizer(struct material *m, struct err *err)
{
    const char       *dir = m->n.tokenizer;
    struct tokenizer *tok = NULL;

    if (!*dir || !tokenizer_is_there(dir))
        return err_misuse(err, "there is no tokenizer with this model: give --tokenizer DIR");
    int rc = tokenizer_open(&tok, dir, err);
    if (!rc && m->file[0].pairs && tokenizer_endoftext(tok) < 0 && !tokenizer_has_template(tok))
        rc = err_misuse(err, "the tokenizer in %s has neither an eos_token nor a template "
                        "to put between the two texts of a pair", dir);
    tokenizer_close(tok);
    return rc;
}

static uint64_t steps_of_epochs(const struct opt_line *line, uint64_t row_count)
{
    struct finetune_opts *o = line->options;
    struct train_opts    *t = &o->train;
    uint64_t              each = task_files_epoch_steps(row_count, t);

    t->steps = t->steps ? t->steps : o->tune.epochs * each;
    if (!opt_given(line, "eval-every"))
        t->eval_every = each;
    return t->steps / each + (t->steps % each != 0);
}

/* A classifier to begin with keeps its head, its rows in the order of the task's classes; one for
 * another number of classes gets a new head. */
static int take_head(struct material *m, struct err *err)
{
    const char *init = m->o->init;
    size_t      have = m->init.config.n_labels, want = m->task->n_labels;

    m->source = m->init.source;
    if (have == 0)
        return 0;
    if (have != want) {
        snprintf(m->notice, sizeof m->notice, "the head of %.300s has %zu class%s, not %zu: a new "
                 "one is made", init, have, have == 1 ? "" : "es", want);
        return 0;
    }
    int rc = classes_open(&m->classes, &m->init, init, err);
    if (rc)
        return rc;
    if (classes_match(&m->classes, m->task->labels, want))
        m->source = classes_source(&m->classes);
    else if (want > 1 && classes_named(&m->classes))
        snprintf(m->notice, sizeof m->notice, "%.300s names its classes differently: its head is "
                 "kept, matched by order: %.60s is %.60s", init, m->task->labels[0],
                 m->classes.names.name[0]);
    return 0;
}

/* Everything that can be refused, before anything is made. */
static int gather(struct material *m, struct opt_line *line, struct err *err)
{
    struct finetune_opts *o = line->options;
    struct model_config    *g = &m->n.config;
    int                   rc = check_source(line, err);

    if (!rc)
        rc = row_sources_spool(&o->tune, m->n.dir, m->n.comm ? m->n.comm->size : 1, m->n.events,
                               err);
    if (rc || (rc = find_task(m, err)) || (rc = finetune_init(&m->init, &m->n, err)) ||
        (rc = take_head(m, err)))
        return rc;
    g->n_labels = m->task->n_labels;
    g->headless = 0;
    if ((rc = lora_opts_begin(g, line, &o->train.lora, m->init.adapter ? o->init : NULL, err)))
        return rc;
    m->n.base = m->init.hf ? m->init.base : NULL;
    m->n.source_hf = m->init.hf;
    m->n.adapted = m->init.adapter != NULL;
    if ((rc = tune_seq(&o->train.seq, o->train.seq ? o->train.seq : o->tune.max_seq, TUNE_SEQ,
                       g->n_positions, m->n.tokenizer, err)) ||
        (rc = add_files(m, err)) || (rc = check_tokenizer(m, err)))
        return rc;
    m->labels = (struct hf_labels){ (char **)(uintptr_t)m->task->labels,
                                    m->task->labels ? m->task->n_labels : 0 };
    m->n.epochs = steps_of_epochs(line, m->file[0].rows);
    m->n.examples = m->file;
    m->n.n_examples = m->files;
    m->n.labels = &m->labels;
    m->n.source = &m->source;
    m->n.notice = m->notice;
    return train_opts_check(&o->train, err);
}

/* What one's own file was taken for: a column too many makes pairs, a misspelt label a class. A
 * name's first characters tell. */
static void say_own(const struct material *m)
{
    enum { MOST = 10, NAME = 41 };
    const struct task_file *f = &m->file[0];
    size_t                  n = m->labels.n, at = 0;
    char                    name[NAME], texts[4 * NAME] = "", classes[MOST * (NAME + 8)] = "";

    visible_text(name, NAME, f->read.text, strlen(f->read.text));
    snprintf(texts, sizeof texts, f->read.pair ? "two texts ('%s', " : "one text ('%s')", name);
    if (f->read.pair) {
        visible_text(name, NAME, f->read.pair, strlen(f->read.pair));
        snprintf(texts + strlen(texts), sizeof texts - strlen(texts), "'%s')", name);
    }
    for (size_t i = 0; i < n && i < MOST; i++) {
        visible_text(name, NAME, m->labels.name[i], strlen(m->labels.name[i]));
        at += (size_t)snprintf(classes + at, sizeof classes - at, "%s '%s'", i ? "," : "", name);
    }
    if (n)
        say_line(stderr, "siTrain: %s: %llu row%s of %s, %zu classes:%s%s", f->path,
                 (unsigned long long)f->rows, f->rows == 1 ? "" : "s", texts, n, classes,
                 n > MOST ? ", ..." : "");
    else
        say_line(stderr, "siTrain: %s: %llu row%s of %s, whose labels are values", f->path,
                 (unsigned long long)f->rows, f->rows == 1 ? "" : "s", texts);
}

static int make_run(const char *dir, struct opt_line *line, struct comm *comm, struct err *err)
{
    struct finetune_opts *o = line->options;
    struct material m = { .o = o,
                          .n = { .dir = dir, .o = &o->train, .line = line, .comm = comm,
                                 .events = say_events_of_job() } };
    int             rc = gather(&m, line, err);

    rc = rc ? rc : newrun_create(&m.n, err);
    if (!rc && m.own && !o->train.quiet)
        say_own(&m);
    for (size_t i = 0; i < m.files; i++)
        task_names_free(&m.file[i].read);
    for (size_t i = 0; i < sizeof m.rows / sizeof *m.rows; i++)
        text_list_free(&m.rows[i]);
    classes_close(&m.classes);
    model_folder_close(&m.init);
    task_own_free(m.own);
    return rc;
}

/* ---- one that goes on ---- */

static int check_line(const struct opt_line *line, struct err *err)
{
    const struct finetune_opts *o = line->options;
    const struct tune_opts     *t = &o->tune;
    const char *chat = opt_given_of(line, chat_opt_rows),
               *pairs = opt_given_of(line, pairs_opt_rows);

    if (o->data || o->init || o->tokenizer || o->columns.text || o->columns.pair ||
        o->columns.label || t->task || t->train_file.n || t->eval_file.n || t->test_file ||
        t->regression || t->predict || t->max_train || t->max_eval || t->max_predict ||
        t->split > 0 || t->mix)
        return err_misuse(err, "--resume keeps the run's model, task and rows: leave --init, "
                          "--tokenizer, --task, --data, the files and their columns, "
                          "--mix, --eval-split, --regression, --predict and the limits of rows "
                          "out");
    if (pairs)
        return err_misuse(err, "--resume keeps the run's loss: leave --%s out", pairs);
    return chat ? err_misuse(err, "--resume keeps the run's rows as they were encoded: leave --%s "
                             "out", chat)
                : 0;
}

static int overlay(struct session *s, struct opt_line *line, struct err *err)
{
    struct finetune_opts *o = line->options;
    uint64_t              each = source_epoch_steps(s);
    int                   rc = base_folder_named(s, o->base, err);

    if (rc)
        return rc;
    if (!each)
        return err_set(err, -EBADMSG, "%s/run.db has no train.rows", s->dir);
    if (o->tune.max_seq) {
        o->train.seq = o->tune.max_seq;
        opt_mark_given(line, "seq");
    }
    if (opt_given(line, "epochs") && !opt_given(line, "steps")) {
        o->train.steps = o->tune.epochs * each;
        opt_mark_given(line, "steps");
    }
    rc = resume_overlay(s, line, &o->train, 0, err);
    rc = rc ? rc : train_opts_check(&s->o, err);
    return rc ? rc : session_take_devices(s, err);
}

static int open_run(struct session *s, const char *dir, struct opt_line *line, struct comm *comm,
                    struct err *err)
{
    const struct finetune_opts *o = line->options;
    int rc = train_open(s, dir, o->resume != NULL, line, comm, err);

    if (!rc && !settings_has(s->log, "task"))
        rc = err_misuse(err, "%s is no fine-tuning: siTrain pretrain --resume goes on with it, "
                        "siTrain finetune --run NEW --init %s begins with its model", o->resume,
                        o->resume);
    rc = rc ? rc : train_go_back(s, dir, o->from, line, overlay, comm, err);
    if (rc || !o->resume)
        return rc;
    if (!(rc = overlay(s, line, err)) && !(rc = session_config(s, err)))
        schedule_end_tell(s);
    return rc;
}

/* ---- both ---- */

static void print_table(const struct finetune_results *o)
{
    const struct results    *r = &o->results;
    const struct task       *t = r->task;

    say_line(stdout, "%s after step %" PRIu64 " of %" PRIu64, o->file ? o->file : t->title,
             o->step + 1, r->max_steps);
    printf("%-8s %8s", "", "rows");
    for (size_t k = 0; k < t->n_metrics; k++)
        printf("  %20s", metric_names[t->metric[k]]);
    printf("  %10s\n", "loss");
    for (size_t i = 0; i < r->n_evals; i++) {
        printf("%-8s %8" PRIu64, run_dev[i], r->eval[i].samples);
        for (size_t k = 0; k < t->n_metrics; k++)
            printf("  %20.4f", nan_plain(r->eval[i].metric[k]));
        printf("  %10.4f\n", nan_plain(r->eval[i].loss));
    }
}

static int run(struct opt_line *line, struct err *err)
{
    struct finetune_opts   *o = line->options;
    struct session          s = { 0 };
    struct finetune_results after = { 0 };
    struct comm            *comm;
    uint64_t                before, applied;
    char                    dir[SESSION_PATH];
    int finished, rc = train_begin(dir, &comm, o->run, o->resume, &o->train, err);

    if (rc || (rc = train_check_from(line, o->resume, o->from, comm, err)))
        return rc;
    rc = o->resume            ? check_line(line, err)
         : tune_chats(&o->tune) ? finetune_chat_make(dir, line, comm, err)
                                : make_run(dir, line, comm, err);
    stdin_spool_end();
    rc = rc ? rc : open_run(&s, dir, line, comm, err);
    rc = rc ? rc : run_position(&s.run, &before, &applied, err);
    if (!rc && job_speaks() && before < s.o.steps)
        rc = finetune_results_check(&s, before, err);
    s.o.time_limit = o->train.time_limit; // it is this process's, and not stored
    rc = rc ? rc : train_to_end(&s, &finished, err);
    if (!rc && finished && job_speaks())
        rc = finetune_results_write(&after, &s, before, err);
    if (after.results.n_evals && s.rows != SESSION_WHOLE)
        finetune_chat_print(&after);
    else if (after.results.n_evals)
        print_table(&after);
    session_close(&s);
    if (!rc && comm) // all have closed theirs
        rc = comm_share(comm, NULL, 0, NULL, err);
    if (!rc) // with the run closed: it is read like any other model
        rc = finetune_results_predict(&after, err);
    finetune_results_release(&after);
    return rc;
}

const struct opt_command finetune_command = {
    .name = "finetune",
    .usage = "--run RUN (--task TASK --data DIR | --train-file FILE [--eval-file FILE]) --init "
             "HFDIR|RUN [--epochs N] | --run RUN --task chat|dpo --train-file FILE --init "
             "HFDIR|RUN | --resume RUN",
    .summary = "train a classifier or regressor on your own rows, or a language model on "
               "conversations or preferences",
    .text = "The head reads the last token of a row; in BERT and RoBERTa, the first. Pairs are "
            "joined by the tokenizer's template; without a template, by <|endoftext|>. Batches are "
            "padded to their longest row. The development set is evaluated after each epoch, "
            "unless --eval-every is given. The options of Hugging Face's run_glue.py are accepted, "
            "and RUN gets the files that it writes. With several ranks (mpirun), rank 0 predicts "
            "and writes these files, if it sees the folders of all ranks.",
    .parts = parts, .size = sizeof(struct finetune_opts), .by_ranks = 1, .run = run,
    .aliases = run_glue_aliases, .defaults = defaults,
    .first = "run resume init task data train-file eval-file epochs max-seq batch "
             "lr keep-best mode devices host-mem",
    .examples = { "siTrain finetune --run mine --init first --train-file mine.csv \\\n"
                  "      --eval-file mine-dev.csv --epochs 3",
                  "siTrain finetune --run sst2 --init path/to/gpt2 --task sst2 --data SST-2 \\\n"
                  "      --keep-best" },
};
