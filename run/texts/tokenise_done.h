/* tokenise_done.h: says of what a complete token file of a run was made, while the run is being
 * made. A token file's own bytes do not depend on that. So an unfinished token file of the same
 * name stands next to it, which has no ids: only a state, with a hash of all that decides on the
 * ids. It is removed as any file under way is. */
#pragma once

#include "data/base/err.h"

enum { TOKENISE_SIDES = 2 };

struct tokenise_done {
    uint64_t key;                   // of what was read, and how
    uint64_t vocab;                 // of the tokenizer
    uint64_t count[TOKENISE_SIDES]; // tokens in each file
    uint32_t ids[TOKENISE_SIDES];   // CRC32C of these, as they are stored
    uint32_t sum;                   // CRC32C of the texts
};

/* Call it when all ids are flushed, before the files get their names. `first` of them. Without a
 * key (0) nobody goes on with them, but the next process knows that they may be replaced. */
int tokenise_done_put(const struct tokenise_done *d, const char *first, struct err *err);

/* Look for complete files that were made so, d->key (0: nobody goes on with any); of a split, two,
 * or NULL. They get their names if a kill came before that. Returns 1, and what is known of them;
 * or 0. Files of which another dead process says that they were made of something else are removed,
 * and *other is set. */
int tokenise_done_find(struct tokenise_done *d, const char *const files[TOKENISE_SIDES],
                       int *other, struct err *err);

/* Returns 1 if an ended process says that it made `path`, the file of this side; 0, or -errno. */
int tokenise_done_says(const char *path, const char *first, int side, struct err *err);

/* Removes what ended processes, or this one, said of `first`. The token files stay. */
void tokenise_done_forget(const char *first);
