/* task.h: what one fine-tunes for: the nine GLUE tasks (Wang et al., ICLR 2019) as ONE table, or
 * one's own files, and the reading of their rows. A row of the table is all there is to a task: its
 * files, columns, labels in order, metrics.
 *
 * GLUE's TSVs have no quoting: a double quote is a character. One's own files, by their names'
 * ends: .csv (RFC 4180 quoting), .tsv (as GLUE's, with a header), .json or .jsonl (an object a
 * line). Their texts are the columns sentence1 (and sentence2), else sentence, else, as run_glue.py
 * chooses, the first two that are not called label (or the only one); other columns are left out.
 * Labels of one's own are the distinct strings of the training file, sorted: by number if all are
 * whole numbers. It is regression where every label is a number and one at least is not written as
 * a whole one (run_glue: a float column), or where it is asked for. */
#ifndef DATA_TASK_H
#define DATA_TASK_H

#include "data/err.h"
#include "data/metrics.h"

#include <stddef.h>
#include <stdint.h>

enum { TASK_SPLITS = 2, TASK_METRICS = 2 };

#define TASK_TRAIN_FILE "train.tsv" // of every GLUE task

/* From 0. text2 -1: single sentences; label -1: none, -2: the last. torn: QQP's official files hold
 * rows that a stray newline tore apart, and texts that are empty; as every reader of GLUE does, the
 * former (too few columns, or no label) are left out, the latter kept. */
struct task_columns { int text1, text2, label, header, torn; };

struct task {
    /* What --task takes: cola sst2 mrpc stsb qqp mnli qnli rte wnli; own files: "custom". */
    const char *name;
    const char *title;              // CoLA, SST-2, ...: GLUE's names of their folders
    struct task_columns train, test; // dev as train
    const char *dev[TASK_SPLITS];   // files in the task's folder; MNLI has two; NULL: no second
    const char *tests[TASK_SPLITS]; // the same
    const char *suffix[TASK_SPLITS]; // "" and, for MNLI's mismatched, "_mm": of the names of its metrics
    size_t      n_labels;           // 1: regression
    const char *const *labels;      // (n_labels): config.json's id2label; NULL for regression
    int         coded;              // 1: its files hold the number of the class, not its name
    enum metric metric[TASK_METRICS]; size_t n_metrics; // the first one is what --keep-best follows
};

extern const struct task task_table[];
extern const size_t      task_count;
/* Also SST-2, sst_2, STS-B, ...: case, '-' and '_' do not matter. NULL: none. */
const struct task *task_find(const char *name);

/* One row of a file, lent to the callback: text2 NULL where there is none, label NULL where the
 * file has none. line: where it begins. */
struct task_row { const char *path; size_t line; const char *text1, *text2, *label; };
typedef int (*task_row_fn)(void *ctx, const struct task_row *row, struct err *err);

/* Every row of a GLUE file, or of one's own, in order. Wrong number of columns, invalid UTF-8, a NUL
 * byte, an empty text, no row at all: a misuse sentence that names file and line. A non-zero return
 * of `row` stops and is passed on. most 0: all rows; what stands after the last row asked for is not
 * looked at. Empty lines are left out. Memory is the longest row's, which has at most 64 MiB. */
int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row,
                   void *ctx, struct err *err);
int task_read_own(const char *path, uint64_t most, task_row_fn row, void *ctx, struct err *err);

/* The class (value 0) or the value (label 0: there is one) that a label's text stands for; no
 * label, an unknown one or something that is no number: a misuse sentence with file and line and
 * the labels that are known. */
int task_label(const struct task *t, const struct task_row *row, int32_t *label, float *value,
               struct err *err);

/* The task of one's own training file: reads it once for labels and kind; its metric is accuracy,
 * or mse. Every row must have a label, and classification two different ones. regression: 1 asks
 * for it. Freed by task_own_free. */
int  task_own(struct task **out, const char *path, int regression, struct err *err);
void task_own_free(struct task *t); // NULL is fine

#endif
