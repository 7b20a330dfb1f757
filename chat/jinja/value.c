/* value.c: makes and compares values as Python's operators do. */
#include "chat/jinja/value.h"

#include "data/base/utf8.h"

#include <math.h>
#include <stdarg.h>

struct value run_fails(struct run *r, const char *fmt, ...)
{
    char    text[700];
    va_list ap;

    if (r->rc)
        return undefined;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->rc = err_misuse(r->err, "%s, line %d: %s", r->name, r->line, text);
    return undefined;
}

int run_goes_on(struct run *r, uint64_t n)
{
    r->steps += n;
    if (!r->rc && r->steps > r->most_steps)
        run_fails(r, "the template does not come to an end within %llu steps",
                  (unsigned long long)r->most_steps);
    return !r->rc;
}

int run_sinks(struct run *r)
{
    enum { DEEPEST = 300 }; // fits into a thread's stack of 512 KiB

    if (++r->depth > DEEPEST)
        run_fails(r, "the template, or a value, is nested more than %d deep", DEEPEST);
    return !r->rc;
}

void *run_take(struct run *r, size_t bytes)
{
    void *at = run_goes_on(r, 1 + bytes / 64) ? pool_take(&r->pool, bytes) : NULL;

    if (!at)
        run_fails(r, "the template takes more than %zu bytes of memory", r->pool.limit);
    return at;
}

int run_grow(struct run *r, void *array, size_t n, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 8;
    void  *old, *fresh;

    if (n < *room)
        return 1;
    if (!(fresh = run_take(r, more * size)))
        return 0;
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(fresh, old, n * size);
    memcpy(array, &fresh, sizeof fresh);
    *room = more;
    return 1;
}

const char *value_kind_name(struct value v)
{
    static const char *const names[] = {
        "Undefined", "None", "bool", "int", "float", "str", "list", "tuple", "dict", "Namespace",
        "LoopContext", "Macro", "function", "method" };

    return names[v.kind];
}

/* ---- strings ---- */

void text_add(struct text *t, const char *s, const uint32_t *from, size_t n)
{
    struct run *r = t->r;

    if (!run_goes_on(r, 1 + n / 64))
        return;
    if (t->n + n > t->room) {
        size_t    room = (t->n + n) * 2 + 64;
        char     *to = run_take(r, room);
        uint32_t *origin = run_take(r, room * sizeof *origin);

        if (!to || !origin)
            return;
        if (t->n) {
            memcpy(to, t->s, t->n);
            memcpy(origin, t->from, t->n * sizeof *origin);
        }
        t->s = to;
        t->from = origin;
        t->room = room;
    }
    if (!n)
        return;
    memcpy(t->s + t->n, s, n);
    if (from)
        memcpy(t->from + t->n, from, n * sizeof *from);
    else
        memset(t->from + t->n, 0, n * sizeof *t->from);
    t->n += n;
}

void text_say(struct text *t, const char *s) { text_add(t, s, NULL, strlen(s)); }

void text_value(struct text *t, struct value v) { text_add(t, v.text.s, v.text.from, v.text.n); }

struct value text_end(const struct text *t)
{
    struct value v = value_string(t->n ? t->s : "", t->n);

    v.text.from = t->from;
    return v;
}

struct value value_part(struct value v, size_t from, size_t to)
{
    struct value out = value_string(v.text.s + from, to - from);

    out.text.from = v.text.from ? v.text.from + from : NULL;
    return out;
}

static size_t value_code(struct value v, size_t at)
{
    int n = utf8_length((const unsigned char *)v.text.s + at, v.text.n - at);

    return n > 0 ? (size_t)n : 1;
}

size_t value_length(struct value v)
{
    size_t n = 0;

    for (size_t at = 0; at < v.text.n; at += value_code(v, at))
        n++;
    return n;
}

size_t value_byte(struct value v, size_t at)
{
    size_t byte = 0;

    for (; at && byte < v.text.n; at--)
        byte += value_code(v, byte);
    return byte;
}

/* A string whose bytes come from a string of the variables. */
static struct value string_from(struct run *r, const char *s, size_t n, const json_t *json)
{
    struct value v = value_string(s, n);
    uint32_t    *from;

