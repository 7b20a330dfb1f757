/* text.c: renders tables, lists, bars and the loss curve as text. */
#include "report/text.h"

#include "data/base/table.h"
#include "data/base/visible.h"
#include "report/table.h"

enum { BAR = 60, CELL = 36, CURVE_WIDTH = 64, CURVE_HEIGHT = 6 };

void text_colour(const struct text *t, const char *code)
{
    if (t->colour)
        fprintf(t->out, "\033[%sm", code);
}

void text_heading(const struct text *t, const char *words)
{
    fputc('\n', t->out);
    text_colour(t, "1");
    fputs(words, t->out);
    text_colour(t, "0");
    fputc('\n', t->out);
}

static int columns_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

/* ---- tables ---- */

struct layout {
    const struct text *t;
    const json_t      *heads;
    int               *width;      // of each column; -1: hidden
    size_t             n, last;    // last: the last column that is shown
    int                plain, bars;
    int                at;         // columns of the line written so far
};

static const char *cell_at(const json_t *cells, size_t i)
{
    const char *text = json_string_value(json_array_get(cells, i));

    return text ? text : "";
}

static int is_right(const struct layout *a, size_t c) { return *cell_at(a->heads, c) == '#'; }

/* Whether a row is a heading over those below it. */
static int is_over(const struct layout *a, const json_t *cells)
{
    return json_array_size(cells) == 1 && a->n > 1;
}

/* Measures columns. Empty columns, and those for pages only, are hidden. */
static void measure(struct layout *a, const json_t *rows)
{
    const json_t *row;
    size_t        i;

    for (size_t c = 0; c < a->n; c++) {
        const char *head = cell_at(a->heads, c);
        int         most = -1, words = columns_of(head) - (*head == '#');

        json_array_foreach(rows, i, row) {
            const json_t *cells = json_object_get(row, "cells");
            int           n = is_over(a, cells) ? 0 : columns_of(cell_at(cells, c));

            most = n > most && (n || a->plain) ? n : most;
        }
        most = *head == '~' ? -1 : most > CELL && !a->plain ? CELL : most;
        a->width[c] = most >= 0 && words > most ? words : most;
        a->last = most >= 0 ? c : a->last;
    }
}

/* Fills with blanks up to column `to`, then prints at most `most` columns of text. */
static void put(struct layout *a, int to, const char *text, int most)
{
    int bytes = 0, n = 0;

    for (; text[bytes] && (n < most || (text[bytes] & 0xC0) == 0x80); bytes++)
        n += (text[bytes] & 0xC0) != 0x80;
    if (bytes)
        fprintf(a->t->out, "%*s%.*s", to - a->at, "", bytes, text);
    a->at = bytes ? to + n : a->at;
}

/* Prints a row. Returns the column where the next text begins. */
static int put_row(struct layout *a, const json_t *cells)
{
    int start = a->plain ? 0 : 2;

    a->at = 0;
    if (is_over(a, cells)) {
        fprintf(a->t->out, "%*s%s", start, "", cell_at(cells, 0));
        return start;
    }
    for (size_t c = 0; c < a->n; c++) {
        const char *text = cell_at(cells, c);
        int         right = is_right(a, c), width = a->width[c];

        if (width < 0)
            continue;
        text = cells == a->heads ? text + right : *text || !right ? text : "-";
        int n = columns_of(text) < width ? columns_of(text) : width;
        if (*text && c == a->last && !right && !a->plain && !a->bars) {
            fprintf(a->t->out, "%*s", start - a->at, "");
            visible_words(a->t->out, text, start, start, TEXT_WIDTH);
        } else {
            put(a, right ? start + width - n : start, text, width);
        }
        start += width + 2;
    }
    return start;
}

void text_letters(const struct text *t, const char *letter, int n)
{
    static const struct code { const char *letter, *is; } codes[] = {
        { "F", "34" }, { "B", "33" }, { "U", "32" }, { ".", "90" } };
    const struct code *code = TABLE_FIND(codes, letter);

    if (n <= 0)
        return;
    text_colour(t, code ? code->is : "36");
    for (int i = 0; i < n; i++)
        fputs(letter, t->out);
    text_colour(t, "0");
}

/* Prints a bar: the number of each part's letters is its share of the longest bar. */
static void put_bar(struct layout *a, int to, const json_t *row, double longest)
{
    const json_t *p;
    size_t        i;
    double        end = 0;
    int           room = TEXT_WIDTH - to < BAR ? TEXT_WIDTH - to : BAR, at = 0;

    json_array_foreach(json_object_get(row, "parts"), i, p) {
        end += json_num(p, "value");
        int until = room > 0 ? (int)lround(end / longest * room) : 0;

        if (until > at)
            fprintf(a->t->out, "%*s", to + at - a->at, "");
        text_letters(a->t, json_str(p, "letter"), until - at);
        a->at = until > at ? to + until : a->at;
        at = until > at ? until : at;
    }
}

