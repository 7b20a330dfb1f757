/* functions.c: the tests (x is NAME) and the functions, as tables. */
#include "chat/jinja/calls.h"

#include "data/base/table.h"

/* ---- tests ---- */

enum test_kind {
    TEST_KIND, TEST_TRUE, TEST_FALSE, TEST_ODD, TEST_EVEN, TEST_DIVISIBLE, TEST_COMPARES,
};

#define KIND(kind) (1u << VALUE_##kind)
#define CALLABLE   (KIND(MACRO) | KIND(FUNCTION) | KIND(METHOD) | KIND(UNDEFINED))
#define NUMBER     (KIND(BOOL) | KIND(INT) | KIND(FLOAT))
#define COMPARES(op, argument) TEST_COMPARES, OP_##op, argument
#define SEQUENCE   /* an undefined value has a length, 0 */                                        \
    (KIND(STRING) | KIND(DICT) | KIND(LIST) | KIND(TUPLE) | KIND(UNDEFINED))

static const struct test {
    const char    *name;
    enum test_kind kind;
    unsigned       kinds; // of TEST_KIND: a bit for each; of TEST_COMPARES: the operator
    const char    *argument; // its name; "": it has none; NULL: the test takes no argument
} tests[] = {
    { "defined", TEST_KIND, ~KIND(UNDEFINED), NULL },
    { "undefined", TEST_KIND, KIND(UNDEFINED), NULL }, { "none", TEST_KIND, KIND(NONE), NULL },
    { "string", TEST_KIND, KIND(STRING), NULL }, { "mapping", TEST_KIND, KIND(DICT), NULL },
    { "iterable", TEST_KIND, SEQUENCE | KIND(LOOP), NULL },
    { "sequence", TEST_KIND, SEQUENCE, NULL }, { "true", TEST_TRUE, 0, NULL },
    { "false", TEST_FALSE, 0, NULL }, { "boolean", TEST_KIND, KIND(BOOL), NULL },
    { "number", TEST_KIND, NUMBER, NULL }, { "integer", TEST_KIND, KIND(INT), NULL },
    { "float", TEST_KIND, KIND(FLOAT), NULL }, { "callable", TEST_KIND, CALLABLE, NULL },
    { "odd", TEST_ODD, 0, NULL }, { "even", TEST_EVEN, 0, NULL },
    { "divisibleby", TEST_DIVISIBLE, 0, "num" }, { "in", COMPARES(IN, "seq") },
    { "eq", COMPARES(EQ, "") }, { "equalto", COMPARES(EQ, "") }, { "==", COMPARES(EQ, "") },
    { "ne", COMPARES(NE, "") }, { "!=", COMPARES(NE, "") }, { "lt", COMPARES(LT, "") },
    { "lessthan", COMPARES(LT, "") }, { "le", COMPARES(LE, "") }, { "gt", COMPARES(GT, "") },
    { "greaterthan", COMPARES(GT, "") }, { "ge", COMPARES(GE, "") },
};

const struct test *test_find(const char *name) { return TABLE_FIND(tests, name); }

int test_call(struct run *r, const struct test *t, struct value v, const struct arguments *a)
{
    enum test_kind      test = t->kind;
    size_t              takes = t->argument ? 1 : 0;
    const struct value *other = takes ? argument(a, 0, t->argument) : NULL;
    long long           by;

    if (r->rc)
        return 0;
    if (a->n + a->n_named != takes) {
        run_fails(r, "the test %s takes %zu arguments, not %zu", t->name, takes, a->n + a->n_named);
        return 0;
    }
    if (takes && !other) {
        run_fails(r, "the test %s has no argument of the name %.60s", t->name, a->name[0]);
        return 0;
    }
    if (test == TEST_ODD || test == TEST_EVEN || test == TEST_DIVISIBLE) {
        by = test == TEST_DIVISIBLE ? argument_int(r, a, 0, t->argument, 0) : 2;
        if (v.kind != VALUE_INT && v.kind != VALUE_BOOL)
            run_fails(r, "the test %s wants an int, not %s", t->name, value_kind_name(v));
        else if (!by)
            run_fails(r, "a division by zero");
        return !r->rc && by != -1 ? (v.i % by != 0) == (test == TEST_ODD) : test != TEST_ODD;
    }
    switch (test) {
    case TEST_KIND:  return t->kinds >> v.kind & 1;
    case TEST_TRUE:  return v.kind == VALUE_BOOL && v.i;
    case TEST_FALSE: return v.kind == VALUE_BOOL && !v.i;
    default:         return value_compare(r, (int)t->kinds, v, *other);
    }
}

