/* filters.c: the filters, as rows of a table. tojson is transformers': it escapes neither
 * characters of HTML nor characters that are not ASCII. */
#include "chat/jinja/texts.h"

#include "data/base/table.h"

#include <ctype.h>

static struct value filter_tojson(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *sorted = argument(a, 3, "sort_keys"), *ascii = argument(a, 0,
                                                                             "ensure_ascii");
    long long           indent = argument_int(r, a, 1, "indent", -1);

    if (ascii && value_truth(*ascii))
        run_fails(r, "tojson with ensure_ascii is not known");
    if (argument(a, 2, "separators"))
        run_fails(r, "tojson with separators is not known");
    return r->rc ? v : value_json(r, v, indent > 64 ? 64 : (int)indent, sorted &&
                                  value_truth(*sorted));
}

static struct value filter_length(struct run *r, struct value v)
{
    if (v.kind == VALUE_STRING)
        return run_goes_on(r, 1 + v.text.n / 64) ? value_int((long long)value_length(v)) : v;
    if (v.kind == VALUE_DICT)
        return value_int((long long)v.pairs->n);
    if (v.kind != VALUE_UNDEFINED && !value_is_list(v))
        run_fails(r, "a %s has no length", value_kind_name(v));
    return value_int(value_is_list(v) ? (long long)v.list.n : 0);
}

static struct value filter_same(struct run *r, struct value v)
{
    (void)r;
    return v;
}

static struct value filter_items(struct run *r, struct value v)
{
    if (v.kind == VALUE_UNDEFINED)
        return value_list(r, 0);
    if (v.kind != VALUE_DICT)
        return run_fails(r, "items wants a dict, not %s", value_kind_name(v));
    return pairs_list(r, v.pairs, PAIRS_ITEMS);
}

static struct value filter_default(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *by = argument(a, 0, "default_value"), *also = argument(a, 1, "boolean");
    int                 missing = v.kind == VALUE_UNDEFINED ||
                  (also && value_truth(*also) && !value_truth(v));

    (void)r;
    return !missing ? v : by ? *by : value_string("", 0);
}

static struct value filter_first(struct run *r, struct value v)
{
    struct value items = value_items(r, v);

    return items.list.n ? items.list.item[0] : value_undefined("the first item");
}

static struct value filter_last(struct run *r, struct value v)
{
    struct value items = value_items(r, v);

    return items.list.n ? items.list.item[items.list.n - 1] : value_undefined("the last item");
}

static struct value filter_reverse(struct run *r, struct value v)
{
    struct value items = value_items(r, v), out = value_list(r, items.list.n);

    for (size_t i = 0; i < out.list.n; i++)
        out.list.item[i] = items.list.item[out.list.n - 1 - i];
    return v.kind == VALUE_STRING ? text_join(r, value_string("", 0), out, 0) : out;
}

/* A part of a path: an index if it is of digits alone. */
static struct value part_of(struct value part)
{
    char   text[20];
    size_t n = part.text.n;

    if (!n || n >= sizeof text)
        return part;
    memcpy(text, part.text.s, n);
    text[n] = 0;
    return strspn(text, "0123456789") == n ? value_int(strtoll(text, NULL, 10)) : part;
}

/* Finds "a.b", "a.0", or index 0, in an item; none: the item itself. */
static struct value attribute_of(struct run *r, struct value of, struct value path)
{
    struct arguments    a = { 0 };
    struct value        parts, dot = value_string(".", 1);

    if (path.kind == VALUE_NONE)
        return of;
    if (path.kind != VALUE_STRING)
        return value_item(r, of, path);
    a.item = &dot;
    a.n = 1;
    parts = text_split(r, path, &a);
    for (size_t i = 0; i < parts.list.n && !r->rc; i++) {
        if (of.kind == VALUE_UNDEFINED)
            run_fails(r, "%.60s is not defined", of.name);
        of = value_item(r, of, part_of(parts.list.item[i]));
    }
    return of;
}

static struct value filter_join(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *attribute = argument(a, 1, "attribute");
    struct value        between = argument_string(r, a, 0, "d", ""), items = value_items(r, v),
                 parts = attribute ? value_list(r, items.list.n) : items;

    for (size_t i = 0; attribute && i < parts.list.n && !r->rc; i++)
        parts.list.item[i] = attribute_of(r, items.list.item[i], *attribute);
    return r->rc ? v : text_join(r, between, parts, 0);
}

