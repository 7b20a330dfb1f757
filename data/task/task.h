/* task.h: what one fine-tunes for: the nine GLUE tasks (Wang et al., ICLR 2019) as ONE table, or
 * one's own files, and the reading of their rows. A row of the table is all there is to a task: its
 * files, columns, labels in order, metrics.
 *
 * GLUE's TSVs have no quoting: a double quote is a character. One's own files, by their names'
 * ends: .csv (RFC 4180 quoting), .tsv (as GLUE's, with a header), .json or .jsonl (an object a
 * line, or one list of them). The first of these rules that fits a file chooses its text columns:
 *   1. the columns that the user names;
 *   2. the pairs of GLUE's tasks, as run_glue.py has them: sentence1 and sentence2, premise and
 *      hypothesis, question and sentence, question1 and question2;
 *   3. sentence1, sentence, or text (with text_pair);
 *   4. as run_glue.py chooses, the first two columns, or the only one, that are not called label.
 *      Columns id, idx, index and those without a name count only if there is no other column.
 * Other columns are left out.
 *
 * Labels of one's own are the distinct strings of the training file, sorted: by number if all are
 * whole numbers. It is regression where every label is a number and one at least has a decimal
 * point or an exponent (1.0, too; run_glue: a float column), or where it is asked for. Labels that
 * stand for no label are refused: nan, none and the like among numbers; -1 where the others are the
 * numbers from 0 on, unless they are 0 and 1 alone (-1, 0, 1 are a scale) in a file that is none of
 * datasets', whose rows have an idx. */
#pragma once

#include "data/base/err.h"
#include "data/task/metrics.h"

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
    /* Of the names of its metrics: "" and, for MNLI's mismatched, "_mm". */
    const char *suffix[TASK_SPLITS];
    size_t      n_labels;           // 1: regression
    const char *const *labels;      // (n_labels): config.json's id2label; NULL for regression
    int         coded;              // 1: its files hold the number of the class, not its name
    int         loose;              // 1: they may hold its number, LABEL_ and its number, or the
                                    // name in other case, where no class is called so
    enum metric metric[TASK_METRICS]; size_t n_metrics; // the first one is what --keep-best follows
};

extern const struct task task_table[];
const char              *task_word(size_t i); // the i-th name; NULL past the last
extern const size_t      task_count;
/* Also SST-2, sst_2, STS-B, ...: case, '-' and '_' do not matter. NULL: none. */
const struct task *task_find(const char *name);

/* Columns of one's own files by their names. To read: text NULL: those that the names suggest, pair
 * NULL: none beside text, label NULL: label. That were read: pair and label NULL where there is
 * none. */
struct task_names { const char *text, *pair, *label; };
int  task_names_copy(struct task_names *out, const struct task_names *from, struct err *err);
void task_names_free(struct task_names *n); // what task_names_copy made; accepts the zero state

/* One row of a file, lent to the callback: text2 NULL where there is none, label NULL where the
 * file has none. line: where it begins. names: of the columns, in one's own files, else NULL. */
struct task_row {
    const char              *path;
    size_t                   line;
    const char              *text1, *text2, *label;
    const struct task_names *names;
    // in one's own files, as a sentence lists them: all names there are; those of texts that are
    // not read and that nobody chose among, as far as was read
    const char *known, *unread;
};
typedef int (*task_row_fn)(void *ctx, const struct task_row *row, struct err *err);

/* Every row of a GLUE file, or of one's own, in order. Wrong number of columns, invalid UTF-8, a
 * NUL byte, an empty text, no row at all: a misuse sentence that names file and line. A non-zero
 * return of `row` stops and is passed on. most 0: all rows; what stands after the last row asked
 * for is not looked at. Empty lines are left out. Memory is the longest row's, which has at most 64
 * MiB. One's own: a name asked for that the file does not have, and a delimiter that is not the one
 * of the file's kind, are refused, naming those that are there, and the one that would work. */
int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row,
                   void *ctx, struct err *err);
int task_read_own(const char *path, const struct task_names *names, uint64_t most, task_row_fn row,
                  void *ctx, struct err *err);

/* The class (value 0) or the value (label 0: there is one) that a label's text stands for; no
 * label, an unknown one or something that is no number: a misuse sentence with file and line and
 * the labels that are known. */
int task_label(const struct task *t, const struct task_row *row, int32_t *label, float *value,
               struct err *err);

/* Whether text is a decimal number that a float holds; *value is it (NULL: nobody asks). */
int task_number(const char *text, float *value);

/* The task of one's own rows with these labels (borrowed), or (n 1) of values; its metric is
 * accuracy, or mse. */
struct task task_custom(const char *const *labels, size_t n);

/* The task of one's own training file: reads it once for labels and kind. Every row must have a
 * label, and classification two different ones. regression: 1 asks for it. Freed by task_own_free.
 */
int  task_own(struct task **out, const char *path, const struct task_names *names, int regression,
              struct err *err);
void task_own_free(struct task *t); // NULL is fine
