/* csv.c: a run as lines of section,row,field,value, and rows of any question as a table. */
#include "report/report.h"

#include "data/base/visible.h"
#include "report/figures.h"

/* What a spreadsheet would compute gets an apostrophe. */
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

/* What there is no figure of is empty; but a model's own that is none, which a database keeps as
 * NULL, is nan. */
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

/* run: what stands before each line, or NULL. */
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

/* A section that is one object is its row 0; what is none is a field of the run. */
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

/* ---- for people ---- */

static const char *cell(char *buf, size_t size, const char *name, const json_t *v)
{
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v))
        snprintf(buf, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(buf, size, "%.6g", json_real_value(v));
    else
        snprintf(buf, size, "%s", figure_of_model(name) ? "nan" : "-");
    return buf;
}

static size_t column_width(const json_t *rows, const char *name)
{
    size_t  width = strlen(name), i;
    json_t *row;
    char    buf[64];

    json_array_foreach(rows, i, row) {
        size_t n = strlen(cell(buf, sizeof buf, name, json_object_get(row, name)));

        width = n > width ? n : width;
    }
    return width;
}

static void table_cell(FILE *out, size_t at, const int *width, const char *text)
{
    fprintf(out, "%s%*s", at ? "  " : "", width[at], text);
}

/* Figures to the right, texts to the left; the last column is as long as it is. */
void report_table(FILE *out, const json_t *rows)
{
    json_t     *first = json_array_get(rows, 0), *v, *row;
    const char *name;
    char        buf[64];
    size_t      columns = json_object_size(first), at, i;
    int        *width = calloc(columns + 1, sizeof *width);

    if (!width || !columns) {
        fputs(width ? "no rows\n" : "", out);
        free(width);
        return;
    }
    at = 0;
    json_object_foreach(first, name, v) {
        int last = at + 1 == columns, wide = (int)column_width(rows, name);

        width[at++] = !json_is_string(v) ? wide : last ? 0 : -wide;
    }
    at = 0;
    json_object_foreach(first, name, v)
        table_cell(out, at++, width, name);
    fputc('\n', out);
    json_array_foreach(rows, i, row) {
        at = 0;
        json_object_foreach(row, name, v)
            table_cell(out, at++, width, cell(buf, sizeof buf, name, v));
        fputc('\n', out);
    }
    free(width);
}
