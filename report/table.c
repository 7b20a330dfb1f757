/* table.c: makes tables of the gathered value's rows, and their bars' parts and legends. */
#include "report/table.h"

static json_t *cell(const struct column *c, const json_t *item)
{
    const json_t *v = json_object_get(item, c->key);
    char          figure[64], second[64];

    if (json_is_string(v) && c->most)
        return json_string(figure_end(figure, sizeof figure, json_string_value(v), c->most));
    if (json_is_string(v))
        return json_incref((json_t *)(uintptr_t)v);
    if (json_is_number(v) && c->as && c->and)
        return json_sprintf("%s + %s", c->as(figure, sizeof figure, json_number_value(v)),
                            c->as(second, sizeof second, json_num(item, c->and)));
    if (json_is_number(v) && c->as)
        return json_string(c->as(figure, sizeof figure, json_number_value(v)));
    return json_string(json_is_null(v) && c->as == figure_exact ? "nan" : "");
}

json_t *table_made(const struct column *columns, table_bars *bars, const json_t *items)
{
    json_t *heads = json_array(), *rows = json_array();
    const json_t *item;
    size_t        i;

    for (const struct column *c = columns; c->head; c++)
        json_array_append_new(heads, json_string(c->head));
    json_array_foreach(items, i, item) {
        json_t *row = json_pack("{s:[], s:[]}", "cells", "parts"), *over;

        if ((over = json_object_get(item, "heading")))
            json_array_append(json_object_get(row, "cells"), over);
        for (const struct column *c = columns; c->head && !over; c++)
            json_array_append_new(json_object_get(row, "cells"), cell(c, item));
        if (bars && !over)
            bars(row, item);
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o}", "heads", heads, "rows", rows);
}

void table_part(json_t *row, const char *name, const char *colour, const char *letter,
                  double value)
{
    if (value > 0)
        json_array_append_new(json_object_get(row, "parts"),
                              json_pack("{s:s, s:s, s:s, s:f}", "name", name, "colour", colour,
                                        "letter", letter, "value", value));
}

double table_bar(const json_t *row)
{
    const json_t *p;
    size_t        i;
    double        sum = 0;

    json_array_foreach(json_object_get(row, "parts"), i, p)
        sum += json_num(p, "value");
    return sum;
}

double table_longest(const json_t *made)
{
    const json_t *row;
    size_t        i;
    double        most = 0;

    json_array_foreach(json_object_get(made, "rows"), i, row)
        most = fmax(most, fmax(table_bar(row), json_num(row, "mark")));
    return most;
}

json_t *table_legend(const json_t *made)
{
    json_t *names = json_object(), *all = json_array(), *row, *p;
    size_t  i, k;

    json_array_foreach(json_object_get(made, "rows"), i, row)
        json_array_foreach(json_object_get(row, "parts"), k, p)
            if (!json_object_get(names, json_str(p, "name"))) {
                json_object_set(names, json_str(p, "name"), p);
                json_array_append(all, p);
            }
    json_decref(names);
    return all;
}
