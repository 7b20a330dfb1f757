/* results.c: the files of run_glue.py, made from plain numbers and from run.db. log_history is in
 * memory while it is written: some hundred bytes a row, a row every logging_steps steps. */
#include "data/task/results.h"

#include "data/base/file.h"
#include "data/base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 + 256, SQL_BYTES = 512 };

/* ---- JSON objects ---- */

/* A number; null where it is not finite. */
static int put(json_t *to, const char *key, double v)
{
    return json_object_set_new(to, key, isfinite(v) ? json_real(v) : json_null());
}

static int put_count(json_t *to, const char *key, uint64_t v)
{
    return json_object_set_new(to, key, json_integer((json_int_t)v));
}

/* "eval_loss_mm" of "eval", "loss", "_mm". */
static int put_named(json_t *to, const char *prefix, const char *name, const char *suffix, double v)
{
    char key[128];

    snprintf(key, sizeof key, "%s_%s%s", prefix, name, suffix);
    return put(to, key, v);
}

static double rounded(double v, double unit)
{
    return round(v / unit) * unit;
}

/* runtime, samples_per_second, steps_per_second; no rates where no time was measured. */
static int put_speed(json_t *to, const char *prefix, const char *suffix, double seconds,
                     double samples, double steps)
{
    int bad = put_named(to, prefix, "runtime", suffix, rounded(seconds, 1e-4));

    if (seconds > 0) {
        bad |=
            put_named(to, prefix, "samples_per_second", suffix, rounded(samples / seconds, 1e-3));
        bad |= put_named(to, prefix, "steps_per_second", suffix, rounded(steps / seconds, 1e-3));
    }
    return bad;
}

static int no_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "no memory for the results");
}

static int write_json(const json_t *value, const char *dir, const char *name, int indent,
                      struct err *err)
{
    char path[PATH_BYTES];

    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return err_misuse(err, "the path %s/%s is too long", dir, name);
    return json_write_sorted(value, path, indent, err);
}

/* ---- the training's totals ---- */

struct totals { uint64_t steps, tokens; double loss, seconds; };

static double column(const char *text)
{
    return text ? strtod(text, NULL) : (double)NAN;
}

static int take_totals(void *ctx, int n, const char **values, const char **names)
{
    struct totals *t = ctx;

    (void)n, (void)names;
    t->steps = strtoull(values[0], NULL, 10);
    t->tokens = strtoull(values[1], NULL, 10);
    t->loss = column(values[2]);
    t->seconds = column(values[3]);
    return 0;
}

static double epoch_of(const struct results *r, uint64_t steps)
{
    assert(r->steps_per_epoch);
    return (double)steps / (double)r->steps_per_epoch;
}

/* What both train_results.json and the history's last row say. */
static int put_training(json_t *to, const struct results *r, const struct totals *t)
{
    double epoch = epoch_of(r, t->steps);
    int    bad = put(to, "epoch", epoch);

    bad |= put(to, "total_flos", r->flops_per_token * (double)t->tokens);
    bad |= put(to, "train_loss", t->loss);
    return bad | put_speed(to, "train", "", t->seconds, epoch * (double)r->train_samples,
                           (double)t->steps);
}

/* ---- the history ---- */

struct history { const struct results *r; json_t *rows; struct err *err; };

/* Columns: step (from 1), name (NULL: a training row), value or mean loss, rate, norm. An
 * evaluation's names share one row. */
static int take_history(void *ctx, int n, const char **values, const char **names)
{
    struct history *h = ctx;
    uint64_t        step = strtoull(values[0], NULL, 10);
    size_t          count = json_array_size(h->rows);
    json_t         *last = count ? json_array_get(h->rows, count - 1) : NULL;
    int             bad = 0;

    (void)n, (void)names;
    if (!values[1] || !last || json_object_get(last, "loss") ||
        json_integer_value(json_object_get(last, "step")) != (json_int_t)step) {
        last = json_object();
        bad = json_array_append_new(h->rows, last);
        bad = bad || put_count(last, "step", step) || put(last, "epoch", epoch_of(h->r, step));
    }
    if (bad)
        return no_memory(h->err);
    if (values[1])
        bad = put_named(last, "eval", values[1], "", column(values[2]));
    else
        bad = put(last, "loss", column(values[2])) ||
              put(last, "learning_rate", column(values[3])) ||
              put(last, "grad_norm", column(values[4]));
    return bad ? no_memory(h->err) : 0;
}

