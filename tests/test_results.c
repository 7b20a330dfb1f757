/* test_results.c: the files of a fine-tuning, key by key: from run.db with evaluations, a skipped
 * step and a figure that is not finite; MNLI's two parts; nothing trained; predictions; a folder
 * that is not there leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/task/results.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct err err;

static void check_text(const char *name, const char *want)
{
    size_t n;
    char  *text = files_read(tempdir_at(name), &n);

    assert_string_equal(text, want);
    free(text);
}

/* The file says what `want` does, which has ' for ", and has its keys in order. */
static void check_json(const char *name, const char *want)
{
    json_t *found, *expected;
    char   *text = strdup(want);

    assert_non_null(text);
    for (char *quote = text; (quote = strchr(quote, '\''));)
        *quote = '"';
    assert_int_equal(json_read(&found, tempdir_at(name), 1 << 20, &err), 0);
    assert_int_equal(json_parse(&expected, text, strlen(text), "expected", &err), 0);
    free(text);
    text = json_dumps(found, JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    if (!json_equal(found, expected))
        fail_msg("%s has %s", name, text);
    free(text);
    json_decref(found);
    json_decref(expected);
}

/* Five steps of 0.5 s and 100 tokens, two of them an epoch; the third was skipped, its loss not a
 * number. */
static struct runlog *trained(void)
{
    static const double losses[] = { 0.9, 0.7, NAN, 0.5, 0.3 };
    struct runlog *log;

    assert_int_equal(runlog_create(&log, tempdir_at("run.db"), 0, &err), 0);
    for (uint64_t s = 0; s < 5; s++) {
        struct runlog_step row = { .step = s,
                                   .tokens = 100,
                                   .loss = losses[s],
                                   .lr = 1e-4 * (double)(5 - s),
                                   .grad_norm = s == 3 ? INFINITY : 1.5 + (double)s,
                                   .seconds = 0.5,
                                   .skipped = s == 2 };

        assert_int_equal(runlog_step(log, &row, &err), 0);
    }
    return log;
}

static void a_training(void **state)
{
    struct runlog *log = trained();
    struct results r = {
        .task = task_find("mrpc"),
        .train_samples = 7,
        .steps_per_epoch = 2,
        .epochs = 3,
        .max_steps = 5,
        .train_batch = 4,
        .logging_steps = 2,
        .eval_steps = 2,
        .save_steps = 1,
        .flops_per_token = 60,
        .best_checkpoint = "run/best",
        .best_step = 1,
        .best_metric = 0.8,
        .n_evals = 1,
        .eval = { { .loss = 0.4, .seconds = 2, .samples = 9, .batches = 3 } },
    };
    int  f1;

    (void)state;
    assert_ptr_not_equal(r.task, NULL);
    f1 = r.task->metric[1] == METRIC_F1; // whatever the table's order is
    r.eval[0].metric[f1] = 0.85;
    r.eval[0].metric[!f1] = 0.75;
    assert_int_equal(runlog_eval(log, 1, "loss", 0.6, &err), 0);
    assert_int_equal(runlog_eval(log, 1, "accuracy", 0.8, &err), 0);
    assert_int_equal(runlog_eval(log, 4, "loss", NAN, &err), 0);
    assert_int_equal(results_write(tempdir, log, &r, &err), 0);
    runlog_close(log);
    check_json("train_results.json",
               "{'epoch': 2.5, 'total_flos': 30000.0, 'train_finite_steps': 4, 'train_loss': 0.6,"
               " 'train_runtime': 2.5,"
               " 'train_samples': 7, 'train_samples_per_second': 7.0,"
               " 'train_steps_per_second': 2.0}");
    check_json("eval_results.json",
               "{'epoch': 2.5, 'eval_accuracy': 0.75, 'eval_combined_score': 0.8, 'eval_f1': 0.85,"
               " 'eval_loss': 0.4, 'eval_runtime': 2.0, 'eval_samples': 9,"
               " 'eval_samples_per_second': 4.5, 'eval_steps_per_second': 1.5}");
    check_json("all_results.json",
               "{'epoch': 2.5, 'eval_accuracy': 0.75, 'eval_combined_score': 0.8, 'eval_f1': 0.85,"
               " 'eval_loss': 0.4, 'eval_runtime': 2.0, 'eval_samples': 9,"
               " 'eval_samples_per_second': 4.5, 'eval_steps_per_second': 1.5,"
               " 'total_flos': 30000.0, 'train_finite_steps': 4, 'train_loss': 0.6,"
               " 'train_runtime': 2.5, 'train_samples': 7, 'train_samples_per_second': 7.0,"
               " 'train_steps_per_second': 2.0}");
    check_json("trainer_state.json",
               "{'best_global_step': 2, 'best_metric': 0.8, 'best_model_checkpoint': 'run/best',"
               " 'epoch': 2.5, 'eval_steps': 2, 'global_step': 5,"
               " 'is_hyper_param_search': false, 'is_local_process_zero': true,"
               " 'is_world_process_zero': true, 'log_history': ["
               " {'epoch': 1.0, 'grad_norm': 2.5, 'learning_rate': 0.0004, 'loss': 0.8, 'step': 2},"
               " {'epoch': 1.0, 'eval_accuracy': 0.8, 'eval_loss': 0.6, 'step': 2},"
               " {'epoch': 2.0, 'finite_steps': 1, 'grad_norm': null, 'learning_rate': 0.0002,"
               " 'loss': 0.5, 'step': 4},"
               " {'epoch': 2.5, 'eval_loss': null, 'step': 5},"
               " {'epoch': 2.5, 'step': 5, 'total_flos': 30000.0, 'train_finite_steps': 4,"
               " 'train_loss': 0.6, 'train_runtime': 2.5, 'train_samples_per_second': 7.0,"
               " 'train_steps_per_second': 2.0}], 'logging_steps': 2,"
               " 'max_steps': 5, 'num_input_tokens_seen': 500, 'num_train_epochs': 3,"
               " 'save_steps': 1, 'stateful_callbacks': {}, 'total_flos': 30000.0,"
               " 'train_batch_size': 4, 'trial_name': null, 'trial_params': null}");
    // as json.dump(indent=4, sort_keys=True) writes it
    check_text("train_results.json", "{\n    \"epoch\": 2.5,\n    \"total_flos\": 30000.0,\n"
                              "    \"train_finite_steps\": 4,\n    \"train_loss\": 0.6,\n"
                              "    \"train_runtime\": 2.5,\n"
                              "    \"train_samples\": 7,\n"
                              "    \"train_samples_per_second\": 7.0,\n"
                              "    \"train_steps_per_second\": 2.0\n}\n");
}

static void two_parts_and_nothing_trained(void **state)
{
    struct results r = {
        .task = task_find("mnli"),
        .n_evals = 2,
        .eval = { { .loss = 0.5, .metric = { 0.7 }, .seconds = 0.5, .samples = 10, .batches = 2 },
                  { .loss = NAN, .metric = { 0.6 }, .seconds = 0, .samples = 8, .batches = 1 } }
    };
    const char *want = "{'eval_accuracy': 0.7, 'eval_accuracy_mm': 0.6, 'eval_loss': 0.5,"
                       " 'eval_loss_mm': null, 'eval_runtime': 0.5, 'eval_runtime_mm': 0.0,"
                       " 'eval_samples': 10, 'eval_samples_mm': 8,"
                       " 'eval_samples_per_second': 20.0, 'eval_steps_per_second': 4.0}";
    struct runlog *log;

    (void)state;
    assert_int_equal(results_write(tempdir, NULL, &r, &err), 0);
    check_json("eval_results.json", want);
    check_json("all_results.json", want);
    assert_int_not_equal(access(tempdir_at("train_results.json"), F_OK), 0);
    assert_int_not_equal(access(tempdir_at("trainer_state.json"), F_OK), 0);
    r.steps_per_epoch = 10; // the epoch has the suffix, too
    log = trained();
    assert_int_equal(results_write(tempdir, log, &r, &err), 0);
    runlog_close(log);
    check_json("eval_results.json",
               "{'epoch': 0.5, 'epoch_mm': 0.5, 'eval_accuracy': 0.7, 'eval_accuracy_mm': 0.6,"
               " 'eval_loss': 0.5, 'eval_loss_mm': null, 'eval_runtime': 0.5,"
               " 'eval_runtime_mm': 0.0, 'eval_samples': 10, 'eval_samples_mm': 8,"
               " 'eval_samples_per_second': 20.0, 'eval_steps_per_second': 4.0}");
}

static int predict_into(const char *path, const struct task *task, const int32_t *classes,
                        const float *logits, size_t n, struct err *e)
{
    char  *text;
    size_t bytes;
    int    rc = results_predictions(&text, &bytes, task, classes, logits, n, e);

    rc = rc ? rc : file_write_whole(path, text, bytes, e);
    free(text);
    return rc;
}

static const char *named(const struct task *task, size_t split)
{
    char name[64];

    results_predictions_name(name, sizeof name, task, split);
    return tempdir_at(name);
}

static void predictions(void **state)
{
    static const char *const names[] = { "no", "yes, sir" };
    const int32_t            classes[] = { 1, 0, 1 };
    const float              values[] = { 3.14159f, -0.0004f, 2.0f };
    // PyTorch's softmax: 0.1192029, 0.8807971; 0.9975274, 0.002472623; and no overflow
    const float              logits[] = { -1, 1, 4, -2, -3000, 3000 };
    const struct task        own = { .name = "custom", .n_labels = 2, .labels = names },
                      regression = { .name = "stsb", .n_labels = 1 },
                      pair = { .name = "mnli", .n_labels = 2, .labels = names };

    (void)state;
    assert_int_equal(predict_into(named(&own, 0), &own, classes, logits, 3, &err), 0);
    check_text("predict_results_None.txt",
               "index\tprediction\tp_no\tp_yes, sir\n0\tyes, sir\t0.119203\t0.880797\n"
               "1\tno\t0.997527\t0.00247262\n2\tyes, sir\t0\t1\n");
    assert_int_equal(predict_into(named(&regression, 0), &regression, NULL, values, 3, &err), 0);
    check_text("predict_results_stsb.txt", "index\tprediction\n0\t3.142\n1\t-0.000\n2\t2.000\n");
    assert_int_equal(predict_into(named(&pair, 1), &pair, classes, NULL, 0, &err), 0);
    check_text("predict_results_mnli-mm.txt", "index\tprediction\tp_no\tp_yes, sir\n");
}

/* A label is one field, and no spreadsheet computes it. */
static void labels_of_any_kind(void **state)
{
    static const char *const names[] = { "a\tb\nc\rd\\", "=1+1", "-2", "+", "@x", "-1e3", "- no",
                                         "z" };
    const int32_t            classes[] = { 0, 1, 2, 3, 4, 5, 6 };
    const float              logits[7 * 8] = { 0 };
    const struct task        own = { .name = "custom", .n_labels = 8, .labels = names };
    char                     want[1024];
    size_t                   n = 0;

    (void)state;
#define EACH "\t0.125\t0.125\t0.125\t0.125\t0.125\t0.125\t0.125\t0.125\n"
    n += (size_t)sprintf(want, "index\tprediction\tp_a\\tb\\nc\\rd\\\\\tp_=1+1\tp_-2\tp_+\tp_@x"
                         "\tp_-1e3\tp_- no\tp_z\n0\ta\\tb\\nc\\rd\\\\" EACH);
    sprintf(want + n, "1\t'=1+1" EACH "2\t-2" EACH "3\t'+" EACH "4\t'@x" EACH "5\t-1e3" EACH
            "6\t'- no" EACH);
    assert_int_equal(predict_into(named(&own, 0), &own, classes, logits, 7, &err), 0);
    check_text("predict_results_None.txt", want);
}

static void nowhere(void **state)
{
    const struct task task = { .name = "stsb", .n_labels = 1 };
    struct results    r = { .task = &task };

    (void)state;
    assert_int_not_equal(results_write(tempdir_at("absent"), NULL, &r, &err), 0);
    assert_non_null(strstr(err.text, "absent/all_results.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(a_training),
        IN_TEMPDIR(two_parts_and_nothing_trained),
        IN_TEMPDIR(predictions),
        IN_TEMPDIR(labels_of_any_kind),
        IN_TEMPDIR(nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
