/* metrics.h: the numbers that fine-tuning is judged by, as scikit-learn and scipy compute them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of classes, then of real values. */
enum metric {
    METRIC_ACCURACY, METRIC_F1, METRIC_MATTHEWS, METRIC_PEARSON, METRIC_SPEARMAN, METRIC_MSE,
    METRICS
};

/* run_glue.py's names: accuracy f1 matthews_correlation pearson spearmanr mse */
extern const char *const metric_names[METRICS];
static inline int metric_of_values(enum metric m) { return m >= METRIC_PEARSON; } // else of classes
static inline int metric_larger_better(enum metric m) { return m != METRIC_MSE; }

/* Of n predicted and true classes. F1: of class 1 against the rest (zero_division 0). Matthews: of
 * any number of classes (Gorodkin 2004), 0 where it is 0/0. No rows: accuracy is NaN, the others 0.
 */
double metric_classes(enum metric m, const int32_t *predicted, const int32_t *truth, size_t n);

/* Of n predicted and true values. Spearman: Pearson of the ranks, ties by their mean rank. NaN
 * where a side is constant, as scipy says. scratch: room for 4 n doubles, as malloc
 * gives it; NULL will do for mse. */
double metric_values(enum metric m, const float *predicted, const float *truth, size_t n,
                     void *scratch);
