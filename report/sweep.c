/* sweep.c: sorts runs, and sums up those that differ in the seed alone.
 *
 * A run is sorted by the evaluation that counts for it: that of its best model where it keeps it,
 * and otherwise the last one. The better value comes first: the smaller loss, the larger accuracy.
 * Settings are sorted by size, or as words. What is no number comes behind all numbers, and a run
 * that has no such value comes last. */
#include "report/compare.h"

#include "data/base/table.h"
#include "data/opt/opt_row.h"
#include "report/format.h"

/* ---- what a run is sorted by ---- */

/* Figures next to evaluations and settings. */
static const struct figure { const char *name, *section, *field; int larger; } figures[] = {
    { "train_loss", "steps", "last_loss", 0 },
    { "tokens_per_second", "times", "tokens_per_second", 1 },
};
enum { FIGURES = sizeof figures / sizeof *figures };

static const char eval_[] = "eval_"; // as Hugging Face calls measures; it may be left out

/* value: where it is, or is null; NULL: there is none. */
static struct sweep_key key_number(const json_t *value, int larger)
{
    double v = json_number_value(value);

    if (!json_is_number(value))
        return (struct sweep_key){ .kind = value ? SWEEP_NAN : SWEEP_NONE };
    return (struct sweep_key){ .number = larger ? -v : v };
}

static int key_evaluation(struct sweep_key *key, const json_t *report, const char *by)
{
    const char   *measure = strncmp(by, eval_, strlen(eval_)) ? by : by + strlen(eval_);
    const json_t *r = json_where(json_object_get(report, "results"), "measure", measure);

    if (r)
        *key = key_number(json_is_number(json_object_get(r, "step")) ? json_object_get(r, "value")
                                                                     : NULL,
                          !strcmp(json_str(r, "better"), "larger"));
    return r != NULL;
}

static int key_figure(struct sweep_key *key, const json_t *report, const char *by)
{
    const struct figure *f = TABLE_FIND(figures, by);

    if (f)
        *key = key_number(json_object_get(json_object_get(report, f->section), f->field),
                          f->larger);
    return f && key->kind != SWEEP_NONE;
}

/* An option is sorted by its value as it is stored, which for a size is its bytes. */
static int key_setting(struct sweep_key *key, const struct compared *run, const char *by)
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
        key->kind = *end || isnan(key->number) ? SWEEP_TEXT : SWEEP_NUMBER;
        if (!*key->text)
            key->kind = SWEEP_NONE;
        return 1;
    }
    return 0;
}

/* 0: the run knows nothing of this name. */
static int key_find(struct compared *run, const char *by)
{
    run->key = (struct sweep_key){ .kind = SWEEP_NONE };
    return key_evaluation(&run->key, run->report, by) ||
           key_figure(&run->key, run->report, by) || key_setting(&run->key, run, by);
}

static int compare_runs(const void *one, const void *other)
{
    const struct compared  *x = one, *y = other;
    const struct sweep_key *a = &x->key, *b = &y->key;
    int                     c = (a->kind > b->kind) - (a->kind < b->kind);

    if (!c)
        c = a->kind == SWEEP_TEXT ? strcmp(a->text, b->text)
                                  : (a->number > b->number) - (a->number < b->number);
    return c ? c : x->given < y->given ? -1 : 1;
}

/* ---- a name that no run has ---- */

