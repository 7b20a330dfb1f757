/* expression.c: parses expressions by jinja2's grammar. */
#include "chat/jinja/parser.h"

static int arguments(struct parser *p, struct node *call)
{
    int named = 0;

    TRY(parser_advance(p));
    while (!parser_is(p, ")")) {
        struct node *item, *keyword;

        if (parser_is(p, "*") || parser_is(p, "**"))
            return parser_refuse(p, "arguments with %s are not known", p->at.text);
        TRY(expression(p, &item));
        if (parser_is(p, "=") && item->kind == NODE_NAME) {
            TRY(parser_node_new(p, &keyword, NODE_KEYWORD));
            keyword->name = item->name;
            TRY(parser_advance(p));
            TRY(expression(p, &keyword->a));
            item = keyword;
            named = 1;
        } else if (named) {
            return parser_refuse(p, "an argument without a name stands behind one with a name");
        }
        TRY(parser_item_add(p, call, item));
        if (!parser_is(p, ")"))
            TRY(parser_expect(p, ","));
    }
    return parser_advance(p);
}

int expression_filter(struct parser *p, struct node **out, struct node *of)
{
    struct node *n;

    TRY(parser_advance(p));
    if (p->at.kind != TOKEN_NAME)
        return parser_refuse(p, "the name of a filter is expected, not %.60s", parser_found(p));
    TRY(parser_node_around(p, &n, NODE_FILTER, of));
    n->line = p->at.line;
    n->name = p->at.text;
    if (!(n->filter = filter_find(n->name)))
        return parser_refuse(p, "the filter %.60s is not known", n->name);
    TRY(parser_advance(p));
    if (parser_is(p, "("))
        TRY(arguments(p, n));
    *out = n;
    return 0;
}

static int postfix(struct parser *p, struct node **out);
static int primary(struct parser *p, struct node **out);

/* Whether the argument of a test follows, which needs no brackets. */
static int argument_follows(const struct parser *p)
{
    static const char *const others[] = { "else", "or", "and", "if", "is", "in", "not" };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (parser_is(p, others[i]))
            return 0;
    return p->at.kind == TOKEN_NAME || p->at.kind == TOKEN_STRING || p->at.kind == TOKEN_INT ||
           p->at.kind == TOKEN_FLOAT || parser_is(p, "[") || parser_is(p, "{");
}

static int test(struct parser *p, struct node **out, struct node *of)
{
    struct node *n, *argument;

    TRY(parser_advance(p));
    TRY(parser_node_around(p, &n, NODE_TEST, of));
    TRY(parser_take(p, "not", &n->op));
    n->line = p->at.line;
    n->name = parser_is(p, "==") ? "eq" : p->at.text; // not jinja2's grammar, and harmless
    if (p->at.kind != TOKEN_NAME)
        return parser_refuse(p, "the name of a test is expected, not %.60s", parser_found(p));
    if (!(n->test = test_find(n->name)))
        return parser_refuse(p, "the test %.60s is not known", n->name);
    TRY(parser_advance(p));
    if (parser_is(p, "(")) {
        TRY(arguments(p, n));
    } else if (argument_follows(p)) {
        TRY(primary(p, &argument));
        *out = argument;
        TRY(postfix(p, &argument));
        TRY(parser_item_add(p, n, argument));
    }
    *out = n;
    return 0;
}

static int subscript(struct parser *p, struct node **out)
{
    struct node *n, *part[3] = { NULL, NULL, NULL };
    int          colons = 0;

    TRY(parser_node_around(p, &n, NODE_ITEM, *out));
    TRY(parser_advance(p));
    while (!parser_is(p, "]")) {
        if (parser_is(p, ":")) {
            if (++colons > 2)
                return parser_refuse(p, "a slice has at most two colons");
            TRY(parser_advance(p));
        } else if (part[colons]) {
            return parser_refuse(p, "] is expected, not %.60s", parser_found(p));
        } else {
            TRY(expression(p, &part[colons]));
        }
    }
    TRY(parser_advance(p));
    if (!colons && !part[0])
        return parser_refuse(p, "an index is expected");
    n->kind = colons ? NODE_SLICE : NODE_ITEM;
    n->b = part[0];
    for (int i = 0; i < 3 && colons; i++)
        TRY(parser_item_add(p, n, part[i]));
    *out = n;
    return 0;
}

