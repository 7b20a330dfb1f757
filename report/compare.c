/* compare.c: compares several runs with the first of them, as the papers' figures compare SU, SU+O
 * and SU+O+C with BASE. A run's speed is the tokens per second of its median steady step, so that
 * runs with different batches can be compared, too. Every setting that differs from the first run's
 * is listed: the model, its origin, options, drives and the machine. A run's label, which stands at
 * its bars and curves, is made of the settings that differ. */
#include "report/compare.h"

#include "report/format.h"
#include "run/folder/train_opts.h"

/* Names, and the settings (run/folder/settings.h) that give their values: the first of several keys
 * that is there, or with a star all keys that begin so. */
static const struct named { const char *name, *keys; } sources[] = {
    { "init", "given.init" }, { "data", "data.text data.path given.data" },
    { "eval-data", "eval.text eval.path" }, { "task", "task" },
    { "train-file", "given.train-file" }, { "eval-file", "given.eval-file" },
    { "rows (checksum)", "train.sum" }, { "rows evaluated on (checksum)", "dev.sum" },
    { "text-column", "column.text" }, { "pair-column", "column.pair" },
    { "label-column", "column.label" }, { "ranks", "ranks" },
}, machines[] = {
    { "drives", "drive.*" }, { "engine", "engine" }, { "processor", "cpu" }, { "host", "host" },
};
enum { SOURCES = sizeof sources / sizeof *sources, MACHINES = sizeof machines / sizeof *machines };

/* Joins the values, each once: devices may share a drive. */
static const char *joined(char *buf, size_t size, const json_t *report, const char *keys)
{
    const char *key;
    json_t     *v;

    *buf = '\0';
    json_object_foreach((json_t *)(uintptr_t)json_object_get(report, "settings"), key, v) {
        size_t      n = strlen(buf);
        const char *text = json_string_value(v);

        if (!strncmp(key, keys, strlen(keys) - 1) && text && !strstr(buf, text))
            snprintf(buf + n, size - n, "%s%s", n ? ", " : "", text);
    }
    return buf;
}

static const char *text_of(char *buf, size_t size, const json_t *report, const char *keys)
{
    if (strchr(keys, '*'))
        return joined(buf, size, report, keys);
    for (const char *at = keys; *at; at += strspn(at, " ")) {
        snprintf(buf, size, "%.*s", (int)strcspn(at, " "), at);
        at += strlen(buf);
        if (*report_setting_text(report, buf))
            return report_setting_text(report, buf);
    }
    return "";
}

/* ---- the settings of a run ---- */

/* A name is added once, even if a setting has several keys. */
static void add(json_t *all, const char *name, const char *value)
{
    if (!json_object_get(all, name))
        json_object_set_new(all, name, report_string(value));
}

static void add_named(json_t *all, const json_t *report, const struct named *names, size_t n)
{
    char text[256];

    for (size_t i = 0; i < n; i++)
        add(all, names[i].name, text_of(text, sizeof text, report, names[i].keys));
}

static void add_model(json_t *all, const json_t *report)
{
    static const char head[] = "config.";
    json_t     *v;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)json_object_get(report, "settings"), key, v)
        if (!strncmp(key, head, sizeof head - 1) && strcmp(key, "config.generation") &&
            strcmp(key, "config.labels"))
            add(all, key + sizeof head - 1, report_setting_text(report, key));
}

/* Whether an option is compared. Device paths always differ; options that only affect output are
 * left out. */
static int is_of_run(const struct opt_row *row)
{
    return row->kept != OPT_PASSING && strcmp(row->name, "device") &&
           strcmp(row->name, "act-device") && strcmp(row->name, "tensorboard") &&
           strcmp(row->name, "log-every") && strcmp(row->name, "endurance");
}

static void add_options(json_t *all, const json_t *report)
{
    char key[64], text[32];

    for (const struct opt_row *row = train_rows; row->name; row++) {
        snprintf(key, sizeof key, "option.%s", row->name);
        if (is_of_run(row))
            add(all, row->name, figure_option(text, sizeof text, row,
                                              report_setting_text(report, key)));
    }
}

static json_t *settings_of(const json_t *report)
{
    json_t *all = json_object();

    add_model(all, report);
    add_named(all, report, sources, SOURCES);
    add_options(all, report);
    add_named(all, report, machines, MACHINES);
    return all;
}

int compare_is_machine(const char *setting)
{
    for (size_t i = 0; i < MACHINES; i++)
        if (!strcmp(machines[i].name, setting))
            return 1;
    return 0;
}

