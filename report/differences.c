/* differences.c: finds the settings in which two runs differ. */
#include "report/compare.h"

#include "data/base/table.h"
#include "report/format.h"
#include "run/folder/train_opts.h"

/* Names, and the settings (run/folder/settings.h) that give their values: the first of several keys
 * that is there, or with a star all keys that begin so. */
static const struct named { const char *name, *keys; } sources[] = {
    { "init", "given.init" }, { "data", "data.text data.path given.data" },
    { "eval-data", "eval.text eval.path" }, { "task", "task" },
    { "mix", "given.mix data.mix" }, { "eval-split", "given.eval-split eval.split" },
    { "train-file", "given.train-file" }, { "eval-file", "given.eval-file" },
    { "rows (checksum)", "train.sum" }, { "rows evaluated on (checksum)", "dev.sum" },
    { "text-column", "column.text" }, { "pair-column", "column.pair" },
    { "label-column", "column.label" }, { "loss", "given.loss" }, { "beta", "given.beta" },
    // runs of pairs of an older version have it among what was given
    { "label-smoothing", "option.label-smoothing given.label-smoothing" },
    { "packing", "chat.packing" }, { "group-by-length", "chat.by_length" }, { "ranks", "ranks" },
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
    if (*value && !json_object_get(all, name))
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

/* Whether an option is compared: not device paths, nor what only affects output. */
static int is_of_run(const struct opt_row *row)
{
    return row->kept != OPT_PASSING &&
           !is_word_of(row->name, " device act-device tensorboard log-every endurance ");
}

struct adding { json_t *all; const json_t *report; };

/* usual: the option's default, for a run of a program that did not know the option. */
static int add_option(void *ctx, const struct opt_row *row, int given, const char *usual)
{
    const struct adding *a = ctx;
    const char          *text;
    char                 key[64], size[32];

    (void)given;
    snprintf(key, sizeof key, "option.%s", row->name);
    text = report_setting_text(a->report, key);
    if (is_of_run(row))
        add(a->all, row->name, figure_option(size, sizeof size, row, *text ? text : usual));
    return 0;
}

static void add_options(json_t *all, const json_t *report)
{
    struct adding     a = { all, report };
    struct train_opts usual;
    struct opt_line   line = train_opts_line(&usual);

    // an imported model has no options of a training
    if (!*report_setting_text(report, "option.batch") || train_opts_default(&usual, NULL))
        return;
    opt_each(&line, add_option, &a);
    train_opts_release(&usual);
}

json_t *compare_settings(const json_t *report)
{
    json_t *all = json_object();

    add_model(all, report);
    add_named(all, report, sources, SOURCES);
    add_options(all, report);
    add_named(all, report, machines, MACHINES);
    return all;
}

/* The number of threads is the machine's, unless it was given. */
int compare_is_machine(const char *setting)
{
    return TABLE_FIND(machines, setting) || !strcmp(setting, "threads");
}

/* Whether two runs differ in a setting. A run without drives has another mode, which is listed. */
static int differs(const json_t *first, const json_t *other, const char *name)
{
    const char *was = json_str(first, name), *is = json_str(other, name);

    return strcmp(was, is) && (strcmp(name, "drives") || (*was && *is));
}

json_t *compare_differences(json_t *first, json_t *other)
{
    json_t     *both = json_copy(first), *all = json_array(), *v;
    const char *name;

    json_object_update_missing(both, other);
    json_object_foreach(both, name, v) {
        const char *was = json_str(first, name), *is = json_str(other, name);

        if (differs(first, other, name))
            json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "setting", name, "first",
                                                 *was ? was : "none", "value",
                                                 *is ? is : "none"));
    }
    json_decref(both);
    return all;
}

json_t *compare_names(const struct compared *runs, size_t n)
{
    json_t     *every = json_object(), *all = json_object(), *v;
    const char *name;

    for (size_t i = 0; i < n; i++)
        json_object_update_missing(every, runs[i].settings);
    json_object_foreach(every, name, v)
        for (size_t i = 1; i < n; i++)
            if (differs(runs->settings, runs[i].settings, name))
                json_object_set_new(all, name, json_true());
    json_decref(every);
    return all;
}
