/* nan.h: a number that is printed: printf shows the sign of a NaN, which says nothing and makes two
 * of them look unlike ("nan", "-nan"). */
#pragma once

#include <math.h>

static inline double nan_plain(double v) { return isnan(v) ? (double)NAN : v; }
