/* eval.c: evaluates expressions.
 *
 * Names belong to scopes. The template, each round of a loop, each call of a macro and each
 * {% with %} have one. A name is set in the innermost scope and looked up from there outwards, so a
 * name that a loop's body sets is gone with its round, as in jinja2. A macro sees the template's
 * scope, not its caller's. After a failure (struct run), everything gives an undefined value. */
#include "chat/jinja/scope.h"
#include "chat/jinja/texts.h"
#include "data/base/table.h"

#include <assert.h>
#include <limits.h>
#include <math.h>

/* ---- names ---- */

void scope_set(const struct place *at, const char *name, struct value v)
{
    struct scope    *s = at->scope;
    struct variable *known = (struct variable *)(uintptr_t)table_find(s->var, s->n,
                                                                      sizeof *s->var, name);

    if (known)
        known->value = v;
    else if (run_grow(at->r, &s->var, s->n, &s->room, sizeof *s->var))
        s->var[s->n++] = (struct variable){ name, v };
}

struct value scope_find(const struct place *at, const char *name)
{
    const struct value    *found;
    const struct function *function;

    for (const struct scope *s = at->scope; s; s = s->outer) {
        const struct variable *known = table_find(s->var, s->n, sizeof *s->var, name);

        if (known)
            return known->value;
    }
    found = pairs_find(at->r, at->variables.pairs, value_string(name, strlen(name)));
    if (found)
        return *found;
    function = function_find(name);
    return function ? (struct value){ .kind = VALUE_FUNCTION, .function = function }
                    : value_undefined(name);
}

void scope_unpack(const struct place *at, const struct node *n, struct value v)
{
    struct value items;

    if (n->n_targets == 1) {
        scope_set(at, n->targets[0], v);
        return;
    }
    items = value_items(at->r, v);
    if (items.list.n != n->n_targets)
        run_fails(at->r, "%zu values for %zu names", items.list.n, n->n_targets);
    for (size_t i = 0; i < n->n_targets && !at->r->rc; i++)
        scope_set(at, n->targets[i], items.list.item[i]);
}

/* ---- arithmetic ---- */

static struct value repeat(struct run *r, struct value v, long long times)
{
    struct text  t = { .r = r };
    struct value out;

    if (v.kind == VALUE_STRING) {
        for (long long i = 0; i < times && run_goes_on(r, 1) && v.text.n; i++)
            text_value(&t, v);
        return text_end(&t);
    }
    if (times <= 0 || !v.list.n)
        times = 0;
    else if ((size_t)times > r->most_steps / v.list.n)
        run_fails(r, "a list of more than %llu items", (unsigned long long)r->most_steps);
    out = value_list(r, r->rc ? 0 : v.list.n * (size_t)times);
    for (size_t i = 0; i < out.list.n; i++)
        out.list.item[i] = v.list.item[i % v.list.n];
    out.kind = v.kind;
    return out;
}

static struct value joined(struct run *r, struct value a, struct value b)
{
    struct text  t = { .r = r };
    struct value out;

    if (a.kind == VALUE_STRING) {
        text_value(&t, a);
        text_value(&t, b);
        return text_end(&t);
    }
    out = value_list(r, a.list.n + b.list.n);
    for (size_t i = 0; i < out.list.n; i++)
        out.list.item[i] = i < a.list.n ? a.list.item[i] : b.list.item[i - a.list.n];
    out.kind = a.kind;
    return out;
}

static struct value whole_arithmetic(struct run *r, int op, long long x, long long y)
{
    long long out = 0, part;
    int       over = 0;

    switch (op) {
    case '+': over = __builtin_add_overflow(x, y, &out); break;
    case '-': over = __builtin_sub_overflow(x, y, &out); break;
    case '*': over = __builtin_mul_overflow(x, y, &out); break;
    case OP_POWER:
        if (y < 0)
            return value_real(pow((double)x, (double)y));
        for (out = 1; y > 0 && !over && run_goes_on(r, 1); y--)
            over = __builtin_mul_overflow(out, x, &out);
        break;
    default:
        if (!y)
            return run_fails(r, "a division by zero");
        if (op == '/')
            return value_real((double)x / (double)y);
        if (x == LLONG_MIN && y == -1) {
            over = op == OP_FLOOR;
            break;
        }
        part = x % y && (x < 0) != (y < 0); // Python rounds down
        out = op == OP_FLOOR ? x / y - part : x % y + (part ? y : 0);
    }
    if (over)
        run_fails(r, "a number of more than 64 bits");
    return value_int(out);
}

