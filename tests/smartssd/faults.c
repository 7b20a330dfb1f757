/* faults.c: the rows of SMARTSSD_FAULT: OP[@DEVICE][=NTH[:VALUE]], separated by commas. */
#include "tests/smartssd/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const name_of[FAULTS] = { "open", "load", "alloc", "map", "sync", "context",
                                             "exec", "hang", "error", "vanish" };

static void bad_row(const char *row)
{
    fprintf(stderr, "smartssd: SMARTSSD_FAULT: %s is not OP[@DEVICE][=NTH[:VALUE]]\n", row);
    exit(2);
}

/* The number behind `mark`, where *s has it; else `otherwise`. */
static long number(const char **s, char mark, long otherwise, const char *row)
{
    char *end;

    if (**s != mark)
        return otherwise;
    long x = strtol(*s + 1, &end, 10);
    if (end == *s + 1 || x < 0)
        bad_row(row);
    *s = end;
    return x;
}

void faults_read(struct faults *f, unsigned device)
{
    const char *rows = getenv("SMARTSSD_FAULT");

    *f = (struct faults){ 0 };
    for (const char *s = rows ? rows : ""; *s; s += *s == ',') {
        const char *row = s;
        int         what = 0;

        while (what < FAULTS && (strncmp(s, name_of[what], strlen(name_of[what])) != 0 ||
                                 !strchr("@=,", s[strlen(name_of[what])])))
            what++;
        if (what == FAULTS || f->n == FAULT_ROWS)
            bad_row(row);
        s += strlen(name_of[what]);
        long which = number(&s, '@', (long)device, row), nth = number(&s, '=', 0, row),
             value = number(&s, ':', 0, row);
        if (*s && *s != ',')
            bad_row(row);
        if (which != (long)device)
            continue;
        f->row[f->n].what = (enum fault)what;
        f->row[f->n].nth = (unsigned long)nth;
        f->row[f->n++].value = (int)value;
    }
}

int faults_hit(struct faults *f, enum fault what, int usual)
{
    unsigned long count = ++f->count[what];

    for (int i = 0; i < f->n; i++)
        if (f->row[i].what == what && (!f->row[i].nth || f->row[i].nth == count))
            return f->row[i].value ? f->row[i].value : usual;
    return 0;
}
