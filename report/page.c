/* page.c: what the parts of a page are made of. */
#include "report/page.h"

#include "data/base/version.h"
#include "report/figures.h"
#include "report/svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

__asm__(".pushsection .rodata\n"
        "page_css: .incbin \"report/page.css\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char page_css[];

void page_head(FILE *out, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"generator\" content=\"siTrain " SITRAIN_VERSION "\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", out);
    svg_escape(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", page_css);
}

void page_foot(FILE *out)
{
    fputs("<footer><p>Made by siTrain " SITRAIN_VERSION " from run.db alone. Steps are counted "
          "from 1. A steady step follows a step of the same process without an evaluation or a "
          "skipped step between. Spans are kept whole for the first and last 100 steps and every "
          "1,000th. Bytes that moved are in MB and GB (powers of 1000), memory is in MiB and GiB "
          "(powers of 1024). Point at a bar for its figures. docs/measurements.md has the "
          "definitions.</p>"
          "</footer>\n</main>\n</body>\n</html>\n", out);
}

void page_section_open(FILE *out, const char *title, const char *words, int wide)
{
    fprintf(out, "<section%s>\n<h2>", wide ? " class=\"wide\"" : "");
    svg_escape(out, title);
    fputs("</h2>\n", out);
    if (words) {
        fputs("<p>", out);
        svg_escape(out, words);
        fputs("</p>\n", out);
    }
}

void page_section_close(FILE *out) { fputs("</section>\n", out); }

/* What `draw` draws, malloced; NULL where there is nothing. */
char *page_drawn(page_drawing *draw, const json_t *report)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *into = open_memstream(&text, &bytes);
    int    any = into && draw(into, report);

    if (into && fclose(into))
        any = 0;
    if (!any) {
        free(text);
        text = NULL;
    }
    return text;
}

void page_chart(FILE *out, const char *svg)
{
    fprintf(out, "<div class=\"chart\">\n%s</div>\n", svg);
}

void page_legend(FILE *out, const char *const (*entries)[2], size_t n)
{
    fputs("<ul class=\"legend\">", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "<li><span class=\"%s\"></span>", entries[i][0]);
        svg_escape(out, entries[i][1]);
        fputs("</li>", out);
    }
    fputs("</ul>\n", out);
}

void page_parts_legend(FILE *out)
{
    const char *entries[PARTS][2];

    for (int i = 0; i < PARTS; i++) {
        entries[i][0] = breakdown_parts[i].colour;
        entries[i][1] = breakdown_parts[i].words;
    }
    page_legend(out, (const char *const(*)[2])entries, PARTS);
}

/* A section of one picture, where it shows something. */
void page_section_chart(FILE *out, const char *title, const char *words, page_drawing *draw,
                          const json_t *report)
{
    char *svg = page_drawn(draw, report);

    if (!svg)
        return;
    page_section_open(out, title, words, 0);
    page_chart(out, svg);
    page_section_close(out);
    free(svg);
}

void page_table_open(FILE *out, const char *const *heads, size_t n)
{
    fputs("<div class=\"table\"><table>\n<thead><tr>", out);
    for (size_t i = 0; i < n; i++) // a head that begins with # stands over figures
        fprintf(out, *heads[i] == '#' ? "<th class=\"n\">%s</th>" : "<th>%s</th>",
                heads[i] + (*heads[i] == '#'));
    fputs("</tr></thead>\n<tbody>\n", out);
}

void page_table_close(FILE *out) { fputs("</tbody></table></div>\n", out); }

void page_cell(FILE *out, const char *text)
{
    fputs("<td>", out);
    svg_escape(out, text);
    fputs("</td>", out);
}

void page_number(FILE *out, const char *fmt, ...)
{
    char    text[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fputs("<td class=\"n\">", out);
    svg_escape(out, text);
    fputs("</td>", out);
}