static struct value real_arithmetic(struct run *r, int op, double x, double y)
{
    double rest;

    switch (op) {
    case '+':      return value_real(x + y);
    case '-':      return value_real(x - y);
    case '*':      return value_real(x * y);
    case OP_POWER: return value_real(pow(x, y));
    default:
        if (fpclassify(y) == FP_ZERO)
            return run_fails(r, "a division by zero");
        rest = fmod(x, y);
        rest += (rest < 0 || rest > 0) && (rest < 0) != (y < 0) ? y : 0;
        return value_real(op == '/' ? x / y : op == '%' ? rest : floor((x - rest) / y + 0.5));
    }
}

static const char *op_name(int op, char text[2])
{
    text[0] = (char)op;
    text[1] = 0;
    return op == OP_POWER ? "**" : op == OP_FLOOR ? "//" : text;
}

static struct value arithmetic(struct run *r, int op, struct value a, struct value b)
{
    char text[2];

    if (r->rc)
        return undefined;
    if (value_is_number(a) && value_is_number(b))
        return a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT
                   ? real_arithmetic(r, op, value_number(a), value_number(b))
                   : whole_arithmetic(r, op, a.i, b.i);
    if (op == '+' && a.kind == b.kind && (a.kind == VALUE_STRING || value_is_list(a)))
        return joined(r, a, b);
    if (op == '*' && (a.kind == VALUE_STRING || value_is_list(a)) &&
        (b.kind == VALUE_INT || b.kind == VALUE_BOOL))
        return repeat(r, a, b.i);
    if (op == '*' && (b.kind == VALUE_STRING || value_is_list(b)) &&
        (a.kind == VALUE_INT || a.kind == VALUE_BOOL))
        return repeat(r, b, a.i);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
        run_fails(r, "%.60s is not defined", a.kind == VALUE_UNDEFINED ? a.name : b.name);
    else
        run_fails(r, "%s does not go with a %s and a %s", op_name(op, text), value_kind_name(a),
                  value_kind_name(b));
    return undefined;
}

static struct value compare(const struct place *at, const struct node *n)
{
    struct value left = eval(at, n->a);

    for (size_t i = 0; i < n->n_items && !at->r->rc; i++) {
        struct value right = eval(at, n->items[i]->a);

        if (at->r->rc || !value_compare(at->r, n->items[i]->op, left, right))
            return value_bool(0);
        left = right;
    }
    return value_bool(1);
}

/* ---- parts of values ---- */

/* a.name: a method of a dict comes before its items, as Python's attributes do. */
static struct value member(struct run *r, struct value of, const char *name)
{
    if (of.kind == VALUE_UNDEFINED)
        return run_fails(r, "%.60s is not defined, so it has no %.60s", of.name, name);
    if (method_has(of, name)) {
        struct value         v = { .kind = VALUE_METHOD };
        struct value_method *m = run_take(r, sizeof *m);

        if (!m)
            return undefined;
        *m = (struct value_method){ of, name };
        v.method = m;
        return v;
    }
    struct value v = value_item(r, of, value_string(name, strlen(name)));

    return v.kind == VALUE_UNDEFINED ? value_undefined(name) : v;
}

static struct value subscript(struct run *r, struct value of, struct value key)
{
    char        *name;
    struct value v;

    if (of.kind == VALUE_UNDEFINED)
        return run_fails(r, "%.60s is not defined, so it has no items", of.name);
    v = value_item(r, of, key);
    if (v.kind != VALUE_UNDEFINED || key.kind != VALUE_STRING || r->rc)
        return v;
    if (!(name = run_take(r, key.text.n + 1)))
        return undefined;
    memcpy(name, key.text.s, key.text.n);
    return method_has(of, name) ? member(r, of, name) : value_undefined(name);
}

/* One end of a slice, as in Python, within the range. */
static long long slice_end(struct run *r, struct value v, long long n, long long missing,
                           const long long range[2])
{
    long long i;

    if (v.kind == VALUE_NONE)
        return missing;
    if (v.kind != VALUE_INT && v.kind != VALUE_BOOL) {
        run_fails(r, "a slice's ends are numbers, not %s", value_kind_name(v));
        return missing;
    }
    i = v.i >= 0 ? v.i : v.i < -n ? range[0] : v.i + n;
    return i < range[0] ? range[0] : i > range[1] ? range[1] : i;
}

