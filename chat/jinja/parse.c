/* parse.c: parses statements by recursive descent, with the part of jinja2's grammar that chat
 * templates use. An unknown statement is refused by its name. So are those that include or extend
 * other templates, because a chat template is one file. */
#include "chat/jinja/parser.h"

#include "chat/jinja/jinja.h"

static int block_ends(struct parser *p)
{
    if (p->at.kind != TOKEN_BLOCK_END)
        return parser_refuse(p, "%%} is expected, not %.60s", parser_found(p));
    return parser_advance(p);
}

/* Parses statements up to a tag that begins with one of these words ("endif else"). */
static int statements(struct parser *p, struct node **out, const char *until);

/* Parses the body up to {% word %}, which is passed. */
static int body_of(struct parser *p, struct node *n, const char *word)
{
    TRY(block_ends(p));
    TRY(statements(p, &n->body, word));
    TRY(parser_advance(p));
    return block_ends(p);
}

/* Parses {% else %} with its body, if it is there, and {% word %}. */
static int otherwise(struct parser *p, struct node *n, const char *word)
{
    int is;

    TRY(parser_take(p, "else", &is));
    if (is) {
        TRY(block_ends(p));
        TRY(statements(p, &n->other, word));
    }
    TRY(parser_advance(p));
    return block_ends(p);
}

static int targets(struct parser *p, struct node *n)
{
    const char *names[64];
    int         bracket;

    TRY(parser_take(p, "(", &bracket));
    do {
        if (n->n_targets)
            TRY(parser_advance(p));
        if (p->at.kind != TOKEN_NAME || n->n_targets == sizeof names / sizeof *names)
            return parser_refuse(p, "a name is expected, not %.60s", parser_found(p));
        names[n->n_targets++] = p->at.text;
        TRY(parser_advance(p));
    } while (parser_is(p, ","));
    if (bracket)
        TRY(parser_expect(p, ")"));
    if (!(n->targets = pool_grow(&p->j->pool, names, n->n_targets * sizeof *names,
                                 n->n_targets * sizeof *names)))
        return parser_out_of_memory(p);
    return 0;
}

static int statement_if(struct parser *p, struct node *n)
{
    n->kind = NODE_IF;
    TRY(expression_tuple(p, &n->a, expression_plain));
    TRY(block_ends(p));
    TRY(statements(p, &n->body, "elif else endif"));
    if (parser_is(p, "elif")) {
        TRY(parser_sink(p));
        TRY(parser_advance(p));
        TRY(parser_node_new(p, &n->other, NODE_IF));
        TRY(statement_if(p, n->other));
        p->depth--;
        return 0;
    }
    return otherwise(p, n, "endif");
}

static int statement_for(struct parser *p, struct node *n)
{
    int is;

    n->kind = NODE_FOR;
    TRY(targets(p, n));
    TRY(parser_expect(p, "in"));
    TRY(expression_tuple(p, &n->a, expression_plain));
    TRY(parser_take(p, "if", &is));
    if (is)
        TRY(expression(p, &n->b));
    if (parser_is(p, "recursive"))
        return parser_refuse(p, "recursive loops are not known");
    TRY(block_ends(p));
    p->loops++;
    TRY(statements(p, &n->body, "else endfor"));
    p->loops--;
    return otherwise(p, n, "endfor");
}

static int statement_set(struct parser *p, struct node *n)
{
    int is;

    n->kind = NODE_SET;
    TRY(targets(p, n));
    n->name = n->targets[0];
    if (parser_is(p, ".") && n->n_targets == 1) {
        TRY(parser_advance(p));
        TRY(parser_name(p, &n->member, "a name is expected behind a point"));
        n->kind = NODE_SET_MEMBER;
    }
    TRY(parser_take(p, "=", &is));
    if (is) {
        TRY(expression_tuple(p, &n->a, expression));
        return block_ends(p);
    }
    if (n->kind != NODE_SET || n->n_targets != 1)
        return parser_refuse(p, "= is expected, not %.60s", parser_found(p));
    n->kind = NODE_SET_BLOCK;
    if (parser_is(p, "|"))
        TRY(parser_node_new(p, &n->a, NODE_CAPTURED));
    while (parser_is(p, "|"))
        TRY(expression_filter(p, &n->a, n->a));
    return body_of(p, n, "endset");
}

static int statement_macro(struct parser *p, struct node *n)
{
    struct node *parameter;
    int          loops = p->loops, is;

    n->kind = NODE_MACRO;
    TRY(parser_name(p, &n->name, "the name of a macro is expected"));
    TRY(parser_expect(p, "("));
    while (!parser_is(p, ")")) {
        TRY(parser_node_new(p, &parameter, NODE_NAME));
        TRY(parser_name(p, &parameter->name, "a parameter is expected"));
        TRY(parser_take(p, "=", &is));
        if (is)
            TRY(expression(p, &parameter->a));
        TRY(parser_item_add(p, n, parameter));
        if (!parser_is(p, ")"))
            TRY(parser_expect(p, ","));
    }
    TRY(parser_advance(p));
    p->loops = 0; // a macro within a loop is no part of it
    TRY(body_of(p, n, "endmacro"));
    p->loops = loops;
    return 0;
}