/* ---- functions ---- */

enum { MOST_RANGE = 100000 }; // of jinja2's sandbox
static const long long LARGE = 1ll << 60;

static struct value function_range(struct run *r, const struct arguments *a)
{
    long long    from = a->n > 1 ? argument_int(r, a, 0, "start", 0) : 0;
    long long    to = argument_int(r, a, a->n > 1, "stop", 0);
    long long    step = argument_int(r, a, 2, "step", 1);
    struct value out;
    size_t       n = 0;

    if (!a->n || a->n > 3 || a->n_named)
        run_fails(r, "range takes 1 to 3 numbers");
    if (!step)
        run_fails(r, "range: the step must not be 0");
    if (from < -LARGE || from > LARGE || to < -LARGE || to > LARGE || step < -LARGE || step > LARGE)
        run_fails(r, "range: the numbers are too large");
    else if (!r->rc && (step > 0 ? to > from : from > to))
        n = (size_t)((step > 0 ? to - from - 1 : from - to - 1) / (step > 0 ? step : -step) + 1);
    if (n > MOST_RANGE)
        run_fails(r, "range: more than %d numbers", MOST_RANGE);
    out = value_list(r, r->rc ? 0 : n);
    for (size_t i = 0; i < out.list.n; i++)
        out.list.item[i] = value_int(from + (long long)i * step);
    return out;
}

/* namespace(a=1) and dict(a=1), or a copy of another dict. */
static struct value pairs_made(struct run *r, const struct arguments *a, enum value_kind kind)
{
    struct value out = value_dict(r, kind);

    if (a->n > 1 || (a->n && a->item[0].kind != VALUE_DICT))
        run_fails(r, "%s takes one dict, and arguments with names",
                  kind == VALUE_DICT ? "dict" : "namespace");
    for (size_t i = 0; a->n && !r->rc && i < a->item[0].pairs->n; i++)
        pairs_put(r, out.pairs, a->item[0].pairs->pair[i].key, a->item[0].pairs->pair[i].value);
    for (size_t i = 0; i < a->n_named && !r->rc; i++)
        pairs_put(r, out.pairs, value_string(a->name[i], strlen(a->name[i])), a->named[i]);
    return out;
}

static struct value function_raise(struct run *r, const struct arguments *a)
{
    struct value what = argument_string(r, a, 0, "message", NULL);

    return run_fails(r, "the template refuses this: %.*s",
                     (int)(what.text.n < 500 ? what.text.n : 500), what.text.s);
}

/* In the C locale, as Python's datetime has it, which has no time zone. */
static struct value function_now(struct run *r, const struct arguments *a)
{
    struct value format = argument_string(r, a, 0, "format", NULL);
    char         text[128] = "x", *out; // an empty result is then none
    struct tm    tm;
    size_t       n;

    if (format.text.n + 1 >= sizeof text || !localtime_r(&r->now, &tm))
        run_fails(r, "strftime_now: the format is too long");
    if (r->rc || !(out = run_take(r, 512)))
        return undefined;
    if (format.text.n)
        memcpy(text + 1, format.text.s, format.text.n);
    tm.tm_isdst = -1; // %z is then empty
    tm.tm_zone = "";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    n = strftime(out, 512, text, &tm);
#pragma GCC diagnostic pop
    return n ? value_string(out + 1, n - 1)
             : run_fails(r, "strftime_now: it writes more than 510 bytes");
}

static const struct function {
    const char     *name;
    struct value  (*call)(struct run *r, const struct arguments *a);
    enum value_kind makes; // call NULL: pairs of this kind
} functions[] = {
    { "range", function_range, 0 }, { "namespace", NULL, VALUE_NAMESPACE },
    { "dict", NULL, VALUE_DICT }, { "raise_exception", function_raise, 0 },
    { "strftime_now", function_now, 0 },
};

const struct function *function_find(const char *name) { return TABLE_FIND(functions, name); }

struct value function_call(struct run *r, const struct function *f, const struct arguments *a)
{
    if (r->rc)
        return undefined;
    return f->call ? f->call(r, a) : pairs_made(r, a, f->makes);
}
