/* svg.c: draws lines, boxes, texts and axes as SVG. */
#include "report/svg.h"

#include <math.h>

/* In a page, a picture's width may shrink to that of a phone or to LEAST of its size (below, one
 * scrolls), and grow to MOST. BETWEEN_X and BETWEEN_Y: least pixels between two figures of an
 * axis. */
#define LEAST 0.8
#define MOST  1.2
enum { PHONE = 560, PHONE_WIDTH = 316, BETWEEN_X = 62, BETWEEN_Y = 26, EDGE = 26 };

void svg_escape(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc((unsigned char)*text < ' ' || *text == 0x7F ? '?' : *text, out);
        }
}

void svg_open(const struct svg *s, const char *name)
{
    double least = s->width <= PHONE ? PHONE_WIDTH : LEAST * s->width;

    fprintf(s->out, "<svg viewBox=\"0 0 %.0f %.0f\" style=\"min-width:%.0fpx;max-width:%.0fpx\" "
            "role=\"img\" aria-label=\"", s->width, s->height, least, MOST * s->width);
    svg_escape(s->out, name);
    fputs("\">\n", s->out);
}

void svg_close(const struct svg *s) { fputs("</svg>\n", s->out); }

/* Where `v` is between `from` and `to`, from 0 to 1. 0.5 if that cannot be computed. */
static double place(double v, double from, double to)
{
    double part = (v - from) / (to - from);

    return isfinite(part) ? part : 0.5;
}

double svg_x(const struct svg *s, double x)
{
    return s->left + place(x, s->x0, s->x1) * (s->width - s->left - s->right);
}

double svg_y(const struct svg *s, double y)
{
    return s->top + (1 - place(y, s->y0, s->y1)) * (s->height - s->top - s->bottom);
}

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, so that at most `n` steps fit into the range. */
static double round_step(double range, double n)
{
    double power = pow(10, floor(log10(range / n))), part = range / n / power;

    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

void svg_round_range(double *low, double *high)
{
    if (!isfinite(*high - *low)) {
        *low = 0;
        *high = 1;
    }
    if (!(*high > *low))
        *high = *low + (*low != 0 ? fabs(*low) : 1);
    double step = round_step(*high - *low, 5);

    *low = floor(*low / step) * step;
    *high = ceil(*high / step) * step;
}

/* 0 for a sum of steps that is 0 except for rounding. */
static double near_zero(double v, double step) { return fabs(v) < step * 1e-6 ? 0 : v; }

const char *svg_plain(char *buf, size_t size, double value)
{
    snprintf(buf, size, "%.6g", value);
    return buf;
}

void svg_axis_y(const struct svg *s, const char *label, svg_figure *figure)
{
    double right = s->width - s->right, room = (s->height - s->top - s->bottom) / BETWEEN_Y;
    double step = s->y1 > s->y0 ? round_step(s->y1 - s->y0, room) : 1;
    char   text[64];

    for (int i = 0; i <= room + 1; i++) { // counted, because a step may be too small to change y
        double y = (ceil(s->y0 / step - 1e-9) + i) * step;

        if (!(y <= s->y1 + step * 1e-6))
            break;
        svg_line(s, "grid", s->left, svg_y(s, y), right, svg_y(s, y));
        svg_text(s, "tick", s->left - 6, svg_y(s, y) + 4, "end", figure(text, sizeof text,
                                                                        near_zero(y, step)));
    }
    svg_text(s, "label", 2, 15, "start", label);
}

void svg_axis_x(const struct svg *s, const char *label, svg_figure *figure)
{
    double foot = s->height - s->bottom, room = (s->width - s->left - s->right) / BETWEEN_X;
    double step = s->x1 > s->x0 ? round_step(s->x1 - s->x0, room) : 1;
    char   text[64];

    step = s->counts ? fmax(step, 1) : step;
    svg_line(s, "axis", s->left, foot, s->width - s->right, foot);
    for (int i = 0; i <= room + 1; i++) {
        double x = (ceil(s->x0 / step - 1e-9) + i) * step;

        if (!(x <= s->x1 + step * 1e-6))
            break;
        svg_line(s, "axis", svg_x(s, x), foot, svg_x(s, x), foot + 4);
        int edge = svg_x(s, x) > s->width - EDGE; // half of the figure would be cut off
        svg_text(s, "tick", edge ? s->width - 1 : svg_x(s, x), foot + 17, edge ? "end" : "middle",
                 figure(text, sizeof text, near_zero(x, step)));
    }
    svg_text(s, "label", s->width - s->right, foot + 33, "end", label);
}

/* ---- marks ---- */

void svg_box(const struct svg *s, const char *colour, double x, double y, double width,
             double height, const char *tip)
{
    fprintf(s->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
            colour, x, y, width > 0 ? width : 0, height > 0 ? height : 0);
    if (!tip) {
        fputs("/>\n", s->out);
        return;
    }
    fputs("><title>", s->out);
    svg_escape(s->out, tip);
    fputs("</title></rect>\n", s->out);
}

void svg_text(const struct svg *s, const char *cls, double x, double y, const char *anchor,
              const char *text)
{
    fprintf(s->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", cls, x, y,
            anchor);
    svg_escape(s->out, text);
    fputs("</text>\n", s->out);
}

void svg_line(const struct svg *s, const char *cls, double xa, double ya, double xb, double yb)
{
    fprintf(s->out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", cls,
            xa, ya, xb, yb);
}

void svg_dot(const struct svg *s, const char *colour, double x, double y, const char *tip)
{
    fprintf(s->out, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"3.5\"><title>", colour,
            svg_x(s, x), svg_y(s, y));
    svg_escape(s->out, tip);
    fputs("</title></circle>\n", s->out);
}

void svg_curve(const struct svg *s, const char *colour, const char *style, const double *x,
               const double *y, size_t n)
{
    int on = 0;

    fprintf(s->out, "<path class=\"curve %s\"", colour);
    if (*style)
        fprintf(s->out, " style=\"%s\"", style);
    fputs(" d=\"M0 0", s->out);
    for (size_t i = 0; i < n; i++) {
        int there = isfinite(x[i]) && isfinite(y[i]);

        if (there)
            fprintf(s->out, "%s%.1f %.1f", on ? "L" : "M", svg_x(s, x[i]), svg_y(s, y[i]));
        on = there;
    }
    fputs("\"/>\n", s->out);
}

void svg_band(const struct svg *s, const char *colour, const double *x, const double *low,
              const double *high, size_t n)
{
    int on = 0;

    fprintf(s->out, "<path class=\"band %s\" d=\"M0 0", colour);
    for (size_t i = 0; i < 2 * n; i++) {
        size_t k = i < n ? i : 2 * n - 1 - i;
        double y = i < n ? high[k] : low[k];

        if (!isfinite(x[k]) || !isfinite(y))
            continue;
        fprintf(s->out, "%s%.1f %.1f", on ? "L" : "M", svg_x(s, x[k]), svg_y(s, y));
        on = 1;
    }
    fputs(on ? "Z\"/>\n" : "\"/>\n", s->out);
}
