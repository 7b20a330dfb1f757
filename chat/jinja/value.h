/* value.h: the values of a template, which are Python's. Private to chat/jinja.
 *
 * A string has the origin of each byte in `from`: an index into run.from, or 0 for the template.
 * Every operation on strings handles both arrays alike. Values do not change, except for lists,
 * dicts and namespaces while they are made. Their memory belongs to a pool. */
#pragma once

#include "chat/jinja/pool.h"
#include "data/json/json.h"

#include <time.h>

enum value_kind {
    VALUE_UNDEFINED, // name: what is not defined
    VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_FLOAT, VALUE_STRING,
    VALUE_LIST, VALUE_TUPLE, VALUE_DICT, VALUE_NAMESPACE,
    VALUE_LOOP,      // the variable `loop`
    VALUE_MACRO, VALUE_FUNCTION, VALUE_METHOD,
};

struct node;
struct function;
struct value_pairs;
struct value_loop;
struct value_method;

struct value {
    enum value_kind kind;
    union {
        long long i;           // BOOL, INT
        double    real;
        struct { const char *s; const uint32_t *from; size_t n; } text; // from NULL: all 0
        struct { struct value *item; size_t n; } list; // LIST, TUPLE
        struct value_pairs  *pairs;  // DICT, NAMESPACE
        struct value_loop   *loop;
        struct value_method *method;
        const struct node   *macro;
        const struct function *function; // functions.c
        const char          *name;
    };
};

struct value_pair  { struct value key, value; };
struct value_pairs { struct value_pair *pair; size_t n, room; };

struct value_loop {
    const struct value *item;  // (n): the items of the loop
    size_t              n, at;
    size_t              depth; // number of nested loops, from 1
};

struct value_method { struct value of; const char *name; };

/* One rendering. The first function that fails sets rc and err. Each that fails returns
 * VALUE_UNDEFINED. Callers look at rc. */
struct run {
    const char         *name;   // the template's
    struct pool         pool;
    uint64_t            steps, most_steps;
    time_t              now;
    int                 line;   // the line that runs
    int                 depth;  // of nested statements, expressions and compared values
    int                 rc;
    struct err         *err;
    const json_t      **from;   // (n_from) strings of the variables; 0 is the template
    size_t              n_from, from_room;
};

/* Sets the sentence, with the template's name and line in front. Returns an undefined value. */
struct value run_fails(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Counts n more steps. Returns 0 if the limit is reached, or if something failed before. */
int  run_goes_on(struct run *r, uint64_t n);
/* Goes one level deeper in a recursion. Returns 0 if it is too deep. run_rises goes back. */
int  run_sinks(struct run *r);
static inline void run_rises(struct run *r) { r->depth--; }
/* Returns zeroed memory, or NULL after a failure. */
void *run_take(struct run *r, size_t bytes);
/* Makes room for one more item of `size` bytes in *array, which has n and room for *room. Returns
 * 0 after a failure. `array` is the address of the caller's pointer. */
int   run_grow(struct run *r, void *array, size_t n, size_t *room, size_t size);

static inline struct value value_of(enum value_kind kind) { return (struct value){ .kind = kind }; }
static inline struct value value_bool(int truth)
{
    return (struct value){ .kind = VALUE_BOOL, .i = !!truth };
}
static inline struct value value_int(long long i)
{
    return (struct value){ .kind = VALUE_INT, .i = i };
}
static inline struct value value_real(double real)
{
    return (struct value){ .kind = VALUE_FLOAT, .real = real };
}
static inline struct value value_undefined(const char *name)
{
    return (struct value){ .kind = VALUE_UNDEFINED, .name = name };
}
/* The result of an expression that has no value, or that failed. */
static const struct value undefined = { .kind = VALUE_UNDEFINED, .name = "it" };

/* Borrows s. */
static inline struct value value_string(const char *s, size_t n)
{
    return (struct value){ .kind = VALUE_STRING, .text = { s, NULL, n } };
}
static inline int value_is_list(struct value v)
{
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}
static inline int value_is_number(struct value v)
{
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT;
}
static inline double value_number(struct value v)
{
    return v.kind == VALUE_FLOAT ? v.real : (double)v.i;
}

struct value value_from_json(struct run *r, const json_t *json);
int          value_truth(struct value v);
/* Return -1, 0 or 1. Values that Python does not order fail. The second orders two strings. */
int          value_order(struct run *r, struct value a, struct value b);
int          value_text_order(struct value a, struct value b);
/* The operators of expressions, except those of one character, which are that character. */
enum value_op {
    OP_POWER = 256, OP_FLOOR, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN,
};
/* Returns whether a comparison from OP_EQ to OP_NOT_IN holds. */
int          value_compare(struct run *r, int op, struct value a, struct value b);
const char  *value_kind_name(struct value v); // the name of Python's type

/* ---- strings ---- */

/* A string that grows. */
struct text { struct run *r; char *s; uint32_t *from; size_t n, room; };
void text_add(struct text *t, const char *s, const uint32_t *from, size_t n);
void text_say(struct text *t, const char *s);
void text_value(struct text *t, struct value string);
struct value text_end(const struct text *t);

/* Returns str(v), which {{ v }} prints. */
struct value value_str(struct run *r, struct value v);
/* Returns json.dumps(v, ensure_ascii=False, indent=indent). indent -1: one line. */
struct value value_json(struct run *r, struct value v, int indent, int sorted);
/* Returns bytes [from, to) of a string. */
struct value value_part(struct value string, size_t from, size_t to);
/* The number of code points, and the byte at which code point `at` begins. */
size_t       value_length(struct value string);
size_t       value_byte(struct value string, size_t at);

/* ---- lists and dicts ---- */

struct value value_list(struct run *r, size_t n); // (n) undefined items, to be filled
/* The items of an iteration: a list's, a dict's keys, a string's code points. Other values fail. */
struct value value_items(struct run *r, struct value v);
const struct value *pairs_find(struct run *r, const struct value_pairs *p, struct value key);
void                pairs_put(struct run *r, struct value_pairs *p, struct value key,
                              struct value v);
struct value        value_dict(struct run *r, enum value_kind kind);
