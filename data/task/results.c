/* results.c: writes the files of run_glue.py from plain numbers and from run.db. log_history is in
 * memory while it is written, some hundred bytes for each row. */
#include "data/task/results.h"

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/base/visible.h"

#include <assert.h>
#include <math.h>

enum { SQL_BYTES = 640 };

const char *const results_rewards[RESULTS_REWARDS] = { "rewards/chosen", "rewards/rejected",
                                                       "rewards/accuracies", "rewards/margins" };

#define FINITE "abs(loss) < 9e999" // and not NULL, as SQLite has a NaN

/* ---- JSON objects ---- */

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *count(uint64_t v) { return json_integer((json_int_t)v); }

/* Puts a value under a name such as "eval_loss_mm", from "eval", "loss" and "_mm". */
static int put(json_t *to, const char *prefix, const char *name, const char *suffix, json_t *v)
{
    char key[128];

    snprintf(key, sizeof key, "%s_%s%s", prefix, name, suffix);
    return json_object_set_new(to, key, v);
}

static json_t *rounded(double v, double unit) { return number(round(v / unit) * unit); }

/* Puts runtime, samples_per_second and steps_per_second. Without a measured time, no rates. */
static int put_speed(json_t *to, const char *prefix, const char *suffix, double seconds,
                     double samples, double steps)
{
    int bad = put(to, prefix, "runtime", suffix, rounded(seconds, 1e-4));

    if (seconds > 0) {
        bad |= put(to, prefix, "samples_per_second", suffix, rounded(samples / seconds, 1e-3));
        bad |= put(to, prefix, "steps_per_second", suffix, rounded(steps / seconds, 1e-3));
    }
    return bad;
}

static int no_memory(struct err *err) { return err_set(err, -ENOMEM, "no memory for the results"); }

static int write_json(const json_t *value, const char *dir, const char *name, int indent,
                      const struct results *r, struct err *err)
{
    size_t flags = JSON_INDENT((size_t)indent) | JSON_FIGURES;
    char  *text = r->put ? json_written(value, flags) : file_path(err, "%s/%s", dir, name);
    int    rc = !text    ? no_memory(err)
                : r->put ? r->put(r->put_ctx, name, text, strlen(text), err)
                         : json_write(value, text, flags, err);

    free(text);
    return rc;
}

/* ---- the training's totals ---- */

struct totals { uint64_t steps, tokens, finite; double loss, seconds; };

static int take_totals(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(struct totals *)ctx = (struct totals){ runlog_count(values[0]), runlog_count(values[1]),
                                             runlog_count(values[2]), runlog_real(values[3]),
                                             runlog_real(values[4]) };
    return 0;
}

/* If the mean is of fewer losses than there were steps, puts their number. */
static int put_finite(json_t *to, const char *key, uint64_t finite, uint64_t steps)
{
    return finite < steps ? json_object_set_new(to, key, count(finite)) : 0;
}

static double epoch_of(const struct results *r, uint64_t steps)
{
    assert(r->steps_per_epoch);
    return (double)steps / (double)r->steps_per_epoch;
}

static json_t *flops_of(const struct results *r, const struct totals *t)
{
    return number(r->flops_per_token * (double)t->tokens);
}

/* Puts the figures that train_results.json and the last row of the history share. */
static int put_training(json_t *to, const struct results *r, const struct totals *t)
{
    double epoch = epoch_of(r, t->steps);
    int    bad = json_object_update_new(to, json_pack("{s:o, s:o, s:o}", "epoch", number(epoch),
                                                      "total_flos", flops_of(r, t),
                                                      "train_loss", number(t->loss)));

    bad |= put_finite(to, "train_finite_steps", t->finite, t->steps);
    return bad | put_speed(to, "train", "", t->seconds, epoch * (double)r->train_samples,
                           (double)t->steps);
}

/* ---- the history ---- */

struct history { const struct results *r; json_t *rows; struct err *err; };

/* Columns: step (from 1), name (NULL: a training row), value or mean loss, rate, norm, steps of
 * the row and those whose loss is a number. An evaluation's names share one row. */
static int take_history(void *ctx, int n, const char **values, const char **names)
{
    struct history *h = ctx;
    uint64_t        step = runlog_count(values[0]);
    json_t         *last = json_array_get(h->rows, json_array_size(h->rows) - 1);
    int             bad = 0;

    (void)n, (void)names;
    if (!values[1] || !last || json_object_get(last, "loss") ||
        json_integer_value(json_object_get(last, "step")) != (json_int_t)step) {
        last = json_pack("{s:o, s:o}", "step", count(step), "epoch", number(epoch_of(h->r, step)));
        bad = json_array_append_new(h->rows, last);
    }
    if (!bad && values[1])
        bad = put(last, "eval", values[1], "", number(runlog_real(values[2])));
    else if (!bad)
        bad = json_object_update_new(
            last, json_pack("{s:o, s:o, s:o}", "loss", number(runlog_real(values[2])),
                            "learning_rate", number(runlog_real(values[3])), "grad_norm",
                            number(runlog_real(values[4])))) |
              put_finite(last, "finite_steps", runlog_count(values[6]), runlog_count(values[5]));
    return bad ? no_memory(h->err) : 0;
}

