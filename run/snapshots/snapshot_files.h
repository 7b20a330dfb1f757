/* snapshot_files.h: the list of a snapshot's files (snapshot.files and snapshot.times in its
 * run.db), and its files that are copied whole. Each file is noted before it is made. */
#pragma once

#include "data/base/err.h"

#include <stdio.h>

struct snapshot_files {
    const char *dir;   // the snapshot's folder
    FILE       *list;  // names of its files, one per line
    char       *names;
    size_t      size;
};

int  snapshot_files_begin(struct snapshot_files *f, const char *dir, struct err *err);
void snapshot_files_end(struct snapshot_files *f); // accepts the zero state

int  snapshot_files_note(void *files, const char *name, struct err *err);
/* Copy those files of folder/sub whose names `takes` wants to dir/sub. Links are not copied. 0 also
 * if there is no such folder. */
int  snapshot_files_copy(struct snapshot_files *f, const char *folder, const char *sub,
                         int (*takes)(const char *name), struct err *err);
/* The list as snapshot.files has it, with sizes, or with `times` as snapshot.times has it;
 * malloced. NULL: a sentence says why. */
char *snapshot_files_text(struct snapshot_files *f, int times, struct err *err);

/* Call each(ctx, path, bytes) for each file in a list of the folder `dir`, as snapshot.files has
 * it, until it returns other than 0, which is returned. -EBADMSG: this is no such list. No sentence
 * is written of that, nor of -ENOMEM. */
int snapshot_files_each(const char *dir, const char *files,
                        int (*each)(void *ctx, const char *path, uint64_t bytes), void *ctx);

/* Whether the file is there, with this size; adds what it takes on the drive to *held. Where this
 * user may not look, it counts as there: who reads it says why that fails. */
int snapshot_files_is_there(const char *path, uint64_t bytes, uint64_t *held);

/* True if a name of the list is one that siTrain gives: NAME or SUB/NAME. Of a longer path a folder
 * might be a link that leads elsewhere. */
int snapshot_files_is_plain(const char *name);
