/* page.c: renders a report as a page: one complete file without network and scripts, light or dark
 * like the reader's screen, readable on a phone and on paper. All text of the database goes through
 * svg_escape. */
#include "report/report.h"

#include "data/base/text_made.h"
#include "data/base/version.h"
#include "report/format.h"
#include "report/sections.h"
#include "report/svg.h"

#include <ctype.h>

__asm__(".pushsection .rodata\n"
        "page_css: .incbin \"report/page.css\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char page_css[];

static void head(FILE *out, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"generator\" content=\"siTrain " SITRAIN_VERSION "\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", out);
    svg_escape(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<header>\n<h1>",
            page_css);
    svg_escape(out, title);
    fputs("</h1>\n<p>", out);
}

static void foot(FILE *out)
{
    fputs("</div>\n<footer><p>Made by siTrain " SITRAIN_VERSION " from run.db alone. Steps are "
          "counted from 1. A steady step follows a step of the same process without an evaluation "
          "or a skipped step between. Spans are kept whole for the first and last 100 steps and "
          "every 1,000th. Bytes that moved are in MB and GB (powers of 1000), memory is in MiB and "
          "GiB (powers of 1024). Point at a bar for its figures. docs/measurements.md has the "
          "definitions.</p></footer>\n</main>\n</body>\n</html>\n", out);
}

static void element(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    svg_escape(out, text);
    fputs(close, out);
}

static void list(FILE *out, const char *cls, const json_t *items)
{
    const json_t *item;
    size_t        i;

    fprintf(out, "<dl class=\"%s\">\n", cls);
    json_array_foreach(items, i, item) {
        element(out, "<div><dt>", json_str(item, "what"), "</dt>");
        element(out, "<dd>", json_str(item, "value"), "</dd>");
        if (*json_str(item, "more"))
            element(out, "<dd class=\"more\">", json_str(item, "more"), "</dd>");
        fputs("</div>\n", out);
    }
    fputs("</dl>\n", out);
}

static int is_figure(const json_t *heads, size_t i)
{
    return *json_string_value(json_array_get(heads, i)) == '#';
}

static void table(FILE *out, const json_t *made)
{
    const json_t *heads = json_object_get(made, "heads"), *row, *c;
    size_t        i, k;

    fputs("<div class=\"table\"><table>\n<thead><tr>", out);
    json_array_foreach(heads, i, c) {
        const char *words = json_string_value(c);

        element(out, is_figure(heads, i) ? "<th class=\"n\">" : "<th>",
                words + strspn(words, "#~"), "</th>");
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    json_array_foreach(json_object_get(made, "rows"), i, row) {
        const json_t *cells = json_object_get(row, "cells");

        fputs("<tr>", out);
        if (json_array_size(cells) == 1 && json_array_size(heads) > 1) {
            fprintf(out, "<th colspan=\"%zu\">", json_array_size(heads));
            element(out, "", json_string_value(json_array_get(cells, 0)), "</th></tr>\n");
            continue;
        }
        json_array_foreach(cells, k, c) {
            const char *text = json_string_value(c);

            element(out, is_figure(heads, k) ? "<td class=\"n\">" : "<td>",
                    *text || !is_figure(heads, k) ? text : "–", "</td>");
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void bars_and_table(FILE *out, const struct section *s, const json_t *made)
{
    const json_t *heads = json_object_get(made, "heads");
    int           bars = table_longest(made) > 0, figures = 0;
    char          name[128];

    for (size_t i = 0; i < json_array_size(heads); i++)
        figures += is_figure(heads, i);
    if (bars) {
        json_t *legend = table_legend(made);

        chart_legend(out, legend);
        json_decref(legend);
        snprintf(name, sizeof name, "%s", s->title);
        *name = (char)tolower(*name);
        fputs("<div class=\"chart\">\n", out);
        chart_bars(out, name, made, s->axis);
        fputs("</div>\n", out);
    }
    if (!bars || figures > 1)
        table(out, made);
}

/* A section's pictures, malloced, or NULL if there is nothing to show. */
static char *drawn(const struct section *s, const json_t *report)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *into = open_memstream(&text, &bytes);
    int    any = into && s->chart && s->chart(into, report);

    for (int i = 0; i < 2 && into; i++)
        any |= s->curves[i].field && chart_along(into, report, &s->curves[i]);
    return text_made(into, &text, !any);
}

static void section(FILE *out, const struct section *s, const json_t *report)
{
    json_t *made = section_made(s, report);
    char   *chart = drawn(s, report);

    if (!*s->title) {
        list(out, "figures", made);
    } else if (made || chart) {
        fprintf(out, "<section%s>\n", s->flags & SECTION_WIDE ? " class=\"wide\"" : "");
        element(out, "<h2>", s->title, "</h2>\n");
        if (s->words)
            element(out, "<p>", s->words, "</p>\n");
        if (chart)
            fprintf(out, "<div class=\"chart\">\n%s</div>\n", chart);
        if (json_is_array(made))
            list(out, "settings", made);
        else if (made)
            bars_and_table(out, s, made);
        fputs("</section>\n", out);
    }
    free(chart);
    json_decref(made);
}

void report_html(FILE *out, const json_t *reports)
{
    int                   many = json_array_size(reports) > 1;
    const json_t         *report = many ? reports : json_array_get(reports, 0);
    const struct section *s = many ? sections_of_many : sections_of_one;
    char                  text[512];

    if (many) {
        snprintf(text, sizeof text, "%zu runs side by side", json_array_size(reports));
        head(out, text);
        if (*report_by(reports))
            element(out, "Sorted by ", report_by(reports), ". ");
        fputs("The first is what the others are compared with.</p>\n</header>\n", out);
    } else {
        head(out, figure_run(report));
        svg_escape(out, figure_model(text, sizeof text, report));
        fputs(*text ? " · " : "", out);
        element(out, "", figure_way(text, sizeof text, report), "</p>\n</header>\n");
        section(out, s++, report);
    }
    fputs("<div class=\"cards\">\n", out);
    for (; s->title; s++)
        section(out, s, report);
    foot(out);
}
