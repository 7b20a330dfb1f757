/* texts.h: operations on strings, which methods and filters share. Private to chat/jinja. */
#pragma once

#include "chat/jinja/calls.h"

/* A list that grows. */
struct items { struct run *r; struct value *item; size_t n, room; };
void         items_add(struct items *i, struct value v);
struct value items_end(const struct items *i);

enum { LEFT = 1, RIGHT = 2 };

/* Strip white space, or the code points of *set, from these sides. */
struct value text_strip(struct value v, int sides, const struct value *set);
struct value text_strip_call(struct run *r, struct value v, int sides, const struct arguments *a);

/* Changes every code point to another one. first: the code point begins a word. */
struct value text_recase(struct run *r, struct value v, int (*change)(int cp, int first));
int          case_upper(int cp, int first);
int          case_lower(int cp, int first);
int          case_title(int cp, int first);
struct value text_capitalize(struct run *r, struct value v);
/* jinja2's filter, whose words begin behind white space and - ( { [ < alone, unlike str.title's. */
struct value text_title(struct run *r, struct value v);

/* replace(old, new, count) and split(sep, maxsplit). */
struct value text_replace(struct run *r, struct value v, const struct arguments *a);
struct value text_split(struct run *r, struct value v, const struct arguments *a);

int          text_begins(struct value v, struct value with, int at_end);
/* startswith and endswith, with a str or a tuple of them. */
struct value text_begins_call(struct run *r, struct value v, const struct arguments *a, int end);

/* Joins the items of a list with v between them. strict: all must be str. */
struct value text_join(struct run *r, struct value v, struct value list, int strict);
