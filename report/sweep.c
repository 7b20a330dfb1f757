/* sweep.c: sorts several runs by what is asked, and says what runs that differ in the seed alone
 * have in common.
 *
 * A run is sorted by the evaluation that counts for it: that of its best model where it keeps it,
 * and otherwise the last one. The better value comes first: the smaller loss, the larger accuracy.
 * Settings are sorted by size, or as words. What is no number comes behind all numbers, and a run
 * that has no such value comes last. */
#include "report/compare.h"

#include "data/opt/opt_row.h"
#include "report/format.h"

/* ---- what a run is sorted by ---- */

struct key {
    enum { KEY_NUMBER, KEY_TEXT, KEY_NAN, KEY_NONE } kind;
    double      number; // the smaller is better
    const char *text;
};

/* Figures next to evaluations and settings. */
static const struct figure { const char *name, *section, *field; int larger; } figures[] = {
    { "train_loss", "steps", "last_loss", 0 },
    { "tokens_per_second", "times", "tokens_per_second", 1 },
};
enum { FIGURES = sizeof figures / sizeof *figures };

static const char eval_[] = "eval_"; // as Hugging Face calls measures; it may be left out

/* of: where the value is, or is null; NULL: there is none. */
static struct key key_number(const json_t *value, int larger)
{
    double v = json_number_value(value);

    if (!json_is_number(value))
        return (struct key){ .kind = value ? KEY_NAN : KEY_NONE };
    return (struct key){ .number = larger ? -v : v };
}

static int key_evaluation(struct key *key, const json_t *report, const char *by)
{
    const char   *measure = strncmp(by, eval_, strlen(eval_)) ? by : by + strlen(eval_);
    const json_t *r;
    size_t        i;

    json_array_foreach(json_object_get(report, "results"), i, r)
        if (!strcmp(json_str(r, "measure"), measure)) {
            int there = json_is_number(json_object_get(r, "step"));

            *key = key_number(there ? json_object_get(r, "value") : NULL,
                              !strcmp(json_str(r, "better"), "larger"));
            return 1;
        }
    return 0;
}

static int key_figure(struct key *key, const json_t *report, const char *by)
{
    for (size_t i = 0; i < FIGURES; i++)
        if (!strcmp(figures[i].name, by)) {
            *key = key_number(json_object_get(json_object_get(report, figures[i].section),
                                              figures[i].field), figures[i].larger);
            return key->kind != KEY_NONE;
        }
    return 0;
}

/* An option is sorted by its value as it is stored, which for a size is its bytes. */
static int key_setting(struct key *key, const struct compared *run, const char *by)
{
    const char *name, *stored;
    json_t     *v;
    char        option[64], *end;

    json_object_foreach(run->settings, name, v) {
        if (strlen(name) != strlen(by) || !(opt_name_is(name, by, strlen(by)) ||
                                            opt_name_is(by, name, strlen(by))))
            continue;
        snprintf(option, sizeof option, "option.%s", name);
        stored = report_setting_text(run->report, option);
        key->text = *stored ? stored : json_string_value(v);
        key->number = strtod(key->text, &end);
        key->kind = !*key->text ? KEY_NONE : *end || isnan(key->number) ? KEY_TEXT : KEY_NUMBER;
        return 1;
    }
    return 0;
}

/* 0: the run knows nothing of this name. */
static int key_of(struct key *key, const struct compared *run, const char *by)
{
    *key = (struct key){ .kind = KEY_NONE };
    return key_evaluation(key, run->report, by) || key_figure(key, run->report, by) ||
           key_setting(key, run, by);
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == KEY_TEXT)
        return strcmp(a->text, b->text);
    return a->number < b->number ? -1 : a->number > b->number;
}

/* ---- a name that no run has ---- */

