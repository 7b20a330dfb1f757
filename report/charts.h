/* charts.h: the pictures of a report, each from a section of the gathered value (report.h), as SVG
 * in a page. One that has nothing to show prints nothing and returns 0. */
#pragma once

#include "data/base/json.h"
#include "report/bars.h"

enum { CHART_PIECES = 512, CHART_COLOURS = 12 };

int chart_loss(FILE *out, const json_t *report);
int chart_rate(FILE *out, const json_t *report); // the learning rate
int chart_seconds(FILE *out, const json_t *report);
int chart_breakdown(FILE *out, const json_t *report); // as lived and serialised
int chart_breakdown_steps(FILE *out, const json_t *report);
int chart_waits(FILE *out, const json_t *report);
int chart_update(FILE *out, const json_t *report);
int chart_traffic(FILE *out, const json_t *report);
int chart_bandwidth(FILE *out, const json_t *report);
int chart_memory(FILE *out, const json_t *report);
int chart_eval(FILE *out, const json_t *report, const char *measure);

/* timeline.c: one step, a lane for what the host does and for what each device does in each
 * direction. */
int chart_timeline(FILE *out, const json_t *report);

/* charts_many.c: of several reports: how fast each is beside the first, their breakdowns, their
 * losses; and of runs that differ in their mode and --devices alone, speed against devices, a line
 * a mode. */
int chart_speedup(FILE *out, const json_t *reports);
int chart_stacks(FILE *out, const json_t *reports, const char *section);
int chart_losses(FILE *out, const json_t *reports);
int chart_devices(FILE *out, const json_t *reports);
/* What tells a run from others: its number, its mode, its devices, its name. Returns buf. */
enum { CHART_LABEL = 256 };
const char *chart_label(char buf[CHART_LABEL], size_t i, const json_t *report);
/* The modes of these, in the order of their colours: at most `most`, returns how many. */
enum { CHART_MODE = 32 };
size_t chart_modes(const json_t *reports, char modes[][CHART_MODE], size_t most);

/* The colour of the i-th of several; there are CHART_COLOURS. */
const char *chart_colour(size_t i);

/* What curves along a run are made of: a field of the pieces, where what is no figure is NaN; the
 * middle of each piece, counted from 1 as people do; both return how many there are. The least and
 * the most of figures, 0 where there is none. */
size_t chart_column(const json_t *pieces, const char *field, double out[CHART_PIECES]);
size_t chart_steps(const json_t *pieces, double out[CHART_PIECES]);
int    chart_range(const double *v, size_t n, double *low, double *high);
/* A row: the parts of a breakdown. */
void   chart_stack(struct bars *b, const json_t *parts, const char *label);
