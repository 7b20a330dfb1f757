/* bars.h: a picture of bars from the left: a row each with its label before it, of parts one behind
 * the other, and an axis below. */
#pragma once

#include "report/svg.h"

enum { CHART_WIDTH = 540, BARS_ROW = 24 };

struct bars {
    struct svg  s;
    double      y, at; // of the row; where its next part begins
};

/* `rows` of them, the longest of length `most`; left: pixels for the labels. */
enum { BARS_LABELS = 206, BARS_LONG_LABELS = 240 };
void bars_open(struct bars *b, FILE *out, const char *name, double left, size_t rows, double most);
void bars_row(struct bars *b, const char *label);
void bars_part(struct bars *b, const char *colour, double value, const char *tip);
/* A figure behind the row's last part. */
void bars_figure(struct bars *b, const char *text);
void bars_close(struct bars *b, svg_figure *figure);
