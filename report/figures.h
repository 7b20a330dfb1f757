/* figures.h: how figures and phases are written in text and in pages alike. Bytes that were moved
 * are in MB and GB (powers of 1000), memory is in MiB and GiB, as --host-mem is. All write into buf
 * and return it. */
#pragma once

#include "data/base/json.h"
#include "data/opt/opt_row.h"

const char *figure_bytes(char *buf, size_t size, double bytes);  // "1.23 GB"
const char *figure_memory(char *buf, size_t size, double bytes); // "1.23 GiB"
/* What the process held at most, and of it the arenas of emulated devices, which --host-mem does
 * not count: "1.23 GiB + 64 MiB devices". */
const char *figure_peak(char *buf, size_t size, const json_t *report);
double      report_arenas(const json_t *report); // bytes
const char *figure_seconds(char *buf, size_t size, double seconds); // "1.23 s", "4.56 ms"
const char *figure_count(char *buf, size_t size, double n);      // "12.3 M", "4.5 k"

/* Is a column of this name a number that the model made (a loss, a norm, a metric)? It may be NaN,
 * where others that are missing were not measured. */
int figure_of_model(const char *name);

/* Words for a phase of run.db: "reads of parameters" for param_read. One that is not known is
 * itself. */
const char *phase_words(const char *phase);
/* What colour it has: one of a few names, which are classes of page.css. */
const char *phase_colour(const char *phase);

/* The four parts of a breakdown, in their order: the field in the gathered value, words for it, its
 * letter in a bar of characters. */
struct part { const char *field, *words, *colour; char letter; };
enum { PARTS = 4 };
extern const struct part breakdown_parts[PARTS];
double breakdown_sum(const json_t *breakdown); // of those that it has

/* The overlap of all processes that trained the run: how long devices were busy, and how much of
 * that nobody waited for. 0 where run.db says nothing of it. */
int overlap_sum(const json_t *report, double *busy_seconds, double *hidden_seconds);

/* The step (from 0) of the evaluation that speaks for a run. If the run kept its best model, this
 * is the best evaluation; otherwise it is the last one. -1: the run has no evaluation. */
double eval_final(const json_t *report);
/* "accuracy 0.883333, loss 0.408460 after step 376 (the best)"; "" where there was none. */
const char *figure_evals(char *buf, size_t size, const json_t *report);

/* Whether the measure of row `at` of the evaluations stands in an earlier row, too. */
int eval_seen(const json_t *evals, size_t at);

/* A line that says what was trained: "12 layers of width 768, 124.4 M parameters". "" where it is
 * not known. */
const char *figure_model(char *buf, size_t size, const json_t *report);
/* The name of a run's folder, without those that it lies in. */
const char *figure_run(const json_t *report);
/* The mode, with what compression makes of it: "su+o+c", as the papers write it. */
const char *figure_mode(char *buf, size_t size, const json_t *report);
/* A choice of activations' ways: of how many layers a part is kept, of how many offloaded. */
const char *figure_ways(char *buf, size_t size, const json_t *choice);
/* An option's value as it is stored, or of one size in words: 4G. */
const char *figure_option(char *buf, size_t size, const struct opt_row *row, const char *text);
/* A number among the settings of a report, or 0. */
double report_setting(const json_t *report, const char *key);
/* The text of a setting, or "". */
const char *report_setting_text(const json_t *report, const char *key);
