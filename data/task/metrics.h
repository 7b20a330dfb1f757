/* metrics.h: the metrics of fine-tuning, computed as scikit-learn and scipy compute them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Metrics of classes come first, then metrics of real values. */
enum metric {
    METRIC_ACCURACY, METRIC_F1, METRIC_MATTHEWS, METRIC_PEARSON, METRIC_SPEARMAN, METRIC_MSE,
    METRICS
};

/* run_glue.py's names: accuracy f1 matthews_correlation pearson spearmanr mse */
extern const char *const metric_names[METRICS];
static inline int metric_of_values(enum metric m) { return m >= METRIC_PEARSON; } // 0: of classes
static inline int metric_larger_better(enum metric m) { return m != METRIC_MSE; }

/* Returns a metric of n predicted and true classes. F1 is that of class 1 against the rest
 * (zero_division 0). Matthews works for any number of classes (Gorodkin 2004), and is 0 for 0/0.
 * For n = 0, accuracy is NaN and the others are 0. */
double metric_classes(enum metric m, const int32_t *predicted, const int32_t *truth, size_t n);

/* Returns a metric of n predicted and true values. Spearman is Pearson's coefficient of the
 * ranks; ties get their mean rank. The result is NaN if either side is constant, as in scipy.
 * `scratch` has room for 4 n doubles, aligned as by malloc. It may be NULL for mse. */
double metric_values(enum metric m, const float *predicted, const float *truth, size_t n,
                     void *scratch);