/* The arguments from `from` on, which are those of the filter or test that is named. */
static struct arguments rest_of(const struct arguments *a, size_t from)
{
    struct arguments rest = *a;

    from = from < a->n ? from : a->n;
    rest.item += from;
    rest.n -= from;
    return rest;
}

static const char *name_argument(struct run *r, const struct arguments *a, size_t at)
{
    struct value v = argument_string(r, a, at, "name", NULL);
    char        *name = run_take(r, v.text.n + 1);

    if (!name)
        return "";
    memcpy(name, v.text.s, v.text.n);
    return name;
}

enum { CHOOSES = 1, BY_ATTRIBUTE = 2, REJECTS = 4 };

/* Chooses items by the test that is named, or by truth. */
static struct value chosen(struct run *r, struct value v, const struct arguments *a, int how)
{
    struct items     g = { .r = r };
    struct value     items = value_items(r, v);
    int              attribute = how & BY_ATTRIBUTE, wanted = !(how & REJECTS);
    size_t           test_at = attribute ? 1 : 0;
    const char      *name = a->n > test_at ? name_argument(r, a, test_at) : NULL;
    const struct test *test = name ? test_find(name) : NULL;
    struct arguments rest = rest_of(a, test_at + 1);

    if (attribute && !a->n)
        run_fails(r, "selectattr and rejectattr want an attribute");
    if (name && !test)
        run_fails(r, "the test %.60s is not known", name);
    for (size_t i = 0; i < items.list.n && run_goes_on(r, 1); i++) {
        struct value item = items.list.item[i],
                     of = attribute ? attribute_of(r, item, a->item[0]) : item;
        int          truth = r->rc ? 0 : name ? test_call(r, test, of, &rest) : value_truth(of);

        if (!r->rc && truth == wanted)
            items_add(&g, item);
    }
    return items_end(&g);
}

static struct value filter_map(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *attribute = argument(a, SIZE_MAX, "attribute"),
                       *missing = argument(a, SIZE_MAX, "default");
    struct value        items = value_items(r, v), out = value_list(r, items.list.n);
    const char         *name = attribute ? NULL : name_argument(r, a, 0);
    const struct filter *filter = name && !r->rc ? filter_find(name) : NULL;
    struct arguments    rest = rest_of(a, 1);

    if (!attribute && !filter)
        run_fails(r, "the filter %.60s is not known", name);
    for (size_t i = 0; i < out.list.n && run_goes_on(r, 1); i++) {
        struct value item = items.list.item[i];

        item = attribute ? attribute_of(r, item, *attribute) : filter_call(r, filter, item, &rest);
        out.list.item[i] = attribute && missing && item.kind == VALUE_UNDEFINED ? *missing : item;
    }
    return out;
}

/* Sorts by merging, which is stable, in Python's order, which may fail. */
static void sort(struct run *r, struct value *item, struct value *key, size_t n)
{
    struct value *items = run_take(r, n * sizeof *items), *keys = run_take(r, n * sizeof *keys);
    size_t        half = n / 2, a = 0, b = half;

    if (n < 2 || !items || !keys)
        return;
    sort(r, item, key, half);
    sort(r, item + half, key + half, n - half);
    for (size_t i = 0; i < n && !r->rc; i++) {
        int    left = b == n || (a < half && value_order(r, key[b], key[a]) >= 0);
        size_t from = left ? a++ : b++;

        items[i] = item[from];
        keys[i] = key[from];
    }
    for (size_t i = 0; i < n && !r->rc; i++) {
        item[i] = items[i];
        key[i] = keys[i];
    }
}

/* Sorts a list by keys. Without case_sensitive, strings are compared in lower case. */
static struct value sorted_by(struct run *r, struct value list, struct value keys,
                              const struct value *exact, const struct value *backwards)
{
    for (size_t i = 0; i < keys.list.n && !r->rc && !(exact && value_truth(*exact)); i++)
        if (keys.list.item[i].kind == VALUE_STRING)
            keys.list.item[i] = text_recase(r, keys.list.item[i], case_lower);
    sort(r, list.list.item, keys.list.item, list.list.n);
    return backwards && value_truth(*backwards) ? filter_reverse(r, list) : list;
}

