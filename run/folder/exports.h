/* exports.h: records a run's exports and checks whether they are intact. If the run is damaged, a
 * user can continue from an intact export. There are two kinds: the folder of the last `siTrain
 * export`, and RUN/best (best.h). */
#pragma once

#include "data/db/runlog.h"
#include "offload/upkeep/scrub.h"
#include "run/folder/events.h"

enum { EXPORTS_EXPORT, EXPORTS_BEST, EXPORTS_KINDS };
enum export_state { EXPORTS_INTACT, EXPORTS_GONE, EXPORTS_OTHER, EXPORTS_DAMAGED, EXPORTS_DENIED };

struct exported {
    char              path[4096 + 16];
    uint64_t          step, bytes;
    uint32_t          sum; // of its files, as they are
    enum export_state state;
    struct err        why; // the reason for DAMAGED or DENIED
};

/* Record that the folder `to` holds the parameters after `step` steps. */
int exports_record(struct runlog *log, const char *to, uint64_t step, struct err *err);

/* Check export `which` by reading all of it. 0 if the run never exported that kind, otherwise 1. If
 * a stop was requested, e->why.stopped is set. */
int         exports_look(struct exported *e, struct runlog *log, const char *dir, int which,
                         const struct events *events);
const char *exports_state_text(enum export_state state); // suffix for a name: "", ": damaged", ...

/* Append to *err, a sentence about damage, the newest intact export, or that there is none. log
 * NULL: run.db is not readable. */
void exports_say(struct runlog *log, const char *dir, const struct events *events,
                 struct err *err);

/* Read dir/best, which `log` describes, and compare it with its checksums. A model that is replaced
 * meanwhile is read again. 1: *out says what was found. 0: there is no best model. -EINTR: the
 * scrub's watch ends it. */
int scrub_best(struct exported *out, struct scrub *s, struct runlog *log, const char *dir,
               struct err *err);