static struct value slice(const struct place *at, const struct node *n)
{
    struct run  *r = at->r;
    struct value of = eval(at, n->a), end[3], all, out;
    long long    size, step, from, to, count = 0;

    for (int i = 0; i < 3; i++)
        end[i] = n->items[i] ? eval(at, n->items[i]) : value_of(VALUE_NONE);
    if (of.kind != VALUE_STRING && !value_is_list(of))
        run_fails(r, "a %s has no slices", value_kind_name(of));
    all = r->rc ? value_of(VALUE_LIST) : value_items(r, of);
    size = (long long)all.list.n;
    step = end[2].kind == VALUE_NONE ? 1 : end[2].kind == VALUE_INT ? end[2].i : 0;
    if (!step || step > (1 << 30) || step < -(1 << 30))
        run_fails(r, "a slice's step is a number that is not 0");
    if (r->rc)
        return undefined;
    const long long range[2] = { step < 0 ? -1 : 0, step < 0 ? size - 1 : size };

    from = slice_end(r, end[0], size, step < 0 ? size - 1 : 0, range);
    to = slice_end(r, end[1], size, step < 0 ? -1 : size, range);
    if (step > 0 ? to > from : from > to)
        count = (step > 0 ? to - from - 1 : from - to - 1) / (step > 0 ? step : -step) + 1;
    out = value_list(r, (size_t)count);
    for (size_t i = 0; i < out.list.n; i++)
        out.list.item[i] = all.list.item[from + (long long)i * step];
    if (of.kind == VALUE_STRING)
        return text_join(r, value_string("", 0), out, 0);
    out.kind = of.kind;
    return out;
}

/* ---- calls ---- */

static void arguments_of(struct arguments *a, const struct place *at, const struct node *n)
{
    struct value *item = run_take(at->r, n->n_items * sizeof *item);
    const char  **name = run_take(at->r, n->n_items * sizeof *name);
    size_t        plain = 0, named = 0;

    *a = (struct arguments){ 0 };
    if (!item || !name)
        return;
    for (size_t i = 0; i < n->n_items && !at->r->rc; i++) {
        const struct node *argument = n->items[i];

        if (argument->kind == NODE_KEYWORD) {
            name[named] = argument->name;
            item[plain + named++] = eval(at, argument->a);
        } else {
            item[plain++] = eval(at, argument);
        }
    }
    *a = (struct arguments){ item, plain, name, item + plain, named };
}

static struct value macro_call(const struct place *from, const struct node *macro,
                               const struct arguments *a)
{
    struct run  *r = from->r;
    struct scope own = { .outer = from->root };
    struct place at = *from;
    struct text  out = { .r = r };
    size_t       used = 0;
    int          line = r->line;

    at.scope = &own;
    if (a->n > macro->n_items)
        run_fails(r, "the macro %.60s takes %zu arguments, not %zu", macro->name, macro->n_items,
                  a->n);
    for (size_t i = 0; i < macro->n_items && !r->rc; i++) {
        const struct node *parameter = macro->items[i];
        const struct value *given = i < a->n ? &a->item[i] : NULL;

        for (size_t k = 0; k < a->n_named; k++)
            if (!strcmp(a->name[k], parameter->name)) {
                if (given)
                    run_fails(r, "the macro %.60s gets %.60s twice", macro->name,
                              parameter->name);
                given = &a->named[k];
                used++;
            }
        scope_set(&at, parameter->name,
            given ? *given : parameter->a ? eval(&at, parameter->a)
                                          : value_undefined(parameter->name));
    }
    if (used < a->n_named)
        run_fails(r, "the macro %.60s has no argument %.60s", macro->name, a->name[0]);
    at.write(&at, macro->body, &out);
    r->line = r->rc ? r->line : line;
    return text_end(&out);
}

static struct value call(const struct place *at, const struct node *n)
{
    struct value     what = eval(at, n->a);
    struct arguments a;

    arguments_of(&a, at, n);
    at->r->line = at->r->rc ? at->r->line : n->line;
    if (at->r->rc)
        return undefined;
    switch (what.kind) {
    case VALUE_MACRO:    return macro_call(at, what.macro, &a);
    case VALUE_FUNCTION: return function_call(at->r, what.function, &a);
    case VALUE_METHOD:   return method_call(at->r, what.method->of, what.method->name, &a);
    case VALUE_UNDEFINED:
        return run_fails(at->r, "%.60s is not defined, so it cannot be called", what.name);
    default:
        return run_fails(at->r, "a %s cannot be called", value_kind_name(what));
    }
}

