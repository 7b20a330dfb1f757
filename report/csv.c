/* csv.c: prints a report as lines of section,row,field,value, and any rows as a table. */
#include "report/report.h"

#include "data/base/visible.h"
#include "report/format.h"
#include "report/text.h"

/* Prints a text. If a spreadsheet would compute it as a formula, an apostrophe precedes it. */
static void csv_text(FILE *out, const char *s)
{
    const char *before = visible_formula(s) ? "'" : "";

    if (!strpbrk(s, ",\"\n\r")) {
        fprintf(out, "%s%s", before, s);
        return;
    }
    fprintf(out, "\"%s", before);
    for (; *s; s++)
        fprintf(out, *s == '"' ? "\"\"" : "%c", *s);
    fputc('"', out);
}

/* Prints a value. A missing figure is empty. A figure of the model that is not finite is stored as
 * NULL in the database and printed as nan. */
static void csv_value(FILE *out, const char *name, const json_t *v)
{
    if (json_is_null(v) && figure_of_model(name))
        fputs("nan", out);
    else if (json_is_string(v))
        csv_text(out, json_string_value(v));
    else if (json_is_integer(v))
        fprintf(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        fprintf(out, "%.15g", json_real_value(v));
}

/* run: precedes each line, or NULL. */
static void csv_line(FILE *out, const char *run, const char *section, size_t row,
                     const char *field, const json_t *v)
{
    if (run) {
        csv_text(out, run);
        fputc(',', out);
    }
    fprintf(out, "%s,%zu,", section, row);
    csv_text(out, field);
    fputc(',', out);
    csv_value(out, field, v);
    fputc('\n', out);
}

/* Prints a report. A section that is one object is its row 0. A value outside sections is a field
 * of the run. */
static void csv_report(FILE *out, const char *run, json_t *report)
{
    const char *section, *field;
    json_t     *v, *value;

    json_object_foreach(report, section, v) {
        for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++)
            json_object_foreach(json_is_array(v) ? json_array_get(v, i) : v, field, value)
                csv_line(out, run, section, i, field, value);
        if (!json_is_object(v) && !json_is_array(v))
            csv_line(out, run, "run", 0, section, v);
    }
}

void report_csv(FILE *out, const json_t *reports)
{
    int     many = json_array_size(reports) > 1;
    json_t *report;
    size_t  i;

    fputs(many ? "run,section,row,field,value\n" : "section,row,field,value\n", out);
    json_array_foreach(reports, i, report)
        csv_report(out, many ? json_str(report, "run") : NULL, report);
}

void report_table_csv(FILE *out, const json_t *rows)
{
    const char *name;
    json_t     *row, *v;
    size_t      i, column = 0;

    json_object_foreach(json_array_get(rows, 0), name, v)
        fprintf(out, column++ ? ",%s" : "%s", name);
    fputs(column ? "\n" : "", out);
    json_array_foreach(rows, i, row) {
        column = 0;
        json_object_foreach(row, name, v) {
            fputs(column++ ? "," : "", out);
            csv_value(out, name, v);
        }
        fputc('\n', out);
    }
}

/* Prints rows as a table with figures to the right and texts to the left. */
void report_table(FILE *out, const json_t *rows)
{
    json_t     *heads = json_array(), *shown = json_array(), *v, *row, *table;
    const char *name;
    size_t      i;

    json_object_foreach(json_array_get(rows, 0), name, v)
        json_array_append_new(heads, json_sprintf("%s%s", json_is_string(v) ? "" : "#", name));
    json_array_foreach(rows, i, row) {
        json_t *cells = json_array();

        json_object_foreach(row, name, v)
            json_array_append_new(cells, json_is_string(v) ? json_incref(v)
                                  : json_is_integer(v) ? json_sprintf("%lld",
                                                                      json_integer_value(v))
                                  : json_is_real(v) ? json_sprintf("%.6g", json_real_value(v))
                                  : json_string(figure_of_model(name) ? "nan" : "-"));
        json_array_append_new(shown, json_pack("{s:o}", "cells", cells));
    }
    table = json_pack("{s:o, s:o}", "heads", heads, "rows", shown);
    if (json_array_size(rows))
        text_table(&(struct text){ out, 0 }, table, 1);
    else
        fputs("no rows\n", out);
    json_decref(table);
}
