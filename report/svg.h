/* svg.h: pictures in a page: SVG that stands in HTML and takes its colours from the page's style
 * sheet (page.css), so that it is light or dark as the page is. A plot has a field in which data
 * are drawn, in units of the data, with axes at its left and below. */
#pragma once

#include <stdio.h>

/* Text as HTML and XML take it; control characters are none. */
void svg_escape(FILE *out, const char *text);

struct svg {
    FILE  *out;
    double width, height;            // of the picture, in pixels at full size
    double left, right, top, bottom; // of the field, in pixels from the left and the top
    double x0, x1, y0, y1;           // the data at its edges
    int    counts;                   // x counts things: its marks stand at whole numbers
};

/* Begin a picture: width, height and the margins around the field (left, right, top, bottom) are
 * set, as are out and the range; `name` says what it shows to who cannot see it. */
void svg_open(const struct svg *s, const char *name);
void svg_close(const struct svg *s);
double svg_x(const struct svg *s, double x); // pixels
double svg_y(const struct svg *s, double y);

/* How figures on an axis are written. */
typedef const char *svg_figure(char *buf, size_t size, double value);
/* Axes with round figures: y with lines across, x with marks below. label: what is counted. */
void svg_axis_y(const struct svg *s, const char *label, svg_figure *figure);
void svg_axis_x(const struct svg *s, const char *label, svg_figure *figure);
/* Widen [*low, *high] to round figures. */
void svg_round_range(double *low, double *high);

/* A rectangle in pixels of class `colour`; `tip` (or NULL) is shown when it is pointed at. */
void svg_box(const struct svg *s, const char *colour, double x, double y, double width,
             double height, const char *tip);
/* anchor: "start", "middle" or "end". */
void svg_text(const struct svg *s, const char *cls, double x, double y, const char *anchor,
              const char *text);
void svg_line(const struct svg *s, const char *cls, double xa, double ya, double xb, double yb);

/* A curve through points of the data, (x, y) one after the other; one that is not finite makes a
 * gap. style: of CSS, "" for none. And the band between two of them, of as many points. */
void svg_curve(const struct svg *s, const char *colour, const char *style, const double *x,
               const double *y, size_t n);
void svg_dot(const struct svg *s, const char *colour, double x, double y, const char *tip);
void svg_band(const struct svg *s, const char *colour, const double *x, const double *low,
              const double *high, size_t n);

const char *svg_plain(char *buf, size_t size, double value); // a figure as it is
