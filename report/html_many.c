/* html_many.c: the page of several runs: what they gave beside each other, and in which settings
 * they differ. A run is its number everywhere but in the first table. */
#include "report/report.h"

#include "report/charts.h"
#include "report/figures.h"
#include "report/page.h"
#include "report/svg.h"

enum { FIGURE = 32 };

static void table_of_runs(FILE *out, const json_t *reports)
{
    static const char *const heads[] = { "run", "mode", "#devices", "#steady step", "#tokens/s",
                                         "#speed-up", "#hidden", "#peak memory", "#loss",
                                         "#evaluation" };
    const json_t *r;
    size_t        i;
    char          a[FIGURE], text[512];

    page_section_open(out, "The runs", "Median of the steady steps; the loss is the last one.", 1);
    page_table_open(out, heads, sizeof heads / sizeof *heads);
    json_array_foreach(reports, i, r) {
        const json_t *q = json_object_get(r, "times"), *s = json_object_get(r, "steps");
        size_t        devices = json_array_size(json_object_get(r, "devices"));
        double        busy, hidden;
        int           overlaps = overlap_sum(r, &busy, &hidden);

        snprintf(text, sizeof text, "%zu  %.400s", i + 1, json_str(r, "run"));
        fputs("<tr>", out);
        page_cell(out, text);
        page_cell(out, figure_mode(a, sizeof a, r));
        page_number(out, devices ? "%.0f" : "–", (double)devices);
        page_number(out, "%s", q ? figure_seconds(a, sizeof a, json_num(q, "median")) : "–");
        page_number(out, q ? "%.1f" : "–", json_num(q, "tokens_per_second"));
        const json_t *speedup = json_object_get(json_object_get(r, "comparison"), "speedup");
        page_number(out, speedup ? "%.2f ×" : "–", json_number_value(speedup));
        page_number(out, overlaps ? "%.1f %%" : "–", overlaps ? 100 * hidden / busy : 0);
        page_number(out, "%s", figure_peak(text, sizeof text, r));
        page_number(out, "%.4f", json_figure(s, "last_loss"));
        page_number(out, "%s", figure_evals(text, sizeof text, r));
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
}

/* ---- tables with a column a run ---- */

static void columns_open(FILE *out, const json_t *reports, const char *head)
{
    char (*names)[24] = calloc(json_array_size(reports), sizeof *names);
    const char **heads = calloc(json_array_size(reports) + 1, sizeof *heads);

    for (size_t i = 0; i < json_array_size(reports) && names && heads; i++) {
        snprintf(names[i], sizeof *names, "%zu", i + 1);
        heads[i + 1] = names[i];
    }
    if (names && heads) {
        heads[0] = head;
        page_table_open(out, heads, json_array_size(reports) + 1);
    }
    free(names);
    free(heads);
}

/* Its value of a setting that differs: as the first has it where it is not said. */
static const char *setting_of(const json_t *report, const char *name, const char *first)
{
    const json_t *d;
    size_t        i;

    json_array_foreach(json_object_get(report, "differs"), i, d)
        if (!strcmp(json_str(d, "setting"), name))
            return json_str(d, "value");
    return first;
}

static int seen_before(const json_t *reports, size_t before, const char *name)
{
    for (size_t i = 0; i < before; i++)
        if (setting_of(json_array_get(reports, i), name, NULL))
            return 1;
    return 0;
}

static void section_differs(FILE *out, const json_t *reports)
{
    const json_t *r, *d, *each;
    size_t        i, k, at, any = 0;

    json_array_foreach(reports, i, r)
        any += json_array_size(json_object_get(r, "differs"));
    page_section_open(out, "Settings that differ", any ? NULL : "None.", 1);
    if (any)
        columns_open(out, reports, "setting");
    json_array_foreach(reports, i, r)
        json_array_foreach(json_object_get(r, "differs"), k, d) {
            const char *name = json_str(d, "setting");

            if (seen_before(reports, i, name))
                continue;
            fputs("<tr>", out);
            page_cell(out, name);
            json_array_foreach(reports, at, each)
                page_cell(out, setting_of(each, name, json_str(d, "first")));
            fputs("</tr>\n", out);
        }
    if (any)
        page_table_close(out);
    page_section_close(out);
}

/* ---- pictures ---- */

static int lived_stacks(FILE *out, const json_t *reports)
{
    return chart_stacks(out, reports, "breakdown");
}

static int serial_stacks(FILE *out, const json_t *reports)
{
    return chart_stacks(out, reports, "breakdown_serial");
}

static void section_stacks(FILE *out, const json_t *reports)
{
    char *lived = page_drawn(lived_stacks, reports), *serial = page_drawn(serial_stacks, reports);

    if (lived) {
        page_section_open(out, "Breakdown of a step, as it was lived", "The mean of the steady "
                          "steps that are kept whole.", 0);
        page_parts_legend(out);
        page_chart(out, lived);
        page_section_close(out);
    }
    if (serial) {
        page_section_open(out, "Serialised", "As if nothing overlapped: the mean of all steps "
                          "that are kept whole.", 0);
        page_parts_legend(out);
        page_chart(out, serial);
        page_section_close(out);
    }
    free(lived);
    free(serial);
}

static void section_losses(FILE *out, const json_t *reports)
{
    char         *svg = page_drawn(chart_losses, reports), label[CHART_LABEL];
    const json_t *r;
    size_t        i;

    if (svg) {
        page_section_open(out, "Losses", "Where curves lie on each other, each is dashed.", 0);
        fputs("<ul class=\"legend\">", out);
        json_array_foreach(reports, i, r) {
            fprintf(out, "<li><span class=\"%s%s\"></span>", chart_colour(i),
                    i < CHART_COLOURS ? "" : " dashed");
            svg_escape(out, chart_label(label, i, r));
            fputs("</li>", out);
        }
        fputs("</ul>\n", out);
        page_chart(out, svg);
        page_section_close(out);
    }
    free(svg);
}

static void section_devices(FILE *out, const json_t *reports)
{
    char        modes[CHART_COLOURS][CHART_MODE];
    const char *entries[CHART_COLOURS][2];
    size_t      n = chart_modes(reports, modes, CHART_COLOURS);
    char       *svg = page_drawn(chart_devices, reports);

    for (size_t i = 0; i < n; i++) {
        entries[i][0] = chart_colour(i);
        entries[i][1] = modes[i];
    }
    if (svg) {
        page_section_open(out, "Speed against devices", "Tokens a second of the median steady "
                          "step, a line a mode.", 0);
        page_legend(out, (const char *const(*)[2])entries, n);
        page_chart(out, svg);
        page_section_close(out);
    }
    free(svg);
}

void html_many(FILE *out, const json_t *reports)
{
    char title[128];

    snprintf(title, sizeof title, "%zu runs side by side", json_array_size(reports));
    page_head(out, title);
    fprintf(out, "<header>\n<h1>%s</h1>\n<p>The first is what the others are compared with.</p>\n"
            "</header>\n<div class=\"cards\">\n", title);
    table_of_runs(out, reports);
    section_differs(out, reports);
    page_section_chart(out, "Speed-up over the first", "By tokens a second of the median steady "
                       "step.", chart_speedup, reports);
    section_devices(out, reports);
    section_losses(out, reports);
    section_stacks(out, reports);
    fputs("</div>\n", out);
    page_foot(out);
}
