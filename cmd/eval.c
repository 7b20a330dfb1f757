/* eval.c: measures the loss of a model on a file. For a classifier or regressor it also computes a
 * task's metrics and writes predictions. Texts and rows are tokenised into a file without a name
 * and go through the model in order. If a model's classes have the task's names in another order,
 * the rows of its head are read in the task's order. */
#include "cmd/eval.h"

#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/base/number.h"
#include "run/folder/output.h"
#include "run/sources/evaluate.h"
#include "run/sources/row_sources.h"
#include "run/sources/task_files.h"
#include "run/sources/token_folders.h"
#include "run/texts/tokenise.h"

#include <limits.h>
#include <math.h>

#define AT(field) offsetof(struct eval_opts, field)

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, AT(model), .file = OPT_FILES_MODEL,
      .help = "Run or Hugging Face folder" },
    { "data", OPT_STRINGS, AT(data), .arg = "FILE|DIR", .max = CORPUS_MOST,
      .help = "Token file, text, rows with a text, a folder of these, or - (standard input) to "
              "evaluate on. Several are read in order. With --task: the task's folder." },
    OPT_DATA_FORMAT_ROW(AT(data_format)),
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder for texts (default: the model's; must not differ from it)" },
    { "task", OPT_STRING, AT(task), .words = tune_task_word,
      .help = "GLUE task of a classifier; chat or dpo: the rows of a language model (default: as "
              "it was trained)" },
    { "eval-file", OPT_FILES, AT(eval_files), .arg = "FILE",
      .help = "Evaluation rows, in the format of finetune's --train-file. Conversations may come "
              "from several files." },
    { "reference", OPT_STRING, AT(reference), .arg = "RUN|HFDIR", .file = OPT_FILES_MODEL,
      .help = "Model that a training on preferences began with, for rewards (--task dpo)" },
    { "test-file", OPT_STRING, AT(test_file), .arg = "FILE",
      .help = "Rows to predict, in the format of finetune's --train-file" },
    { "predict", OPT_STRING, AT(predict), .arg = "FILE",
      .help = "File for predictions of the test rows, with each class's probability. An existing "
              "file is replaced only if eval --predict wrote it." },
    { "max-seq", OPT_UINT, AT(max_seq), .min = 1, .max = 1048576,
      .help = "Number of tokens per row of --eval-file or --task (default: the run's of "
              "conversations; otherwise finetune's). Longer rows are cut off." },
    { "mask-prob", OPT_RATIO, AT(mask.prob), .min = 0.001, .max = 0.999,
      .help = "Fraction of tokens to mask (BERT), 0.1% to 99.9% (default: as in training, "
              "or 15%)" },
    { "mask-id", OPT_UINT, AT(mask.id), .max = 2147483647,
      .help = "Id of the mask token (default: the tokenizer's)" },
    { "max-eval-samples", OPT_UINT, AT(max_eval),
      .help = "Number of rows to evaluate on, from the first (default: 0, all)" },
    { "max-predict-samples", OPT_UINT, AT(max_predict),
      .help = "Number of rows to predict, from the first (default: 0, all)" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Your own rows", column_rows, AT(columns) },
    { "Conversations", chat_opt_rows, AT(chat) },
    { "Preferences", pairs_opt_rows, AT(pairs) },
    { "Which model of a run", which_rows, AT(which) },
    { "Machine", read_rows, AT(read) },
    { 0 }
};

/* ---- predictions ---- */

/* The predictions of a test split. For MNLI's mismatched one the name ends with -mm. */
struct predict_file {
    struct output out;
    char          path[PATH_MAX], read[2 * TASK_SPLITS][PATH_MAX]; // files of a task's folder
    const char   *inputs[5 + 2 * TASK_SPLITS];
};

static int predict_check(struct predict_file *f, const struct eval_opts *e, size_t split,
                         struct err *err)
{
    const struct task *t = e->task && e->data.n ? task_find(e->task) : NULL;
    const char        *files[] = { e->model, opt_first(&e->data), e->tokenizer,
                                   opt_first(&e->eval_files), e->test_file };

    *f = (struct predict_file){ .out = { f->path, OUTPUT_PREDICTIONS, f->inputs,
                                         sizeof f->inputs / sizeof *f->inputs } };
    memcpy(f->inputs, files, sizeof files);
    for (size_t i = 0; t && i < 2 * TASK_SPLITS; i++) {
        const char *name = i < TASK_SPLITS ? t->dev[i] : t->tests[i - TASK_SPLITS];

        if (name && snprintf(f->read[i], PATH_MAX, "%s/%s", opt_first(&e->data), name) < PATH_MAX)
            f->inputs[5 + i] = f->read[i];
    }
    if (snprintf(f->path, PATH_MAX, "%s%s", e->predict, split ? "-mm" : "") >= PATH_MAX)
        return err_misuse(err, "%s: the path is too long", e->predict);
    return output_check(&f->out, err);
}

/* Runs before anything is read. */
static int predict_check_all(const struct eval_opts *e, struct err *err)
{
    const struct task  *t = e->task ? task_find(e->task) : NULL;
    struct predict_file f;
    int                 rc = 0;

    for (size_t i = 0; e->predict && !rc && (!i || (t && i < TASK_SPLITS && t->tests[i])); i++)
        rc = predict_check(&f, e, i, err);
    return rc;
}

/* ---- a language model ---- */

static int open_text(struct tokens **out, const struct model_folder *r, const struct eval_opts *o,
                     const char *text, struct err *err)
{
    struct file_new   scratch = { 0 };
    char              path[64];
    struct tokenizer *tok = NULL;
    uint64_t          seq = o->read.seq ? o->read.seq : arch_usual_seq(&r->config);
    int               rc = model_folder_tokenizer(&tok, r, o->tokenizer, err);

    struct tokenise_files f = { .tok = tok, .texts = &text, .n = 1, .vocab = r->config.vocab,
                                .column = o->columns.text,
                                .as = (enum tokens_format)o->data_format };
    if (!rc && !(rc = eval_scratch(&scratch, path, sizeof path, err)) &&
        !(rc = tokenise_files(&f, path, &say_events, err)))
        rc = f.count > seq ? tokens_open(out, path, 2, err)
                           : err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64
                                        " needs %" PRIu64, text, f.count, seq, seq + 1);
    file_new_abort(&scratch);
    tokenizer_close(tok);
    return rc;
}

