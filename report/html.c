/* html.c: a report as a page: whole in one file, without network and script, light or dark as the
 * reader's screen is, readable on a phone and on paper. All text of the database goes through
 * svg_escape. Several runs make a page that compares them (html_many.c). */
#include "report/report.h"

#include "report/charts.h"
#include "report/figures.h"
#include "report/page.h"
#include "report/svg.h"
#include "run/folder/train_opts.h"

#include <math.h>

enum { FIGURE = 32 };

/* ---- the head ---- */

static void figure(FILE *out, const char *what, const char *value, const char *more)
{
    fputs("<div><dt>", out);
    svg_escape(out, what);
    fputs("</dt><dd>", out);
    svg_escape(out, value);
    fputs("</dd>", out);
    if (*more) {
        fputs("<dd class=\"more\">", out);
        svg_escape(out, more);
        fputs("</dd>", out);
    }
    fputs("</div>\n", out);
}

/* The measures of the evaluation that speaks for the run, and of the last one, where that is
 * another. */
static void lead_evals(FILE *out, const json_t *report)
{
    enum { MOST = 6 };
    const json_t *all = json_object_get(report, "evals"), *e, *l;
    double        step = eval_final(report);
    double        last = json_num(json_array_get(all, json_array_size(all) - 1), "step");
    int           best = *report_setting_text(report, "best.step") != 0;
    size_t        i, k, shown = 0;
    char          value[64], what[64], more[128];

    json_array_foreach(all, i, e) {
        if (json_num(e, "step") != step || shown++ >= MOST)
            continue;
        snprintf(what, sizeof what, "%.48s%s", json_str(e, "measure"),
                 strncmp(json_str(e, "measure"), "loss", 4) ? "" : " evaluated");
        snprintf(value, sizeof value, "%.4f", json_figure(e, "value"));
        int n = snprintf(more, sizeof more, "after step %.0f%s", step + 1,
                         best ? ", the best" : "");
        if (step != last)
            json_array_foreach(all, k, l)
                if (json_num(l, "step") == last && !strcmp(json_str(l, "measure"),
                                                           json_str(e, "measure")))
                    snprintf(more + n, sizeof more - (size_t)n, "; %.4f after step %.0f",
                             json_figure(l, "value"), last + 1);
        figure(out, what, value, more);
    }
}

static void lead_figures(FILE *out, const json_t *report)
{
    const json_t *s = json_object_get(report, "steps"), *q = json_object_get(report, "times");
    double        busy, hidden;
    char          a[FIGURE], b[FIGURE], value[64], more[128];

    fputs("<dl class=\"figures\">\n", out);
    lead_evals(out, report);
    if (json_num(s, "steps") > 0) {
        snprintf(value, sizeof value, "%.4f", json_figure(s, "last_loss"));
        int n = snprintf(more, sizeof more, "at step %.0f; %.4f at step %.0f",
                         json_num(s, "last") + 1, json_figure(s, "first_loss"),
                         json_num(s, "first") + 1);
        if (json_num(s, "finite_steps") < json_num(s, "steps"))
            snprintf(more + n, sizeof more - (size_t)n, "; a number in %.0f of %.0f steps",
                     json_num(s, "finite_steps"), json_num(s, "steps"));
        figure(out, "Loss", value, more);
    }
    if (q) {
        snprintf(more, sizeof more, "quartiles %s and %s; mean of all %s",
                 figure_seconds(a, sizeof a, json_num(q, "lower_quartile")),
                 figure_seconds(b, sizeof b, json_num(q, "upper_quartile")),
                 figure_seconds(value, sizeof value, json_num(q, "mean_of_all")));
        figure(out, "Steady step, median", figure_seconds(a, sizeof a, json_num(q, "median")),
               more);
        snprintf(value, sizeof value, "%.4g/s", json_num(q, "tokens_per_second"));
        snprintf(more, sizeof more, "%s in all", figure_count(a, sizeof a, json_num(s, "tokens")));
        figure(out, "Tokens", value, more);
    }
    if (overlap_sum(report, &busy, &hidden)) {
        snprintf(value, sizeof value, "%.1f %%", 100 * hidden / busy);
        snprintf(more, sizeof more, "%s of %s busy", figure_seconds(a, sizeof a, hidden),
                 figure_seconds(b, sizeof b, busy));
        figure(out, "Devices' work that nobody waited for", value, more);
    }
    if (json_num(s, "peak_rss") > 0)
        figure(out, "Peak resident memory",
               figure_peak(value, sizeof value, report), "");
    snprintf(value, sizeof value, "%.0f", json_num(s, "steps"));
    snprintf(more, sizeof more, "%.0f skipped, %.0f clipped", json_num(s, "skipped"),
             json_num(s, "clipped"));
    figure(out, "Steps", value, more);
    fputs("</dl>\n", out);
}

