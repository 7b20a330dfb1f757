/* examples.h: tokenized examples in one file, labelled or marked: the data of fine-tuning and
 * evaluation.
 * The file is made once, with the run. A batch reads its rows with pread. So memory does not
 * grow with the data, even while the file is made.
 *
 * The file is little-endian. It has a header (magic, version, counts, bounds, CRC), then the ids
 * of all rows (int32), then a record for each row. A record holds offset, length, label, value,
 * and the CRC32C of row number, record and ids. Each row is checked when it is read. A damaged
 * row is an error that names file and row.
 *
 * If the model has token types, an id of the second type (of a second text) is stored as its
 * complement ~id, below 0. A file with such an id has version 2, any other file version 1.
 *
 * A language model's examples have a mark for each id instead: an id that does not count in the
 * loss is stored as its complement. Such a file has version 3. */
#pragma once

#include "data/file/append.h"

/* What a row holds in addition to its ids: the class (classification) or the value (regression).
 * Without a label, `label` is -1. */
struct example { int32_t label; float value; };

/* The header on disk, little-endian. max_id and max_label are upper bounds of all rows
 * (max_label -1: no row has a label). The reader compares them once with the vocabulary and the
 * number of classes. */
struct examples_header {
    char     magic[8];
    uint32_t version;
    uint32_t longest;   // number of ids of the longest row
    uint64_t rows, ids; // in the file; at least 1
    int32_t  max_id, max_label;
    uint32_t sum;       // CRC32C of all records in order
    uint32_t crc;       // CRC32C of the header up to here, which covers the whole file; stored in
                        // run.db
};

/* An open file. Several threads may read from one. */
struct examples { int fd; char *path; struct examples_header h; };
/* Opens the file and checks its header against its size. Caller closes *out. */
int  examples_open(struct examples **out, const char *path, struct err *err);
void examples_close(struct examples *e); // accepts NULL

/* The type (0 or 1) and the id of a stored id; in a file of marks, whether it counts. */
static inline int     examples_type(int32_t id) { return id < 0; }
static inline int     examples_counts(int32_t id) { return id >= 0; }
static inline int32_t examples_id(int32_t id) { return id < 0 ? ~id : id; }

/* True if the file has marks instead of types. */
int examples_marked(const struct examples *e);

/* Reads the numbers of ids of all rows, and checks them against the header. n has room for
 * h.rows. */
int examples_lengths(const struct examples *e, uint32_t *n, struct err *err);

/* Reads row i < h.rows. Its stored ids go into ids[0..*n), with 1 <= *n <= most. A longer row is
 * -EOVERFLOW. */
int examples_read(const struct examples *e, uint64_t i, int32_t *ids, size_t most, size_t *n,
                  struct example *out, struct err *err);

/* A file being written: the ids, the records that follow them, and the header. commit gives the
 * file its name. */
struct examples_new { struct append ids, records; struct examples_header h; };
int  examples_new_open(struct examples_new *w, const char *path, struct err *err);
void examples_new_marks(struct examples_new *w); // its rows will have marks; before the first
/* Adds a row. A row without ids is refused. */
int  examples_new_add(struct examples_new *w, const int32_t *ids, size_t n, const struct example *x,
                      struct err *err);
/* Flushes the file and gives it its name. A file without rows is refused. Releases w, also on
 * failure. */
int  examples_new_commit(struct examples_new *w, struct err *err);
void examples_new_abort(struct examples_new *w); // removes the file; accepts the zero state