/* ---- expressions ---- */

static struct value listed(const struct place *at, const struct node *n)
{
    struct value out = value_list(at->r, n->n_items);

    for (size_t i = 0; i < out.list.n && !at->r->rc; i++)
        out.list.item[i] = eval(at, n->items[i]);
    out.kind = n->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
    return out;
}

static struct value dict(const struct place *at, const struct node *n)
{
    struct value out = value_dict(at->r, VALUE_DICT);

    for (size_t i = 0; i < n->n_items && !at->r->rc; i += 2) {
        struct value key = eval(at, n->items[i]);

        pairs_put(at->r, out.pairs, key, eval(at, n->items[i + 1]));
    }
    return out;
}

static struct value concat(const struct place *at, const struct node *n)
{
    struct text t = { .r = at->r };

    for (size_t i = 0; i < n->n_items && !at->r->rc; i++) {
        struct value v = value_str(at->r, eval(at, n->items[i]));

        if (!at->r->rc)
            text_value(&t, v);
    }
    return text_end(&t);
}

static struct value negative(const struct place *at, const struct node *n)
{
    struct value v = eval(at, n->a);

    if (at->r->rc)
        return undefined;
    if (!value_is_number(v))
        run_fails(at->r, "a %s has no sign", value_kind_name(v));
    if (v.kind == VALUE_FLOAT)
        return value_real(n->kind == NODE_NEGATIVE ? -v.real : v.real);
    return n->kind == NODE_NEGATIVE ? whole_arithmetic(at->r, '-', 0, v.i) : value_int(v.i);
}

static struct value called(const struct place *at, const struct node *n)
{
    struct run      *r = at->r;
    struct value     v = eval(at, n->a);
    struct arguments a;
    int              truth;

    arguments_of(&a, at, n);
    r->line = r->rc ? r->line : n->line;
    if (r->rc)
        return undefined;
    if (n->kind == NODE_FILTER)
        return filter_call(r, n->filter, v, &a);
    truth = test_call(r, n->test, v, &a);
    return value_bool(n->op ? !truth : truth);
}

static struct value value_at(const struct place *at, const struct node *n)
{
    struct run  *r = at->r;
    struct value v, key;

    switch (n->kind) {
    case NODE_CONST:    return n->value;
    case NODE_NAME:     return scope_find(at, n->name);
    case NODE_CAPTURED: return at->captured;
    case NODE_LIST:
    case NODE_TUPLE:    return listed(at, n);
    case NODE_DICT:     return dict(at, n);
    case NODE_CHOICE:
        return value_truth(eval(at, n->b)) ? eval(at, n->a)
               : n->c                      ? eval(at, n->c) : undefined;
    case NODE_AND:
        v = eval(at, n->a);
        return value_truth(v) ? eval(at, n->b) : v;
    case NODE_OR:
        v = eval(at, n->a);
        return value_truth(v) ? v : eval(at, n->b);
    case NODE_NOT:      return value_bool(!value_truth(eval(at, n->a)));
    case NODE_COMPARE:  return compare(at, n);
    case NODE_BINARY:
        v = eval(at, n->a);
        return arithmetic(r, n->op, v, eval(at, n->b));
    case NODE_NEGATIVE:
    case NODE_POSITIVE: return negative(at, n);
    case NODE_CONCAT:   return concat(at, n);
    case NODE_MEMBER:
        v = eval(at, n->a);
        return r->rc ? v : member(r, v, n->name);
    case NODE_ITEM:
        v = eval(at, n->a);
        key = eval(at, n->b);
        return r->rc ? v : subscript(r, v, key);
    case NODE_SLICE:    return slice(at, n);
    case NODE_CALL:     return call(at, n);
    case NODE_FILTER:
    case NODE_TEST:     return called(at, n);
    default:
        assert(n->kind >= NODE_CONST); // an expression
        return undefined;
    }
}

struct value eval(const struct place *at, const struct node *n)
{
    struct value v = undefined;

    if (run_goes_on(at->r, 1) && run_sinks(at->r)) {
        at->r->line = n->line;
        v = value_at(at, n);
    }
    run_rises(at->r);
    return at->r->rc ? undefined : v;
}
