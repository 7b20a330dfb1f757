/* arguments.c: finds the arguments of a call by their position or name. */
#include "chat/jinja/calls.h"

const struct value *argument(const struct arguments *a, size_t at, const char *name)
{
    if (at < a->n)
        return &a->item[at];
    for (size_t i = 0; i < a->n_named; i++)
        if (!strcmp(a->name[i], name))
            return &a->named[i];
    return NULL;
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