/* Parses .name, [index] and (arguments) behind *out. */
static int postfix(struct parser *p, struct node **out)
{
    struct node *n;

    for (;;)
        if (parser_is(p, ".")) {
            TRY(parser_advance(p));
            if (p->at.kind != TOKEN_NAME && p->at.kind != TOKEN_INT)
                return parser_refuse(p, "a name is expected behind a point, not %.60s",
                                     parser_found(p));
            TRY(parser_node_around(p, &n, p->at.kind == TOKEN_NAME ? NODE_MEMBER : NODE_ITEM,
                                   *out));
            n->line = p->at.line;
            n->name = p->at.text;
            if (n->kind == NODE_ITEM) {
                TRY(parser_node_new(p, &n->b, NODE_CONST));
                n->b->value = value_int(p->at.number);
            }
            TRY(parser_advance(p));
            *out = n;
        } else if (parser_is(p, "[")) {
            TRY(subscript(p, out));
        } else if (parser_is(p, "(")) {
            TRY(parser_node_around(p, &n, NODE_CALL, *out));
            TRY(arguments(p, n));
            *out = n;
        } else {
            return 0;
        }
}

/* Parses items up to `close`, which is passed. *comma: there was a comma. */
static int items(struct parser *p, struct node *n, const char *close, int *comma)
{
    struct node *item;

    *comma = 0;
    while (!parser_is(p, close)) {
        TRY(expression(p, &item));
        TRY(parser_item_add(p, n, item));
        if (n->kind == NODE_DICT) {
            TRY(parser_expect(p, ":"));
            TRY(expression(p, &item));
            TRY(parser_item_add(p, n, item));
        }
        if (parser_is(p, close))
            break;
        TRY(parser_expect(p, ","));
        *comma = 1;
    }
    return parser_advance(p);
}

static int constant(struct parser *p, struct node **out, struct value v)
{
    TRY(parser_node_new(p, out, NODE_CONST));
    (*out)->value = v;
    return parser_advance(p);
}

static int name(struct parser *p, struct node **out)
{
    const char *s = p->at.text;

    if (!strcmp(s, "true") || !strcmp(s, "True"))
        return constant(p, out, value_bool(1));
    if (!strcmp(s, "false") || !strcmp(s, "False"))
        return constant(p, out, value_bool(0));
    if (!strcmp(s, "none") || !strcmp(s, "None"))
        return constant(p, out, value_of(VALUE_NONE));
    TRY(parser_node_new(p, out, NODE_NAME));
    (*out)->name = s;
    return parser_advance(p);
}

/* Joins strings that follow each other. */
static int strings(struct parser *p, struct node **out)
{
    const char *s = "";
    size_t      n = 0;

    TRY(parser_node_new(p, out, NODE_CONST));
    while (p->at.kind == TOKEN_STRING) {
        char *joined = pool_take(&p->j->pool, n + p->at.n + 1);

        if (!joined)
            return parser_out_of_memory(p);
        memcpy(joined, s, n);
        memcpy(joined + n, p->at.text, p->at.n);
        n += p->at.n;
        s = joined;
        TRY(parser_advance(p));
    }
    (*out)->value = value_string(s, n);
    return 0;
}

static int primary(struct parser *p, struct node **out)
{
    int comma, open;

    switch (p->at.kind) {
    case TOKEN_NAME:   return name(p, out);
    case TOKEN_STRING: return strings(p, out);
    case TOKEN_INT:    return constant(p, out, value_int(p->at.number));
    case TOKEN_FLOAT:  return constant(p, out, value_real(p->at.real));
    default:           break;
    }
    open = p->at.kind == TOKEN_OPERATOR ? *p->at.text : 0;
    if (open != '(' && open != '[' && open != '{')
        return parser_refuse(p, "an expression is expected, not %.60s", parser_found(p));
    TRY(parser_sink(p));
    TRY(parser_node_new(p, out, open == '[' ? NODE_LIST : open == '{' ? NODE_DICT : NODE_TUPLE));
    TRY(parser_advance(p));
    TRY(items(p, *out, open == '[' ? "]" : open == '{' ? "}" : ")", &comma));
    p->depth--;
    if (open == '(' && (*out)->n_items == 1 && !comma)
        *out = (*out)->items[0];
    return 0;
}

static int unary(struct parser *p, struct node **out, int filters)
{
    struct node *n;

    TRY(parser_sink(p));
    if (parser_is(p, "-") || parser_is(p, "+")) {
        TRY(parser_node_new(p, &n, parser_is(p, "-") ? NODE_NEGATIVE : NODE_POSITIVE));
        TRY(parser_advance(p));
        TRY(unary(p, &n->a, 0));
        *out = n;
    } else {
        TRY(primary(p, out));
    }
    TRY(postfix(p, out));
    for (int more = filters; more;)
        if (parser_is(p, "|"))
            TRY(expression_filter(p, out, *out));
        else if (parser_is(p, "is"))
            TRY(test(p, out, *out));
        else if (parser_is(p, "("))
            TRY(postfix(p, out));
        else
            more = 0;
    p->depth--;
    return 0;
}

