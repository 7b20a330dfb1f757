/* value.h: the values of a template: Python's, as far as templates have them. Private to
 * data/jinja.
 *
 * A string carries, for each of its bytes, where it comes from (`from`, an index into what
 * jinja_render made of the variables; 0: the template), so every operation on strings moves both
 * arrays alike. Values are never changed but for lists, dicts and namespaces while they are
 * made; their memory is a pool's. */
#pragma once

#include "data/base/json.h"
#include "data/jinja/pool.h"

#include <stdint.h>
#include <time.h>

enum value_kind {
    VALUE_UNDEFINED, // name says what is not defined
    VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_FLOAT, VALUE_STRING,
    VALUE_LIST, VALUE_TUPLE, VALUE_DICT, VALUE_NAMESPACE,
    VALUE_LOOP,      // the variable `loop`
    VALUE_MACRO, VALUE_FUNCTION, VALUE_METHOD,
};

struct node;
struct value_pairs;
struct value_loop;
struct value_method;

struct value {
    enum value_kind kind;
    int             function;  // of FUNCTION: its index (functions.c)
    union {
        long long i;           // BOOL, INT
        double    real;
        struct { const char *s; const uint32_t *from; size_t n; } text; // from NULL: all 0
        struct { struct value *item; size_t n; } list; // LIST, TUPLE
        struct value_pairs  *pairs;  // DICT, NAMESPACE
        struct value_loop   *loop;
        struct value_method *method;
        const struct node   *macro;
        const char          *name;
    };
};

struct value_pair  { struct value key, value; };
struct value_pairs { struct value_pair *pair; size_t n, room; };

struct value_loop {
    const struct value *item;  // (n) what is gone through
    size_t              n, at;
    size_t              depth; // of loops around it, from 1
};

struct value_method { struct value of; const char *name; };

/* One rendering. Functions below that fail say so once, in err, and give VALUE_UNDEFINED; whoever
 * goes on looks at rc. */
struct run {
    const char         *name;   // the template's
    struct pool         pool;
    uint64_t            steps, most_steps;
    time_t              now;
    int                 line;   // of what runs
    int                 depth;  // of what calls itself: macros, comparisons of nested values
    int                 rc;
    struct err         *err;
    const json_t      **from;   // (n_from) strings of the variables; 0 is the template
    size_t              n_from, from_room;
};

/* Sets the sentence, with the template's name and line in front. Returns an undefined value. */
struct value run_fails(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Counts n more steps. Returns 0 if the limit is reached, or if something failed before. */
int  run_goes_on(struct run *r, uint64_t n);
/* Goes one level deeper, for what calls itself. Returns 0 if that is too deep. run_rises goes
 * back. */
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
/* What an expression gives that has no value, or failed. */
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
int          value_equal(struct run *r, struct value a, struct value b);
/* -1, 0, 1; values that Python does not order fail. */
int          value_order(struct run *r, struct value a, struct value b);
const char  *value_kind_name(struct value v); // as Python's type has it

/* ---- strings ---- */

/* A string that grows. */
struct text { struct run *r; char *s; uint32_t *from; size_t n, room; };
void text_add(struct text *t, const char *s, const uint32_t *from, size_t n);
void text_say(struct text *t, const char *s);
void text_value(struct text *t, struct value string);
struct value text_end(const struct text *t);

/* str(v): what {{ v }} prints. */
struct value value_str(struct run *r, struct value v);
/* As json.dumps(v, ensure_ascii=False, indent=indent) writes it; indent -1: one line. */
struct value value_json(struct run *r, struct value v, int indent, int sorted);
/* Part [from, to) of a string, in bytes. */
struct value value_part(struct value string, size_t from, size_t to);
/* Code points, and the byte at which number `at` of them stands. */
size_t       value_length(struct value string);
size_t       value_byte(struct value string, size_t at);

/* ---- lists and dicts ---- */

struct value value_list(struct run *r, size_t n); // (n) undefined items, to be filled
/* The items that iteration gives: of a list, a dict's keys, a string's code points. What cannot be
 * gone through fails. */
struct value value_items(struct run *r, struct value v);
const struct value *pairs_find(struct run *r, const struct value_pairs *p, struct value key);
void                pairs_put(struct run *r, struct value_pairs *p, struct value key,
                              struct value v);
struct value        value_dict(struct run *r, enum value_kind kind);
