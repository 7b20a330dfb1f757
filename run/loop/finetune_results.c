/* finetune_results.c: writes the last evaluation in run.db (with --keep-best: the best one) to
 * files, and the predictions. */
#include "run/loop/finetune_results.h"

#include "data/file/file.h"
#include "data/base/round.h"
#include "model/file/hf.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/loop/best.h"
#include "run/loop/model_folder.h"
#include "run/sources/evaluate.h"
#include "run/sources/source.h"

#include <math.h>
#include <unistd.h>

/* ---- results ---- */

struct eval_rows { const struct task *task; struct results_eval *eval; int found; };

/* Store a row of the table evals. Its name says which split and metric it belongs to. */
static int take_row(void *ctx, int n, const char **values, const char **names)
{
    struct eval_rows *e = ctx;

    (void)n, (void)names;
    e->found = 1;
    for (size_t i = 0; i < TASK_SPLITS; i++) {
        const struct task *t = e->task;
        const char        *suffix = i ? t->suffix[i] : "";
        char               name[64];

        if (i && (!suffix || !*suffix))
            continue;
        for (size_t k = 0; k < RESULTS_REWARDS && !i; k++)
            if (!strcmp(values[0], results_rewards[k]))
                e->eval->rewards[k] = runlog_real(values[1]);
        for (size_t k = 0; k <= t->n_metrics; k++) {
            int loss = k == t->n_metrics;

            snprintf(name, sizeof name, "%s%s", loss ? "loss" : metric_names[t->metric[k]], suffix);
            if (!strcmp(values[0], name))
                *(loss ? &e->eval[i].loss : &e->eval[i].metric[k]) =
                    runlog_real(values[1]);
        }
    }
    return 0;
}

/* Load the evaluation after step `step`; n_evals is 0 if there was none. A value lost to damage
 * becomes NaN. */
static int take_evals(struct results *r, struct session *s, uint64_t step, const double *seconds,
                      struct err *err)
{
    struct eval_rows rows = { r->task, r->eval, 0 };
    char             sql[160];

    for (size_t i = 0; i < TASK_SPLITS; i++) {
        struct results_eval *v = &r->eval[i];

        v->samples = task_files_rows(s, run_dev[i]);
        v->batches = div_up(v->samples, s->o.batch);
        v->samples /= s->rows == SESSION_PAIRS ? 2 : 1;
        v->seconds = seconds[i];
        v->loss = v->metric[0] = v->metric[1] = (double)NAN;
        for (size_t k = 0; k < RESULTS_REWARDS; k++)
            v->rewards[k] = (double)NAN;
        r->n_evals += v->samples > 0;
    }
    snprintf(sql, sizeof sql,
             "SELECT name, CASE WHEN value IS NOT NULL THEN printf('%%!.17g', value) END"
             " FROM evals WHERE step = %" PRIu64, step); // printf turns NULL into 0
    int rc = runlog_query(s->log, sql, take_row, &rows, err);
    if (!rows.found)
        r->n_evals = 0;
    return rc;
}

/* Write the result files. steps: steps done; a resume may have named an earlier end. */
static int write_results(struct finetune_results *out, struct session *s, uint64_t steps,
                         const struct best *best, struct err *err)
{
    const struct task *task = &out->labels.task;
    const struct model_config *g = &s->config;
    double   seconds[TASK_SPLITS] = { 0 };
    uint64_t rows = task_files_rows(s, RUN_TRAIN);

    for (size_t i = 0; i < TASK_SPLITS; i++)
        settings_scan(s->log, "%lf", &seconds[i], "%s.seconds", run_dev[i]);
    out->step = best->any ? best->step : steps - 1;
    out->results = (struct results){
        .task = task,
        .train_samples = s->rows == SESSION_PAIRS ? rows / 2 : rows,
        .paired = s->rows == SESSION_PAIRS,
        .steps_per_epoch = source_epoch_steps(s),
        .max_steps = steps,
        .train_batch = s->o.batch,
        .logging_steps = s->o.log_every,
        .eval_steps = s->o.eval_every ? s->o.eval_every : steps,
        .save_steps = s->run.mode == RUN_MEM ? s->o.commit_every : 1,
        .flops_per_token = 6.0 * (double)(arch_total(g) - arch_embeddings(g)),
        .best_checkpoint = best->any ? out->model : NULL,
        .best_step = best->step,
        .best_metric = best->value,
        .put = result_files_put,
        .put_ctx = &out->files,
    };
    out->results.epochs = (steps + out->results.steps_per_epoch - 1) / out->results.steps_per_epoch;
    int rc = take_evals(&out->results, s, out->step, best->any ? best->seconds : seconds, err);
    rc = rc ? rc : results_write(s->dir, s->log, &out->results, err);
    if (!rc && !task_find(task->name))
        out->file = settings_get(s->log, "dev.file");
    return rc;
}

