/* compare.c: compares several runs with the first of them, as the papers' figures compare SU, SU+O
 * and SU+O+C with BASE. A run's speed is the tokens per second of its median steady step, so that
 * runs with different batches can be compared, too. Every setting that differs from the first run's
 * is listed. A run's label, which stands at its bars and curves, is made of as few of them as tell
 * the runs apart. */
#include "report/compare.h"

#include "report/format.h"

/* ---- the settings that tell runs apart ---- */

/* Splits classes of runs by their values of a setting: each run gets the first run that is of its
 * class and has its value. Returns whether there are more classes now. */
static int split(size_t *class, const struct compared *runs, size_t n, const char *name)
{
    int more = 0;

    for (size_t i = n; i-- > 0;) {
        size_t first = 0;

        while (class[first] != class[i] || strcmp(json_str(runs[first].settings, name),
                                                  json_str(runs[i].settings, name)))
            first++;
        more |= first != class[i];
        class[i] = first;
    }
    return more;
}

/* Of the settings that differ, those that say more than the ones before: the seed is asked behind
 * all others, and what is about the machine last. */
static json_t *telling(const struct compared *runs, size_t n, json_t *differ)
{
    json_t     *all = json_object(), *v;
    size_t     *class = calloc(n, sizeof *class);
    const char *name;

    for (int turn = 0; turn < 3 && class; turn++)
        json_object_foreach(differ, name, v) {
            int its = compare_is_machine(name) ? 2 : !strcmp(name, "seed");

            if (its == turn && split(class, runs, n, name))
                json_object_set_new(all, name, json_true());
        }
    free(class);
    return all;
}

/* ---- labels ---- */

enum { LABEL = 34, VALUE = 16, LEAST_NAME = 6 };

struct label { char text[LABEL + 8]; size_t n; int parts, full; };

/* Adds a part. If there is no room for it, three dots stand for it and all that follow. */
static void label_add(struct label *l, const char *part)
{
    const char *before = l->parts++ ? ", " : l->n ? " " : "";

    if (l->full)
        return;
    l->full = l->n + strlen(before) + strlen(part) > LABEL;
    l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s%s", before,
                             l->full ? "..." : part);
}

/* "su+o, 4 devices, lr 0.003": the run's values of the settings that tell the runs apart.
 * Compression that is off shows in the mode, which is not su+o+c. */
static void label_settings(struct label *l, const struct compared *run, json_t *tell, int seed)
{
    size_t      devices = json_array_size(json_object_get(run->report, "devices"));
    int         by_devices = json_object_get(tell, "devices") != NULL;
    int         compresses = json_num(run->report, "compress") > 0;
    json_t     *v;
    const char *name;
    char        text[128], end[64];

    if (by_devices || json_object_get(tell, "mode") || json_object_get(tell, "compress"))
        label_add(l, figure_mode(text, sizeof text, run->report));
    snprintf(text, sizeof text, "%zu device%s", devices, devices > 1 ? "s" : "");
    if (by_devices && devices)
        label_add(l, text);
    json_object_foreach(tell, name, v) {
        const char *value = json_str(run->settings, name);

        snprintf(text, sizeof text, "%s %s", name,
                 *value ? figure_end(end, sizeof end, value, VALUE) : "none");
        if (strcmp(name, "mode") && strcmp(name, "devices") && (seed || strcmp(name, "seed")) &&
            (compresses || strcmp(name, "compress")))
            label_add(l, text);
    }
}

/* "2 su+o, 4 devices, lr 0.003, run-b": number, settings, and where there is room a name's end. */
static json_t *label(size_t i, const struct compared *run, json_t *tell)
{
    struct label l = { .n = 0 };
    char         end[64];

    l.n = (size_t)snprintf(l.text, sizeof l.text, "%zu", i + 1);
    label_settings(&l, run, tell, 1);
    if (!l.parts || l.n + LEAST_NAME + 2 <= LABEL)
        label_add(&l, figure_end(end, sizeof end, figure_run(run->report), LABEL - l.n - 2));
    return report_string(l.text);
}

/* Tells in a group's section which settings it has, but for the seed. */
static void label_group(const struct compared *run, json_t *tell)
{
    struct label l = { .n = 0 };
    json_t      *row;
    size_t       i;

    label_settings(&l, run, tell, 0);
    json_array_foreach(json_object_get(run->report, "seeds"), i, row)
        json_object_set_new(row, "setting", report_string(l.text));
}

/* ---- all of it ---- */

static void compare(const struct compared *runs, size_t n, const char *by)
{
    double  pace = json_num(json_object_get(runs->report, "times"), "tokens_per_second");
    json_t *differ = compare_names(runs, n), *tell = telling(runs, n, differ);

    for (size_t i = 0; i < n; i++)
        json_object_set_new(runs[i].report, "differs",
                            compare_differences(runs->settings, runs[i].settings));
    for (size_t i = 0; i < n; i++) {
        double its = json_num(json_object_get(runs[i].report, "times"), "tokens_per_second");
        json_t *c = json_pack("{s:o}", "label", label(i, &runs[i], tell));

        if (pace > 0 && its > 0)
            json_object_set_new(c, "speedup", json_real(its / pace));
        if (by)
            json_object_set_new(c, "by", report_string(by));
        json_object_set_new(runs[i].report, "comparison", c);
    }
    sweep_seeds(runs, n);
    for (size_t i = 0; i < n; i++)
        label_group(&runs[i], tell);
    json_decref(differ);
    json_decref(tell);
}

int report_compare(json_t *reports, const char *by, struct err *err)
{
    size_t           n = json_array_size(reports);
    struct compared *runs = calloc(n + 1, sizeof *runs);
    int              rc = 0;

    if (!runs)
        return err_set(err, -ENOMEM, "out of memory while comparing the runs");
    for (size_t i = 0; i < n; i++)
        runs[i] = (struct compared){ .report = json_incref(json_array_get(reports, i)),
                                     .settings = compare_settings(json_array_get(reports, i)),
                                     .given = i };
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
