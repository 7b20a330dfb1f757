/* examples.h: labelled examples, tokenised, in one file that is read in place: what fine-tuning trains and evaluates on. Made
 * once when a run is made; a batch reads the rows it wants with pread, so memory does not grow with the data.
 *
 * The file: a header (magic, version, rows, longest, kind, CRC), the rows' records (offset, length, label, CRC32C of record and
 * ids), the ids (int32). Every record and its ids are checked when they are read; a damaged one is an error that names file and row. */
#ifndef DATA_EXAMPLES_H
#define DATA_EXAMPLES_H

#include "data/err.h"

#include <stddef.h>
#include <stdint.h>

/* What belongs to one row besides its ids: the class (classification), or the value (regression). No label: label -1. */
struct example { int32_t label; float value; };

struct examples; // opaque, reading
int      examples_open(struct examples **out, const char *path, struct err *err);
void     examples_close(struct examples *e); // NULL is fine
uint64_t examples_count(const struct examples *e);
size_t   examples_longest(const struct examples *e); // ids of the longest row
uint32_t examples_sum(const struct examples *e);     // CRC32C over the header and all records, so over everything: for run.db
const char *examples_path(const struct examples *e);

/* Row i: its ids into ids[0..*n), n at most `most` (longer: -EOVERFLOW with a sentence). */
int examples_read(const struct examples *e, uint64_t i, int32_t *ids, size_t most, size_t *n, struct example *out, struct err *err);

struct examples_new; // opaque, writing: a file of an unpredictable temporary name, renamed by commit
int  examples_new_open(struct examples_new **out, const char *path, struct err *err);
int  examples_new_add(struct examples_new *w, const int32_t *ids, size_t n, const struct example *x, struct err *err);
int  examples_new_commit(struct examples_new *w, struct err *err); // durable under its name; w is freed, also on failure
void examples_new_abort(struct examples_new *w);                   // nothing is left; NULL is fine

#endif
