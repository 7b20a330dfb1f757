/* task.c: the table of GLUE's tasks, the meaning of labels, and the task of a user's training file.
 * task_read.c reads the rows. */
#include "data/task/task.h"

#include "data/json/json.h"
#include "data/base/table.h"
#include "data/file/unpack.h"

#include <strings.h>

#define OWN_MAX_LABELS 4096u

/* ---- the table ---- */

static const char *const cola_labels[] = { "unacceptable", "acceptable" };
static const char *const sst2_labels[] = { "negative", "positive" };
static const char *const mrpc_labels[] = { "not_equivalent", "equivalent" };
static const char *const qqp_labels[] = { "not_duplicate", "duplicate" };
static const char *const mnli_labels[] = { "entailment", "neutral", "contradiction" };
static const char *const nli_labels[] = { "entailment", "not_entailment" };
static const char *const wnli_labels[] = { "not_entailment", "entailment" };

#define ONE_SPLIT   .dev = { "dev.tsv" }, .tests = { "test.tsv" }, .suffix = { "" }
#define LABELS(a)   .labels = a, .n_labels = sizeof(a) / sizeof *(a)
#define ACCURACY    .metric = { METRIC_ACCURACY }, .n_metrics = 1
#define ACCURACY_F1 .metric = { METRIC_ACCURACY, METRIC_F1 }, .n_metrics = 2

/* Columns: text1, text2, label, header, torn. */
const struct task task_table[] = {
    { "cola", "CoLA", { 3, -1, 1, 0, 0 }, { 1, -1, -1, 1, 0 }, ONE_SPLIT, LABELS(cola_labels),
      .coded = 1, .metric = { METRIC_MATTHEWS }, .n_metrics = 1 },
    { "sst2", "SST-2", { 0, -1, 1, 1, 0 }, { 1, -1, -1, 1, 0 }, ONE_SPLIT, LABELS(sst2_labels),
      .coded = 1, ACCURACY },
    { "mrpc", "MRPC", { 3, 4, 0, 1, 0 }, { 3, 4, -1, 1, 0 }, ONE_SPLIT, LABELS(mrpc_labels),
      .coded = 1, ACCURACY_F1 },
    { "stsb", "STS-B", { 7, 8, -2, 1, 0 }, { 7, 8, -1, 1, 0 }, ONE_SPLIT, .n_labels = 1,
      .metric = { METRIC_PEARSON, METRIC_SPEARMAN }, .n_metrics = 2 },
    { "qqp", "QQP", { 3, 4, 5, 1, 1 }, { 1, 2, -1, 1, 1 }, ONE_SPLIT, LABELS(qqp_labels),
      .coded = 1, ACCURACY_F1 },
    { "mnli", "MNLI", { 8, 9, -2, 1, 0 }, { 8, 9, -1, 1, 0 }, LABELS(mnli_labels), ACCURACY,
      .dev = { "dev_matched.tsv", "dev_mismatched.tsv" },
      .tests = { "test_matched.tsv", "test_mismatched.tsv" }, .suffix = { "", "_mm" } },
    { "qnli", "QNLI", { 1, 2, -2, 1, 0 }, { 1, 2, -1, 1, 0 }, ONE_SPLIT, LABELS(nli_labels),
      ACCURACY },
    { "rte", "RTE", { 1, 2, -2, 1, 0 }, { 1, 2, -1, 1, 0 }, ONE_SPLIT, LABELS(nli_labels),
      ACCURACY },
    { "wnli", "WNLI", { 1, 2, -2, 1, 0 }, { 1, 2, -1, 1, 0 }, ONE_SPLIT, LABELS(wnli_labels),
      .coded = 1, ACCURACY },
};
const size_t task_count = sizeof task_table / sizeof *task_table;

const char *task_word(size_t i) { return i < task_count ? task_table[i].name : NULL; }

const struct task *task_find(const char *name)
{
    char   plain[16];
    size_t n = 0;

    for (; *name; name++) {
        if (*name == '-' || *name == '_')
            continue;
        if (n + 1 == sizeof plain)
            return NULL;
        plain[n++] = *name;
    }
    plain[n] = 0;
    for (size_t i = 0; i < task_count; i++)
        if (strcasecmp(plain, task_table[i].name) == 0)
            return &task_table[i];
    return NULL;
}

/* ---- labels ---- */

static int label_whole(const char *text)
{
    size_t sign = *text == '-' || *text == '+';

    return text[sign] && !text[sign + strspn(text + sign, "0123456789")];
}