/* A run without drives, as in mode mem, differs in its mode, which is listed already. */
json_t *compare_differences(json_t *first, json_t *other)
{
    json_t     *both = json_copy(first), *all = json_array(), *v;
    const char *name;

    json_object_update_missing(both, other);
    json_object_foreach(both, name, v) {
        const char *was = json_str(first, name), *is = json_str(other, name);

        if (strcmp(was, is) && (strcmp(name, "drives") || (*was && *is)))
            json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "setting", name, "first",
                                                 *was ? was : "none", "value",
                                                 *is ? is : "none"));
    }
    json_decref(both);
    return all;
}

/* ---- labels ---- */

enum { LABEL = 34, VALUE = 16, LEAST_NAME = 6 };

struct label { char text[LABEL + 8]; size_t n; int parts, full; };

/* Adds a part. If there is no room for it, three dots stand for it and all that follow. */
static void label_add(struct label *l, const char *part)
{
    const char *before = l->parts++ ? ", " : " ";

    if (l->full)
        return;
    l->full = l->n + strlen(before) + strlen(part) > LABEL;
    l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s%s", before,
                             l->full ? "..." : part);
}

/* "2 su+o, 4 devices, lr 0.003, run-b": the settings that tell a run from the others, and where
 * there is room the end of its name. */
static json_t *label(size_t i, const struct compared *run, json_t *differ)
{
    struct label l = { .n = 0 };
    size_t       devices = json_array_size(json_object_get(run->report, "devices"));
    int          by_devices = json_object_get(differ, "devices") != NULL;
    json_t      *v;
    const char  *name;
    char         text[128], end[64];

    l.n = (size_t)snprintf(l.text, sizeof l.text, "%zu", i + 1);
    if (by_devices || json_object_get(differ, "mode"))
        label_add(&l, figure_mode(text, sizeof text, run->report));
    snprintf(text, sizeof text, "%zu device%s", devices, devices > 1 ? "s" : "");
    if (by_devices && devices)
        label_add(&l, text);
    json_object_foreach(differ, name, v) {
        const char *value = json_str(run->settings, name);

        snprintf(text, sizeof text, "%s %s", name,
                 *value ? figure_end(end, sizeof end, value, VALUE) : "none");
        if (strcmp(name, "mode") && strcmp(name, "devices"))
            label_add(&l, text);
    }
    if (!l.parts || l.n + LEAST_NAME + 2 <= LABEL)
        label_add(&l, figure_end(end, sizeof end, figure_run(run->report), LABEL - l.n - 2));
    return report_string(l.text);
}

/* ---- all of it ---- */

/* The names of the settings that differ between any of the runs, as an object, in the order of a
 * run's settings. */
static json_t *all_that_differ(const struct compared *runs, size_t n)
{
    json_t     *all = json_object(), *ordered = json_object(), *v;
    const char *name;
    size_t      k;

    for (size_t i = 1; i < n; i++)
        json_array_foreach(json_object_get(runs[i].report, "differs"), k, v)
            json_object_set_new(all, json_str(v, "setting"), json_true());
    json_object_foreach(runs->settings, name, v)
        if (json_object_get(all, name))
            json_object_set_new(ordered, name, json_true());
    json_object_update_missing(ordered, all);
    json_decref(all);
    return ordered;
}

static void compare(const struct compared *runs, size_t n, const char *by)
{
    double  pace = json_num(json_object_get(runs->report, "times"), "tokens_per_second");
    json_t *differ;

    for (size_t i = 0; i < n; i++)
        json_object_set_new(runs[i].report, "differs",
                            compare_differences(runs->settings, runs[i].settings));
    differ = all_that_differ(runs, n);
    for (size_t i = 0; i < n; i++) {
        double its = json_num(json_object_get(runs[i].report, "times"), "tokens_per_second");
        json_t *c = json_pack("{s:o}", "label", label(i, &runs[i], differ));

        if (pace > 0 && its > 0)
            json_object_set_new(c, "speedup", json_real(its / pace));
        if (by)
            json_object_set_new(c, "by", report_string(by));
        json_object_set_new(runs[i].report, "comparison", c);
    }
    json_decref(differ);
    sweep_seeds(runs, n);
}

int report_compare(json_t *reports, const char *by, struct err *err)
{
    size_t           n = json_array_size(reports);
    struct compared *runs = calloc(n + 1, sizeof *runs);
    int              rc = 0;

    if (!runs)
        return err_set(err, -ENOMEM, "out of memory while comparing the runs");
    for (size_t i = 0; i < n; i++)
        runs[i] = (struct compared){ json_incref(json_array_get(reports, i)),
                                     settings_of(json_array_get(reports, i)), i };
    if (by)
        rc = sweep_sort(runs, n, by, err);
    if (!rc && n > 1)
        compare(runs, n, by);
    for (size_t i = 0; i < n; i++) {
        json_array_set_new(reports, i, runs[i].report);
        json_decref(runs[i].settings);
    }
    free(runs);
    return rc;
}
