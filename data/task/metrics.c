/* metrics.c: computes the metrics of fine-tuning. Sums are in double precision, in the order of the
 * rows, so they do not depend on threads. Classes are counted window by window, and ranks use the
 * caller's scratch, so memory does not grow with the classes or the rows. */
#include "data/task/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const metric_names[METRICS] = {
    [METRIC_ACCURACY] = "accuracy", [METRIC_F1] = "f1", [METRIC_MATTHEWS] = "matthews_correlation",
    [METRIC_PEARSON] = "pearson", [METRIC_SPEARMAN] = "spearmanr", [METRIC_MSE] = "mse",
};

/* ---- classes ---- */

static size_t count_right(const int32_t *predicted, const int32_t *truth, size_t n)
{
    size_t right = 0;

    for (size_t i = 0; i < n; i++)
        right += predicted[i] == truth[i];
    return right;
}

static double f1(const int32_t *predicted, const int32_t *truth, size_t n)
{
    size_t both = 0, either = 0; // true positives; predicted positives and positives, summed

    for (size_t i = 0; i < n; i++) {
        both += predicted[i] == 1 && truth[i] == 1;
        either += (size_t)(predicted[i] == 1) + (size_t)(truth[i] == 1);
    }
    return either ? 2.0 * (double)both / (double)either : 0.0;
}

enum { WINDOW = 1024 }; // classes counted in one pass over the rows

/* The smallest class from `least` on, or INT64_MAX. */
static int64_t next_class(const int32_t *predicted, const int32_t *truth, size_t n, int64_t least)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        if (predicted[i] >= least && predicted[i] < next)
            next = predicted[i];
        if (truth[i] >= least && truth[i] < next)
            next = truth[i];
    }
    return next;
}

/* (c n - sum_k t_k p_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2)): c rows right, t_k rows of
 * class k, p_k predicted as k. */
static double matthews(const int32_t *predicted, const int32_t *truth, size_t n)
{
    double  tp = 0, tt = 0, pp = 0, all = (double)n;
    size_t  t[WINDOW], p[WINDOW], right = count_right(predicted, truth, n);

    for (int64_t at = next_class(predicted, truth, n, INT32_MIN); at != INT64_MAX;
         at = next_class(predicted, truth, n, at + WINDOW)) {
        memset(t, 0, sizeof t);
        memset(p, 0, sizeof p);
        for (size_t i = 0; i < n; i++) {
            if (truth[i] >= at && truth[i] < at + WINDOW)
                t[truth[i] - at]++;
            if (predicted[i] >= at && predicted[i] < at + WINDOW)
                p[predicted[i] - at]++;
        }
        for (size_t k = 0; k < WINDOW; k++) {
            tp += (double)t[k] * (double)p[k];
            tt += (double)t[k] * (double)t[k];
            pp += (double)p[k] * (double)p[k];
        }
    }
    double product = (all * all - pp) * (all * all - tt);
    return product == 0 ? 0.0 : ((double)right * all - tp) / sqrt(product);
}

double metric_classes(enum metric m, const int32_t *predicted, const int32_t *truth, size_t n)
{
    assert(!metric_of_values(m));
    if (m == METRIC_ACCURACY)
        return n ? (double)count_right(predicted, truth, n) / (double)n : NAN;
    return m == METRIC_F1 ? f1(predicted, truth, n) : matthews(predicted, truth, n);
}

/* ---- values ---- */

/* Whether no correlation is defined, because of a NaN or a constant side (such as a single row). */
static int undefined(const float *x, const float *y, size_t n)
{
    int x_varies = 0, y_varies = 0;

    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]) || isnan(y[i]))
            return 1;
        x_varies |= x[i] != x[0];
        y_varies |= y[i] != y[0];
    }
    return !x_varies || !y_varies;
}

/* Pearson's correlation, if it is defined. */
static double correlation(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, xy = 0, xx = 0, yy = 0;

    for (size_t i = 0; i < n; i++) {
        mx += x[i];
        my += y[i];
    }
    mx /= (double)n;
    my /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double dx = x[i] - mx, dy = y[i] - my;

        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    double r = xy / (sqrt(xx) * sqrt(yy));
    return r > 1 ? 1.0 : r < -1 ? -1.0 : r; // NaN stays
}

static int by_value(const void *a, const void *b)
{
    const float x = **(const float *const *)a, y = **(const float *const *)b;

    return (x > y) - (x < y);
}

/* rank[i] is the mean of the places, from 1, of all values equal to x[i] in sorted order. s is
 * scratch for n pointers. */
static void ranks(double *rank, const float *x, size_t n, const float **s)
{
    for (size_t i = 0; i < n; i++)
        s[i] = x + i;
    qsort(s, n, sizeof *s, by_value);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && *s[next] == *s[i];)
            next++;
        for (size_t k = i; k < next; k++)
            rank[s[k] - x] = (double)(i + 1 + next) / 2;
    }
}

static double mse(const float *predicted, const float *truth, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        double d = (double)predicted[i] - (double)truth[i];

        sum += d * d;
    }
    return n ? sum / (double)n : NAN;
}

double metric_values(enum metric m, const float *predicted, const float *truth, size_t n,
                     void *scratch)
{
    assert(metric_of_values(m));
    if (m == METRIC_MSE)
        return mse(predicted, truth, n);
    if (undefined(predicted, truth, n))
        return NAN;
    double       *x = scratch, *y = x + n;
    const float **sorted = (const float **)(void *)(y + n);

    for (size_t i = 0; i < n; i++) {
        x[i] = predicted[i];
        y[i] = truth[i];
    }
    if (m == METRIC_SPEARMAN) { // the means of ranks are exact
        ranks(x, predicted, n, sorted);
        ranks(y, truth, n, sorted);
    }
    return correlation(x, y, n);
}