static struct value filter_dictsort(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *by = argument(a, 1, "by");
    struct value        pairs = filter_items(r, v), keys = value_list(r, pairs.list.n);
    int values = by && by->kind == VALUE_STRING && text_begins(*by, value_string("value", 5), 0);

    for (size_t i = 0; i < keys.list.n && !r->rc; i++)
        keys.list.item[i] = pairs.list.item[i].list.item[values];
    return sorted_by(r, pairs, keys, argument(a, 0, "case_sensitive"), argument(a, 2, "reverse"));
}

/* Takes out the underscores that Python allows between two digits of a number. */
static void drop_underscores(char *text)
{
    char *to = text;

    for (const char *c = text, *before = ""; *c; before = c++)
        if (*c != '_' || !isdigit((unsigned char)*before) || !isdigit((unsigned char)c[1]))
            *to++ = *c;
    *to = 0;
}

static struct value filter_int(struct run *r, struct value v, const struct arguments *a)
{
    long long missing = argument_int(r, a, 0, "default", 0);
    char      text[64], *end;

    if (argument(a, 1, "base"))
        run_fails(r, "int with a base is not known");
    if (v.kind == VALUE_FLOAT && v.real > -9e18 && v.real < 9e18)
        return value_int((long long)v.real);
    if (v.kind == VALUE_INT || v.kind == VALUE_BOOL)
        return value_int(v.i);
    if (v.kind != VALUE_STRING || v.text.n >= sizeof text)
        return value_int(missing);
    v = text_strip(v, LEFT | RIGHT, NULL);
    memcpy(text, v.text.s, v.text.n);
    text[v.text.n] = 0;
    drop_underscores(text);
    errno = 0;
    long long whole = strtoll(text, &end, 10);

    if (*text && !*end && !errno)
        return value_int(whole);
    double real = strtod(text, &end); // which also reads hexadecimal numbers, as Python does not

    if (!*text || *end || strpbrk(text, "xX") || !(real > -9e18 && real < 9e18))
        return value_int(missing);
    return value_int((long long)real);
}

/* A filter is a function, or the method of str of this name, on the value as a str. */
static const struct filter {
    const char  *name;
    struct value (*plain)(struct run *r, struct value v); // takes no arguments
    struct value (*call)(struct run *r, struct value v, const struct arguments *a);
    int          chooses; // CHOOSES and so on
    const char  *method;
} filters[] = {
    { "tojson", .call = filter_tojson }, { "trim", .method = "strip" },
    { "length", .plain = filter_length }, { "count", .plain = filter_length },
    { "string", .plain = value_str }, { "safe", .plain = filter_same },
    { "items", .plain = filter_items }, { "default", .call = filter_default },
    { "d", .call = filter_default }, { "join", .call = filter_join },
    { "list", .plain = value_items }, { "upper", .method = "upper" },
    { "lower", .method = "lower" }, { "title", .plain = text_title },
    { "capitalize", .method = "capitalize" }, { "replace", .method = "replace" },
    { "first", .plain = filter_first }, { "last", .plain = filter_last },
    { "reverse", .plain = filter_reverse }, { "select", .chooses = CHOOSES },
    { "reject", .chooses = CHOOSES | REJECTS }, { "selectattr", .chooses = CHOOSES | BY_ATTRIBUTE },
    { "rejectattr", .chooses = CHOOSES | BY_ATTRIBUTE | REJECTS }, { "map", .call = filter_map },
    { "dictsort", .call = filter_dictsort }, { "int", .call = filter_int },
};

const struct filter *filter_find(const char *name) { return TABLE_FIND(filters, name); }

struct value filter_call(struct run *r, const struct filter *f, struct value of,
                         const struct arguments *a)
{
    if (f->plain && a->n + a->n_named)
        run_fails(r, "the filter %s takes no arguments", f->name);
    if (r->rc)
        return undefined;
    return f->plain     ? f->plain(r, of)
           : f->call    ? f->call(r, of, a)
           : f->chooses ? chosen(r, of, a, f->chooses)
                        : method_call(r, value_str(r, of), f->method, a);
}