/* The operators of each level, the loosest first, with what they become. */
struct operator { const char *text; int op; };
enum { SUMS, CONCATS, PRODUCTS, POWERS, LEVELS };
static const struct operator levels[LEVELS][5] = {
    [SUMS] = { { "+", '+' }, { "-", '-' } },
    [PRODUCTS] = { { "*", '*' }, { "/", '/' }, { "//", OP_FLOOR }, { "%", '%' } },
    [POWERS] = { { "**", OP_POWER } },
};
static const struct operator comparisons[] = { { "==", OP_EQ }, { "!=", OP_NE }, { "<", OP_LT },
                                               { "<=", OP_LE }, { ">", OP_GT }, { ">=", OP_GE },
                                               { 0 } };

static int operator_at(const struct parser *p, const struct operator *list)
{
    for (; list->text; list++)
        if (parser_is(p, list->text))
            return list->op;
    return 0;
}

static int binary(struct parser *p, struct node **out, int level);

static int product(struct parser *p, struct node **out) { return binary(p, out, PRODUCTS); }

/* Parses operands with `sign` between them: one alone, or the items of a node of this kind. */
static int listed(struct parser *p, struct node **out, const char *sign, enum node_kind kind,
                  int (*one)(struct parser *p, struct node **out))
{
    struct node *n, *item;

    TRY(one(p, out));
    if (!parser_is(p, sign))
        return 0;
    TRY(parser_node_new(p, &n, kind));
    TRY(parser_item_add(p, n, *out));
    while (parser_is(p, sign)) {
        TRY(parser_advance(p));
        if (kind == NODE_TUPLE &&
            (p->at.kind == TOKEN_BLOCK_END || p->at.kind == TOKEN_PRINT_END))
            break;
        TRY(one(p, &item));
        TRY(parser_item_add(p, n, item));
    }
    *out = n;
    return 0;
}

static int binary(struct parser *p, struct node **out, int level)
{
    struct node *n;
    int          op;

    if (level == CONCATS)
        return listed(p, out, "~", NODE_CONCAT, product);
    if (level == LEVELS)
        return unary(p, out, 1);
    TRY(binary(p, out, level + 1));
    while ((op = operator_at(p, levels[level]))) {
        TRY(parser_node_around(p, &n, NODE_BINARY, *out));
        n->line = p->at.line;
        n->op = op;
        TRY(parser_advance(p));
        TRY(binary(p, &n->b, level + 1));
        *out = n;
    }
    return 0;
}

static int compare(struct parser *p, struct node **out)
{
    struct node *n = NULL, *operand;
    int          op;

    TRY(binary(p, out, SUMS));
    for (;;) {
        op = operator_at(p, comparisons);
        op = parser_is(p, "in") ? OP_IN : op;
        if (parser_is(p, "not")) // "not in": nothing else may stand behind an operand
            op = OP_NOT_IN;
        if (!op)
            return 0;
        if (!n) {
            TRY(parser_node_around(p, &n, NODE_COMPARE, *out));
            *out = n;
        }
        TRY(parser_node_new(p, &operand, NODE_OPERAND));
        operand->op = op;
        TRY(parser_advance(p));
        if (op == OP_NOT_IN && !parser_is(p, "in"))
            return parser_refuse(p, "in is expected behind not, not %.60s", parser_found(p));
        if (op == OP_NOT_IN)
            TRY(parser_advance(p));
        TRY(binary(p, &operand->a, SUMS));
        TRY(parser_item_add(p, n, operand));
    }
}

static int negation(struct parser *p, struct node **out)
{
    if (!parser_is(p, "not"))
        return compare(p, out);
    TRY(parser_sink(p));
    TRY(parser_node_new(p, out, NODE_NOT));
    TRY(parser_advance(p));
    TRY(negation(p, &(*out)->a));
    p->depth--;
    return 0;
}

static int logic(struct parser *p, struct node **out, const char *word, enum node_kind kind,
                 int (*operand)(struct parser *p, struct node **out))
{
    struct node *n;

    TRY(operand(p, out));
    while (parser_is(p, word)) {
        TRY(parser_advance(p));
        TRY(parser_node_around(p, &n, kind, *out));
        TRY(operand(p, &n->b));
        *out = n;
    }
    return 0;
}

static int expression_and(struct parser *p, struct node **out)
{
    return logic(p, out, "and", NODE_AND, negation);
}

int expression_plain(struct parser *p, struct node **out)
{
    return logic(p, out, "or", NODE_OR, expression_and);
}

int expression(struct parser *p, struct node **out)
{
    struct node *n;
    int          is;

    TRY(parser_sink(p));
    TRY(expression_plain(p, out));
    while (parser_is(p, "if")) {
        TRY(parser_advance(p));
        TRY(parser_node_around(p, &n, NODE_CHOICE, *out));
        TRY(expression_plain(p, &n->b));
        TRY(parser_take(p, "else", &is));
        if (is)
            TRY(expression(p, &n->c));
        *out = n;
    }
    p->depth--;
    return 0;
}

int expression_tuple(struct parser *p, struct node **out,
                     int (*one)(struct parser *p, struct node **out))
{
    return listed(p, out, ",", NODE_TUPLE, one);
}