/* ---- predictions ---- */

enum { NAME = 64 };

/* Looks whether the model's predictions of this split exist: *there. A file that siTrain did not
 * write is refused. Predictions of an older model are emptied, since the new model may get none. */
static int predictions_look(int *there, struct finetune_results *o, size_t split, int trained,
                            struct err *err)
{
    char     name[NAME], path[SESSION_PATH + NAME];
    uint64_t of = o->step; // default: an older version stored no step
    int      rc = 0;

    results_predictions_name(name, sizeof name, &o->labels.task, split);
    snprintf(path, sizeof path, "%s/%s", o->dir, name);
    result_files_check(&o->files, name);
    settings_scan(o->files.log, "%" SCNu64, &of, "predicted.step");
    int older = trained || of != o->step;
    if (older) // of no step, until new ones have their names
        rc = settings_set(o->files.log, err, "predicted.step=%" PRIu64, UINT64_MAX);
    if (older && !rc)
        rc = result_files_blank(&o->files, name, err);
    *there = !older && file_may_be(path);
    return rc;
}

/* Record existing files of a version without checksums. Result files are siTrain's if they equal
 * what this version would write. Predictions next to them are siTrain's if they have one line per
 * row. */
static int know_older(struct finetune_results *o, struct session *s, uint64_t before,
                      struct err *err)
{
    struct best best = { 0 };
    int         rc = s->o.keep_best ? best_load(&best, s, err) : 0;

    o->files.known = 1;
    rc = rc ? rc : write_results(o, s, before, &best, err);
    int older = !rc && settings_has(s->log, "result.trainer_state.json");
    for (size_t i = 0; i < TASK_SPLITS && older && !rc; i++) {
        char     name[NAME];
        uint64_t rows = task_files_rows(s, run_test[i]);

        results_predictions_name(name, sizeof name, &o->labels.task, i);
        rc = rows ? result_files_know(&o->files, name, "index\tprediction\n", rows, err) : 0;
    }
    o->files.known = 0;
    return rc;
}

/* Refuses, before training, to go on with a RUN/best whose config.json cannot be read: unless a
 * better model comes, that model makes the predictions at the end. An adapter has no
 * config.json. */
static int best_check(const struct finetune_results *o, struct session *s, struct err *err)
{
    struct model_config g;
    struct best         best = { 0 };
    uint64_t            rows = task_files_rows(s, run_test[0]) + task_files_rows(s, run_test[1]);

    if (!rows || !s->o.keep_best || s->config.lora.rank || !file_may_be(o->model))
        return 0;
    int rc = best_load(&best, s, err);
    if (rc || !best.any)
        return rc;
    rc = hf_config(&g, o->model, err);
    return rc ? err_set(err, rc, "%s; the model in %s makes the predictions: put a copy of the "
                        "file there, or move %s elsewhere", err->text, o->model, o->model)
              : 0;
}

int finetune_results_check(struct session *s, uint64_t before, struct err *err)
{
    const struct run_file  *f;
    struct finetune_results o = { .files = { .dir = s->dir, .log = s->log } };
    int                     rc = task_labels_load(&o.labels, s, err);

    snprintf(o.model, sizeof o.model, "%s/best", s->dir);
    rc = rc ? rc : best_check(&o, s, err);
    if (!rc && before && !settings_has(s->log, "result.trainer_state.json"))
        rc = know_older(&o, s, before, err);
    for (size_t i = 0; !rc && (f = run_file_at(i)); i++)
        if (f->kind == RUN_FILE_RESULT)
            result_files_check(&o.files, f->pattern);
    for (size_t i = 0; i < TASK_SPLITS && !rc; i++)
        if (task_files_rows(s, run_test[i])) {
            char name[NAME];

            results_predictions_name(name, sizeof name, &o.labels.task, i);
            result_files_check(&o.files, name);
        }
    finetune_results_release(&o);
    return rc ? rc : result_files_end(&o.files, err);
}

