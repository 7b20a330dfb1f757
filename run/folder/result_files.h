/* result_files.h: the files that a fine-tuning writes into RUN at its end. An existing file is
 * replaced only if siTrain wrote it. To know that, run.db stores the new file's checksum, and the
 * previous file's, under result.NAME before the file gets its name. After a kill the file has one
 * of the two. */
#pragma once

#include "data/base/err.h"
#include "data/db/runlog.h"

struct result_files {
    const char    *dir;   // RUN
    struct runlog *log;   // its run.db, open for writing
    int            known; // write nothing; record a file with equal content as siTrain's
    struct err     first; // about the first file that was refused; text "": none
};

/* Write dir/name. ctx: a struct result_files. A file that siTrain did not write stays and is
 * recorded in `first`. The result is then 0, so that the other files are written; result_files_end
 * returns the error. */
int result_files_put(void *ctx, const char *name, const char *text, size_t n, struct err *err);
/* Record dir/name as siTrain's if it is a table of `rows` rows below `head`. For runs of an older
 * version, which stored no checksums. */
int result_files_know(struct result_files *f, const char *name, const char *head, uint64_t rows,
                      struct err *err);
/* Record in `first` if result_files_put would refuse to replace dir/name. */
void result_files_check(struct result_files *f, const char *name);
/* Empty dir/name if siTrain wrote it. Unlike a removal this keeps the file's mode, owner and access
 * lists for the content to come. */
int  result_files_blank(struct result_files *f, const char *name, struct err *err);
int  result_files_end(const struct result_files *f, struct err *err); // 0 or -EEXIST

/* Files in RUN that have names of a run's data or results. OURS: this run wrote it. UNKNOWN: its
 * run.db has no checksum of it. OTHERS: it is another run's, or was changed. UNREAD: this user may
 * not read it. */
enum result_state { RESULT_OURS, RESULT_UNKNOWN, RESULT_OTHERS, RESULT_UNREAD };
/* Tell of each result in RUN, and of each file of tokens or rows that this run does not have, in
 * the order of their names. */
int result_files_each(const char *dir, struct runlog *log,
                      void (*tell)(void *ctx, const char *name, uint64_t bytes,
                                   enum result_state state), void *ctx, struct err *err);
