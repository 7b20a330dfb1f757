/* eval_task.c: rows are tokenised into a file without a name and go through the model in order.
 * Where the model calls its classes as the task does, but has them in another order, the rows of
 * its head are read in the task's. */
#include "cmd/eval_task.h"

#include "cmd/run/classes.h"
#include "cmd/run/columns.h"
#include "cmd/run/encode.h"
#include "cmd/run/evaluate.h"
#include "cmd/run/labelled.h"
#include "cmd/say/say.h"
#include "data/base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file of rows: to be evaluated, or, where its labels are not looked at, predicted. */
struct part { struct encode rows; size_t split; };

struct evaluation {
    const struct model_folder    *r;
    const struct eval_opts *e;
    struct task             task;
    struct task_names       trained;  // columns that the run was trained on
    struct task_names       columns;  // borrowed
    struct classes          classes;  // the model's
    struct tokenizer       *tok;
    struct evaluator        by;
    size_t                  seq;
    struct part             part[2 * TASK_SPLITS];
    size_t                  parts;
};

/* ---- the task and the model's classes ---- */

/* The task of one's own rows: the model's classes by their names; LABEL_1 is called 1 in a file. */
static void own_task(struct evaluation *v)
{
    struct hf_labels *l = &v->classes.names;
    int               named = classes_named(&v->classes);

    for (size_t i = 0; i < l->n && !named; i++)
        memmove(l->name[i], l->name[i] + strlen("LABEL_"),
                strlen(l->name[i] + strlen("LABEL_")) + 1);
    v->task = task_custom((const char *const *)l->name, v->r->gpt.n_labels);
}

/* Which row of the head is which class: by name where the names are the task's. */
static void match_classes(struct evaluation *v)
{
    const struct task *t = &v->task;

    if (!classes_match(&v->classes, t->labels, t->n_labels) && t->n_labels > 1 &&
        classes_named(&v->classes))
        fprintf(stderr,
                "siTrain: %s calls its classes otherwise than the task: they are taken in its "
                "order, %s is %s\n",
                v->e->model, t->labels[0], v->classes.names.name[0]);
}

static int find_task(struct evaluation *v, struct err *err)
{
    const struct task *known = v->e->task ? task_find(v->e->task) : NULL;
    size_t             n = v->r->gpt.n_labels;
    int                rc;

    if (n == 0)
        return err_misuse(err,
                          "%s is a language model, without a head for classes: eval --data FILE "
                          "gives its loss, finetune trains one",
                          v->e->model);
    if (v->e->task && !known)
        return opt_words_refuse("task", v->e->task, task_word, err);
    if (known && known->n_labels != n)
        return err_misuse(err, "the head of %s has %zu class%s, %s has %zu%s", v->e->model, n,
                          n == 1 ? " (a regressor)" : "es", known->title, known->n_labels,
                          known->n_labels == 1 ? " (regression)" : "");
    rc = classes_open(&v->classes, v->r, v->e->model, err);
    if (rc)
        return rc;
    if (known)
        v->task = *known;
    else
        own_task(v);
    match_classes(v);
    return 0;
}

/* ---- rows ---- */

static int add_part(struct evaluation *v, size_t split, const char *file, int labels,
                    struct err *err)
{
    const struct eval_opts *e = v->e;
    struct part            *p = &v->part[v->parts++];
    char                    notice[512];
    int                     rc;

    *p = (struct part){ { .name = "rows",
                          .task = &v->task,
                          .own = !e->task,
                          .asked = v->columns,
                          .labels = labels,
                          .most = labels ? e->max_eval : e->max_predict,
                          .events = &say_events },
                        split };
    if (snprintf(p->rows.path, sizeof p->rows.path, "%s%s%s", e->task ? e->data : "",
                 e->task ? "/" : "", file) >= (int)sizeof p->rows.path)
        return err_misuse(err, "%s: the path is too long", file);
    rc = encode_check(&p->rows, err);
    for (int i = 0; i < 2 && !rc; i++) {
        encode_notice(&p->rows, i, notice, sizeof notice);
        if (*notice)
            fprintf(stderr, "siTrain: %s\n", notice);
    }
    return rc;
}

/* What was not asked for is as it was when the run was trained. */
static void pick_columns(struct evaluation *v)
{
    if (!v->r->hf)
        columns_load(&v->trained, &v->r->run);
    v->columns = v->e->columns;
    if (!v->columns.text) {
        v->columns.text = v->trained.text;
        v->columns.pair = v->trained.pair;
    }
    if (!v->columns.label)
        v->columns.label = v->trained.label;
}

/* What is evaluated, then what is predicted: all of it is read once before anything is computed. */
static int add_parts(struct evaluation *v, struct err *err)
{
    const struct eval_opts *e = v->e;
    int                     rc = 0;

    pick_columns(v);
    if (e->eval_file)
        rc = add_part(v, 0, e->eval_file, 1, err);
    if (!rc && e->test_file)
        rc = add_part(v, 0, e->test_file, 0, err);
    for (size_t i = 0; i < TASK_SPLITS && e->task && v->task.dev[i] && !rc; i++)
        rc = add_part(v, i, v->task.dev[i], 1, err);
    for (size_t i = 0; i < TASK_SPLITS && e->task && e->predict && v->task.tests[i] && !rc; i++)
        rc = add_part(v, i, v->task.tests[i], 0, err);
    return rc;
}