/* Beside max(step), SQLite gives the other columns of that row. Rows that are not full yet are left
 * out, as transformers does. */
static int read_history(json_t *rows, struct runlog *log, const struct results *r, struct err *err)
{
    struct history h = { r, rows, err };
    uint64_t       every = r->logging_steps ? r->logging_steps : 1;
    char           sql[SQL_BYTES];

    snprintf(sql, sizeof sql,
             "SELECT at + 1, name, value, lr, grad_norm FROM (SELECT max(step) AS at, NULL AS "
             "name, avg(loss) AS value, lr, grad_norm  FROM steps GROUP BY step / %" PRIu64
             " HAVING (max(step) + 1) %% %" PRIu64 " = 0  UNION ALL SELECT step, name, value, "
                                                   "NULL, NULL FROM evals) ORDER BY at, name",
             every, every); // NULL is before all names
    return runlog_query(log, sql, take_history, &h, err);
}

static int end_history(json_t *rows, const struct results *r, const struct totals *t)
{
    json_t *last = json_object();

    if (json_array_append_new(rows, last))
        return -1;
    return put_count(last, "step", t->steps) | put_training(last, r, t);
}

/* ---- trainer_state.json ---- */

static int put_best(json_t *to, const struct results *r)
{
    int bad =
        json_object_set_new(to, "best_model_checkpoint",
                            r->best_checkpoint ? json_string(r->best_checkpoint) : json_null());

    bad |= json_object_set_new(to, "best_global_step",
                               r->best_checkpoint ? json_integer((json_int_t)r->best_step + 1)
                                                  : json_null());
    return bad | put(to, "best_metric", r->best_checkpoint ? r->best_metric : (double)NAN);
}

static int put_state(json_t *to, const struct results *r, const struct totals *t)
{
    const struct { const char *key; uint64_t v;
    } counts[] = {
        { "eval_steps", r->eval_steps },        { "global_step", t->steps },
        { "logging_steps", r->logging_steps },  { "max_steps", r->max_steps },
        { "num_input_tokens_seen", t->tokens }, { "num_train_epochs", r->epochs },
        { "save_steps", r->save_steps },        { "train_batch_size", r->train_batch },
    };
    int bad = put_best(to, r);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        bad |= put_count(to, counts[i].key, counts[i].v);
    bad |= put(to, "epoch", epoch_of(r, t->steps));
    bad |= put(to, "total_flos", r->flops_per_token * (double)t->tokens);
    bad |= json_object_set_new(to, "is_hyper_param_search", json_false());
    bad |= json_object_set_new(to, "is_local_process_zero", json_true());
    bad |= json_object_set_new(to, "is_world_process_zero", json_true());
    bad |= json_object_set_new(to, "stateful_callbacks", json_object());
    bad |= json_object_set_new(to, "trial_name", json_null());
    return bad | json_object_set_new(to, "trial_params", json_null());
}

static int write_state(const char *dir, struct runlog *log, const struct results *r,
                       const struct totals *t, struct err *err)
{
    json_t *state = json_object(), *rows = json_array();
    int     rc = 0;

    if (json_object_set_new(state, "log_history", rows) || put_state(state, r, t))
        rc = no_memory(err);
    if (!rc)
        rc = read_history(rows, log, r, err);
    if (!rc && end_history(rows, r, t))
        rc = no_memory(err);
    if (!rc)
        rc = write_json(state, dir, "trainer_state.json", 2, err);
    json_decref(state);
    return rc;
}

/* ---- results ---- */