static int open_masking(struct masking *out, const struct model_folder *r,
                        const struct eval_opts *o, struct err *err)
{
    const struct mask_opts *run = r->run.has_opts ? &r->run.o.mask : NULL;
    struct mask_opts        m = o->mask;
    const char             *tokenizer = o->tokenizer ? o->tokenizer : r->tokenizer;

    m.prob = m.prob > 0 ? m.prob : run ? run->prob : 0.15;
    m.id = m.id ? m.id : run ? run->id : 0;
    return masking_find(out, &r->config, &m, *tokenizer ? tokenizer : NULL, err);
}

static int open_data(struct mixture *out, const struct model_folder *r, const struct eval_opts *o,
                     const struct opt_strings *data, struct err *err)
{
    unsigned width;
    size_t   texts = 0;
    int      rc = 0;

    *out = (struct mixture){ .source = calloc(data->n + 1, sizeof *out->source) };
    if (!out->source)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < data->n && !rc; i++) {
        struct tokens **t = &out->source[out->n].tokens;
        const char     *path = data->item[i];

        rc = corpus_detect(path, (enum tokens_format)o->data_format, r->config.vocab, &width,
                           &say_events, err);
        if (!rc)
            rc = width ? tokens_open(t, path, width, err) : open_text(t, r, o, path, err);
        out->n += !rc;
        texts += !rc && !width;
    }
    return rc || texts || !o->columns.text
               ? rc
               : err_misuse(err, "--text-column %s names the text in rows, and the data are token "
                            "ids: leave it out", o->columns.text);
}

/* An option of conversations or preferences that was given; NULL: none. */
static const char *rows_option(const struct opt_line *line)
{
    const struct eval_opts *e = line->options;
    const char *chat = opt_given_of(line, chat_opt_rows),
               *pairs = opt_given_of(line, pairs_opt_rows);

    return chat ? chat : pairs ? pairs : e->reference ? "reference" : NULL;
}

/* Refuses options that have no effect on a text or tokens. */
static int refuse_of_rows(const struct opt_line *line, struct err *err)
{
    static const char *const names[] = { "max-seq", "max-eval-samples", "max-predict-samples" };
    const char              *other = rows_option(line);

    if (other)
        return err_misuse(err, "--%s is for conversations and preferences, and --data is a text or "
                          "tokens: leave it out", other);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (opt_given(line, names[i]))
            return err_misuse(err, "--%s is for rows of --eval-file or --task, and --data is a "
                              "text or tokens: leave it out%s", names[i],
                              i ? "" : " (--seq says how many tokens a row has)");
    return 0;
}