    if (!run_grow(r, &r->from, r->n_from, &r->from_room, sizeof *r->from) ||
        !(from = run_take(r, v.text.n * sizeof *from)))
        return undefined;
    r->n_from += !r->n_from; // 0 is the template
    r->from[r->n_from] = json;
    for (size_t i = 0; i < v.text.n; i++)
        from[i] = (uint32_t)r->n_from;
    r->n_from++;
    v.text.from = from;
    return v;
}

struct value value_from_json(struct run *r, const json_t *json)
{
    struct value  v = value_of(VALUE_NONE);
    const char   *key;
    json_t       *item;
    size_t        i;

    if (!run_goes_on(r, 1))
        return v;
    switch (json_typeof(json)) {
    case JSON_STRING:
        return string_from(r, json_string_value(json), json_string_length(json), json);
    case JSON_INTEGER: return value_int(json_integer_value(json));
    case JSON_REAL:    return value_real(json_real_value(json));
    case JSON_TRUE:    return value_bool(1);
    case JSON_FALSE:   return value_bool(0);
    case JSON_ARRAY:
        v = value_list(r, json_array_size(json));
        json_array_foreach(json, i, item)
            if (!r->rc)
                v.list.item[i] = value_from_json(r, item);
        return v;
    case JSON_OBJECT:
        v = value_dict(r, VALUE_DICT);
        json_object_foreach((json_t *)json, key, item)
            if (!r->rc)
                pairs_put(r, v.pairs, string_from(r, key, strlen(key), json),
                          value_from_json(r, item));
        return v;
    default: return v;
    }
}

/* ---- lists and dicts ---- */

struct value value_list(struct run *r, size_t n)
{
    struct value  v = value_of(VALUE_LIST);
    struct value *item = run_take(r, n * sizeof *item);

    v.list.item = item;
    v.list.n = item ? n : 0;
    return v;
}

struct value value_dict(struct run *r, enum value_kind kind)
{
    static struct value_pairs none; // after a failure nothing is put into it
    struct value_pairs       *p = run_take(r, sizeof *p);

    return (struct value){ .kind = kind, .pairs = p ? p : &none };
}

static int value_equal(struct run *r, struct value a, struct value b);

const struct value *pairs_find(struct run *r, const struct value_pairs *p, struct value key)
{
    run_goes_on(r, 1 + p->n / 16);
    for (size_t i = 0; i < p->n; i++)
        if (value_equal(r, p->pair[i].key, key))
            return &p->pair[i].value;
    return NULL;
}

void pairs_put(struct run *r, struct value_pairs *p, struct value key, struct value v)
{
    struct value *there = (struct value *)(uintptr_t)pairs_find(r, p, key);

    if (r->rc)
        return;
    if (there) {
        *there = v;
        return;
    }
    if (run_grow(r, &p->pair, p->n, &p->room, sizeof *p->pair))
        p->pair[p->n++] = (struct value_pair){ key, v };
}

struct value value_items(struct run *r, struct value v)
{
    struct value out = value_of(VALUE_LIST);
    size_t       n;

    switch (v.kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
        v.kind = VALUE_LIST;
        return v;
    case VALUE_DICT:
        out = value_list(r, v.pairs->n);
        for (size_t i = 0; i < out.list.n; i++)
            out.list.item[i] = v.pairs->pair[i].key;
        return out;
    case VALUE_STRING:
        n = value_length(v);
        out = value_list(r, n);
        for (size_t i = 0, at = 0; i < out.list.n; i++) {
            size_t bytes = value_code(v, at);

            out.list.item[i] = value_part(v, at, at + bytes);
            at += bytes;
        }
        return out;
    case VALUE_UNDEFINED:
        return out;
    default:
        run_fails(r, "a %s cannot be gone through", value_kind_name(v));
        return out;
    }
}

/* ---- comparisons ---- */

int value_truth(struct value v)
{
    switch (v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:   return 0;
    case VALUE_BOOL:
    case VALUE_INT:    return v.i != 0;
    case VALUE_FLOAT:  return v.real < 0 || v.real > 0 || isnan(v.real);
    case VALUE_STRING: return v.text.n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:  return v.list.n > 0;
    case VALUE_DICT:   return v.pairs->n > 0;
    default:           return 1;
    }
}

