/* calls.h: what templates call by name: filters, tests, functions, methods. Each does what jinja2
 * 3.1 and Python do, and what transformers adds. Private to data/jinja. */
#pragma once

#include "data/jinja/value.h"

/* The arguments of a call: those without a name, then those with one. */
struct arguments {
    const struct value *item;
    size_t              n;
    const char *const  *name;   // (n_named)
    const struct value *named;  // (n_named)
    size_t              n_named;
};

/* Argument `at`, or the one of this name; NULL where neither is given. The same as a str, or
 * `missing` (NULL: it must be given), and as an int. */
const struct value *argument(const struct arguments *a, size_t at, const char *name);
struct value argument_string(struct run *r, const struct arguments *a, size_t at, const char *name,
                             const char *missing);
long long    argument_int(struct run *r, const struct arguments *a, size_t at, const char *name,
                          long long missing);

/* Indices into the tables; -1: there is none of this name. */
int filter_find(const char *name);
int test_find(const char *name);
int function_find(const char *name);

struct value filter_call(struct run *r, int filter, struct value of, const struct arguments *a);
int          test_call(struct run *r, int test, struct value of, const struct arguments *a);
struct value function_call(struct run *r, int function, const struct arguments *a);
/* A method of a str, dict or loop; what it has not fails. */
int          method_has(struct value of, const char *name);
struct value method_call(struct run *r, struct value of, const char *name,
                         const struct arguments *a);

/* The items, keys or values of a dict, as a list. */
enum pairs_part { PAIRS_ITEMS, PAIRS_KEYS, PAIRS_VALUES };
struct value pairs_list(struct run *r, const struct value_pairs *p, enum pairs_part part);

/* of.name and of[key], without methods: undefined where there is none. */
struct value value_item(struct run *r, struct value of, struct value key);
