/* task.h: the tasks of fine-tuning, and the reading of their rows. A task is one of the nine
 * GLUE tasks (Wang et al., ICLR 2019), which are rows of one table, or the user's own files. A
 * row of the table defines its task completely: files, columns, labels in order, metrics.
 *
 * GLUE's TSV files have no quoting: a double quote is a character. The kind of a user's file
 * follows from its name: .csv (RFC 4180 quoting), .tsv (as GLUE's, with a header), .json or
 * .jsonl (an object a line, or one list of them). The first of these rules that fits a file
 * chooses its text columns:
 *   1. the columns that the user names;
 *   2. the pairs of GLUE's tasks, as run_glue.py has them: sentence1 and sentence2, premise and
 *      hypothesis, question and sentence, question1 and question2;
 *   3. sentence1, sentence, or text (with text_pair);
 *   4. as run_glue.py chooses, the first two columns, or the only one, that are not called label.
 *      Columns id, idx, index and those without a name count only if there is no other column.
 * Other columns are ignored.
 *
 * The labels of a user's task are the distinct strings of the training file. They are sorted, by
 * number if all are whole numbers. The task is regression if the user asks for it. It is also
 * regression if every label is a number and at least one has a decimal point or an exponent
 * (even 1.0, which run_glue.py reads as a float column).
 *
 * Labels that mean "no label" are refused: nan, none and the like among numbers, and -1 where
 * the others are the numbers from 0 on. -1 is accepted with 0 and 1 alone, which are a scale,
 * unless the file is from datasets (its rows have an idx). */
#pragma once

#include "data/base/err.h"
#include "data/task/metrics.h"

enum { TASK_SPLITS = 2, TASK_METRICS = 2 };

#define TASK_TRAIN_FILE "train.tsv" // the training file of every GLUE task

/* Column numbers, from 0. text2 is -1 for single sentences. label is -1 for none, -2 for the
 * last column.
 *
 * torn: QQP's official files have rows that a stray newline tore apart, and empty texts. As in
 * other readers of GLUE, torn rows (too few columns, or no label) are skipped, and empty texts
 * are kept. */
struct task_columns { int text1, text2, label, header, torn; };

struct task {
    /* Value of --task: cola sst2 mrpc stsb qqp mnli qnli rte wnli; "custom" for the user's
     * files. */
    const char *name;
    const char *title;              // GLUE's folder name: CoLA, SST-2, ...
    struct task_columns train, test; // dev has the columns of train
    const char *dev[TASK_SPLITS];   // development files in the task's folder; MNLI has two; NULL:
                                    // no second
    const char *tests[TASK_SPLITS]; // test files, in the same way
    /* Suffixes of the metrics' names: "", and "_mm" for MNLI's mismatched part. */
    const char *suffix[TASK_SPLITS];
    size_t      n_labels;           // 1: regression
    const char *const *labels;      // (n_labels): config.json's id2label; NULL for regression
    int         coded;              // 1: its files hold class numbers instead of names
    int         loose;              // 1: its files may hold a class number, LABEL_ and the number,
                                    // or the name in another case, unless a class has that name
    enum metric metric[TASK_METRICS]; size_t n_metrics; // --keep-best uses the first
};

extern const struct task task_table[];
const char              *task_word(size_t i); // returns the i-th name; NULL past the last
extern const size_t      task_count;
/* Returns the task of this name, or NULL. Case, '-' and '_' are ignored, so SST-2 and sst_2
 * work. */
const struct task *task_find(const char *name);

/* Columns of a user's file, by name. For reading, NULL selects the default: text by the rules
 * above, pair none next to a given text, label "label". In a row that was read, pair and label
 * are NULL if there is none. */
struct task_names { const char *text, *pair, *label; };
int  task_names_copy(struct task_names *out, const struct task_names *from, struct err *err);
void task_names_free(struct task_names *n); // of task_names_copy; accepts the zero state

/* One row of a file, valid during the callback. text2 is NULL if there is none, and label is
 * NULL if the file has none. `line` is the row's first line. `names` are the columns of a user's
 * file, otherwise NULL. */
struct task_row {
    const char              *path;
    size_t                   line;
    const char              *text1, *text2, *label;
    const struct task_names *names;
    // in a user's file, as lists for a sentence: all column names; names of text columns that are
    // not read and that the user did not choose among, as far as was read
    const char *known, *unread;
};
typedef int (*task_row_fn)(void *ctx, const struct task_row *row, struct err *err);

/* Call `row` for every row of a GLUE file, or of a user's file, in order. `most` limits the
 * number of rows (0: all); the file is not checked behind the last one. If `row` returns other
 * than 0, reading stops and returns that. Empty lines are skipped. Memory is that of the longest
 * row, at most 64 MiB.
 *
 * A wrong number of columns, invalid UTF-8, a NUL byte, an empty text, or a file without rows is
 * a misuse; the sentence names file and line. In a user's file, a missing column and a delimiter
 * of another kind of file are refused, too. The sentence lists the columns that exist and what
 * would work. */
int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row,
                   void *ctx, struct err *err);
int task_read_own(const char *path, const struct task_names *names, uint64_t most, task_row_fn row,
                  void *ctx, struct err *err);

/* Parses a row's label into its class (*value is 0), or into its value (*label is 0: there is
 * one). If the label is missing, unknown or not a number, returns a misuse sentence with file,
 * line and the known labels. */
int task_label(const struct task *t, const struct task_row *row, int32_t *label, float *value,
               struct err *err);

/* Returns whether text is a decimal number that fits a float. *value gets it; `value` may be
 * NULL. */
int task_number(const char *text, float *value);

/* Returns the task of a user's rows with these n labels (borrowed), or, for n = 1, of values.
 * Its metric is accuracy, or mse for values. */
struct task task_custom(const char *const *labels, size_t n);

/* Makes the task of a user's n training files. It reads each once for the labels and the kind. The
 * columns of the first one are those of the others. Every row must have a label, and a
 * classification needs two different ones. regression: 1 asks for regression. The caller frees it
 * with task_own_free. */
int  task_own(struct task **out, char *const *paths, size_t n, const struct task_names *names,
              int regression, struct err *err);
void task_own_free(struct task *t); // accepts NULL
