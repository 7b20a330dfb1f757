/* charts.h: the pictures of a report, each from a section of the gathered value (report.h), as SVG
 * in a page. One that has nothing to show prints nothing and returns 0. */
#pragma once

#include "data/base/json.h"

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

/* Of several reports: how fast each is beside the first, their breakdowns, their losses. */
int chart_speedup(FILE *out, const json_t *reports);
int chart_stacks(FILE *out, const json_t *reports, const char *section);
int chart_losses(FILE *out, const json_t *reports);
/* The colour of the i-th of several. */
const char *chart_colour(size_t i);
