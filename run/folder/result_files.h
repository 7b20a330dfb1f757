/* result_files.h: files in RUN that a fine-tuning writes at its end. One that is there is replaced
 * only if it is the one that siTrain wrote: run.db has its checksum, under result.NAME, before it
 * gets its name, and next to it that of the file before, which a kill may leave. */
#pragma once

#include "data/base/err.h"
#include "data/db/runlog.h"

struct result_files {
    const char    *dir;   // RUN
    struct runlog *log;   // its run.db, open for writing
    int            known; // nothing is written: a file that says the same is known from here on
    struct err     first; // the sentence of the first file that was refused; "": none was
};

/* Write dir/name; ctx: a struct result_files. What somebody else has put there stays, and is
 * refused: 0 all the same, so that the other files are written; result_files_end says it. */
int result_files_put(void *ctx, const char *name, const char *text, size_t n, struct err *err);
/* Is there a table of so many rows below this head? Then it is known: of an older version, which
 * noted no sums. */
int result_files_know(struct result_files *f, const char *name, const char *head, uint64_t rows,
                      struct err *err);
/* Is there something that would be refused? Then it is, as above. */
void result_files_check(struct result_files *f, const char *name);
/* Remove dir/name, if it is what siTrain wrote. */
void result_files_remove(struct result_files *f, const char *name);
int  result_files_end(const struct result_files *f, struct err *err); // 0 or -EEXIST
