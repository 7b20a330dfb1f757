/* calls.h: the filters, tests, functions and methods of templates. Each does what jinja2 3.1 and
 * Python do, with the additions of transformers. Private to chat/jinja. */
#pragma once

#include "chat/jinja/value.h"

struct filter;
struct test;

/* The arguments of a call: those without a name, then those with one. */
struct arguments {
    const struct value *item;
    size_t              n;
    const char *const  *name;   // (n_named)
    const struct value *named;  // (n_named)
    size_t              n_named;
};

/* Return argument `at`, or the argument of this name. argument returns NULL if there is none. The
 * other two return `missing`; a string whose `missing` is NULL must be given. */
const struct value *argument(const struct arguments *a, size_t at, const char *name);
struct value argument_string(struct run *r, const struct arguments *a, size_t at, const char *name,
                             const char *missing);
long long    argument_int(struct run *r, const struct arguments *a, size_t at, const char *name,
                          long long missing);

/* Return a row of the table, or NULL if it has no such name. */
const struct filter   *filter_find(const char *name);
const struct test     *test_find(const char *name);
const struct function *function_find(const char *name);

struct value filter_call(struct run *r, const struct filter *filter, struct value of,
                         const struct arguments *a);
int          test_call(struct run *r, const struct test *test, struct value of,
                       const struct arguments *a);
struct value function_call(struct run *r, const struct function *function,
                           const struct arguments *a);
/* Whether a value has a method of this name, here or only in Python (then calling it fails). */
int          method_has(struct value of, const char *name);
struct value method_call(struct run *r, struct value of, const char *name,
                         const struct arguments *a);

/* Returns the items, keys or values of a dict as a list. */
enum pairs_part { PAIRS_ITEMS, PAIRS_KEYS, PAIRS_VALUES };
struct value pairs_list(struct run *r, const struct value_pairs *p, enum pairs_part part);

/* Returns of.name or of[key], without methods, or an undefined value. */
struct value value_item(struct run *r, struct value of, struct value key);