static void put_legend(const struct text *t, const json_t *table)
{
    json_t *all = table_legend(table), *p;
    size_t  i;
    int     at = 0;

    json_array_foreach(all, i, p) {
        const char *letter = json_str(p, "letter"), *name = json_str(p, "name");

        if (json_array_size(all) < 2)
            break;
        if (at && at + 4 + columns_of(name) > TEXT_WIDTH) {
            fputc('\n', t->out);
            at = 0;
        }
        fputs("  ", t->out);
        text_letters(t, letter, 1);
        fprintf(t->out, " %s", name);
        at += 4 + columns_of(name);
    }
    fputs(at ? "\n" : "", t->out);
    json_decref(all);
}

void text_table(const struct text *t, const json_t *table, int plain)
{
    const json_t *rows = json_object_get(table, "rows"), *heads = json_object_get(table, "heads");
    const json_t *row;
    size_t        i, named = 0;
    double        longest = table_longest(table);
    struct layout a = { .t = t, .heads = heads, .n = json_array_size(heads), .plain = plain,
                        .bars = longest > 0 };

    a.width = calloc(a.n + 1, sizeof *a.width);
    if (!a.width)
        return;
    measure(&a, rows);
    for (i = 0; i < a.n; i++)
        named += a.width[i] >= 0 && cell_at(heads, i)[is_right(&a, i)];
    if (named > 1 || plain) {
        put_row(&a, heads);
        fputc('\n', t->out);
    }
    json_array_foreach(rows, i, row) {
        int end = put_row(&a, json_object_get(row, "cells"));

        if (longest > 0)
            put_bar(&a, end, row, longest);
        fputc('\n', t->out);
    }
    put_legend(t, table);
    free(a.width);
}

void text_list(const struct text *t, const json_t *list)
{
    const json_t *item;
    size_t        i;

    json_array_foreach(list, i, item) {
        const char *more = json_str(item, "more");
        json_t     *line = json_sprintf("%s: %s%s%s", json_str(item, "what"),
                                        json_str(item, "value"), *more ? ", " : "", more);

        visible_words(t->out, json_string_value(line), 2, 2, TEXT_WIDTH);
        fputc('\n', t->out);
        json_decref(line);
    }
}

/* ---- the loss ---- */

static void curve_columns(const json_t *curve, double least[], double most[])
{
    size_t n = json_array_size(curve);

    for (int i = 0; i < CURVE_WIDTH; i++) {
        least[i] = (double)INFINITY;
        most[i] = -(double)INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *piece = json_array_get(curve, i);
        size_t        column = n > CURVE_WIDTH ? i * CURVE_WIDTH / n : i;

        if (!json_is_number(json_object_get(piece, "loss")))
            continue;
        least[column] = fmin(least[column], json_num(piece, "loss_least"));
        most[column] = fmax(most[column], json_num(piece, "loss_most"));
    }
}

int text_curve(const struct text *t, const json_t *report)
{
    const json_t *curve = json_object_get(report, "curve");
    double least[CURVE_WIDTH], most[CURVE_WIDTH], low = (double)INFINITY, high = -low;

    curve_columns(curve, least, most);
    for (int i = 0; i < CURVE_WIDTH; i++) {
        low = fmin(low, least[i]);
        high = fmax(high, most[i]);
    }
    if (json_array_size(curve) < 3 || !(high > low))
        return 0;
    for (int row = 0; row < CURVE_HEIGHT && t; row++) {
        double below = high - (high - low) * (row + 1) / CURVE_HEIGHT;
        double above = high - (high - low) * row / CURVE_HEIGHT;
        char   line[CURVE_WIDTH + 1] = "";
        int    n = 0;

        for (int i = 0; i < CURVE_WIDTH; i++) { // the lowest row includes the lowest loss
            int in = least[i] <= above && (most[i] > below || row == CURVE_HEIGHT - 1);

            line[i] = in ? '*' : ' ';
            n = in ? i + 1 : n;
        }
        fprintf(t->out, "  %8.4g |", row == CURVE_HEIGHT - 1 ? low : above);
        text_colour(t, "36");
        fprintf(t->out, "%.*s", n, line);
        text_colour(t, "0");
        fputc('\n', t->out);
    }
    return 1;
}