/* Its rows as examples, in a file whose name is gone when it is open, itself when it is closed. */
static int open_rows(struct examples **out, const struct evaluation *v, const struct part *p,
                     struct err *err)
{
    struct file_new scratch;
    char            path[64];
    uint32_t        sum;
    int             rc = file_new_scratch(&scratch, EVAL_SCRATCH, err);

    *out = NULL;
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s/rows.ex", scratch.temp);
    rc = encode_file(&p->rows, v->tok, v->seq,
                     model_folder_pad(v->r, v->e->model, tokenizer_endoftext(v->tok)), path, &sum,
                     err);
    if (!rc)
        rc = examples_open(out, path, err);
    file_new_abort(&scratch);
    return rc;
}

static int eval_part(const struct evaluation *v, const struct part *part, struct err *err)
{
    const struct task  *t = &v->task;
    const char         *suffix = part->split ? t->suffix[part->split] : "";
    struct results_eval found;
    struct examples    *x = NULL;
    int                 rc = open_rows(&x, v, part, err);

    if (!rc)
        rc = evaluate_examples(&v->by, x, t, 0, &found, err);
    examples_close(x);
    if (rc)
        return rc;
    printf("loss%s %.6f\n", suffix, found.loss);
    for (size_t i = 0; i < t->n_metrics; i++)
        printf("%s%s %.6f\n", metric_names[t->metric[i]], suffix, found.metric[i]);
    if (t->n_metrics > 1)
        printf("combined_score%s %.6f\n", suffix, evaluate_combined(t, &found));
    return 0;
}

/* ---- predictions ---- */

static int predict_part(const struct evaluation *v, const struct part *part, struct err *err)
{
    struct predictions p = { 0 };
    struct examples   *x = NULL;
    char               to[4096];
    double             loss;
    int                rc = 0;

    if (snprintf(to, sizeof to, "%s%s", v->e->predict, part->split ? "-mm" : "") >= (int)sizeof to)
        rc = err_misuse(err, "%s: the path is too long", v->e->predict);
    if (!rc)
        rc = open_rows(&x, v, part, err);
    if (!rc)
        rc = evaluate_predict(&v->by, x, v->task.n_labels, 0, &p, &loss, err);
    if (!rc)
        rc = results_predictions(to, &v->task, p.classes, p.values, p.n, err);
    predictions_free(&p);
    examples_close(x);
    return rc;
}

/* ---- the command's part ---- */

static int check(const struct eval_opts *e, struct err *err)
{
    int rc = columns_check(&e->columns, e->eval_file || e->test_file, err);

    if (rc)
        return rc;
    if (e->task && !e->data)
        return err_misuse(err, "--data DIR is missing: the folder of %s with its development set",
                          e->task);
    if (e->task && (e->eval_file || e->test_file))
        return err_misuse(err, "--task takes its rows from --data: leave --eval-file and "
                               "--test-file out");
    if (!e->task && e->data)
        return err_misuse(err, "--data goes with --task, or alone with a language model: leave it "
                               "out where --eval-file says what is read");
    if (!e->task && !e->predict != !e->test_file)
        return err_misuse(err, "--predict FILE and --test-file FILE go together: where predictions "
                               "go, and which rows");
    if (e->predict)
        return file_may_replace(e->predict, (const char *const[]){ e->eval_file, e->test_file }, 2,
                                err);
    return 0;
}

static int open_model(struct evaluation *v, struct err *err)
{
    struct model_folder ordered = *v->r;
    struct read_opts    read = v->e->read;
    uint64_t            most = 0;

    v->seq = labelled_seq(v->e->max_seq ? v->e->max_seq : read.seq, v->r->gpt.n_positions);
    read.seq = v->seq;
    ordered.source = classes_source(&v->classes);
    for (size_t i = 0; i < v->parts; i++)
        most = v->part[i].rows.rows > most ? v->part[i].rows.rows : most;
    return model_folder_evaluator(&v->by, &ordered, &read, most, err);
}

static int run_parts(const struct evaluation *v, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < v->parts && !rc; i++)
        rc = v->part[i].rows.labels ? eval_part(v, &v->part[i], err)
                                    : predict_part(v, &v->part[i], err);
    return rc;
}

int eval_task(const struct model_folder *r, const struct eval_opts *e, struct err *err)
{
    struct evaluation v = { .r = r, .e = e };
    int               rc = check(e, err);

    if (!rc)
        rc = find_task(&v, err);
    if (!rc)
        rc = add_parts(&v, err);
    if (!rc)
        rc = model_folder_tokenizer(&v.tok, r, e->tokenizer, err);
    if (!rc && tokenizer_vocab(v.tok) > r->gpt.vocab)
        rc = err_misuse(err, "the tokenizer has %zu ids, more than the model's vocabulary of %zu",
                        tokenizer_vocab(v.tok), r->gpt.vocab);
    if (!rc)
        rc = open_model(&v, err);
    if (!rc)
        rc = run_parts(&v, err);
    evaluator_close(&v.by);
    tokenizer_close(v.tok);
    for (size_t i = 0; i < v.parts; i++)
        encode_release(&v.part[i].rows);
    task_names_free(&v.trained);
    classes_close(&v.classes);
    return rc;
}
