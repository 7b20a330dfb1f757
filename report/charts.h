/* charts.h: a page's pictures, as SVG. One with nothing to show prints nothing and returns 0. */
#pragma once

#include "report/format.h"

enum { CHART_COLOURS = 12 };
/* The colour of the i-th of several. */
const char *chart_colour(size_t i);

/* A row for each of a table (sections.h): its texts, its bar, its first figure. axis: below. */
void chart_bars(FILE *out, const char *name, const json_t *table, figure_of *axis);
/* Colours and what they stand for: an array of { colour, name }. */
void chart_legend(FILE *out, const json_t *parts);

/* A curve along the run: of a field of the report's section `curve`. band: from FIELD_least to
 * FIELD_most. smooth: the field of the line; the field itself is then a faint one. points: the
 * measure whose evaluations are drawn as points. */
struct along {
    const char *field, *label, *colour;
    figure_of  *figure;
    double      height;
    int         band, from_zero;
    const char *smooth, *points;
};
int chart_along(FILE *out, const json_t *report, const struct along *a);

/* From a report. */
typedef int  page_drawing(FILE *out, const json_t *report);
page_drawing chart_evals, chart_breakdown_steps;
/* timeline.c: one step, a lane for the host and for each device and direction. */
page_drawing chart_timeline;
/* From an array of reports: their losses; and of runs that differ in their mode and --devices
 * alone, speed against devices, a line for each mode. */
page_drawing chart_losses, chart_devices;
