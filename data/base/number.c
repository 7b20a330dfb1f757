/* number.c: reads decimals and sizes, for options and for files that people write. */
#include "data/base/number.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int number_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

const char *number_decimal(const char *text, double *v)
{
    char *end;

    if (!text[0] || !strchr("0123456789.", text[0]) || strncasecmp(text, "0x", 2) == 0)
        return NULL;
    *v = strtod(text, &end);
    return end == text || !(fabs(*v) <= DBL_MAX) ? NULL : end;
}

int number_size(const char *text, double *bytes)
{
    const char *units = "KMGT", *unit, *end = number_decimal(text, bytes);

    if (!end || !*end)
        return end && *bytes == floor(*bytes);
    end += *end == ' ' && end[1];
    unit = strchr(units, toupper((unsigned char)*end));
    if (!unit)
        return 0;
    *bytes = ldexp(*bytes, 10 * (int)(unit - units + 1));
    end++;
    return !*end || !strcasecmp(end, "b") || !strcasecmp(end, "ib");
}