/* Lists the task's labels as its files write them, only the first ones if there are many. */
static const char *label_list(const struct task *t, char *out, size_t size)
{
    size_t n = 0, i = 0;

    out[0] = 0;
    for (; i < t->n_labels && i < 20 && n + 48 < size; i++) {
        if (t->coded)
            n += (size_t)snprintf(out + n, size - n, "%s%zu (%.24s)", i ? ", " : "", i,
                                  t->labels[i]);
        else
            n += (size_t)snprintf(out + n, size - n, "%s%.40s", i ? ", " : "", t->labels[i]);
    }
    if (i < t->n_labels)
        snprintf(out + n, size - n, ", ...");
    return out;
}

static int label_missing(const struct task_row *row, struct err *err)
{
    const char *or_named = ", or the one that --label-column names; the file has ";

    return err_misuse(err, "%s:%zu: no label: a column or a field of that name is expected%s%s",
                      row->path, row->line, row->known ? or_named : "",
                      row->known ? row->known : "");
}

static int label_no_number(const struct task_row *row, const char *who, struct err *err)
{
    return err_misuse(err, "%s:%zu: the label '%.40s' is no number, which %s needs", row->path,
                      row->line, row->label, who);
}

/* Finds the class of a label that is no class's name. Returns n_labels if none or several fit. */
static size_t label_loosely(const struct task *t, const char *label)
{
    size_t found = t->n_labels;
    char   number[24];

    for (size_t i = 0; i < t->n_labels; i++) {
        if (strcasecmp(label, t->labels[i]))
            continue;
        if (found < t->n_labels)
            return t->n_labels;
        found = i;
    }
    if (found < t->n_labels)
        return found;
    size_t prefix = !strncmp(label, "LABEL_", 6) ? 6 : 0;
    for (size_t i = 0; i < t->n_labels && !prefix; i++)
        if (task_number(t->labels[i], NULL)) // if names are numbers, numbers mean names
            return t->n_labels;
    for (size_t i = 0; i < t->n_labels; i++) {
        snprintf(number, sizeof number, "%zu", i);
        if (!strcmp(label + prefix, number))
            return i;
    }
    return t->n_labels;
}

int task_label(const struct task *t, const struct task_row *row, int32_t *label, float *value,
               struct err *err)
{
    char known[512], number[24];

    *label = 0;
    *value = 0;
    if (!row->label)
        return label_missing(row, err);
    if (t->n_labels == 1)
        return task_number(row->label, value) ? 0 : label_no_number(row, t->title, err);
    for (size_t i = 0; i < t->n_labels; i++) {
        snprintf(number, sizeof number, "%zu", i);
        if (strcmp(row->label, t->coded ? number : t->labels[i]) == 0) {
            *label = (int32_t)i;
            return 0;
        }
    }
    size_t i = t->loose ? label_loosely(t, row->label) : t->n_labels;

    *label = i < t->n_labels ? (int32_t)i : 0;
    if (i < t->n_labels)
        return 0;
    return err_misuse(err, "%s:%zu: the label '%.40s' is unknown: known are %s", row->path,
                      row->line, row->label, label_list(t, known, sizeof known));
}

/* ---- a user's task ---- */

struct own_task {
    struct task  task;           // first member: the caller holds it
    json_t      *labels;         // an object whose keys are the labels
    const char **text;           // the keys, sorted
    int          asked;          // 1: the user asked for regression
    int          numbers, whole; // 1: all labels so far are numbers, whole ones,
                                 // except for those that may mean "no label"
    int          many;           // more than OWN_MAX_LABELS
    int          datasets;       // the file has a column idx, as datasets writes GLUE's
    // the first word for "no label"; the first -1
    struct { char text[24]; const char *path; size_t line; } none, minus;
    struct task_names read;      // columns of the first row
};

/* Whether programs write this for a missing value. */
static int is_none(const char *label)
{
    static const char *const words[] = { "nan", "none", "null", "na", "n/a", "<na>", "#n/a", "inf",
                                         "infinity" };
    const char *word = label + (*label == '-' || *label == '+');

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i]))
            return 1;
    return 0;
}

