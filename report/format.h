/* format.h: how figures and phases are written in text and in pages alike. Bytes that were moved
 * are in MB and GB (powers of 1000), memory is in MiB and GiB, as --host-mem is. All write into buf
 * and return it. */
#pragma once

#include "data/json/json.h"
#include "data/opt/opt_row.h"

typedef const char *figure_of(char *buf, size_t size, double value);
figure_of figure_bytes;   // "1.23 GB"
figure_of figure_rate;    // "1.23 GB/s"
figure_of figure_memory;  // "1.23 GiB"
figure_of figure_mib;     // of so many MiB: "400 MiB"
figure_of figure_seconds; // "1.23 s", "4.56 ms"
figure_of figure_years;   // "1.23 years"
figure_of figure_count;   // "12.3 M", "4.5 k"
figure_of figure_whole;   // "123456"
figure_of figure_step;    // of a step from 0: "124"
figure_of figure_exact;   // "1.2345"
figure_of figure_tenths;  // "1.2"
figure_of figure_share;   // of a part of 1: "12.3 %"
figure_of figure_times;   // "1.23 x"

/* What the process held at most, and of it the arenas of emulated devices, which --host-mem does
 * not count: "1.23 GiB + 64 MiB devices". */
const char *figure_peak(char *buf, size_t size, const json_t *report);
double      report_arenas(const json_t *report); // bytes

/* Is a column of this name a number that the model made (a loss, a norm, a metric)? It may be NaN,
 * where others that are missing were not measured. */
int figure_of_model(const char *name);

/* Whether the text is one of the words, which have a blank before and behind each. */
int is_word_of(const char *text, const char *words);

/* Words for a phase of run.db: "reads of parameters" for param_read; unknown: itself. */
const char *phase_words(const char *phase);
/* What colour it has: one of a few names, which are classes of page.css. */
const char *phase_colour(const char *phase);

/* The parts of a breakdown in order: the gathered field, words for it, its letter in a bar. */
struct part { const char *field, *words, *colour, *letter; };
enum { PARTS = 4 };
extern const struct part breakdown_parts[PARTS];
double breakdown_sum(const json_t *breakdown); // of those that it has

/* The overlap of all processes that trained the run: how long devices were busy, and how much of
 * that nobody waited for. 0 where run.db says nothing of it. */
int overlap_sum(const json_t *report, double *busy_seconds, double *hidden_seconds);

/* What was trained: "12 layers of width 768, 124.4 M parameters"; "": unknown. */
const char *figure_model(char *buf, size_t size, const json_t *report);
/* How it was trained: "mode su+o on 2 devices, rank 1 of 2, batch 2 x 16 tokens". */
const char *figure_way(char *buf, size_t size, const json_t *report);
/* The name of a run's folder, without those that it lies in. */
const char *figure_run(const json_t *report);
/* The mode, with what compression makes of it: "su+o+c", as the papers write it. */
const char *figure_mode(char *buf, size_t size, const json_t *report);
/* The end of a text that is longer than `most` bytes, behind three dots. */
const char *figure_end(char *buf, size_t size, const char *text, size_t most);
/* What tells a run from those that it is compared with: "2 su+o, 4 devices, run-b" (compare.c). */
const char *report_label(const json_t *report);
/* What the reports were sorted by, or "". */
const char *report_by(const json_t *reports);
/* An option's value as it is stored, or of one size in words: 4G. */
const char *figure_option(char *buf, size_t size, const struct opt_row *row, const char *text);
/* A number among the settings of a report, or 0. */
double report_setting(const json_t *report, const char *key);
/* The text of a setting, or "". */
const char *report_setting_text(const json_t *report, const char *key);
