/* bench_table.c: rows of JSON objects as an aligned table: text to the left, numbers to the right.
 */
#include "cmd/bench/bench.h"

#include <stdio.h>
#include <string.h>

double bench_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *bench_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

void bench_put(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

void bench_say(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, json_string(text));
}

json_t *bench_row(const json_t *rows, const char *key, const char *text)
{
    json_t *row;
    size_t  i;

    json_array_foreach(rows, i, row)
        if (!strcmp(bench_text(row, key), text))
            return row;
    return NULL;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
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
#pragma GCC diagnostic pop

/* A cell and the two blanks before it; nothing follows the last one of text. */
static void put(const char *text, int width, const struct bench_column *c)
{
    if (c->format)
        printf("  %*s", width, text);
    else if (c[1].key)
        printf("  %-*s", width, text);
    else if (*text)
        printf("  %s", text);
}

void bench_table(const json_t *rows, const struct bench_column *columns, const char *name)
{
    enum { MOST_COLUMNS = 16 };
    json_t *row;
    size_t  i, width[MOST_COLUMNS], n, k;
    char    buf[64];

    for (n = 0; columns[n].key && n < MOST_COLUMNS; n++) {
        width[n] = strlen(columns[n].title);
        json_array_foreach(rows, i, row) {
            k = strlen(cell(buf, sizeof buf, row, &columns[n]));
            width[n] = k > width[n] ? k : width[n];
        }
        put(columns[n].title, (int)width[n], &columns[n]);
    }
    putchar('\n');
    json_array_foreach(rows, i, row) {
        for (k = 0; k < n; k++)
            put(cell(buf, sizeof buf, row, &columns[k]), (int)width[k], &columns[k]);
        putchar('\n');
    }
    json_array_foreach(rows, i, row)
        if (json_object_get(row, "note") && name)
            printf("  %s: %s\n", bench_text(row, name), bench_text(row, "note"));
}
