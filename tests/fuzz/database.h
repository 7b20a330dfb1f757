/* database.h: a hostile run.db from a valid one: what an input may do to it. An input is a list of
 * changes, each a byte that says which: bytes overwritten at a place, the file cut or lengthened,
 * or SQL text (up to the next mark) that a stranger runs on it. The functions sum_of(n, ...),
 * sum_of_text(key, value) and sum_of_state(next_step, applied, optim) are there for rows whose
 * checksums are right. */
#pragma once

#include "tests/fuzz/fuzz.h"

struct database { uint8_t *p; size_t n; };

/* Write `of`, changed, as the file `name`, without a WAL beside it. */
void database_change(const char *name, const struct database *of, struct fuzz_in *in);

/* Seeds. */
void database_seed_sql(const char *sql);
void database_seed_bytes(size_t at, const void *bytes, size_t n); // at: modulo the file's size
void database_seed_size(size_t n);