/* The names that would sort the runs: all measures and figures, and the settings that differ. */
static json_t *known_names(const struct compared *runs, size_t n)
{
    json_t          *all = json_object(), *differ = compare_names(runs, n), *r;
    struct sweep_key key;
    size_t           k;

    for (size_t i = 0; i < n; i++)
        json_array_foreach(json_object_get(runs[i].report, "results"), k, r) {
            json_t *name = json_sprintf("%s%s", eval_, json_str(r, "measure"));

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

/* Joins an object's keys, with `between` between two of them and `end` before the last one. */
static void join(char *buf, size_t size, json_t *keys, const char *between, const char *end)
{
    size_t      at = 0, left = json_object_size(keys);
    const char *key;
    json_t     *v;

    *buf = '\0';
    json_object_foreach(keys, key, v) {
        char *tamed = report_tamed(key);

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
    char    words[600], listed[600];

    join(words, sizeof words, names, " ", " ");
    join(listed, sizeof listed, names, ", ", " or ");
    json_decref(names);
    const char *near = opt_nearest(by, words);
    return err_misuse(err, "--by %s: these runs have no such evaluation or setting; use %s%s%s%s",
                      by, listed, near ? " (did you mean " : "", near ? near : "",
                      near ? "?)" : "");
}

int sweep_sort(struct compared *runs, size_t n, const char *by, struct err *err)
{
    int known = 0;

    for (size_t i = 0; i < n; i++)
        known |= key_find(&runs[i], by);
    qsort(runs, n, sizeof *runs, compare_runs);
    return known ? 0 : refuse(runs, n, by, err);
}

/* ---- seeds: a group is an object, the number of a run (from 0) by its seed ---- */

/* What the runs of a group have in common: all settings but the seed and the machine's. */
static json_t *without_seed(json_t *settings)
{
    json_t     *all = json_copy(settings), *v;
    const char *name;

    json_object_foreach(settings, name, v)
        if (!strcmp(name, "seed") || compare_is_machine(name))
            json_object_del(all, name);
    return all;
}

/* The results of each member of a group: an array of arrays. */
static json_t *results_of(const struct compared *runs, json_t *group)
{
    json_t     *all = json_array(), *at;
    const char *seed;

    json_object_foreach(group, seed, at)
        json_array_append(all, json_object_get(runs[json_integer_value(at)].report, "results"));
    return all;
}

/* Adds how many values are numbers, their mean, and of two or more their standard deviation (of a
 * sample: divided by n - 1). which: last or best. */
static void add_moments(json_t *row, const json_t *results, const char *which)
{
    double        n = 0, mean = 0, squares = 0;
    const json_t *of;
    size_t        i;
    char          name[64];

    snprintf(name, sizeof name, "%s_value", which);
    json_array_foreach(results, i, of) {
        double v = json_figure(json_where(of, "measure", json_str(row, "measure")), name);
        double off = v - mean;

        if (!isfinite(v))
            continue;
        mean += off / ++n;
        squares += off * (v - mean);
    }
    snprintf(name, sizeof name, "%s_n", which);
    json_object_set_new(row, name, json_integer((json_int_t)n));
    snprintf(name, sizeof name, "%s_mean", which);
    json_object_set_new(row, name, n > 0 && isfinite(mean) ? json_real(mean) : json_null());
    snprintf(name, sizeof name, "%s_deviation", which);
    if (n > 1 && isfinite(squares))
        json_object_set_new(row, name, json_real(sqrt(squares / (n - 1))));
}

/* Gives the first of a group its section `seeds`: a row for each measure. */
static void write_group(const struct compared *runs, json_t *group, int number)
{
    json_t       *rows = json_array(), *results = results_of(runs, group), *numbers = json_object();
    json_t       *at;
    const json_t *of, *r;
    const char   *seed;
    size_t        i, k;
    char          numbers_text[256], seeds_text[256], text[32];
    size_t        first = SIZE_MAX;

    json_object_foreach(group, seed, at) {
        size_t run = (size_t)json_integer_value(at);

        first = first == SIZE_MAX ? run : first;
        snprintf(text, sizeof text, "%zu", run + 1);
        json_object_set_new(numbers, text, json_true());
        json_object_set_new(json_object_get(runs[run].report, "comparison"), "group",
                            json_integer(number));
    }
    join(numbers_text, sizeof numbers_text, numbers, ", ", ", ");
    join(seeds_text, sizeof seeds_text, group, ", ", ", ");
    json_array_foreach(results, i, of)
        json_array_foreach(of, k, r)
            if (!json_where(rows, "measure", json_str(r, "measure")))
                json_array_append_new(rows, json_pack("{s:i, s:s, s:s, s:s}", "group", number,
                                                      "runs", numbers_text, "seeds", seeds_text,
                                                      "measure", json_str(r, "measure")));
    json_array_foreach(rows, i, at) {
        add_moments(at, results, "last");
        add_moments(at, results, "best");
    }
    json_object_set_new(runs[first].report, "seeds", rows);
    json_decref(numbers);
    json_decref(results);
}

static int has_group(const struct compared *run)
{
    return json_object_get(json_object_get(run->report, "comparison"), "group") != NULL;
}

/* A seed counts once, so the same run twice is no group. */
void sweep_seeds(const struct compared *runs, size_t n)
{
    json_t *common = json_array();
    int     groups = 0;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(common, without_seed(runs[i].settings));
    for (size_t i = 0; i < n; i++) {
        json_t *group = json_object();

        for (size_t j = has_group(&runs[i]) ? n : i; j < n; j++) {
            const char *seed = json_str(runs[j].settings, "seed");

            if (!has_group(&runs[j]) && !json_object_get(group, seed) &&
                json_equal(json_array_get(common, i), json_array_get(common, j)))
                json_object_set_new(group, seed, json_integer((json_int_t)j));
        }
        if (json_object_size(group) > 1)
            write_group(runs, group, ++groups);
        json_decref(group);
    }
    json_decref(common);
}