/* One file's evaluation. t: NULL where nothing was trained. */
static int put_eval(json_t *to, const struct results *r, size_t split, const struct totals *t)
{
    const struct task         *task = r->task;
    const struct results_eval *e = &r->eval[split];
    const char *suffix = task->suffix[split] ? task->suffix[split] : "";
    double      sum = 0;
    char        key[32];
    int         bad = put_named(to, "eval", "loss", suffix, e->loss);

    for (size_t k = 0; k < task->n_metrics; k++) {
        bad |= put_named(to, "eval", metric_names[task->metric[k]], suffix, e->metric[k]);
        sum += e->metric[k];
    }
    if (task->n_metrics > 1)
        bad |= put_named(to, "eval", "combined_score", suffix, sum / (double)task->n_metrics);
    snprintf(key, sizeof key, "eval_samples%s", suffix);
    bad |= put_count(to, key, e->samples);
    snprintf(key, sizeof key, "epoch%s", suffix);
    if (t)
        bad |= put(to, key, epoch_of(r, t->steps));
    return bad | put_speed(to, "eval", suffix, e->seconds, (double)e->samples, (double)e->batches);
}

/* t: NULL where nothing was trained. */
static int write_parts(const char *dir, const struct results *r, const struct totals *t,
                       struct err *err)
{
    json_t *train = json_object(), *eval = json_object(), *all = json_object();
    int     bad =
            t ? put_training(train, r, t) | put_count(train, "train_samples", r->train_samples) : 0,
        rc = 0;

    for (size_t i = 0; i < r->n_evals; i++)
        bad |= put_eval(eval, r, i, t);
    if (bad || json_object_update(all, train) || json_object_update(all, eval))
        rc = no_memory(err);
    if (!rc && t)
        rc = write_json(train, dir, "train_results.json", 4, err);
    if (!rc && r->n_evals)
        rc = write_json(eval, dir, "eval_results.json", 4, err);
    if (!rc)
        rc = write_json(all, dir, "all_results.json", 4, err);
    json_decref(train);
    json_decref(eval);
    json_decref(all);
    return rc;
}

int results_write(const char *dir, struct runlog *log, const struct results *r, struct err *err)
{
    struct totals t = { 0 };
    int           rc;

    assert(r->n_evals <= TASK_SPLITS);
    if (!log)
        return write_parts(dir, r, NULL, err);
    rc = runlog_query(log,
                      "SELECT coalesce(max(step) + 1, 0), coalesce(sum(tokens), 0), avg(loss), "
                      "total(seconds) FROM steps",
                      take_totals, &t, err);
    if (!rc)
        rc = write_parts(dir, r, &t, err);
    return rc ? rc : write_state(dir, log, r, &t, err);
}

/* ---- predictions ---- */

static int write_rows(FILE *f, const struct task *task, const int32_t *classes, const float *values,
                      size_t n)
{
    int bad = fputs("index\tprediction\n", f) < 0;

    for (size_t i = 0; i < n && !bad; i++) {
        if (task->n_labels > 1)
            bad = fprintf(f, "%zu\t%s\n", i, task->labels[classes[i]]) < 0;
        else if (isnan(values[i]))
            bad = fprintf(f, "%zu\tnan\n", i) < 0;
        else
            bad = fprintf(f, "%zu\t%.3f\n", i, (double)values[i]) < 0;
    }
    return bad;
}

void results_predictions_name(char *out, size_t size, const struct task *task, size_t split)
{
    snprintf(out, size, "predict_results_%s.txt",
             split ? "mnli-mm" : strcmp(task->name, "custom") ? task->name : "None");
}

int results_predictions(const char *path, const struct task *task, const int32_t *classes,
                        const float *values, size_t n, struct err *err)
{
    struct file_new out;
    FILE           *f;
    int             rc, fd, bad = 1;

    rc = file_new_open(&out, path, err);
    if (rc)
        return rc;
    fd = dup(out.fd);
    f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f) {
        bad = write_rows(f, task, classes, values, n);
        bad |= fclose(f);
    } else if (fd >= 0) {
        close(fd);
    }
    if (!bad)
        return file_new_commit(&out, err);
    rc = err_set(err, errno ? -errno : -EIO, "write %s: %s", path, strerror(errno));
    file_new_abort(&out);
    return rc;
}