static int eval_tokens(const struct model_folder *r, const struct opt_line *line, struct err *err)
{
    const struct eval_opts *o = line->options;
    const struct task_names columns = { .pair = o->columns.pair, .label = o->columns.label };
    const struct corpus_opts given = { .data = o->data, .format = o->data_format };
    struct token_folders *folders = NULL;
    struct corpus_opts    all;
    struct mixture   data = { 0 };
    struct evaluator e = { 0 };
    struct masking   masking;
    double           loss = 0;
    uint64_t         tokens;
    int              rc = columns_check(&columns, 0, err);

    if (!rc && !o->data.n)
        rc = err_misuse(err, "--data FILE is missing: a token file or a text");
    rc = rc ? rc : refuse_of_rows(line, err);
    if (!rc && arch_is_masked(&r->config))
        rc = open_masking(&masking, r, o, err);
    rc = rc ? rc : token_folders_open(&folders, &all, &given, err);
    rc = rc ? rc : open_data(&data, r, o, &all.data, err);
    rc = rc ? rc : model_folder_evaluator(&e, r, &o->read, NULL, err);
    e.masking = arch_is_masked(&r->config) ? &masking : NULL;
    if (!rc && !(rc = evaluate_tokens(&e, &data, 0, &loss, &tokens, err)) &&
        !(rc = eval_finite(loss, o->model, err)))
        printf("loss %.6f\nperplexity %.6f\n", loss, exp(loss));
    evaluator_close(&e);
    token_folders_close(folders);
    mixture_close(&data);
    return rc;
}

/* ---- a task and the model's classes ---- */

/* A file of rows. They are evaluated or, if their labels are not read, predicted. */
struct part { struct task_file rows; size_t split; };

struct evaluation {
    const struct model_folder *r;
    const struct eval_opts    *e;
    struct task                task;
    struct task_names          trained; // columns of the run's training
    struct task_names          columns; // borrowed from others
    struct classes             classes; // the model's
    struct tokenizer          *tok;
    struct evaluator           by;
    size_t                     seq, parts;
    struct part                part[2 * TASK_SPLITS];
    struct text_list           own[2]; // own rows: to evaluate, to predict
};

/* Makes a task of own rows: classes are the model's names, or numbers (1 for LABEL_1). */
static void own_task(struct evaluation *v, int named)
{
    struct hf_labels *l = &v->classes.names;

    for (size_t i = 0; i < l->n && !named; i++)
        memmove(l->name[i], l->name[i] + strlen("LABEL_"),
                strlen(l->name[i] + strlen("LABEL_")) + 1);
    v->task = task_custom((const char *const *)l->name, v->r->config.n_labels);
    v->task.loose = 1;
    v->task.dev[0] = opt_first(&v->e->eval_files);
    v->task.tests[0] = v->e->test_file;
}

/* Finds the task, and which row of the head is which class: by name, if the names are the
 * task's. */
static int find_task(struct evaluation *v, struct err *err)
{
    const struct task *known = v->e->task ? task_find(v->e->task) : NULL;
    size_t             n = v->r->config.n_labels;

    if (n == 0)
        return err_misuse(err, "%s is a language model, without a head for classes: eval --data "
                          "FILE gives its loss on a text, --eval-file FILE on conversations",
                          v->e->model);
    if (v->e->task && !known)
        return opt_words_refuse("task", v->e->task, task_word, err);
    if (known && known->n_labels != n)
        return err_misuse(err, "the head of %s has %zu class%s, %s has %zu%s", v->e->model, n,
                          n == 1 ? " (a regressor)" : "es", known->title, known->n_labels,
                          known->n_labels == 1 ? " (regression)" : "");
    int rc = classes_open(&v->classes, v->r, v->e->model, err);
    if (rc)
        return rc;
    const struct task *t = &v->task;
    int                named = classes_named(&v->classes);
    if (known)
        v->task = *known;
    else
        own_task(v, named);
    if (!classes_match(&v->classes, t->labels, t->n_labels) && t->n_labels > 1 && named)
        say_line(stderr, "siTrain: %s names its classes differently from the task: classes are "
                 "matched by their order, so %s is %s", v->e->model, t->labels[0],
                 v->classes.names.name[0]);
    return 0;
}

/* ---- rows ---- */

static int add_part(struct evaluation *v, size_t split, const char *file, int labels,
                    struct err *err)
{
    const struct eval_opts *e = v->e;
    struct part            *p = &v->part[v->parts++];
    char                    notice[768];