static void about(FILE *out, const json_t *report)
{
    char   model[128];
    size_t devices = json_array_size(json_object_get(report, "devices"));

    fputs("<header>\n<h1>", out);
    svg_escape(out, figure_run(report));
    fputs("</h1>\n<p>", out);
    svg_escape(out, figure_model(model, sizeof model, report));
    fprintf(out, "%smode ", *model ? " · " : "");
    svg_escape(out, json_str(report, "mode"));
    if (devices)
        fprintf(out, " on %zu device%s", devices, devices > 1 ? "s" : "");
    if (json_num(report, "compress") > 0)
        fprintf(out, " · gradients compressed to %g %%", 100 * json_num(report, "compress"));
    if (report_setting(report, "option.batch") > 0)
        fprintf(out, " · batch %.0f × %.0f tokens", report_setting(report, "option.batch"),
                report_setting(report, "option.seq"));
    fputs("</p>\n</header>\n", out);
}

/* ---- sections of pictures ---- */

static void section_loss(FILE *out, const json_t *report)
{
    char *loss = page_drawn(chart_loss, report), *rate = page_drawn(chart_rate, report);

    if (loss || rate) {
        page_section_open(out, "Loss and learning rate",
                          "The mean of each piece of the run, at most 400 of them, of the steps "
                          "whose loss is a number; the band reaches from the least to the most in "
                          "it.", 0);
        if (loss)
            page_chart(out, loss);
        if (rate)
            page_chart(out, rate);
        page_section_close(out);
    }
    free(loss);
    free(rate);
}

static void section_breakdown(FILE *out, const json_t *report)
{
    char *both = page_drawn(chart_breakdown, report);
    char *steps = page_drawn(chart_breakdown_steps, report);
    int   steady = json_num(json_object_get(report, "breakdown"), "steady") > 0;

    if (both) {
        page_section_open(out, "Where a step's time goes", steady
                          ? "As the training thread lived it, with what ran beside it not counted: "
                            "the mean of the steady steps that are kept whole. And serialised, as "
                            "if nothing overlapped: of all that are kept whole."
                          : "As the training thread lived it, with what ran beside it not counted; "
                            "and serialised, as if nothing overlapped. The mean of the steps that "
                            "are kept whole, none of which is steady.", 0);
        page_parts_legend(out);
        page_chart(out, both);
        page_section_close(out);
    }
    if (steps) {
        page_section_open(out, "The same, step by step",
                          "Of the steps that are kept whole; bars of the same width, a hundred at "
                          "most.", 0);
        page_parts_legend(out);
        page_chart(out, steps);
        page_section_close(out);
    }
    free(both);
    free(steps);
}

static void section_timeline(FILE *out, const json_t *report)
{
    static const char *const entries[][2] = {
        { "forward", "forward" }, { "loss", "loss" }, { "backward", "backward" },
        { "norm", "norms and compression" }, { "wait", "waits" }, { "commit", "commit" },
        { "read", "reads" }, { "write", "writes" }, { "act", "activations" },
        { "update", "update computes" },
    };
    const json_t *first = json_array_get(json_object_get(report, "timeline"), 0);
    char         *svg = page_drawn(chart_timeline, report), words[256];

    if (svg) {
        snprintf(words, sizeof words, "Step %.0f, the one whose time is nearest to the median. A "
                 "broken line goes from the end of a wait to the device that it was for.",
                 json_num(first, "step") + 1);
        page_section_open(out, "One step over time", words, 1);
        page_legend(out, entries, sizeof entries / sizeof *entries);
        page_chart(out, svg);
        page_section_close(out);
    }
    free(svg);
}

