/* report.h: what happened in runs, from their databases alone. All of a run is gathered into one
 * JSON value, and all that is printed or written comes from that value: the forms cannot disagree.
 *
 * To add a section: a question in data/db/sql, and a row in sections.c, which says what text and
 * page show of it. To add a form: a file here that takes the gathered values, or asks the database
 * with report_rows, and prints to a FILE; a row of options and a line of run() in cmd/report.c.
 * What goes into a file goes through report_file. */
#pragma once

#include "data/json/json.h"
#include "data/db/runlog.h"
#include "run/folder/output.h"

/* ---- gather.c ---- */

/* The rows of a SELECT as an array of objects, figures as numbers and NULL as null; caller
 * json_decref()s *rows. -errno with a sentence. */
int report_rows(json_t **rows, struct runlog *log, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A text of the database: what is no text in a damaged one is "?". */
json_t *report_string(const char *text);
/* All of a run, which lies in `dir`, as one object: a section for each question of data/db/sql;
 * caller json_decref()s. A figure that is not in the database is not in it. -errno with a
 * sentence. */
int report_gather(json_t **report, struct runlog *log, const char *dir, struct err *err);
/* Control characters of all texts are shown as what they are (visible.h): what a stranger put into
 * the database does not speak to a terminal, and is no HTML. Of one text: malloced, or NULL. */
void  report_tame(json_t *value);
char *report_tamed(const char *text);

/* Sorts the reports by the evaluation, the figure or the setting of the name `by`; NULL: they stay
 * in their order. Of several, compare.c gives each a section `comparison` with the first one (its
 * label, how many times as fast it is, its group of runs that differ in the seed alone) and a
 * section `differs`: the settings that differ, with both values. The first of a group gets a
 * section `seeds`. A name that no report has is misuse. */
int report_compare(json_t *reports, const char *by, struct err *err);

/* ---- forms: of an array of reports; more than one are compared ---- */

/* At most 80 columns. colour: with the terminal's. */
void report_text(FILE *out, const json_t *reports, int colour);
/* Lines of section,row,field,value; of several runs with the run before. */
void report_csv(FILE *out, const json_t *reports);
/* A page of its own, whole in one file: no network, no script. */
void report_html(FILE *out, const json_t *reports);

/* Rows as report_rows has them, as a table for people, or as CSV with a line of names. */
void report_table(FILE *out, const json_t *rows);
void report_table_csv(FILE *out, const json_t *rows);

/* file.c: a file that appears under its name once print has written all of it and the drive has it,
 * if output_check, which the caller has asked before any work, still lets it. print returns 0, or
 * -errno with a sentence; what could not be written is found here. */
int report_file(const struct output *o, int (*print)(FILE *out, void *ctx, struct err *err),
                void *ctx, struct err *err);

/* trace.c: some steps (trace.h says how they are named) as Chrome's trace events in a new file. */
int report_trace(const struct output *o, struct runlog *log, const char *steps, struct err *err);

/* metrics.c: figures of the run, whose folder is `run`, as OpenMetrics text. */
int report_metrics(FILE *out, struct runlog *log, const char *run, struct err *err);