    *p = (struct part){ { .task = &v->task, .own = e->task ? NULL : &v->own[!labels],
                          .asked = v->columns, .labels = labels,
                          .most = labels ? e->max_eval : e->max_predict, .events = &say_events },
                        split };
    int rc = task_file_check(&p->rows, e->task ? opt_first(&e->data) : NULL, file, err);
    for (int i = 0; i < TASK_FILE_NOTICES && !rc; i++) {
        task_file_notice(&p->rows, i, notice, sizeof notice);
        if (*notice)
            say_line(stderr, "siTrain: %s", notice);
    }
    return rc;
}

/* Reads all rows, first those to evaluate, then those to predict, before anything is computed.
 * Columns that were not given are those of the run's training. */
static int add_parts(struct evaluation *v, struct err *err)
{
    const struct eval_opts *e = v->e;
    int                     rc = 0;

    if (!v->r->hf)
        task_files_columns(&v->trained, &v->r->run);
    rc = text_list_make(&v->own[0], e->eval_files.item, e->eval_files.n, NULL, err);
    rc = rc ? rc : text_list_make(&v->own[1], &e->test_file, !!e->test_file, NULL, err);
    v->columns = e->columns.text ? e->columns : v->trained;
    v->columns.label = e->columns.label ? e->columns.label : v->trained.label;
    for (size_t i = 0; i < TASK_SPLITS && v->task.dev[i] && !rc; i++)
        rc = add_part(v, i, v->task.dev[i], 1, err);
    for (size_t i = 0; i < TASK_SPLITS && e->predict && v->task.tests[i] && !rc; i++)
        rc = add_part(v, i, v->task.tests[i], 0, err);
    return rc;
}

static int eval_part(const struct evaluation *v, const struct part *part, struct examples *x,
                     struct err *err)
{
    const struct task  *t = &v->task;
    const char         *suffix = part->split ? t->suffix[part->split] : "";
    struct results_eval found;
    int                 rc = evaluate_examples(&v->by, x, t, 0, &found, err);

    if (rc || (rc = eval_finite(found.loss, v->e->model, err)))
        return rc;
    printf("loss%s %.6f\n", suffix, found.loss);
    for (size_t i = 0; i < t->n_metrics; i++)
        printf("%s%s %.6f\n", metric_names[t->metric[i]], suffix,
               nan_plain(found.metric[i]));
    if (t->n_metrics > 1)
        printf("combined_score%s %.6f\n", suffix,
               nan_plain(results_combined(t, &found)));
    return 0;
}

static int predict_part(const struct evaluation *v, const struct part *part, struct examples *x,
                        struct err *err)
{
    struct predict_file f;
    char               *text = NULL;
    size_t              n;
    int                 rc = predict_check(&f, v->e, part->split, err);

    rc = rc ? rc : evaluate_predict(&v->by, x, &v->task, &text, &n, err);
    rc = rc ? rc : output_put(&f.out, text, n, err);
    free(text);
    return rc;
}

static int run_parts(const struct evaluation *v, struct err *err)
{
    long pad;
    int  rc = model_folder_pad(&pad, v->r, v->tok, err);

    for (size_t i = 0; i < v->parts && !rc; i++) {
        const struct part *p = &v->part[i];
        struct examples   *x = NULL;
        struct file_new    scratch = { 0 };
        char               path[64];

        rc = eval_scratch(&scratch, path, sizeof path, err);
        rc = rc ? rc : task_file_encode(&x, &p->rows, v->tok, &v->r->config, v->seq, pad, path,
                                        err);
        file_new_abort(&scratch);
        if (!rc)
            rc = (p->rows.labels ? eval_part : predict_part)(v, p, x, err);
        examples_close(x);
    }
    return rc;
}

static int check(const struct eval_opts *e, const struct opt_line *line, struct err *err)
{
    const char *given = rows_option(line);

    if (given)
        return err_misuse(err, "--%s is for conversations and preferences, and %s is a classifier: "
                          "leave it out", given, e->model);
    int rc = columns_check(&e->columns, e->eval_files.n || e->test_file, err);

    if (rc)
        return rc;
    if (e->task && e->data.n > 1)
        return err_misuse(err, "--task %s reads one folder: give --data once", e->task);
    if (e->task && !e->data.n)
        return err_misuse(err, "--data DIR is missing: the folder of %s with its development set",
                          e->task);
    if (e->task && (e->eval_files.n || e->test_file))
        return err_misuse(err, "--task takes its rows from --data: leave --eval-file and "
                               "--test-file out");
    if (!e->task && e->data.n)
        return err_misuse(err, "--data is for --task, or for a language model: leave it out if "
                               "--eval-file is given");
    if (!e->task && !e->predict != !e->test_file)
        return err_misuse(err, "--predict FILE and --test-file FILE go together: --test-file has "
                               "the rows, --predict gets the predictions");
    if (e->max_predict && !e->predict)
        return err_misuse(err, "--max-predict-samples is for predictions: give --predict FILE too, "
                               "or leave it out");
    return 0;
}

