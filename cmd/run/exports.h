/* exports.h: what a run exported, and whether it is still whole: where to go on from when the run
 * itself is damaged. Of run.db: export.path export.step export.sum    the last `siTrain export`:
 * the folder (absolute), the last step in it (from 1; 0: none), and safetensors_sum, by which the
 * folder is known to hold that still best.step ...                         --keep-best: RUN/best
 * (best.h) */
#ifndef CMD_RUN_EXPORTS_H
#define CMD_RUN_EXPORTS_H

#include "cmd/run/session.h"

enum { EXPORTS_EXPORT, EXPORTS_BEST, EXPORTS_KINDS };
enum export_state { EXPORTS_INTACT, EXPORTS_GONE, EXPORTS_OTHER, EXPORTS_DAMAGED };

struct exported {
    char             path[SESSION_PATH + 16];
    uint64_t         step, bytes;
    enum export_state state;
    struct err       why; // of the damage
};

/* Record that dir holds the parameters after `step` steps. */
int exports_record(struct session *s, const char *dir, uint64_t step, struct err *err);

/* Read all of export `which`; 0 if there never was one. Where a person has asked for the end,
 * w->why is stopped. */
int         exports_look(struct exported *w, struct session *s, int which);
const char *exports_state_text(enum export_state state); // to follow a description: "", ", gone",
                                                         // ...

/* Add to a sentence about damaged states what is whole: the newest export that is, or that there is
 * none. */
void exports_say(struct session *s, struct err *err);

/* If rc says that something stored is damaged (-EBADMSG), add to the sentence what helps. Returns
 * rc. */
int exports_explain(struct session *s, int rc, struct err *err);

/* The same of a run that could not even be opened: its log (run.db-wal) is damaged, or run.db
 * itself. */
int exports_explain_open(const char *dir, int rc, const struct events *events, struct err *err);

#endif
