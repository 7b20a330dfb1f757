/* task.h: what one fine-tunes for: the nine GLUE tasks (Wang et al., ICLR 2019) as ONE table, or one's own files, and the reading of
 * their rows. A row of the table is all there is to a task: its files, columns, labels in order, metrics.
 *
 * GLUE's TSVs have no quoting: a double quote is a character. One's own files, by their names' ends: .csv (RFC 4180 quoting), .tsv (as
 * GLUE's, with a header), .json or .jsonl (an object a line), with columns named sentence or sentence1 (and sentence2), and label, as
 * run_glue.py takes them. Labels of one's own are the sorted distinct strings of the training file; regression where every
 * one is a number that is not whole (run_glue: a float column), or where it is asked for. */
#ifndef DATA_TASK_H
#define DATA_TASK_H

#include "data/err.h"
#include "data/metrics.h"

#include <stddef.h>
#include <stdint.h>

enum { TASK_SPLITS = 2, TASK_METRICS = 2 };

struct task_columns { int text1, text2, label, header; }; // from 0; text2 -1: single sentences; label -1: none, -2: the last

struct task {
    const char *name;               // what --task takes: cola sst2 mrpc stsb qqp mnli qnli rte wnli; own files: "custom"
    const char *title;              // CoLA, SST-2, ...
    struct task_columns train, test; // dev as train
    const char *dev[TASK_SPLITS], *tests[TASK_SPLITS]; // files in the task's folder; MNLI has two; NULL: no second
    const char *suffix[TASK_SPLITS]; // "" and, for MNLI's mismatched, "_mm": of the names of its metrics
    size_t      n_labels;           // 1: regression
    const char *const *labels;      // (n_labels): config.json's id2label; NULL for regression
    enum metric metric[TASK_METRICS]; size_t n_metrics; // the first one is what --keep-best follows
};

extern const struct task task_table[];
extern const size_t      task_count;
const struct task *task_find(const char *name); // also SST-2, sst-2, sts-b, ...: case and hyphens do not matter; NULL: none

/* One row of a file, lent to the callback: text2 NULL where there is none, label NULL where the file has none. */
struct task_row { const char *path; size_t line; const char *text1, *text2, *label; };
typedef int (*task_row_fn)(void *ctx, const struct task_row *row, struct err *err);

/* Every row of a GLUE file, or of one's own, in order. Wrong number of columns, invalid UTF-8, a NUL byte, an empty text: a misuse
 * sentence that names file and line. A non-zero return of `row` stops and is passed on. most 0: all rows. Lines may have any length;
 * memory is the longest line's. */
int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row, void *ctx, struct err *err);
int task_read_own(const char *path, uint64_t most, task_row_fn row, void *ctx, struct err *err);

/* The class or value that a label's text stands for; an unknown label or something that is no number: a misuse sentence with file and
 * line and the labels that are known. */
int task_label(const struct task *t, const struct task_row *row, int32_t *label, float *value, struct err *err);

/* The task of one's own training file: reads it once for labels and kind. Freed by task_own_free. regression: 1 asks for it. */
int  task_own(struct task **out, const char *path, int regression, struct err *err);
void task_own_free(struct task *t); // NULL is fine

#endif
