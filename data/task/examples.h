/* examples.h: labelled examples, tokenised, in one file that is read in place: what fine-tuning
 * trains and evaluates on. Made once when a run is made; a batch reads the rows it wants with
 * pread, so memory does not grow with the data, neither here nor when the file is made.
 *
 * The file, little-endian: a header (magic, version, counts, bounds, CRC), the ids of all rows
 * (int32), a record of each row (offset, length, label, value, CRC32C of row number, record
 * and ids). Every record and its ids are checked when they are read; a damaged one is an error
 * that names file and row. An id of the second type (of a second text, where the model has types)
 * stands as its complement, ~id, below 0; a file with one is of version 2, else of version 1. */
#pragma once

#include "data/base/append.h"

/* What belongs to one row besides its ids: the class (classification), or the value
 * (regression). No label: label -1. */
struct example { int32_t label; float value; };

/* On disk, as the processor holds it: little-endian. No row holds a larger id, nor a larger label
 * (-1: no row has one): to be compared with the vocabulary and the number of classes, once. */
struct examples_header {
    char     magic[8];
    uint32_t version;
    uint32_t longest;   // ids of the longest row
    uint64_t rows, ids; // of the file; at least 1
    int32_t  max_id, max_label;
    uint32_t sum;       // CRC32C of all records, one after the other
    uint32_t crc;       // of the header up to here, so of everything: for run.db
};

/* Reading; one may be read by several threads. */
struct examples { int fd; char *path; struct examples_header h; };
/* The header must fit the file's size. */
int  examples_open(struct examples **out, const char *path, struct err *err);
void examples_close(struct examples *e); // NULL is fine

/* An id as it stands in a file: of which type, and which. */
static inline int     examples_type(int32_t id) { return id < 0; }
static inline int32_t examples_id(int32_t id) { return id < 0 ? ~id : id; }

/* Row i < count: its ids, as they stand there, into ids[0..*n), n from 1 to `most`; of a longer row
 * -EOVERFLOW. */
int examples_read(const struct examples *e, uint64_t i, int32_t *ids, size_t most, size_t *n,
                  struct example *out, struct err *err);

/* Writing: the file to be, what goes to its end, its header; commit gives the file its name. */
struct examples_new { struct append ids, records; struct examples_header h; };
int  examples_new_open(struct examples_new *w, const char *path, struct err *err);
/* No ids: refused. */
int  examples_new_add(struct examples_new *w, const int32_t *ids, size_t n, const struct example *x,
                      struct err *err);
/* Durable under its name; no rows: refused; w is released, also on failure. */
int  examples_new_commit(struct examples_new *w, struct err *err);
void examples_new_abort(struct examples_new *w); // nothing is left; the zero state is fine