/* The names that would sort the runs: all measures and figures, and the settings that differ. */
static json_t *known_names(const struct compared *runs, size_t n)
{
    json_t    *all = json_object(), *differ = compare_names(runs, n), *v;
    struct key key;
    size_t     k;

    for (size_t i = 0; i < n; i++)
        json_array_foreach(json_object_get(runs[i].report, "results"), k, v) {
            json_t *name = json_sprintf("%s%s", eval_, json_str(v, "measure"));

            json_object_set_new(all, json_string_value(name), json_true());
            json_decref(name);
        }
    for (size_t i = 0; i < n; i++)
        for (k = 0; k < FIGURES; k++)
            if (key_figure(&key, runs[i].report, figures[k].name))
                json_object_set_new(all, figures[k].name, json_true());
    json_object_update_missing(all, differ);
    json_decref(differ);
    return all;
}

/* Joins the names, with `between` between two of them and `end` before the last one. */
static void join(char *buf, size_t size, json_t *names, const char *between, const char *end)
{
    size_t      at = 0, left = json_object_size(names);
    const char *name;
    json_t     *v;

    json_object_foreach(names, name, v) {
        char *tamed = report_tamed(name);

        if (tamed && at + strlen(tamed) + strlen(end) + 1 < size)
            at += (size_t)snprintf(buf + at, size - at, "%s%s",
                                   !at ? "" : left > 1 ? between : end, tamed);
        left--;
        free(tamed);
    }
}

static int refuse(const struct compared *runs, size_t n, const char *by, struct err *err)
{
    json_t *names = known_names(runs, n);
    char    words[600] = "", listed[600] = "";

    join(words, sizeof words, names, " ", " ");
    join(listed, sizeof listed, names, ", ", " or ");
    json_decref(names);
    const char *near = opt_nearest(by, words);
    return err_misuse(err, "--by %s: these runs have no such evaluation or setting; use %s%s%s%s",
                      by, listed, near ? " (did you mean " : "", near ? near : "",
                      near ? "?)" : "");
}

/* ---- sorting ---- */

struct sorted { struct key key; struct compared run; };

static int compare_sorted(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    int                  c = compare_keys(&x->key, &y->key);

    return c ? c : x->run.given < y->run.given ? -1 : 1;
}

int sweep_sort(struct compared *runs, size_t n, const char *by, struct err *err)
{
    struct sorted *all = calloc(n + 1, sizeof *all);
    int            known = 0;

    if (!all)
        return err_set(err, -ENOMEM, "out of memory while sorting the runs");
    for (size_t i = 0; i < n; i++) {
        known |= key_of(&all[i].key, &runs[i], by);
        all[i].run = runs[i];
    }
    qsort(all, n, sizeof *all, compare_sorted);
    for (size_t i = 0; i < n; i++)
        runs[i] = all[i].run;
    free(all);
    return known ? 0 : refuse(runs, n, by, err);
}

/* ---- seeds ---- */

/* Whether two runs differ in the seed and in nothing else, but for the machine. */
static int only_seed(const struct compared *a, const struct compared *b)
{
    json_t *differs = compare_differences(a->settings, b->settings), *d;
    size_t  i;
    int     seed = 0, other = 0;

    json_array_foreach(differs, i, d) {
        int is_seed = !strcmp(json_str(d, "setting"), "seed");

        seed += is_seed;
        other += !is_seed && !compare_is_machine(json_str(d, "setting"));
    }
    json_decref(differs);
    return seed && !other;
}

/* Adds how many values are numbers, their mean, and of two or more their standard deviation (of a
 * sample: divided by n - 1). */
static void add_moments(json_t *row, const char *which, const double *v, size_t n)
{
    double sum = 0, squares = 0;
    size_t numbers = 0;
    char   name[64];

    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i])) {
            sum += v[i];
            numbers++;
        }
    double mean = numbers ? sum / (double)numbers : (double)NAN;
    for (size_t i = 0; i < n; i++)
        squares += isfinite(v[i]) ? (v[i] - mean) * (v[i] - mean) : 0;
    snprintf(name, sizeof name, "%s_n", which);
    json_object_set_new(row, name, json_integer((json_int_t)numbers));
    snprintf(name, sizeof name, "%s_mean", which);
    json_object_set_new(row, name, isfinite(mean) ? json_real(mean) : json_null());
    snprintf(name, sizeof name, "%s_deviation", which);
    if (numbers > 1 && isfinite(squares))
        json_object_set_new(row, name, json_real(sqrt(squares / (double)(numbers - 1))));
}