static void section_update(FILE *out, const json_t *report)
{
    static const char *const entries[][2] = {
        { "read", "reads" }, { "update", "computes" }, { "write", "writes" },
    };
    char *svg = page_drawn(chart_update, report);

    if (svg) {
        page_section_open(out, "Inside the updates",
                          "How long each part of a device's updates was at work in a step (full) "
                          "and waited for the others (faint).", 0);
        page_legend(out, entries, sizeof entries / sizeof *entries);
        page_chart(out, svg);
        page_section_close(out);
    }
    free(svg);
}

/* ---- sections with tables ---- */

static void section_traffic(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "link", "class", "", "#measured", "#computed", "#padding",
                                         "" };
    const json_t *row;
    size_t        i;
    char         *svg = page_drawn(chart_traffic, report);

    if (!svg)
        return;
    page_section_open(out, "Traffic of a step",
                      "Bytes that crossed each link, of all devices together; the broken mark is "
                      "what mode and model say it must be.", 1);
    page_chart(out, svg);
    page_table_open(out, heads, sizeof heads / sizeof *heads);
    json_array_foreach(json_object_get(report, "traffic"), i, row) {
        const json_t *computed = json_object_get(row, "computed");
        int same = json_num(row, "bytes_per_step") == json_num(row, "computed");

        fputs("<tr>", out);
        page_cell(out, json_str(row, "link"));
        page_cell(out, json_str(row, "class"));
        page_cell(out, json_str(row, "direction"));
        page_number(out, "%.0f", json_num(row, "bytes_per_step"));
        if (computed)
            page_number(out, "%.0f", json_num(row, "computed"));
        else
            page_number(out, "–");
        page_number(out, "%.0f", json_num(row, "padding_bytes_per_step"));
        fputs(!computed ? "<td></td>" : same ? "<td class=\"yes\">the same</td>"
                                             : "<td class=\"no\">differs</td>", out);
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
    free(svg);
}

static void section_memory(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "part", "#bytes" };
    const json_t *m;
    size_t        i, n = json_array_size(json_object_get(report, "memory"));
    char         *svg = page_drawn(chart_memory, report), a[FIGURE];

    if (!svg)
        return;
    page_section_open(out, "Memory",
                      "As it was planned before anything was allocated, part by part, beside "
                      "what the process held at most; the broken mark is the limit: --host-mem, or "
                      "what the machine had. Arenas of emulated devices are beside it.", 0);
    page_chart(out, svg);
    page_table_open(out, heads, 2);
    json_array_foreach(json_object_get(report, "memory"), i, m) {
        fputs("<tr>", out);
        if (i + 3 < n)
            fprintf(out, "<td><ul class=\"legend\"><li><span class=\"%s\"></span>",
                    chart_colour(i));
        else
            fputs("<td>", out);
        svg_escape(out, json_str(m, "part"));
        fputs(i + 3 < n ? "</li></ul></td>" : "</td>", out);
        page_number(out, "%s", figure_memory(a, sizeof a, json_num(m, "bytes")));
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
    free(svg);
}

static void section_wear(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "#device", "#a step", "#a day", "#worn out in", "path" };
    const json_t *w;
    size_t        i;
    char          a[FIGURE];

    if (!json_array_size(json_object_get(report, "written")))
        return;
    page_section_open(out, "Wear", "What a step writes to each device, with padding, and what "
                      "that is at the run's pace.", 0);
    page_table_open(out, heads, sizeof heads / sizeof *heads);
    json_array_foreach(json_object_get(report, "written"), i, w) {
        fputs("<tr>", out);
        page_number(out, "%.0f", json_num(w, "device"));
        page_number(out, "%s", figure_bytes(a, sizeof a, json_num(w, "bytes_per_step")));
        page_number(out, "%s", figure_bytes(a, sizeof a, json_num(w, "bytes_per_day")));
        if (json_object_get(w, "years"))
            page_number(out, "%.3g years", json_num(w, "years"));
        else
            page_number(out, "–");
        page_cell(out, json_str(w, "path"));
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
}

