/* lines.h: lines of text of a bounded width, with a few shapes: bars and curves. The shapes are
 * Braille and blocks where the locale's characters are UTF-8, letters of ASCII elsewhere. */
#pragma once

#include <stddef.h>

struct lines {
    size_t columns, rows; // what there is room for
    int    utf8, color;
    char  *text;          // whole lines, a line feed behind each
    size_t n, cap, lines;
    size_t column;        // of the line that is being written
    int    failed;        // there was no memory: text is as far as there was
};

// as ECMA-48 numbers them
enum lines_color {
    LINES_PLAIN = 0, LINES_BOLD = 1, LINES_DIM = 2, LINES_RED = 31, LINES_GREEN = 32,
    LINES_YELLOW = 33, LINES_BLUE = 34
};

void lines_release(struct lines *p);

/* Add text to the line, as far as it fits; what is no printable character of the locale becomes a
 * question mark, so that texts of others do not speak to the terminal. */
void   lines_put(struct lines *p, const char *text);
void   lines_print(struct lines *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void   lines_color(struct lines *p, enum lines_color color); // until LINES_PLAIN; it has no width
void   lines_to(struct lines *p, size_t column);             // blanks as far as there
void   lines_end(struct lines *p); // the line ends; beyond `rows` it is lost
size_t lines_left(const struct lines *p); // rows

/* A bar of so many columns, part (0 to 1) of it full. */
void lines_bar(struct lines *p, size_t columns, double part);

/* Points, NaN where there is none, from left to right, joined: `rows` lines, with the largest and
 * the smallest value before the first and the last, in `margin` columns. */
void   lines_curve(struct lines *p, const double *point, size_t n, size_t rows, size_t margin);
size_t lines_curve_points(const struct lines *p, size_t margin); // so many can be told apart