/* Beside max(step), SQLite gives the other columns of that row. Rows that are not full yet are left
 * out, as transformers does. NULL is before all names. */
static int read_history(json_t *rows, struct runlog *log, const struct results *r, struct err *err)
{
    struct history h = { r, rows, err };
    uint64_t       every = r->logging_steps ? r->logging_steps : 1;
    char           sql[SQL_BYTES];

    snprintf(sql, sizeof sql, "SELECT at + 1, name, value, lr, grad_norm, n, finite FROM (SELECT "
             "max(step) AS at, NULL AS name, avg(loss) FILTER (WHERE " FINITE ") AS value, lr, "
             "grad_norm, count(*) AS n, count(*) FILTER (WHERE " FINITE ") AS finite FROM steps "
             "GROUP BY step / %" PRIu64 " HAVING (max(step) + 1) %% %" PRIu64 " = 0 UNION ALL "
             "SELECT step, name, value, NULL, NULL, 1, 1 FROM evals) ORDER BY at, name",
             every, every);
    return runlog_query(log, sql, take_history, &h, err);
}

/* Adds a step's rewards to its row of the history. Both come by steps. */
struct rewarding { json_t *rows; size_t at; struct err *err; };

static int take_rewards(void *ctx, int n, const char **values, const char **names)
{
    struct rewarding *w = ctx;
    json_t           *row;
    int               bad = 0;

    (void)n, (void)names;
    for (; (row = json_array_get(w->rows, w->at)); w->at++)
        if (json_object_get(row, "loss") && json_integer_value(json_object_get(row, "step")) >=
                                                (json_int_t)runlog_count(values[0]))
            break;
    if (!row ||
        json_integer_value(json_object_get(row, "step")) != (json_int_t)runlog_count(values[0]))
        return 0;
    for (size_t k = 0; k < RESULTS_REWARDS; k++)
        bad |= json_object_set_new(row, results_rewards[k], number(runlog_real(values[k + 1])));
    return bad ? no_memory(w->err) : 0;
}

static int read_rewards(json_t *rows, struct runlog *log, const struct results *r, struct err *err)
{
    struct rewarding w = { rows, 0, err };
    uint64_t         every = r->logging_steps ? r->logging_steps : 1;

    return runlog_ask(log, take_rewards, &w, err,
                      "SELECT max(step) + 1, avg(chosen), avg(rejected), avg(accuracy),"
                      " avg(chosen - rejected) FROM rewards GROUP BY step / %" PRIu64
                      " HAVING (max(step) + 1) %% %" PRIu64 " = 0 ORDER BY 1", every, every);
}

/* ---- trainer_state.json ---- */

static json_t *state_make(const struct results *r, const struct totals *t)
{
    const char *best = r->best_checkpoint;

    return json_pack(
        "{s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:{}, "
        "s:n, s:n}",
        "best_model_checkpoint", best, "best_global_step",
        best ? count(r->best_step + 1) : json_null(), "best_metric",
        number(best ? r->best_metric : (double)NAN), "eval_steps", count(r->eval_steps),
        "global_step", count(t->steps), "logging_steps", count(r->logging_steps), "max_steps",
        count(r->max_steps), "num_input_tokens_seen", count(t->tokens), "num_train_epochs",
        count(r->epochs), "save_steps", count(r->save_steps), "train_batch_size",
        count(r->train_batch), "epoch", number(epoch_of(r, t->steps)), "total_flos",
        flops_of(r, t), "is_hyper_param_search", 0, "is_local_process_zero", 1,
        "is_world_process_zero", 1, "stateful_callbacks", "trial_name", "trial_params");
}

static int write_state(const char *dir, struct runlog *log, const struct results *r,
                       const struct totals *t, struct err *err)
{
    json_t *state = state_make(r, t), *rows = json_array(), *last = json_object();
    int     rc = json_object_set_new(state, "log_history", rows) ? no_memory(err) : 0;

    rc = rc ? rc : read_history(rows, log, r, err);
    if (!rc && r->paired)
        rc = read_rewards(rows, log, r, err);
    if (!rc && (json_array_append(rows, last) || put_training(last, r, t) ||
                json_object_set_new(last, "step", count(t->steps))))
        rc = no_memory(err);
    rc = rc ? rc : write_json(state, dir, "trainer_state.json", 2, r, err);
    json_decref(state);
    json_decref(last);
    return rc;
}

/* ---- results ---- */

double results_combined(const struct task *task, const struct results_eval *e)
{
    double sum = 0;

    for (size_t k = 0; k < task->n_metrics; k++)
        sum += e->metric[k];
    return sum / (double)task->n_metrics;
}

