/* calls.c: finds arguments by position or name, and of.name and of[key] in values. */
#include "chat/jinja/calls.h"

#include "data/base/table.h"

const struct value *argument(const struct arguments *a, size_t at, const char *name)
{
    const char *const *found = table_find(a->name, a->n_named, sizeof *a->name, name);

    return at < a->n ? &a->item[at] : found ? &a->named[found - a->name] : NULL;
}

struct value argument_string(struct run *r, const struct arguments *a, size_t at,
                                    const char *name, const char *missing)
{
    const struct value *v = argument(a, at, name);

    if (!v && missing)
        return value_string(missing, strlen(missing));
    if (!v || v->kind != VALUE_STRING) {
        run_fails(r, "argument %zu (%s) must be a str, not %s", at + 1, name,
                  v ? value_kind_name(*v) : "absent");
        return value_string("", 0);
    }
    return *v;
}

long long argument_int(struct run *r, const struct arguments *a, size_t at,
                              const char *name, long long missing)
{
    const struct value *v = argument(a, at, name);

    if (!v || v->kind == VALUE_NONE)
        return missing;
    if (v->kind != VALUE_INT && v->kind != VALUE_BOOL)
        run_fails(r, "argument %zu (%s) must be an int, not %s", at + 1, name,
                  value_kind_name(*v));
    return v->i;
}

/* Returns loop.name, or an undefined value for other names, such as cycle and changed. */
static struct value loop_member(const struct value_loop *l, const char *name)
{
    const struct member { const char *name; struct value v; } is[] = {
        { "index", value_int((long long)l->at + 1) }, { "index0", value_int((long long)l->at) },
        { "revindex", value_int((long long)(l->n - l->at)) },
        { "revindex0", value_int((long long)(l->n - l->at) - 1) },
        { "first", value_bool(l->at == 0) }, { "last", value_bool(l->at + 1 == l->n) },
        { "length", value_int((long long)l->n) }, { "depth", value_int((long long)l->depth) },
        { "depth0", value_int((long long)l->depth - 1) },
        { "previtem", l->at ? l->item[l->at - 1] : value_undefined("loop.previtem") },
        { "nextitem", l->at + 1 < l->n ? l->item[l->at + 1] : value_undefined("loop.nextitem") } };

    const struct member *found = TABLE_FIND(is, name);

    return found ? found->v : undefined;
}

struct value value_item(struct run *r, struct value of, struct value key)
{
    const struct value *found;
    long long           at;

    switch (of.kind) {
    case VALUE_DICT:
    case VALUE_NAMESPACE:
        found = pairs_find(r, of.pairs, key);
        return found ? *found : undefined;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_STRING:
        if (key.kind != VALUE_INT && key.kind != VALUE_BOOL)
            return undefined;
        at = key.i;
        if (of.kind == VALUE_STRING) {
            long long n = (long long)value_length(of);

            at += at < 0 ? n : 0;
            if (at < 0 || at >= n || !run_goes_on(r, 1 + of.text.n / 64))
                return undefined;
            size_t from = value_byte(of, (size_t)at);

            return value_part(of, from, from + value_byte(value_part(of, from, of.text.n), 1));
        }
        at += at < 0 ? (long long)of.list.n : 0;
        return at < 0 || at >= (long long)of.list.n ? undefined : of.list.item[at];
    case VALUE_LOOP:
        return key.kind == VALUE_STRING ? loop_member(of.loop, key.text.s) : undefined;
    default:
        return undefined;
    }
}
