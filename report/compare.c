/* compare.c: compares several runs with the first of them, as the papers' figures compare SU, SU+O
 * and SU+O+C with BASE. A run's speed is the tokens per second of its median steady step, so that
 * runs with different batches can be compared, too. Every setting that differs from the first run's
 * is listed: the model, its origin, options, drives and the machine. */
#include "report/report.h"

#include "report/format.h"
#include "run/folder/train_opts.h"

/* Names, and the settings (run/folder/settings.h) that give their values: the first of several keys
 * that is there, or with a star all keys that begin so. */
static const struct named { const char *name, *keys; } sources[] = {
    { "init", "given.init" }, { "data", "data.text data.path" },
    { "eval-data", "eval.text eval.path" }, { "task", "task" }, { "data", "given.data" },
    { "mix", "given.mix data.mix" }, { "eval-split", "given.eval-split eval.split" },
    { "train-file", "given.train-file" }, { "eval-file", "given.eval-file" },
    { "rows (checksum)", "train.sum" }, { "rows evaluated on (checksum)", "dev.sum" },
    { "text-column", "column.text" }, { "pair-column", "column.pair" },
    { "label-column", "column.label" },
}, machines[] = {
    { "drives", "drive.*" }, { "ranks", "ranks" }, { "engine", "engine" },
    { "processor", "cpu" }, { "host", "host" },
};

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

/* Adds a difference. A name is added once, even if a setting has several keys, like pretrain's
 * --data. */
static void add(json_t *all, const char *name, const char *first, const char *its)
{
    json_t *other;
    size_t  i;
    int     new = 1;

    json_array_foreach(all, i, other)
        new &= strcmp(json_str(other, "setting"), name) != 0;
    if (new && strcmp(first, its))
        json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "setting", name, "first",
                                             *first ? first : "none", "value",
                                             *its ? its : "none"));
}

/* Compares named settings. A run without drives, as in mode mem, differs in its mode, which is
 * listed already. */
static void add_named(json_t *all, const json_t *first, const json_t *report,
                      const struct named *names, size_t n)
{
    char a[256], b[256];

    for (size_t i = 0; i < n; i++) {
        const char *was = text_of(a, sizeof a, first, names[i].keys);
        const char *is = text_of(b, sizeof b, report, names[i].keys);

        if (!strchr(names[i].keys, '*') || (*was && *is))
            add(all, names[i].name, was, is);
    }
}

/* Compares the models' settings. Keys of both runs are used, because derived ones are not
 * stored. */
static void add_model(json_t *all, json_t *first, json_t *report)
{
    static const char head[] = "config.";
    json_t     *both = json_copy(json_object_get(first, "settings")), *v;
    const char *key;

    json_object_update_missing(both, json_object_get(report, "settings"));
    json_object_foreach(both, key, v)
        if (!strncmp(key, head, sizeof head - 1) && strcmp(key, "config.generation") &&
            strcmp(key, "config.labels"))
            add(all, key + sizeof head - 1, report_setting_text(first, key),
                report_setting_text(report, key));
    json_decref(both);
}

/* Whether an option is compared. Device paths always differ; options that only affect output are
 * left out. */
static int is_of_run(const struct opt_row *row)
{
    return row->kept != OPT_PASSING && strcmp(row->name, "device") &&
           strcmp(row->name, "act-device") && strcmp(row->name, "tensorboard") &&
           strcmp(row->name, "log-every") && strcmp(row->name, "endurance");
}

static void add_options(json_t *all, const json_t *first, const json_t *report)
{
    char key[64], a[32], b[32];

    for (const struct opt_row *row = train_rows; row->name; row++) {
        snprintf(key, sizeof key, "option.%s", row->name);
        const char *was = report_setting_text(first, key), *is = report_setting_text(report, key);

        if (is_of_run(row))
            add(all, row->name, figure_option(a, sizeof a, row, was),
                figure_option(b, sizeof b, row, is));
    }
}

static json_t *differences(json_t *first, json_t *report)
{
    json_t *all = json_array();

    add_model(all, first, report);
    add_named(all, first, report, sources, sizeof sources / sizeof *sources);
    add_options(all, first, report);
    add_named(all, first, report, machines, sizeof machines / sizeof *machines);
    return all;
}

void report_compare(json_t *reports)
{
    json_t *first = json_array_get(reports, 0), *report;
    double  pace = json_num(json_object_get(first, "times"), "tokens_per_second");
    size_t  i;

    json_array_foreach(reports, i, report) {
        double  its = json_num(json_object_get(report, "times"), "tokens_per_second");
        json_t *c = json_object();

        if (pace > 0 && its > 0)
            json_object_set_new(c, "speedup", json_real(its / pace));
        json_object_set_new(report, "comparison", c);
        json_object_set_new(report, "differs", differences(first, report));
    }
}
