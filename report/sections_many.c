/* sections_many.c: makes the sections of a report on several runs: their results next to each
 * other, and the settings in which they differ. Only the first table has their names. */
#include "report/sections.h"

#include "report/report.h"

enum { TEXT = 128, NAME = 22 };

/* ---- the runs ---- */

json_t *runs_rows(const json_t *reports)
{
    json_t       *rows = json_array(), *row;
    const json_t *r;
    size_t        i;
    double        busy, hidden;
    char          text[TEXT];

    json_array_foreach(reports, i, r) {
        const json_t *q = json_object_get(r, "times"), *s = json_object_get(r, "steps");
        size_t        devices = json_array_size(json_object_get(r, "devices"));

        row = json_pack("{s:o, s:s, s:O*, s:O*, s:O*, s:O*}", "run",
                        json_sprintf("%zu  %s", i + 1, json_str(r, "run")), "label",
                        report_label(r), "median", json_object_get(q, "median"), "pace",
                        json_object_get(q, "tokens_per_second"), "speedup",
                        json_object_get(json_object_get(r, "comparison"), "speedup"), "loss",
                        json_object_get(s, "last_loss"));
        json_object_set_new(row, "mode", json_string(figure_mode(text, sizeof text, r)));
        json_object_set_new(row, "peak", json_string(figure_peak(text, sizeof text, r)));
        if (devices)
            json_object_set_new(row, "devices", json_integer((json_int_t)devices));
        if (overlap_sum(r, &busy, &hidden))
            json_object_set_new(row, "hidden", json_real(hidden / busy));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void speedup_bar(json_t *row, const json_t *item)
{
    table_part(row, "", "forward", "#", json_num(item, "speedup"));
}

/* The runs that have a speed-up, if any has. */
static json_t *speedup_rows(const json_t *reports)
{
    json_t *rows = runs_rows(reports), *row;
    size_t  i, any = 0;

    json_array_foreach(rows, i, row)
        any += json_object_get(row, "speedup") != NULL;
    if (!any)
        json_array_clear(rows);
    return rows;
}

/* ---- evaluations ---- */

static json_t *measures_of(const json_t *reports)
{
    json_t       *all = json_object();
    const json_t *r, *row;
    size_t        i, k;

    json_array_foreach(reports, i, r)
        json_array_foreach(json_object_get(r, "results"), k, row)
            json_object_set_new(all, json_str(row, "measure"), json_true());
    return all;
}

/* For each measure a heading, and below it the rows of this section of all reports. add: adds what
 * else there is to say of the i-th run; NULL: nothing. */
static json_t *by_measure(const json_t *reports, const char *section,
                          void (*add)(json_t *row, const json_t *report, size_t i))
{
    json_t       *measures = measures_of(reports), *rows = json_array(), *any;
    const json_t *r, *row;
    const char   *measure;
    size_t        i, k;

    json_object_foreach(measures, measure, any) {
        size_t before = json_array_size(rows);

        json_array_foreach(reports, i, r)
            json_array_foreach(json_object_get(r, section), k, row) {
                if (strcmp(json_str(row, "measure"), measure))
                    continue;
                if (json_array_size(rows) == before)
                    json_array_append_new(rows, json_pack("{s:s}", "heading", measure));
                json_t *copy = json_copy((json_t *)(uintptr_t)row);
                if (add)
                    add(copy, r, i);
                json_array_append_new(rows, copy);
            }
    }
    json_decref(measures);
    return rows;
}

static void add_run(json_t *row, const json_t *report, size_t i)
{
    char name[TEXT];

    json_object_set_new(row, "run", json_sprintf("%zu  %s", i + 1,
                                                 figure_end(name, sizeof name, figure_run(report),
                                                            NAME)));
    json_object_set_new(row, "lr", report_string(report_setting_text(report, "option.lr")));
    json_object_set_new(row, "seed", report_string(report_setting_text(report, "option.seed")));
}

static json_t *evaluations_rows(const json_t *reports)
{
    return by_measure(reports, "results", add_run);
}

static json_t *seeds_rows(const json_t *reports)
{
    return by_measure(reports, "seeds", NULL);
}

/* ---- settings ---- */

/* A run's value of a setting. If it does not differ, that is the first run's. */
static const char *setting_of(const json_t *report, const char *name, const char *first)
{
    const json_t *d = json_where(json_object_get(report, "differs"), "setting", name);

    return d ? json_str(d, "value") : first;
}

static json_t *differs(const json_t *reports)
{
    json_t *heads = json_pack("[s]", "setting"), *rows = json_array(), *seen = json_object();
    const json_t *r, *d, *each;
    size_t        i, k, at;

    json_array_foreach(reports, i, r)
        json_array_append_new(heads, json_sprintf("%zu", i + 1));
    json_array_foreach(reports, i, r)
        json_array_foreach(json_object_get(r, "differs"), k, d) {
            const char *name = json_str(d, "setting");
            json_t     *cells = json_pack("[s]", name);

            json_array_foreach(reports, at, each)
                json_array_append_new(cells, json_string(setting_of(each, name,
                                                                    json_str(d, "first"))));
            if (!json_object_get(seen, name))
                json_array_append_new(rows, json_pack("{s:O}", "cells", cells));
            json_object_set_new(seen, name, cells);
        }
    json_decref(seen);
    return json_whole(json_pack("{s:o, s:o}", "heads", heads, "rows", rows),
                      !json_array_size(rows));
}

/* ---- breakdowns ---- */

static json_t *stacks(const json_t *reports, const char *which)
{
    json_t       *rows = json_array();
    const json_t *r;
    size_t        i;
    double        most = 0;

    json_array_foreach(reports, i, r) {
        json_array_append_new(rows, breakdown_row(json_object_get(r, which), report_label(r)));
        most = fmax(most, breakdown_sum(json_object_get(r, which)));
    }
    if (!(most > 0))
        json_array_clear(rows);
    return rows;
}

static json_t *lived_rows(const json_t *reports) { return stacks(reports, "breakdown"); }
static json_t *serial_rows(const json_t *reports) { return stacks(reports, "breakdown_serial"); }

const struct section sections_of_many[] = {
    { "The runs", "Median of the steady steps; the loss is the last one.",
      SECTION_WIDE | SECTION_PAGE, .make_rows = runs_rows,
      .columns = { { "run", "run", .as = NULL }, { "mode", "mode", .as = NULL },
                   { "#devices", "devices", .as = figure_whole },
                   { "#steady step", "median", .as = figure_seconds },
                   { "#tokens/s", "pace", .as = figure_tenths },
                   { "#speed-up", "speedup", .as = figure_times },
                   { "#hidden", "hidden", .as = figure_share },
                   { "#peak memory", "peak", .as = NULL },
                   { "#loss", "loss", .as = figure_exact } } },
    { "Evaluations: the last and the best", "The step is that of the best value.", SECTION_WIDE,
      .make_rows = evaluations_rows,
      .columns = { { "run", "run", .as = NULL }, { "#lr", "lr", .as = NULL },
                   { "#seed", "seed", .as = NULL }, { "#last", "last_value", .as = figure_exact },
                   { "#best", "best_value", .as = figure_exact },
                   { "#after step", "best_step", .as = figure_step } } },
    { "Runs that differ in the seed alone", "The mean of the last values and of the best ones, and "
      "their standard deviation (n - 1). Values that are no number are left out: n says how many "
      "are one.", SECTION_WIDE, .make_rows = seeds_rows,
      .columns = { { "runs", "runs", .as = NULL }, { "setting", "setting", .as = NULL },
                   { "#n", "last_n", .as = figure_whole },
                   { "#last", "last_mean", .as = figure_exact },
                   { "#deviation", "last_deviation", .as = figure_exact },
                   { "#n", "best_n", .as = figure_whole },
                   { "#best", "best_mean", .as = figure_exact },
                   { "#deviation", "best_deviation", .as = figure_exact } } },
    { "Settings that differ", NULL, SECTION_WIDE | SECTION_PAGE, .table = differs },
    { "Speed-up over the first", "By tokens a second of the median steady step.", SECTION_PAGE,
      .make_rows = speedup_rows, .bars = speedup_bar, .axis = figure_times,
      .columns = { { "", "label", .as = NULL }, { "#speed-up", "speedup", .as = figure_times } } },
    { "Speed against devices", "Tokens a second of the median steady step, a line for each mode.",
      SECTION_PAGE, .chart = chart_devices },
    { "Losses", WORDS_LOSS " Where curves lie on each other, each is dashed.", SECTION_PAGE,
      .chart = chart_losses },
    { "Breakdown of a step, as it was lived", "The mean of the steady steps that are kept whole.",
      .make_rows = lived_rows, .bars = breakdown_bar, .axis = figure_seconds,
      .columns = { { "", "label", .as = NULL }, { "#a step", "sum", .as = figure_seconds } } },
    { "Breakdown of a step, serialised", "As if nothing overlapped: the mean of all steps that are "
      "kept whole.", .make_rows = serial_rows, .bars = breakdown_bar, .axis = figure_seconds,
      .columns = { { "", "label", .as = NULL }, { "#a step", "sum", .as = figure_seconds } } },
    { 0 },
};
