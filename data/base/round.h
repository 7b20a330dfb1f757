/* round.h: division and rounding of sizes upwards, minimum and maximum. */
#pragma once

#include <stddef.h>

static inline size_t div_up(size_t n, size_t by) { return (n + by - 1) / by; }

static inline size_t round_up(size_t n, size_t to) { return div_up(n, to) * to; }

static inline size_t size_min(size_t a, size_t b) { return a < b ? a : b; }

static inline size_t size_max(size_t a, size_t b) { return a > b ? a : b; }
