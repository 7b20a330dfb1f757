/* parser.c: tokens and nodes. */
#include "chat/jinja/parser.h"

int parser_out_of_memory(const struct parser *p)
{
    return parser_refuse(p, "the template takes too much memory");
}

int parser_advance(struct parser *p) { return lexer_next(&p->lexer, &p->at, p->err); }

int parser_is(const struct parser *p, const char *text)
{
    return (p->at.kind == TOKEN_OPERATOR || p->at.kind == TOKEN_NAME) && !strcmp(p->at.text, text);
}

int parser_take(struct parser *p, const char *text, int *was)
{
    int is = parser_is(p, text);

    *was = is;
    return is ? parser_advance(p) : 0;
}

const char *parser_found(const struct parser *p)
{
    switch (p->at.kind) {
    case TOKEN_END:         return "the end of the template";
    case TOKEN_PRINT_END:   return "}}";
    case TOKEN_BLOCK_END:   return "%}";
    case TOKEN_STRING:      return "a string";
    case TOKEN_INT:
    case TOKEN_FLOAT:       return "a number";
    case TOKEN_NAME:
    case TOKEN_OPERATOR:    return p->at.text;
    default:                return "a tag";
    }
}

int parser_expect(struct parser *p, const char *op)
{
    if (!parser_is(p, op))
        return parser_refuse(p, "%s is expected, not %.60s", op, parser_found(p));
    return parser_advance(p);
}

int parser_name(struct parser *p, const char **name, const char *what)
{
    if (p->at.kind != TOKEN_NAME)
        return parser_refuse(p, "%s, not %.60s", what, parser_found(p));
    *name = p->at.text;
    return parser_advance(p);
}

int parser_node_new(struct parser *p, struct node **out, enum node_kind kind)
{
    if (!(*out = pool_take(&p->j->pool, sizeof **out)))
        return parser_out_of_memory(p);
    (*out)->kind = kind;
    (*out)->line = p->at.line;
    return 0;
}

int parser_node_around(struct parser *p, struct node **out, enum node_kind kind, struct node *a)
{
    TRY(parser_node_new(p, out, kind));
    (*out)->a = a;
    (*out)->line = a->line;
    return 0;
}

int parser_item_add(struct parser *p, struct node *n, struct node *item)
{
    if (n->n_items >= MOST_ITEMS)
        return parser_refuse(p, "more than %d items", MOST_ITEMS);
    if (!(n->n_items & (n->n_items + 1))) { // 0, 1, 3, 7 .. : full
        struct node **grown = pool_grow(&p->j->pool, n->items, n->n_items * sizeof *grown,
                                        (2 * n->n_items + 1) * sizeof *grown);

        if (!grown)
            return parser_out_of_memory(p);
        n->items = grown;
    }
    n->items[n->n_items++] = item;
    return 0;
}

int parser_sink(struct parser *p)
{
    return ++p->depth > DEEPEST ? parser_refuse(p, "nested more than %d deep", DEEPEST) : 0;
}