static int own_row(void *ctx, const struct task_row *row, struct err *err)
{
    struct own_task *s = ctx;

    if (!s->read.text && task_names_copy(&s->read, row->names, err))
        return -ENOMEM;
    if (!row->label)
        return label_missing(row, err);
    if (!*row->label)
        return err_misuse(err, "%s:%zu: the label is empty", row->path, row->line);
    int number = task_number(row->label, NULL);

    if (s->asked && !number)
        return label_no_number(row, "regression", err);
    if (is_none(row->label) && !s->none.line) {
        snprintf(s->none.text, sizeof s->none.text, "%s", row->label);
        s->none.path = row->path;
        s->none.line = row->line;
    }
    if (!strcmp(row->label, "-1") && !s->minus.line) {
        s->minus.path = row->path;
        s->minus.line = row->line;
    }
    s->datasets |= strstr(row->known, "'idx'") != NULL;
    s->numbers &= number || is_none(row->label);
    s->whole &= is_none(row->label) || (number && label_whole(row->label));
    if (json_object_size(s->labels) == OWN_MAX_LABELS)
        s->many = 1; // fine for regression, which is known at the end
    if (s->asked || s->many || !json_object_set_new(s->labels, row->label, json_null()))
        return 0;
    return err_set(err, -ENOMEM, "no memory for a label");
}

static int own_by_number(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    double      dx = strtod(x, NULL), dy = strtod(y, NULL);

    return dx < dy ? -1 : dx > dy ? 1 : strcmp(x, y);
}

/* Refuses a word for a missing value among numbers, and -1 among the numbers of classes. */
static int own_check_none(const struct own_task *o, struct err *err)
{
    size_t      n = json_object_size(o->labels), classes = 0;
    const char *label;
    json_t     *v;

    if (o->asked || !o->numbers)
        return 0;
    json_object_foreach(o->labels, label, v)
        classes += !is_none(label);
    if (o->none.line && classes)
        return err_misuse(err, "%s:%zu: the label '%s' is no number, as the others are: leave out "
                          "rows without a label", o->none.path, o->none.line, o->none.text);
    if (!o->minus.line || !o->whole || o->many)
        return 0;
    for (classes = 0; classes + 1 < n; classes++) {
        char number[24];

        snprintf(number, sizeof number, "%zu", classes);
        if (!json_object_get(o->labels, number))
            return 0;
    }
    if (n == 3 && !o->datasets)
        return 0;
    return err_misuse(err, "%s:%zu: the label -1 stands for no label%s: leave such rows out",
                      o->minus.path, o->minus.line, n == 1 ? ", and there is no other"
                                            : ", where the others count from 0");
}

/* Decides the kind of the task from its labels. */
static int own_settle(struct own_task *o, const char *path, struct err *err)
{
    const char *label;
    json_t     *v;
    size_t      n = 0;
    int         rc = own_check_none(o, err);

    if (rc)
        return rc;
    if (o->asked || (o->numbers && !o->whole)) {
        o->task = task_custom(NULL, 1);
        return 0;
    }
    if (o->many)
        return err_misuse(err, "%s has more than %u different labels: is its column label what it "
                          "says?", path, OWN_MAX_LABELS);
    o->text = calloc(json_object_size(o->labels), sizeof *o->text);
    if (!o->text)
        return err_set(err, -ENOMEM, "no memory for the labels of %s", path);
    json_object_foreach(o->labels, label, v)
        o->text[n++] = label;
    if (n < 2)
        return err_misuse(err, "%s has one label only, '%.40s': to tell classes apart takes two",
                          path, o->text[0]);
    qsort(o->text, n, sizeof *o->text, o->whole ? own_by_number : table_by_name);
    o->task = task_custom(o->text, n);
    return 0;
}

struct task task_custom(const char *const *labels, size_t n)
{
    return (struct task){ .name = "custom",
                          .title = n > 1 ? "classification" : "regression",
                          .suffix = { "" },
                          .n_labels = n,
                          .n_metrics = 1,
                          .labels = n > 1 ? labels : NULL,
                          .metric = { n > 1 ? METRIC_ACCURACY : METRIC_MSE } };
}

int task_own(struct task **out, char *const *paths, size_t n, const struct task_names *names,
             int regression, struct err *err)
{
    struct own_task *o = calloc(1, sizeof *o);
    int              rc = 0;

    *out = NULL;
    if (!o)
        return err_set(err, -ENOMEM, "no memory for the task of %s", *paths);
    *o = (struct own_task){ .labels = json_object(), .asked = regression, .numbers = 1,
                            .whole = 1 };
    for (size_t i = 0; i < n && !rc; i++)
        rc = task_read_own(paths[i], i ? &o->read : names, 0, own_row, o, err);
    rc = rc ? rc : own_settle(o, unpack_shown(*paths), err);
    if (rc)
        task_own_free(&o->task);
    else
        *out = &o->task;
    return rc;
}

void task_own_free(struct task *t)
{
    struct own_task *o = (struct own_task *)t;

    if (!o)
        return;
    task_names_free(&o->read);
    json_decref(o->labels);
    free(o->text);
    free(o);
}