int finetune_results_write(struct finetune_results *out, struct session *s, uint64_t before,
                           struct err *err)
{
    struct best best = { 0 };
    uint64_t    now, applied;
    int         rc = run_position(&s->run, &now, &applied, err), trained = before < now;

    rc = rc ? rc : task_labels_load(&out->labels, s, err);
    if (!rc && s->o.keep_best)
        rc = best_load(&best, s, err);
    if (rc)
        return rc;
    snprintf(out->dir, sizeof out->dir, "%s", s->dir);
    out->files = (struct result_files){ .dir = out->dir, .log = s->log };
    snprintf(out->model, sizeof out->model, "%s%s", s->dir, best.any ? "/best" : "");
    out->adapted = best.any && s->config.lora.rank; // RUN/best is an adapter, and RUN has its base
    out->read = (struct read_opts){ .seq = s->o.seq, .batch = s->o.batch, .dtype = s->o.dtype,
                                    .host_mem = s->o.host_mem, .blas = s->o.blas,
                                    .threads = s->o.threads };
    out->events = s->events;
    out->test_rows = size_max(task_files_rows(s, run_test[0]), task_files_rows(s, run_test[1]));
    rc = write_results(out, s, now, &best, err);
    if (rc || *out->files.first.text)
        out->results.n_evals = 0; // the files were not written
    for (size_t i = 0; i < TASK_SPLITS && !rc; i++) {
        int there = 1;

        if (task_files_rows(s, run_test[i]))
            rc = predictions_look(&there, out, i, trained, err);
        if (!rc && !there)
            rc = task_files_open(&out->test[i], s, run_test[i], err);
    }
    out->how = now < s->o.steps ? ENDING_EARLY : ENDING_STEPS;
    if (!rc && !out->test[0] && !out->test[1])
        rc = ending_record(s->log, out->how, err);
    out->files.log = NULL; // the session closes it
    return rc;
}

void finetune_results_release(struct finetune_results *o)
{
    for (size_t i = 0; i < TASK_SPLITS; i++)
        examples_close(o->test[i]);
    task_labels_release(&o->labels);
    free(o->file);
}

static int put_predictions(struct finetune_results *o, size_t split, const char *text, size_t n,
                           struct err *err)
{
    char name[NAME];

    results_predictions_name(name, sizeof name, &o->labels.task, split);
    return result_files_put(&o->files, name, text, n, err);
}

static int predict(struct finetune_results *o, struct err *err)
{
    struct model_folder r;
    struct evaluator    e = { 0 };
    char               *text[TASK_SPLITS] = { NULL };
    size_t              n[TASK_SPLITS];

    if (o->results.best_checkpoint && !o->adapted && !hf_is_folder(o->model))
        return err_set(err, -ENOENT, "%s is not there any more, or has no config.json: put a copy "
                       "of the best model there, and go on with --resume, for the predictions",
                       o->model);
    int rc = model_folder_open(&r, o->adapted ? o->dir : o->model, NULL,
                               o->adapted ? MODEL_BEST : MODEL_LAST, NULL, o->events, err);

    rc = rc ? rc : model_folder_evaluator(&e, &r, &o->read,
                                            &(struct evaluated){ .n = o->test_rows }, err);
    for (size_t i = 0; i < TASK_SPLITS && !rc; i++)
        if (o->test[i])
            rc = evaluate_predict(&e, o->test[i], &o->labels.task, &text[i], &n[i], err);
    evaluator_close(&e);
    model_folder_close(&r);
    if (!rc) // only after the model is closed: it may be this run's
        rc = runlog_open_in(&o->files.log, o->dir, 0, err);
    for (size_t i = 0; i < TASK_SPLITS; i++) {
        if (text[i] && !rc)
            rc = put_predictions(o, i, text[i], n[i], err);
        free(text[i]);
    }
    if (!rc) // after all of them: until then a file is an older model's, or empty
        rc = settings_set(o->files.log, err, "predicted.step=%" PRIu64, o->step);
    rc = rc ? rc : ending_record(o->files.log, o->how, err);
    runlog_close(o->files.log);
    o->files.log = NULL;
    return rc;
}

int finetune_results_predict(struct finetune_results *o, struct err *err)
{
    int rc = o->test[0] || o->test[1] ? predict(o, err) : 0;

    return rc ? rc : result_files_end(&o->files, err);
}
