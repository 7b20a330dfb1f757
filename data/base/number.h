/* number.h: numbers as people write them. */
#pragma once

/* A plain decimal at the beginning of text: no sign, no blank, neither hexadecimal nor infinite.
 * Returns its end; NULL if there is none. */
const char *number_decimal(const char *text, double *v);

/* Whether all of text is a size: whole bytes, or a decimal with K, M, G or T (powers of 1024), or
 * with KB, KiB and so on. A blank may stand before the unit. */
int number_size(const char *text, double *bytes);