/* A picture a measure, of the first eight; where there is one evaluation only, its figures. */
static void section_evals(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "measure", "#after step", "#value" };
    const json_t *all = json_object_get(report, "evals"), *e;
    size_t        i, first_step = 0, shown = 0;

    if (!json_array_size(all))
        return;
    page_section_open(out, "Evaluations", NULL, 0);
    first_step = (size_t)json_num(json_array_get(all, 0), "step");
    for (i = 0; i < json_array_size(all) && shown < 8; i++) {
        e = json_array_get(all, i);
        if ((size_t)json_num(e, "step") != first_step || eval_seen(all, i))
            break;
        char  *svg = NULL;
        size_t bytes;
        FILE  *into = open_memstream(&svg, &bytes);
        int    any = into && chart_eval(into, report, json_str(e, "measure"));

        if (into && !fclose(into) && any)
            page_chart(out, svg);
        free(svg);
        shown++;
    }
    double last = json_num(json_array_get(all, json_array_size(all) - 1), "step");
    page_table_open(out, heads, 3);
    json_array_foreach(all, i, e)
        if (json_num(e, "step") == last || (size_t)json_num(e, "step") == first_step) {
            fputs("<tr>", out);
            page_cell(out, json_str(e, "measure"));
            page_number(out, "%.0f", json_num(e, "step") + 1);
            page_number(out, "%.4f", json_figure(e, "value"));
            fputs("</tr>\n", out);
        }
    page_table_close(out);
    page_section_close(out);
}

static void section_choices(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "#from step", "#kept + offloaded", "#a step took",
                                         "#expected", "#since (median)" };
    char          a[FIGURE], ways[96];
    const json_t *c;
    size_t        i;

    if (!json_array_size(json_object_get(report, "choices")))
        return;
    page_section_open(out, "Activations", "Of how many layers a part was kept + offloaded.", 0);
    page_table_open(out, heads, sizeof heads / sizeof *heads);
    json_array_foreach(json_object_get(report, "choices"), i, c) {
        fputs("<tr>", out);
        page_number(out, "%.0f", json_num(c, "step") + 1);
        page_number(out, "%s", figure_ways(ways, sizeof ways, c));
        page_number(out, "%s", figure_seconds(a, sizeof a, json_num(c, "step_seconds")));
        page_number(out, "%s", figure_seconds(a, sizeof a, json_num(c, "expected_seconds")));
        if (json_is_number(json_object_get(c, "after_seconds")))
            page_number(out, "%s", figure_seconds(a, sizeof a, json_num(c, "after_seconds")));
        else
            page_number(out, "–");
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
}

static void section_said(FILE *out, const json_t *report)
{
    static const char *const skips[] = { "#step", "#loss", "#norm of the gradient" };
    static const char *const heads[] = { "time", "notice" };
    const json_t *all = json_object_get(report, "skipped"), *n;
    size_t        i;

    if (json_array_size(all)) {
        page_section_open(out, "Skipped steps",
                          "Their gradient was not finite: nothing was updated.", 0);
        page_table_open(out, skips, 3);
        json_array_foreach(all, i, n) {
            fputs("<tr>", out);
            page_number(out, "%.0f", json_num(n, "step") + 1);
            page_number(out, "%.4f", json_figure(n, "loss"));
            page_number(out, "%.4f", json_figure(n, "grad_norm"));
            fputs("</tr>\n", out);
        }
        page_table_close(out);
        page_section_close(out);
    }
    if (!json_array_size(json_object_get(report, "notices")))
        return;
    page_section_open(out, "Notices", NULL, 1);
    page_table_open(out, heads, 2);
    json_array_foreach(json_object_get(report, "notices"), i, n) {
        fputs("<tr>", out);
        page_cell(out, json_str(n, "time"));
        page_cell(out, json_str(n, "text"));
        fputs("</tr>\n", out);
    }
    page_table_close(out);
    page_section_close(out);
}

/* ---- what it was asked, the machine ---- */

static void setting(FILE *out, const char *name, const char *text)
{
    if (*text)
        figure(out, name, text, "");
}

