/* scope.h: the place of an expression or statement: its names and its run. Private to chat/jinja:
 * eval.c evaluates expressions, render.c runs statements. */
#pragma once

#include "chat/jinja/tree.h"

struct variable { const char *name; struct value value; };
struct scope {
    struct scope    *outer;
    struct variable *var; // (n)
    size_t           n, room;
};

/* How a statement ends. A break or continue leaves the body of its loop. */
enum leave { LEAVE_NOT, LEAVE_BREAK, LEAVE_CONTINUE };

struct place {
    struct run   *r;
    /* Runs the statements from n on, those of a macro, and writes to a text. */
    enum leave  (*write)(const struct place *at, const struct node *n, struct text *out);
    struct scope *scope, *root;
    struct value  variables; // the caller's, a dict
    struct value  captured;  // the text of a block set, while its filters run
};

struct value eval(const struct place *at, const struct node *n);

/* Set a name in the innermost scope, or a statement's names to a value or its items. */
void         scope_set(const struct place *at, const char *name, struct value v);
void         scope_unpack(const struct place *at, const struct node *n, struct value v);
struct value scope_find(const struct place *at, const char *name);
