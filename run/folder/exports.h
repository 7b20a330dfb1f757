/* exports.h: what a run exported, and whether it is still whole: where to go on from when the run
 * itself is damaged. That is the folder of the last `siTrain export`, and RUN/best (best.h). A run
 * is known here by its database and its folder. */
#pragma once

#include "data/db/runlog.h"
#include "run/folder/events.h"

enum { EXPORTS_EXPORT, EXPORTS_BEST, EXPORTS_KINDS };
enum export_state { EXPORTS_INTACT, EXPORTS_GONE, EXPORTS_OTHER, EXPORTS_DAMAGED, EXPORTS_DENIED };

struct exported {
    char              path[4096 + 16];
    uint64_t          step, bytes;
    enum export_state state;
    struct err        why; // of the damage, or of what may not be read
};

/* Record that `to` holds the parameters after `step` steps. */
int exports_record(struct runlog *log, const char *to, uint64_t step, struct err *err);

/* Read all of export `which`; 0 if there never was one. Where the end was asked for, e->why is
 * stopped. */
int         exports_look(struct exported *e, struct runlog *log, const char *dir, int which,
                         const struct events *events);
const char *exports_state_text(enum export_state state); // behind a name: "", ": damaged", ...

/* Add to a sentence about damaged states what is whole: the newest export that is, or that there is
 * none. log NULL: run.db says nothing any more. */
void exports_say(struct runlog *log, const char *dir, const struct events *events,
                 struct err *err);