/* Puts one file's evaluation. t NULL: nothing was trained. */
static int put_eval(json_t *to, const struct results *r, size_t split, const struct totals *t)
{
    const struct task         *task = r->task;
    const struct results_eval *e = &r->eval[split];
    const char *suffix = task->suffix[split] ? task->suffix[split] : "";
    char        epoch[16];
    int         bad = put(to, "eval", "loss", suffix, number(e->loss));

    for (size_t k = 0; k < task->n_metrics; k++)
        bad |= put(to, "eval", metric_names[task->metric[k]], suffix, number(e->metric[k]));
    for (size_t k = 0; k < RESULTS_REWARDS && r->paired; k++)
        bad |= put(to, "eval", results_rewards[k], suffix, number(e->rewards[k]));
    if (!task->n_metrics && !r->paired)
        bad |= json_object_set_new(to, "perplexity", number(exp(e->loss)));
    if (task->n_metrics > 1)
        bad |= put(to, "eval", "combined_score", suffix, number(results_combined(task, e)));
    bad |= put(to, "eval", "samples", suffix, count(e->samples));
    snprintf(epoch, sizeof epoch, "epoch%s", suffix);
    if (t)
        bad |= json_object_set_new(to, epoch, number(epoch_of(r, t->steps)));
    return bad | put_speed(to, "eval", suffix, e->seconds, (double)e->samples, (double)e->batches);
}

/* t NULL: nothing was trained. */
static int write_parts(const char *dir, const struct results *r, const struct totals *t,
                       struct err *err)
{
    json_t *train = json_object(), *eval = json_object(), *all = json_object();
    int     bad = 0;

    if (t)
        bad = put_training(train, r, t) |
              json_object_set_new(train, "train_samples", count(r->train_samples));
    for (size_t i = 0; i < r->n_evals; i++)
        bad |= put_eval(eval, r, i, t);
    bad = bad || json_object_update(all, train) || json_object_update(all, eval);
    int rc = bad ? no_memory(err) : 0;

    if (!rc && t)
        rc = write_json(train, dir, "train_results.json", 4, r, err);
    if (!rc && r->n_evals)
        rc = write_json(eval, dir, "eval_results.json", 4, r, err);
    rc = rc ? rc : write_json(all, dir, "all_results.json", 4, r, err);
    json_decref(train);
    json_decref(eval);
    json_decref(all);
    return rc;
}

int results_write(const char *dir, struct runlog *log, const struct results *r, struct err *err)
{
    struct totals t = { 0 };

    assert(r->n_evals <= TASK_SPLITS);
    if (!log)
        return write_parts(dir, r, NULL, err);
    int rc = runlog_query(log,
                          "SELECT coalesce(max(step) + 1, 0), coalesce(sum(tokens), 0), count(*)"
                          " FILTER (WHERE " FINITE "), avg(loss) FILTER (WHERE " FINITE "),"
                          " total(seconds) FROM steps",
                          take_totals, &t, err);
    rc = rc ? rc : write_parts(dir, r, &t, err);
    return rc ? rc : write_state(dir, log, r, &t, err);
}

/* ---- predictions ---- */

void results_predictions_name(char *out, size_t size, const struct task *task, size_t split)
{
    snprintf(out, size, "predict_results_%s.txt",
             split ? "mnli-mm" : strcmp(task->name, "custom") ? task->name : "None");
}

/* Writes a label as a part of a field of a table, escaped so that it ends no field or row. */
static void put_name(FILE *f, const char *label)
{
    static const char letters[] = "\t\n\r\\", names[] = "tnr\\";

    for (const char *p = label, *at; *p; p++)
        if ((at = strchr(letters, *p)))
            fprintf(f, "\\%c", names[at - letters]);
        else
            fputc(*p, f);
}

/* A row of a classifier: its number, its class, which no spreadsheet computes, and the probability
 * of each class. */
static void put_classes(FILE *f, const struct task *task, size_t row, const char *label,
                        const float *logits)
{
    double top = (double)logits[0], sum = 0;

    for (size_t k = 1; k < task->n_labels; k++)
        top = fmax(top, (double)logits[k]);
    for (size_t k = 0; k < task->n_labels; k++)
        sum += exp((double)logits[k] - top);
    fprintf(f, "%zu\t%s", row, visible_formula(label) ? "'" : "");
    put_name(f, label);
    for (size_t k = 0; k < task->n_labels; k++)
        fprintf(f, "\t%.6g", exp((double)logits[k] - top) / sum);
    fputc('\n', f);
}

int results_predictions(char **text, size_t *bytes, const struct task *task, const int32_t *classes,
                        const float *logits, size_t n, struct err *err)
{
    size_t L = task->n_labels;

    *text = NULL;
    *bytes = 0;
    FILE *f = open_memstream(text, bytes);
    if (!f)
        return no_memory(err);
    fputs("index\tprediction", f);
    for (size_t k = 0; k < L && L > 1; k++) {
        fputs("\tp_", f);
        put_name(f, task->labels[k]);
    }
    fputc('\n', f);
    for (size_t i = 0; i < n && !ferror(f); i++)
        if (L > 1)
            put_classes(f, task, i, task->labels[classes[i]], logits + i * L);
        else
            fprintf(f, "%zu\t%.3f\n", i, (double)logits[i]);
    int bad = ferror(f) != 0;
    bad |= fclose(f) != 0;
    return bad ? no_memory(err) : 0;
}