/* Wherever they came from: the command line, a file of options, or a default. */
static void section_settings(FILE *out, const json_t *report)
{
    static const char given[] = "given.";
    const json_t *v;
    const char   *key;
    char          name[64], size[FIGURE];

    page_section_open(out, "Settings", "What the run was made from, and every option that it has "
                      "now: typed, from a file, or by default.", 1);
    fputs("<dl class=\"settings\">\n", out);
    json_object_foreach((json_t *)(uintptr_t)json_object_get(report, "settings"), key, v)
        if (!strncmp(key, given, sizeof given - 1))
            setting(out, key + sizeof given - 1, json_string_value(v));
    for (const struct opt_row *row = train_rows; row->name; row++) {
        snprintf(name, sizeof name, "option.%s", row->name);
        const char *text = report_setting_text(report, name);

        if (row->kept != OPT_PASSING)
            setting(out, row->name, figure_option(size, sizeof size, row, text));
    }
    fputs("</dl>\n", out);
    page_section_close(out);
}

static void fact(FILE *out, const char *what, const char *text)
{
    if (!*text)
        return;
    fputs("<tr>", out);
    page_cell(out, what);
    page_cell(out, text);
    fputs("</tr>\n", out);
}

static void section_machine(FILE *out, const json_t *report)
{
    static const char *const heads[] = { "", "" };
    static const struct { const char *what, *key; } facts[] = {
        { "Processor", "cpu" }, { "System", "system" }, { "Host", "host" },
        { "Engine of products", "engine" }, { "siTrain", "version" }, { "Made", "created" },
    };
    const json_t *p;
    size_t        i;
    char          a[FIGURE], text[256];

    page_section_open(out, "The machine and the command", NULL, 1);
    page_table_open(out, heads, 2);
    for (i = 0; i < sizeof facts / sizeof *facts; i++)
        fact(out, facts[i].what, report_setting_text(report, facts[i].key));
    json_array_foreach(json_object_get(report, "devices"), i, p) {
        snprintf(text, sizeof text, "Device %.0f", json_num(p, "device"));
        char what[512];
        snprintf(what, sizeof what, "%.20s, %.20s, %s: %.400s", json_str(p, "backend"),
                 json_str(p, "disk"), figure_bytes(a, sizeof a, json_num(p, "bytes")),
                 json_str(p, "path"));
        fact(out, text, what);
    }
    page_table_close(out);
    json_array_foreach(json_object_get(report, "processes"), i, p) {
        snprintf(text, sizeof text,
                 "From step %.0f on, %.40s, process %.0f on %.60s, %.0f threads, "
                 "%s of memory:", json_num(p, "first_step") + 1, json_str(p, "begun"),
                 json_num(p, "pid"), json_str(p, "host"), json_num(p, "threads"),
                 figure_memory(a, sizeof a, json_num(p, "memory_bytes")));
        fputs("<p>", out);
        svg_escape(out, text);
        fputs("</p>\n<pre>", out);
        svg_escape(out, json_str(p, "text"));
        fputs("</pre>\n", out);
    }
    if (!json_array_size(json_object_get(report, "processes")) &&
        *report_setting_text(report, "command")) {
        fputs("<pre>", out);
        svg_escape(out, report_setting_text(report, "command"));
        fputs("</pre>\n", out);
    }
    page_section_close(out);
}

static void page_of_one(FILE *out, const json_t *report)
{
    page_head(out, figure_run(report));
    about(out, report);
    lead_figures(out, report);
    fputs("<div class=\"cards\">\n", out);
    section_evals(out, report);
    section_loss(out, report);
    section_settings(out, report);
    page_section_chart(out, "Time of a step",
                       "The mean of each piece of the run, and from the least to the most in it; "
                       "without evaluations.", chart_seconds, report);
    section_breakdown(out, report);
    section_timeline(out, report);
    page_section_chart(out, "What the training thread waited for", "Seconds a step; colours are "
                       "devices, by whose request ended last.", chart_waits, report);
    section_update(out, report);
    section_traffic(out, report);
    page_section_chart(out, "Bandwidth of each device", "Bytes a second while a transfer of the "
                       "kind was under way.", chart_bandwidth, report);
    section_memory(out, report);
    section_choices(out, report);
    section_wear(out, report);
    section_said(out, report);
    section_machine(out, report);
    fputs("</div>\n", out);
    page_foot(out);
}

void report_html(FILE *out, const json_t *reports)
{
    if (json_array_size(reports) > 1)
        html_many(out, reports);
    else
        page_of_one(out, json_array_get(reports, 0));
}
