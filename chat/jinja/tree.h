/* tree.h: a template as a tree. Private to chat/jinja: parse.c makes it of the pieces that lex.c
 * cuts the text into, render.c runs it. */
#pragma once

#include "chat/jinja/lex.h"
#include "chat/jinja/pool.h"
#include "chat/jinja/value.h"

enum node_kind {
    // statements, in lists by `next`
    NODE_TEXT,       // value: a string
    NODE_PRINT,      // a
    NODE_IF,         // a: the condition; body; other: the statements of elif or else
    NODE_FOR,        // targets; a: what is gone through; b: the filter, or NULL; body; other: else
    NODE_SET,        // targets; a
    NODE_SET_MEMBER, // name.member = a
    NODE_SET_BLOCK,  // targets (one); body; a: filters around an NODE_CAPTURED, or NULL
    NODE_WITH,       // items: NODE_SETs; body
    NODE_MACRO,      // name; items: NODE_NAMEs of its parameters, each with its default in a; body
    NODE_GENERATION, // body
    NODE_BREAK, NODE_CONTINUE,
    // expressions
    NODE_CONST,      // value
    NODE_NAME,       // name
    NODE_LIST, NODE_TUPLE, // items
    NODE_DICT,       // items: keys and values in turn
    NODE_CHOICE,     // a if b else c; c may be NULL
    NODE_AND, NODE_OR, NODE_NOT, // a, b
    NODE_COMPARE,    // a, then items: each a NODE_OPERAND
    NODE_OPERAND,    // op, a
    NODE_BINARY,     // op, a, b
    NODE_NEGATIVE, NODE_POSITIVE, // a
    NODE_CONCAT,     // items
    NODE_MEMBER,     // a.name
    NODE_ITEM,       // a[b]
    NODE_SLICE,      // a[items[0]:items[1]:items[2]], each may be NULL
    NODE_CALL,       // a(items)
    NODE_FILTER,     // a | name(items)
    NODE_TEST,       // a is name(items); op 1: is not
    NODE_KEYWORD,    // among the items of a call: name = a
    NODE_CAPTURED,   // the text of a block set, to which its filters are applied
};

struct filter;
struct test;
struct node {
    enum node_kind kind;
    int            line, op;
    const struct filter *filter; // calls.h
    const struct test   *test;
    const char    *name, *member;
    struct value   value;
    struct node   *a, *b, *c;
    struct node  **items;
    size_t         n_items;
    struct node   *body, *other, *next;
    const char   **targets; // (n_targets) names; one that is not alone unpacks
    size_t         n_targets;
};

struct jinja {
    char         name[256];
    struct pool  pool;
    struct node *body;
    int          marks; // it has {% generation %}
};
