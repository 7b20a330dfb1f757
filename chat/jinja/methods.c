/* methods.c: the methods of str and dict. Other methods of Python's are recognised, too, and a call
 * of one is refused by its name. jinja2's sandbox, too, refuses those that change their object. */
#include "chat/jinja/texts.h"

enum method {
    STR_STRIP, STR_LSTRIP, STR_RSTRIP, STR_SPLIT, STR_STARTS, STR_ENDS, STR_REPLACE, STR_UPPER,
    STR_LOWER, STR_TITLE, STR_CAPITALIZE, STR_JOIN,
    DICT_ITEMS, DICT_KEYS, DICT_VALUES, DICT_GET,
    METHODS
};

static const struct { enum value_kind of; const char *name; } methods[METHODS] = {
    [STR_STRIP] = { VALUE_STRING, "strip" }, [STR_LSTRIP] = { VALUE_STRING, "lstrip" },
    [STR_RSTRIP] = { VALUE_STRING, "rstrip" }, [STR_SPLIT] = { VALUE_STRING, "split" },
    [STR_STARTS] = { VALUE_STRING, "startswith" }, [STR_ENDS] = { VALUE_STRING, "endswith" },
    [STR_REPLACE] = { VALUE_STRING, "replace" }, [STR_UPPER] = { VALUE_STRING, "upper" },
    [STR_LOWER] = { VALUE_STRING, "lower" }, [STR_TITLE] = { VALUE_STRING, "title" },
    [STR_CAPITALIZE] = { VALUE_STRING, "capitalize" }, [STR_JOIN] = { VALUE_STRING, "join" },
    [DICT_ITEMS] = { VALUE_DICT, "items" }, [DICT_KEYS] = { VALUE_DICT, "keys" },
    [DICT_VALUES] = { VALUE_DICT, "values" }, [DICT_GET] = { VALUE_DICT, "get" },
};

static int method_find(struct value of, const char *name)
{
    for (int m = 0; m < METHODS; m++)
        if (methods[m].of == of.kind && !strcmp(methods[m].name, name))
            return m;
    return -1;
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

    if (method_find(of, name) >= 0)
        return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (*others[i] == kind && !strcmp(others[i] + 2, name))
            return 1;
    return 0;
}

struct value pairs_list(struct run *r, const struct value_pairs *p, enum pairs_part part)
{
    struct value out = value_list(r, p->n), pair;

    for (size_t i = 0; i < out.list.n && !r->rc; i++) {
        if (part == PAIRS_ITEMS) {
            pair = value_list(r, 2);
            pair.kind = VALUE_TUPLE;
            if (pair.list.n) {
                pair.list.item[0] = p->pair[i].key;
                pair.list.item[1] = p->pair[i].value;
            }
        } else {
            pair = part == PAIRS_KEYS ? p->pair[i].key : p->pair[i].value;
        }
        out.list.item[i] = pair;
    }
    return out;
}

static struct value dict_call(struct run *r, struct value of, enum method m,
                              const struct arguments *a)
{
    const struct value *key = argument(a, 0, "key"), *missing = argument(a, 1, "default"), *found;

    if (m != DICT_GET)
        return pairs_list(r, of.pairs, m == DICT_ITEMS  ? PAIRS_ITEMS
                                       : m == DICT_KEYS ? PAIRS_KEYS : PAIRS_VALUES);
    if (!key)
        run_fails(r, "get wants a key");
    found = r->rc ? NULL : pairs_find(r, of.pairs, *key);
    return found ? *found : missing ? *missing : value_of(VALUE_NONE);
}

static struct value string_method(struct run *r, struct value v, enum method m,
                                  const struct arguments *a)
{
    const struct value *list = argument(a, 0, "iterable");

    switch (m) {
    case STR_STRIP:      return text_strip_call(r, v, LEFT | RIGHT, a);
    case STR_LSTRIP:     return text_strip_call(r, v, LEFT, a);
    case STR_RSTRIP:     return text_strip_call(r, v, RIGHT, a);
    case STR_SPLIT:      return text_split(r, v, a);
    case STR_STARTS:
    case STR_ENDS:       return text_begins_call(r, v, a, m == STR_ENDS);
    case STR_REPLACE:    return text_replace(r, v, a);
    case STR_UPPER:      return text_recase(r, v, case_upper);
    case STR_LOWER:      return text_recase(r, v, case_lower);
    case STR_TITLE:      return text_recase(r, v, case_title);
    case STR_CAPITALIZE: return text_capitalize(r, v);
    case STR_JOIN:
        if (!list)
            run_fails(r, "join wants a list");
        return r->rc ? v : text_join(r, v, *list, NULL, 1);
    default: return v;
    }
}

struct value method_call(struct run *r, struct value of, const char *name,
                         const struct arguments *a)
{
    int m = method_find(of, name);

    if (m < 0)
        run_fails(r, "the method %.60s of a %s is not known", name, value_kind_name(of));
    if (r->rc || !run_goes_on(r, 1 + (of.kind == VALUE_STRING ? of.text.n / 64 : 0)))
        return undefined;
    return of.kind == VALUE_DICT ? dict_call(r, of, (enum method)m, a)
                                 : string_method(r, of, (enum method)m, a);
}
