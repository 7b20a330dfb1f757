/* bars.c: bars from the left, a row each, of parts one behind the other. */
#include "report/bars.h"

void bars_open(struct bars *b, FILE *out, const char *name, double left, size_t rows, double most)
{
    b->s = (struct svg){ .out = out, .width = CHART_WIDTH, .height = (double)rows * BARS_ROW + 30,
                         .left = left, .right = 78, .bottom = 26, .x1 = most > 0 ? most : 1 };
    b->y = -BARS_ROW;
    svg_open(&b->s, name);
}

void bars_row(struct bars *b, const char *label)
{
    b->y += BARS_ROW;
    b->at = 0;
    svg_text(&b->s, "", b->s.left - 8, b->y + 16, "end", label);
}

void bars_part(struct bars *b, const char *colour, double value, const char *tip)
{
    double from = svg_x(&b->s, b->at), to = svg_x(&b->s, b->at + value);

    svg_box(&b->s, colour, from, b->y + 3, to - from, BARS_ROW - 6, tip);
    b->at += value;
}

void bars_figure(struct bars *b, const char *text)
{
    svg_text(&b->s, "tick", svg_x(&b->s, b->at) + 6, b->y + 16, "start", text);
}

void bars_close(struct bars *b, svg_figure *figure)
{
    struct svg axis = b->s;

    axis.bottom = 24;
    svg_axis_x(&axis, "", figure);
    svg_close(&b->s);
}