static int open_model(struct evaluation *v, struct err *err)
{
    struct model_folder ordered = *v->r;
    struct read_opts    read = v->e->read;
    uint64_t            most = 0;
    int                 rc = tune_seq(&read.seq, v->e->max_seq ? v->e->max_seq : read.seq,
                                      TUNE_SEQ, v->r->config.n_positions,
                                      v->e->tokenizer ? v->e->tokenizer : v->r->tokenizer, err);

    v->seq = read.seq;
    ordered.source = classes_source(&v->classes);
    for (size_t i = 0; i < v->parts; i++)
        most = v->part[i].rows.rows > most ? v->part[i].rows.rows : most;
    return rc ? rc : model_folder_evaluator(&v->by, &ordered, &read,
                                            &(struct evaluated){ .n = most }, err);
}

static int eval_task(const struct model_folder *r, const struct opt_line *line, struct err *err)
{
    const struct eval_opts *e = line->options;
    struct evaluation       v = { .r = r, .e = e };
    int                     rc;

    if ((rc = check(e, line, err)) || (rc = find_task(&v, err)) || (rc = add_parts(&v, err)) ||
        (rc = model_folder_tokenizer(&v.tok, r, e->tokenizer, err)))
        goto out;
    if (!(rc = open_model(&v, err)))
        rc = run_parts(&v, err);
out:
    evaluator_close(&v.by);
    tokenizer_close(v.tok);
    for (size_t i = 0; i < v.parts; i++)
        task_names_free(&v.part[i].rows.read);
    text_list_free(&v.own[0]);
    text_list_free(&v.own[1]);
    task_names_free(&v.trained);
    classes_close(&v.classes);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct eval_opts   *o = line->options;
    struct model_folder r = { 0 };
    enum model_which    which;

    int rc = predict_check_all(o, err);
    if (!rc && o->read.seq && o->max_seq && o->read.seq != o->max_seq)
        rc = err_misuse(err, "--seq and --max-seq are the same here; give one of them");
    rc = rc ? rc : model_which(&which, &o->model, &o->which, line, err);
    rc = rc ? rc : model_folder_open(&r, o->model, o->read.base, which,
                                     disk_name((size_t)o->read.disk), &say_events, err);
    rc = rc ? rc : model_folder_given(&r, o->tokenizer, err);
    if (!opt_given(line, "dtype"))
        o->read.dtype = -1;
    rc = rc ? rc : masking_opts_check(line, &o->mask, &r.config, err);
    const struct tune_opts tune = { .task = o->task, .eval_file = o->eval_files,
                                    .test_file = o->test_file };
    rc = rc ? rc : row_sources_check(&tune, err);
    rc = rc ? rc : row_sources_spool(&tune, P_tmpdir "/sitrain-eval", 1, &say_events, err);
    if (!rc && !arch_classifies(&r.config) && (o->eval_files.n || tune_chats(&tune)))
        rc = eval_chat(&r, line, err);
    else if (!rc && (o->task || o->eval_files.n || o->test_file || o->predict))
        rc = eval_task(&r, line, err);
    else if (!rc && arch_classifies(&r.config))
        rc = err_misuse(err, "%s is a classifier: --task TASK --data DIR, or --eval-file FILE, "
                        "says what it is evaluated on", o->model);
    else if (!rc)
        rc = eval_tokens(&r, line, err);
    model_folder_close(&r);
    return rc;
}

const struct opt_command eval_command = {
    .name = "eval",
    .usage = "RUN|HFDIR (--data FILE | --task TASK --data DIR | --eval-file FILE)",
    .summary = "measure the loss of a model on a file, or a classifier's metrics",
    .text = "A language model is evaluated on consecutive rows of --seq tokens. Each token is "
            "predicted from the tokens before it in its row. BERT and RoBERTa predict masked "
            "tokens from all others in the row; each evaluation masks the same tokens. With "
            "--eval-file, a language model is evaluated on the answers of conversations, or on "
            "preferences. A classifier or regressor is evaluated on the development set of a "
            "GLUE task, or on "
            "your own rows. If a run kept its best model (--keep-best), that model is evaluated; "
            "otherwise, the model after the last step, also of a run that is being trained.",
    .parts = parts, .size = sizeof(struct eval_opts), .run = run,
    .examples = { "siTrain eval first --data held-out.txt",
                  "siTrain eval mine --eval-file mine-dev.csv" },
};
