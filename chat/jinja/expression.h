/* expression.h: parses expressions. Each function leaves the parser at the token that follows. */
#pragma once

#include "chat/jinja/parser.h"

int expression(struct parser *p, struct node **out);    // with "a if b else c"
int expression_plain(struct parser *p, struct node **out); // without
/* Parses one expression, or several with commas between them, which are a tuple. */
int expression_tuple(struct parser *p, struct node **out,
                       int (*one)(struct parser *p, struct node **out));
int expression_filter(struct parser *p, struct node **out, struct node *of); // | name(arguments)