int value_text_order(struct value a, struct value b)
{
    size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
    int    c = n ? memcmp(a.text.s, b.text.s, n) : 0;

    return c ? c < 0 ? -1 : 1 : (a.text.n > b.text.n) - (a.text.n < b.text.n);
}

static int list_equal(struct run *r, struct value a, struct value b)
{
    for (size_t i = 0; i < a.list.n; i++)
        if (!value_equal(r, a.list.item[i], b.list.item[i]))
            return 0;
    return 1;
}

static int pairs_equal(struct run *r, const struct value_pairs *a, const struct value_pairs *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct value *other = pairs_find(r, b, a->pair[i].key);

        if (!other || !value_equal(r, a->pair[i].value, *other))
            return 0;
    }
    return 1;
}

static int value_equal(struct run *r, struct value a, struct value b)
{
    int same = 0;

    if (!run_goes_on(r, 1))
        return 0;
    if (value_is_number(a) && value_is_number(b)) {
        if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT)
            return a.i == b.i;
        double x = value_number(a), y = value_number(b);

        return !(x < y) && !(x > y) && !isnan(x) && !isnan(y);
    }
    if (a.kind != b.kind)
        return 0;
    switch (a.kind) {
    case VALUE_STRING:
        return !value_text_order(a, b);
    case VALUE_LIST:
    case VALUE_TUPLE:
        same = run_sinks(r) && a.list.n == b.list.n && list_equal(r, a, b);
        run_rises(r);
        return same;
    case VALUE_DICT:
        same = run_sinks(r) && a.pairs->n == b.pairs->n && pairs_equal(r, a.pairs, b.pairs);
        run_rises(r);
        return same;
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return 1;
    case VALUE_NAMESPACE: return a.pairs == b.pairs;
    case VALUE_MACRO:     return a.macro == b.macro;
    default:              return 0;
    }
}

int value_order(struct run *r, struct value a, struct value b)
{
    if (value_is_number(a) && value_is_number(b)) {
        double x = value_number(a), y = value_number(b);

        if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT)
            return (a.i > b.i) - (a.i < b.i);
        return (x > y) - (x < y);
    }
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return value_text_order(a, b);
    if (a.kind == b.kind && value_is_list(a)) {
        for (size_t i = 0; i < a.list.n && i < b.list.n && run_goes_on(r, 1); i++)
            if (!value_equal(r, a.list.item[i], b.list.item[i]))
                return value_order(r, a.list.item[i], b.list.item[i]);
        return (a.list.n > b.list.n) - (a.list.n < b.list.n);
    }
    run_fails(r, "a %s and a %s have no order", value_kind_name(a), value_kind_name(b));
    return 0;
}

static int contains(struct run *r, struct value all, struct value one)
{
    if (all.kind == VALUE_STRING) {
        if (one.kind != VALUE_STRING)
            run_fails(r, "in a str only a str is looked for, not a %s", value_kind_name(one));
        run_goes_on(r, 1 + all.text.n / 64);
        return !r->rc && (!one.text.n ||
                          memmem(all.text.s, all.text.n, one.text.s, one.text.n) != NULL);
    }
    if (all.kind == VALUE_DICT)
        return pairs_find(r, all.pairs, one) != NULL;
    all = value_items(r, all);
    for (size_t i = 0; i < all.list.n && !r->rc; i++)
        if (value_equal(r, all.list.item[i], one))
            return 1;
    return 0;
}

int value_compare(struct run *r, int op, struct value a, struct value b)
{
    switch (op) {
    case OP_EQ:     return value_equal(r, a, b);
    case OP_NE:     return !value_equal(r, a, b);
    case OP_IN:     return contains(r, b, a);
    case OP_NOT_IN: return !contains(r, b, a);
    default:        break;
    }
    if (value_is_number(a) && value_is_number(b) && (isnan(value_number(a)) ||
                                                     isnan(value_number(b))))
        return 0;
    int order = value_order(r, a, b);

    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0
                                                                            : order >= 0;
}
