/* parser.h: the state of a parser, its next token and the nodes that it makes. Private to
 * chat/jinja: parse.c reads statements, expression.c expressions. */
#pragma once

#include "chat/jinja/calls.h"
#include "chat/jinja/tree.h"

enum { DEEPEST = 200, MOST_ITEMS = 4096 };

struct parser {
    struct jinja *j;
    struct lexer  lexer;
    struct token  at; // the next token
    int           depth, loops;
    struct err   *err;
};

#define TRY(call)           \
    do {                    \
        int rc_ = (call);   \
        if (rc_)            \
            return rc_;     \
    } while (0)

/* Refuses the template at the next token; fmt is a literal. */
#define parser_refuse(p, fmt, ...)                                                                 \
    err_misuse((p)->err, "%s, line %d: " fmt, (p)->j->name, (p)->at.line, ##__VA_ARGS__)
int parser_out_of_memory(const struct parser *p);
int parser_advance(struct parser *p);
int parser_is(const struct parser *p, const char *text); // the next token is this operator or word
/* Passes this operator or word if it is next. *was: it was. */
int parser_take(struct parser *p, const char *text, int *was);
const char *parser_found(const struct parser *p); // the next token, for a sentence
int parser_expect(struct parser *p, const char *op); // passes this operator, or refuses
/* Passes a name, or refuses: "a name is expected", which is `what`. */
int parser_name(struct parser *p, const char **name, const char *what);

int parser_node_new(struct parser *p, struct node **out, enum node_kind kind);
int parser_node_around(struct parser *p, struct node **out, enum node_kind kind, struct node *a);
int parser_item_add(struct parser *p, struct node *n, struct node *item);
int parser_sink(struct parser *p); // goes one level deeper; p->depth-- goes back

/* Expressions. Each function leaves the parser at the token that follows. */
int expression(struct parser *p, struct node **out);    // with "a if b else c"
int expression_plain(struct parser *p, struct node **out); // without
/* Parses one expression, or several with commas between them, which are a tuple. */
int expression_tuple(struct parser *p, struct node **out,
                       int (*one)(struct parser *p, struct node **out));
int expression_filter(struct parser *p, struct node **out, struct node *of); // | name(arguments)
