/* scope.h: where an expression or a statement stands. Private to data/jinja: eval.c gives
 * expressions their values, render.c does what statements say. */
#pragma once

#include "data/jinja/tree.h"

struct variable { const char *name; struct value value; };
struct scope {
    struct scope    *outer;
    struct variable *var; // (n)
    size_t           n, room;
};

/* How statements end: some leave the loop that they stand in. */
enum leave { LEAVE_NOT, LEAVE_BREAK, LEAVE_CONTINUE };

struct place {
    struct run   *r;
    /* Statements from n on, written to a text: a macro's. */
    enum leave  (*write)(const struct place *at, const struct node *n, struct text *out);
    struct scope *scope, *root;
    struct value  variables; // a dict: what the caller gave
    struct value  captured;  // of a block set whose filters run
};

struct value eval(const struct place *at, const struct node *n);

/* Set a name in the innermost scope; set the names of a statement, to a value or to its items. */
void         scope_set(const struct place *at, const char *name, struct value v);
void         scope_unpack(const struct place *at, const struct node *n, struct value v);
struct value scope_find(const struct place *at, const char *name);
