/* sections.h: what a report says, each thing once: its sections, which text and page render without
 * knowing what they are about. A section is a list, or a table (table.h), made from the gathered
 * value (report.h); some are pictures in a page (charts.h). */
#pragma once

#include "report/charts.h"
#include "report/table.h"
#include "report/text.h"

struct section {
    const char *title; // "": it has no heading
    const char *words; // a sentence below it in a page; NULL: none
    enum { SECTION_WIDE = 1, SECTION_PAGE = 2 } flags; // as wide as the page; in pages alone
    json_t *(*list)(const json_t *report);
    const char *rows;  // of a table: which array of the report has its rows
    json_t *(*make_rows)(const json_t *report); // or what makes such an array
    json_t *(*table)(const json_t *report);     // or all of a table
    struct column columns[11];
    table_bars   *bars;
    figure_of    *axis; // of the bars
    struct along  curves[2]; // in pages
    page_drawing *chart;     // in pages, before the rest
    int (*drawn)(const struct text *t, const json_t *report); // in text
};

/* Words for the picture of a loss, of one run and of several. */
#define WORDS_LOSS                                                                                 \
    "Line: the smoothed loss, which is the mean over a fortieth of the run on both sides of a "    \
    "step. Faint line: the mean of each of up to 400 pieces of the run, of the steps whose loss "  \
    "is a number. Points: the loss of evaluations."

/* The sections of one run; of several, whose "report" is the array of all; both end with { 0 }. */
extern const struct section sections_of_one[], sections_of_many[];

/* Its list or its table; NULL where there is nothing to show. Caller json_decref()s. */
json_t *section_made(const struct section *s, const json_t *report);
/* What the runs are and gave: rows of sections_many[0], which text shows in its own way. */
json_t *runs_rows(const json_t *reports);

/* A breakdown (as the report has it) as a row, and its bar. */
json_t    *breakdown_row(const json_t *breakdown, const char *label);
table_bars breakdown_bar;
