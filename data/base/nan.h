/* nan.h: prints NaN without its sign. printf shows the sign of a NaN, which means nothing and
 * makes two NaNs look unlike ("nan", "-nan"). */
#pragma once

#include <math.h>

static inline double nan_plain(double v) { return isnan(v) ? (double)NAN : v; }
