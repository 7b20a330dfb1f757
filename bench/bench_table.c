/* bench_table.c: builds rows of JSON objects and prints them as an aligned table. */
#include "bench/bench.h"

#include "data/base/round.h"

void bench_put(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

const json_t *bench_largest(const json_t *rows, const char *key)
{
    const json_t *best = NULL, *row;
    size_t        i;

    json_array_foreach(rows, i, row)
        if (json_num(row, key) > json_num(best, key))
            best = row;
    return best;
}

static const char *cell(char *buf, size_t size, const json_t *row, const struct bench_column *c)
{
    const json_t *v = json_object_get(row, c->key);

    if (json_is_string(v))
        return json_string_value(v);
    if (!json_is_number(v) || !c->format)
        return c->format ? "-" : "";
    snprintf(buf, size, c->format, json_number_value(v) * c->scale);
    return buf;
}

/* Prints a cell behind two blanks. Nothing follows a last cell with text. */
static void put(const char *text, int width, const struct bench_column *c)
{
    if (c->format || c[1].key)
        printf("  %*s", c->format ? width : -width, text);
    else if (*text)
        printf("  %s", text);
}

void bench_table(const json_t *rows, const struct bench_column *columns, const char *name)
{
    enum { MOST_COLUMNS = 16 };
    json_t *row;
    size_t  i, width[MOST_COLUMNS], n;
    char    buf[64];

    for (n = 0; columns[n].key && n < MOST_COLUMNS; n++) {
        width[n] = strlen(columns[n].title);
        json_array_foreach(rows, i, row)
            width[n] = size_max(width[n], strlen(cell(buf, sizeof buf, row, &columns[n])));
        put(columns[n].title, (int)width[n], &columns[n]);
    }
    putchar('\n');
    json_array_foreach(rows, i, row) {
        for (size_t k = 0; k < n; k++)
            put(cell(buf, sizeof buf, row, &columns[k]), (int)width[k], &columns[k]);
        putchar('\n');
    }
    json_array_foreach(rows, i, row)
        if (json_object_get(row, "note") && name)
            printf("  %s: %s\n", json_str(row, name), json_str(row, "note"));
}
