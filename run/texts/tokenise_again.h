/* tokenise_again.h: the files that tokenise_files makes, and how another process goes on with them.
 * Shared by tokenise_files.c and tokenise_again.c. Calls return 0 or -errno, unless they say
 * otherwise. */
#pragma once

#include "data/text/tokens_writer.h"
#include "run/texts/text_files.h"
#include "run/texts/tokenise.h"
#include "run/texts/tokenise_done.h"

enum { SIDES = TOKENISE_SIDES };

/* What is saved: from where to go on. All ids before that place are in the files. */
struct state {
    uint64_t          key, pair; // of what is read, and how; of the two files
    uint64_t          count[SIDES], documents[SIDES];
    uint32_t          ids[SIDES]; // checksums of the tokens
    struct text_place place;
};
_Static_assert(sizeof(struct state) <= TOKENS_STATE, "a state fits into a token file's header");

struct tokenise {
    const struct events   *events;
    struct tokenise_files *of;
    struct text_files     *files;
    int                    sides;
    struct tokens_writer   out[SIDES];
    uint64_t               documents[SIDES];
    struct state           state;    // of the last block whose end is a place to go on from
    int                    further;  // this process has come further than the place it began at
    int                    late;     // and ends, so that another process goes on
    uint64_t               saved_ns; // when the files were saved last
    uint64_t               save_ns;  // how long that took
    uint64_t               block_ns; // how long the last block took
    int                    other;    // an unfinished file is there, of something else
};

/* Sets the key of the state, a hash of all that decides on the ids. */
int again_key(struct tokenise *t, struct err *err);

/* True if the files are saved, so that another process can go on with them. */
int again_saves(const struct tokenise *t);

/* Makes all that is written durable, with the state. */
int again_save(struct tokenise *t, struct err *err);

/* Where the unfinished files stand, for sentences. */
const char *again_place(const struct tokenise *t);

/* After Ctrl-C, or when the time is up: what is there stays for the next time. Returns rc; or
 * err_time's or err_stopped's if the same command goes on; or -errno: it could not be saved. */
int again_leave(struct tokenise *t, int rc, struct err *err);

/* Sets t->late if the next block, and a save behind it, would not end in time. Each process comes
 * further before it ends. */
int again_time(struct tokenise *t, struct err *err);

/* Opens the files that an earlier process left, at the place that it saved last. Returns 1, or 0 if
 * there is nothing. */
int again_find(struct tokenise *t, const char *const *paths, struct err *err);