/* A value of each member; one that it does not have is NaN. */
static void values_of(double *out, const struct compared *const *members, size_t n,
                      const char *measure, const char *field)
{
    const json_t *r;
    size_t        k;

    for (size_t i = 0; i < n; i++) {
        out[i] = (double)NAN;
        json_array_foreach(json_object_get(members[i]->report, "results"), k, r)
            if (!strcmp(json_str(r, "measure"), measure))
                out[i] = json_figure(r, field);
    }
}

/* "1, 2, 3": the members' numbers, or their seeds. */
static json_t *listed(const struct compared *runs, const struct compared *const *members, size_t n,
                      int seeds)
{
    char   text[256] = "";
    size_t at = 0;

    for (size_t i = 0; i < n && at < sizeof text - 32; i++) {
        const char *before = i ? ", " : "";

        at += (size_t)(seeds ? snprintf(text + at, sizeof text - at, "%s%.24s", before,
                                        json_str(members[i]->settings, "seed"))
                             : snprintf(text + at, sizeof text - at, "%s%td", before,
                                        members[i] - runs + 1));
    }
    return report_string(text);
}

/* The measures of all members, each once. */
static json_t *measures_of(const struct compared *const *members, size_t n)
{
    json_t       *all = json_object();
    const json_t *r;
    size_t        k;

    for (size_t i = 0; i < n; i++)
        json_array_foreach(json_object_get(members[i]->report, "results"), k, r)
            json_object_set_new(all, json_str(r, "measure"), json_true());
    return all;
}

static void write_group(const struct compared *runs, const struct compared *const *members,
                        size_t n, size_t group, double *scratch)
{
    json_t     *rows = json_array(), *measures = measures_of(members, n), *v;
    const char *measure;

    for (size_t i = 0; i < n; i++)
        json_object_set_new(json_object_get(members[i]->report, "comparison"), "group",
                            json_integer((json_int_t)group));
    json_object_foreach(measures, measure, v) {
        json_t *row = json_pack("{s:i, s:o, s:o, s:s}", "group", (int)group, "runs",
                                listed(runs, members, n, 0), "seeds",
                                listed(runs, members, n, 1), "measure", measure);

        values_of(scratch, members, n, measure, "last_value");
        add_moments(row, "last", scratch, n);
        values_of(scratch, members, n, measure, "best_value");
        add_moments(row, "best", scratch, n);
        json_array_append_new(rows, row);
    }
    json_decref(measures);
    json_object_set_new(members[0]->report, "seeds", rows);
}

static int has_group(const struct compared *run)
{
    return json_object_get(json_object_get(run->report, "comparison"), "group") != NULL;
}

/* A seed counts once, so the same run twice is no group. */
void sweep_seeds(const struct compared *runs, size_t n)
{
    const struct compared **members = calloc(n + 1, sizeof *members);
    double                 *scratch = calloc(n + 1, sizeof *scratch);
    size_t                  groups = 0;

    for (size_t i = 0; i < n && members && scratch; i++) {
        size_t found = 1;

        if (has_group(&runs[i]))
            continue;
        members[0] = &runs[i];
        for (size_t j = i + 1; j < n; j++) {
            size_t alike = has_group(&runs[j]) ? found + 1 : 0;

            while (alike < found && only_seed(members[alike], &runs[j]))
                alike++;
            if (alike == found)
                members[found++] = &runs[j];
        }
        if (found > 1)
            write_group(runs, members, found, ++groups, scratch);
    }
    free(scratch);
    free(members);
}
