/* number.h: numbers as people write them. */
#pragma once

#include <math.h>

/* Returns a NaN without its sign. printf shows the sign, which means nothing and makes two NaNs
 * look unlike ("nan", "-nan"). */
static inline double nan_plain(double v) { return isnan(v) ? (double)NAN : v; }

/* Orders two doubles, for qsort: the smaller first. */
int number_order(const void *a, const void *b);

/* Reads the plain decimal at the beginning of text and returns its end. Returns NULL if the text
 * begins with anything else: a sign, a blank, a hexadecimal or an infinite number. */
const char *number_decimal(const char *text, double *v);

/* Returns whether all of text is a size: whole bytes, or a decimal with K, M, G or T (powers of
 * 1024), or with KB, KiB and so on. A blank may stand before the unit. */
int number_size(const char *text, double *bytes);
