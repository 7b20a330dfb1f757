/* methods.c: the methods of str and dict. Other methods of Python's are recognised, too, and a call
 * of one is refused by its name. jinja2's sandbox, too, refuses those that change their object. */
#include "chat/jinja/texts.h"

#include "data/base/table.h"

struct value pairs_list(struct run *r, const struct value_pairs *p, enum pairs_part part)
{
    struct value out = value_list(r, p->n);

    for (size_t i = 0; i < out.list.n && !r->rc; i++) {
        struct value *item = &out.list.item[i];

        *item = part == PAIRS_KEYS ? p->pair[i].key : p->pair[i].value;
        if (part != PAIRS_ITEMS)
            continue;
        *item = value_list(r, 2);
        item->kind = VALUE_TUPLE;
        if (item->list.n)
            memcpy(item->list.item, &p->pair[i], sizeof p->pair[i]); // key, value
    }
    return out;
}

#define METHOD(name, ...)                                                                          \
    static struct value name(struct run *r, struct value v, const struct arguments *a)             \
    {                                                                                              \
        (void)a;                                                                                   \
        return __VA_ARGS__;                                                                        \
    }
METHOD(strip, text_strip_call(r, v, LEFT | RIGHT, a))
METHOD(lstrip, text_strip_call(r, v, LEFT, a))
METHOD(rstrip, text_strip_call(r, v, RIGHT, a))
METHOD(starts, text_begins_call(r, v, a, 0))
METHOD(ends, text_begins_call(r, v, a, 1))
METHOD(upper, text_recase(r, v, case_upper))
METHOD(lower, text_recase(r, v, case_lower))
METHOD(title, text_recase(r, v, case_title))
METHOD(capitalize, text_capitalize(r, v))
METHOD(items, pairs_list(r, v.pairs, PAIRS_ITEMS))
METHOD(keys, pairs_list(r, v.pairs, PAIRS_KEYS))
METHOD(values, pairs_list(r, v.pairs, PAIRS_VALUES))

static struct value join(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *list = argument(a, 0, "iterable");

    return list ? text_join(r, v, *list, 1) : run_fails(r, "join wants a list");
}

static struct value get(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *key = argument(a, 0, "key"), *missing = argument(a, 1, "default"), *found;

    if (!key)
        return run_fails(r, "get wants a key");
    found = pairs_find(r, v.pairs, *key);
    return found ? *found : missing ? *missing : value_of(VALUE_NONE);
}

struct method {
    const char  *name;
    struct value (*call)(struct run *r, struct value v, const struct arguments *a);
};
static const struct method of_string[] = {
    { "strip", strip }, { "lstrip", lstrip }, { "rstrip", rstrip }, { "split", text_split },
    { "startswith", starts }, { "endswith", ends }, { "replace", text_replace },
    { "upper", upper }, { "lower", lower }, { "title", title }, { "capitalize", capitalize },
    { "join", join },
};
static const struct method of_dict[] = {
    { "items", items }, { "keys", keys }, { "values", values }, { "get", get },
};

static const struct method *method_find(struct value of, const char *name)
{
    return of.kind == VALUE_STRING ? TABLE_FIND(of_string, name)
           : of.kind == VALUE_DICT ? TABLE_FIND(of_dict, name)
                                   : NULL;
}

int method_has(struct value of, const char *name)
{
    static const char *const others[] = {
        "s find", "s rfind", "s count", "s splitlines", "s removeprefix", "s removesuffix",
        "s isdigit", "s isalpha", "s isspace", "s format", "s format_map", "s casefold",
        "s swapcase", "s center", "s ljust", "s rjust",
        "s zfill", "s index", "s rindex", "s partition", "s rpartition", "s rsplit", "s encode",
        "s expandtabs", "s translate", "s islower", "s isupper", "s istitle", "s isalnum",
        "s isdecimal", "s isnumeric", "s isidentifier", "s isprintable", "s isascii",
        "l append", "l extend", "l insert", "l pop", "l remove", "l clear", "l sort", "l reverse",
        "l copy", "l index", "l count", "d pop", "d popitem", "d clear", "d update",
        "d setdefault", "d copy", "d fromkeys" };
    char kind = of.kind == VALUE_STRING ? 's' : value_is_list(of) ? 'l'
              : of.kind == VALUE_DICT ? 'd' : ' ';

    if (method_find(of, name))
        return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (*others[i] == kind && !strcmp(others[i] + 2, name))
            return 1;
    return 0;
}

struct value method_call(struct run *r, struct value of, const char *name,
                         const struct arguments *a)
{
    const struct method *m = method_find(of, name);

    if (!m)
        return run_fails(r, "the method %.60s of a %s is not known", name, value_kind_name(of));
    if (r->rc || !run_goes_on(r, 1 + (of.kind == VALUE_STRING ? of.text.n / 64 : 0)))
        return undefined;
    return m->call(r, of, a);
}
