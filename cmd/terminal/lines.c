/* lines.c: builds lines of bounded width. All text goes through lines_put. */
#include "cmd/terminal/lines.h"

#include "data/base/grow.h"
#include "data/base/visible.h"

#include <math.h>
#include <stdarg.h>
#include <wchar.h>

enum { TEXT = 1024, CELL_ROWS = 4, CURVE_COLUMNS = 256, CURVE_ROWS = 32 };

void lines_release(struct lines *p)
{
    free(p->text);
    *p = (struct lines){ 0 };
}

static void raw(struct lines *p, const char *bytes, size_t n)
{
    if (p->failed || grow(&p->text, &p->cap, p->n + n + 1, 1, "characters", NULL)) {
        p->failed = 1;
        return;
    }
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
    p->text[p->n] = '\0';
}

void lines_put(struct lines *p, const char *text)
{
    mbstate_t state = { 0 };

    if (p->lines >= p->rows)
        return;
    while (*text) {
        wchar_t     c;
        size_t      n = mbrtowc(&c, text, strlen(text), &state);
        int         whole = n != (size_t)-1 && n != (size_t)-2 && n > 0;
        int         width = whole ? wcwidth(c) : -1;
        char        shown[16];
        const char *put = text;

        if (!whole) {
            memset(&state, 0, sizeof state);
            n = 1;
        }
        size_t bytes = n;
        if (width < 0) { // characters without a width are escaped
            bytes = visible_text(shown, sizeof shown, text, n);
            put = *shown == '\\' ? shown : "?";
            bytes = *shown == '\\' ? bytes : 1;
            width = (int)bytes;
        }
        if (p->column + (size_t)width > p->columns)
            return;
        raw(p, put, bytes);
        p->column += (size_t)width;
        text += n;
    }
}

void lines_print(struct lines *p, const char *fmt, ...)
{
    char    text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lines_put(p, text);
}

void lines_color(struct lines *p, enum lines_color color)
{
    char text[16];
    int  n = snprintf(text, sizeof text, "\033[%dm", (int)color);

    if (p->color && p->lines < p->rows)
        raw(p, text, (size_t)n);
}

void lines_to(struct lines *p, size_t column)
{
    while (p->column < column && p->column < p->columns && p->lines < p->rows)
        lines_put(p, " ");
}

void lines_end(struct lines *p)
{
    if (p->lines < p->rows)
        raw(p, "\n", 1);
    p->lines++;
    p->column = 0;
}

size_t lines_left(const struct lines *p) { return p->lines < p->rows ? p->rows - p->lines : 0; }

/* ---- shapes ---- */

void lines_bar(struct lines *p, size_t columns, double part)
{
    static const char *const eighths[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    double                   full = (part > 0 ? part < 1 ? part : 1 : 0) * (double)columns;

    for (size_t i = 0; i < columns; i++) {
        double left = full - (double)i;

        if (p->utf8)
            lines_put(p, left >= 1 ? "█" : left > 0 ? eighths[(int)(left * 8)] : " ");
        else
            lines_put(p, left >= 0.5 ? "#" : ".");
    }
}

/* Where a curve may have a dot: 2 x 4 in a Braille character, or one per character. */
struct dots {
    size_t        across, down, columns, rows;
    unsigned char cell[CURVE_ROWS][CURVE_COLUMNS];
};

static void dot(struct dots *d, int utf8, size_t x, size_t y)
{
    // U+2800's bits: 1, 2, 3, 7 from the top of the left column, 4, 5, 6, 8 of the right one
    static const unsigned char bit[2][CELL_ROWS] = { { 1, 2, 4, 64 }, { 8, 16, 32, 128 } };

    if (utf8)
        d->cell[y / CELL_ROWS][x / 2] |= bit[x % 2][y % CELL_ROWS];
    else
        d->cell[y][x] = 1;
}

static void put_cell(struct lines *p, unsigned char dots)
{
    // U+2800 + dots
    char glyph[] = { (char)0xE2, (char)(0xA0 | dots >> 6), (char)(0x80 | (dots & 63)), '\0' };

    lines_put(p, !dots ? " " : p->utf8 ? glyph : "*");
}

static size_t curve_columns(const struct lines *p, size_t margin)
{
    size_t room = p->columns > margin + 1 ? p->columns - margin - 1 : 0;

    return room < CURVE_COLUMNS ? room : CURVE_COLUMNS;
}

size_t lines_curve_points(const struct lines *p, size_t margin)
{
    return curve_columns(p, margin) * (p->utf8 ? 2 : 1);
}

/* Draws a line from each point to the next, with dots above each other if it is steep. */
static void draw_curve(struct dots *d, int utf8, const double *point, size_t n, double least,
                       double most)
{
    double last = (double)NAN;
    size_t last_x = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(point[i]))
            continue;
        size_t x = n > 1 ? i * (d->across - 1) / (n - 1) : 0;
        // between 0 and 1 even if the difference overflows
        double part = most > least ? fmin(1, fmax(0, (most - point[i]) / (most - least))) : 0.5;
        double y = part * (double)(d->down - 1), from = isfinite(last) ? last : y;
        size_t x0 = isfinite(last) ? last_x : x;

        for (size_t at = x0; at <= x; at++) {
            double here = x > x0 ? from + (y - from) * (double)(at - x0) / (double)(x - x0) : y;
            double before = at > x0 ? from + (y - from) * (double)(at - x0 - 1) / (double)(x - x0)
                                    : here;
            size_t a = (size_t)lround(fmin(here, before)), b = (size_t)lround(fmax(here, before));

            dot(d, utf8, at, (size_t)lround(here));
            for (size_t v = a + 1; v < b; v++)
                dot(d, utf8, at, v);
        }
        last = y;
        last_x = x;
    }
}

void lines_curve(struct lines *p, const double *point, size_t n, size_t rows, size_t margin)
{
    struct dots d = { .columns = curve_columns(p, margin),
                      .rows = rows < CURVE_ROWS ? rows : CURVE_ROWS };
    double      least = HUGE_VAL, most = -HUGE_VAL;

    d.across = d.columns * (p->utf8 ? 2 : 1);
    d.down = d.rows * (p->utf8 ? CELL_ROWS : 1);
    for (size_t i = 0; i < n; i++)
        if (isfinite(point[i])) {
            least = fmin(least, point[i]);
            most = fmax(most, point[i]);
        }
    if (!d.columns || !d.rows || least > most)
        return;
    draw_curve(&d, p->utf8, point, n, least, most);
    for (size_t y = 0; y < d.rows; y++) {
        if (y == 0 || y + 1 == d.rows)
            lines_print(p, "%*.4g", (int)margin - 1, y == 0 ? most : least);
        lines_to(p, margin);
        lines_put(p, p->utf8 ? "│" : "|");
        lines_color(p, LINES_BLUE);
        for (size_t x = 0; x < d.columns; x++)
            put_cell(p, d.cell[y][x]);
        lines_color(p, LINES_PLAIN);
        lines_end(p);
    }
}
