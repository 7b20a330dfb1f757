/* report_text.c: prints a report in a terminal, section by section. With several runs, each is
 * printed with its differences from the first. */
#include "report/report.h"

#include "data/base/visible.h"
#include "report/sections.h"

/* ---- several runs ---- */

/* "unlike the first: lr 0.0001 (0.0003), ..." */
static void text_differs(const struct text *t, const json_t *all)
{
    const json_t *d;
    size_t        i, bytes;
    char         *text = NULL;
    FILE         *into = json_array_size(all) ? open_memstream(&text, &bytes) : NULL;

    if (!into)
        return;
    fputs("unlike the first: ", into);
    json_array_foreach(all, i, d)
        fprintf(into, "%s%s %s (%s)", i ? ", " : "", json_str(d, "setting"), json_str(d, "value"),
                json_str(d, "first"));
    if (!fclose(into)) {
        fputs("  ", t->out);
        visible_words(t->out, text, 4, 4, TEXT_WIDTH);
        fputc('\n', t->out);
    }
    free(text);
}

/* Prints each run with its differences from the first: a table of them would be too wide. */
static void text_runs(const struct text *t, const json_t *reports)
{
    json_t *rows = runs_rows(reports), *r;
    size_t  i;
    double  most = 0;
    char    a[64];

    json_array_foreach(rows, i, r)
        most = fmax(most, json_num(r, "speedup"));
    text_heading(t, "Speed-up over the first, by tokens a second of the median steady step");
    if (*report_by(reports))
        fprintf(t->out, "The runs are sorted by %s.\n", report_by(reports));
    json_array_foreach(rows, i, r) {
        double speedup = json_num(r, "speedup");

        fprintf(t->out, "%zu %s, mode %s\n", i + 1, json_str(json_array_get(reports, i), "run"),
                json_str(r, "mode"));
        text_differs(t, json_object_get(json_array_get(reports, i), "differs"));
        if (!json_object_get(r, "median")) {
            fputs("  no steady step\n", t->out);
            continue;
        }
        // no speed-up if the first run has no steady step
        fprintf(t->out, "  %8s %9s a step %12.1f tokens/s  ",
                speedup > 0 ? figure_times((char[16]){ 0 }, 16, speedup) : "-",
                figure_seconds(a, sizeof a, json_num(r, "median")), json_num(r, "pace"));
        text_letters(t, "#", most > 0 ? (int)lround(speedup / most * 24) : 0);
        fputc('\n', t->out);
    }
    json_decref(rows);
}

/* ---- all of it ---- */

static void text_section(const struct text *t, const struct section *s, const json_t *report)
{
    json_t *made = s->flags & SECTION_PAGE ? NULL : section_made(s, report);

    if ((made || (s->drawn && s->drawn(NULL, report))) && *s->title)
        text_heading(t, s->title);
    if (json_is_array(made))
        text_list(t, made);
    else if (made)
        text_table(t, made, 0);
    else if (s->drawn)
        s->drawn(t, report);
    json_decref(made);
}

void report_text(FILE *out, const json_t *reports, int colour_too)
{
    struct text           t = { out, colour_too };
    int                   many = json_array_size(reports) > 1;
    const json_t         *report = many ? reports : json_array_get(reports, 0);
    const struct section *s = many ? sections_of_many : sections_of_one;
    char                  text[256];

    if (many) {
        text_runs(&t, reports);
    } else {
        text_colour(&t, "1");
        fputs(json_str(report, "run"), out);
        text_colour(&t, "0");
        fprintf(out, "%s%s\n", *figure_model(text, sizeof text, report) ? ": " : "", text);
        fprintf(out, "%s\n", figure_way(text, sizeof text, report));
    }
    for (; s->title; s++)
        text_section(&t, s, report);
}