static int statement_with(struct parser *p, struct node *n)
{
    struct node *set;

    n->kind = NODE_WITH;
    while (p->at.kind != TOKEN_BLOCK_END) {
        TRY(parser_node_new(p, &set, NODE_SET));
        TRY(targets(p, set));
        TRY(parser_expect(p, "="));
        TRY(expression(p, &set->a));
        TRY(parser_item_add(p, n, set));
        if (p->at.kind != TOKEN_BLOCK_END)
            TRY(parser_expect(p, ","));
    }
    return body_of(p, n, "endwith");
}

static int statement_generation(struct parser *p, struct node *n)
{
    n->kind = NODE_GENERATION;
    p->j->marks = 1;
    return body_of(p, n, "endgeneration");
}

static int statement_leave(struct parser *p, struct node *n)
{
    if (!p->loops)
        return parser_refuse(p, "%s stands outside of a loop",
                      n->kind == NODE_BREAK ? "break" : "continue");
    return block_ends(p);
}

/* A tag, behind its {%. */
static int statement(struct parser *p, struct node **out)
{
    static const struct {
        const char *word;
        int (*parse)(struct parser *p, struct node *n);
        enum node_kind kind;
    } known[] = { { "if", statement_if, 0 }, { "for", statement_for, 0 },
                  { "set", statement_set, 0 }, { "macro", statement_macro, 0 },
                  { "with", statement_with, 0 }, { "generation", statement_generation, 0 },
                  { "break", statement_leave, NODE_BREAK },
                  { "continue", statement_leave, NODE_CONTINUE } };

    TRY(parser_sink(p));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (parser_is(p, known[i].word)) {
            TRY(parser_node_new(p, out, known[i].kind));
            TRY(parser_advance(p));
            TRY(known[i].parse(p, *out));
            p->depth--;
            return 0;
        }
    return p->at.kind == TOKEN_NAME
               ? parser_refuse(p, "the statement %.60s is not known", p->at.text)
               : parser_refuse(p, "a statement is expected, not %.60s", parser_found(p));
}

static int is_one_of(const struct parser *p, const char *words)
{
    size_t n = strlen(p->at.text);

    for (const char *at = words; (at = strstr(at, p->at.text)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return 1;
    return 0;
}

static int statements(struct parser *p, struct node **out, const char *until)
{
    struct node **next = out;

    for (*out = NULL;; next = &(*next)->next)
        switch (p->at.kind) {
        case TOKEN_END:
            return *until ? parser_refuse(p, "the template ends before {%% %s %%}",
                                   strrchr(until, ' ') ? strrchr(until, ' ') + 1 : until)
                          : 0;
        case TOKEN_TEXT:
            TRY(parser_node_new(p, next, NODE_TEXT));
            (*next)->value = value_string(p->at.text, p->at.n);
            TRY(parser_advance(p));
            break;
        case TOKEN_PRINT_BEGIN:
            TRY(parser_advance(p));
            TRY(parser_node_new(p, next, NODE_PRINT));
            TRY(expression_tuple(p, &(*next)->a, expression));
            if (p->at.kind != TOKEN_PRINT_END)
                return parser_refuse(p, "}} is expected, not %.60s", parser_found(p));
            TRY(parser_advance(p));
            break;
        default:
            TRY(parser_advance(p));
            if (p->at.kind == TOKEN_NAME && is_one_of(p, until))
                return 0;
            TRY(statement(p, next));
        }
}

int jinja_parse(struct jinja **out, const char *text, size_t n, const char *file, struct err *err)
{
    enum { MOST_BYTES = 1 << 26 }; // of a parsed template
    struct jinja *j = calloc(1, sizeof *j);
    struct parser p = { .j = j, .err = err };
    int           rc;

    *out = NULL;
    if (!j)
        return err_set(err, -ENOMEM, "%s: out of memory", file);
    snprintf(j->name, sizeof j->name, "%s", file);
    j->pool.limit = MOST_BYTES;
    rc = lexer_begin(&p.lexer, text, n, j->name, &j->pool, err);
    rc = rc ? rc : parser_advance(&p);
    rc = rc ? rc : statements(&p, &j->body, "");
    if (rc)
        jinja_free(j);
    else
        *out = j;
    return rc;
}

int jinja_marks(const struct jinja *j) { return j->marks; }

void jinja_free(struct jinja *j)
{
    if (j)
        pool_free(&j->pool);
    free(j);
}
