/* session.h: a run as a command holds it: its folder, its database, its options and model as they
 * were stored, and the run_config that follows from them. What is stored, under which key of
 * run.db: id                32 hex digits made at creation config.KEY        n_layer n_head n_embd
 * vocab n_positions norm_eps, since fine-tuning n_labels drop_embd drop_attn drop_resid
 *     config.labels     a classifier's labels by name: a JSON array of strings
 *     config.pad        the id that its folder pads with (pad_token_id), where it has one
 *     option.NAME       every row of train_opts, as text that opt_set takes
 *     given.NAME        what the run was made from, as it was asked for (recipe.h)
 *     data.path         the token file (absolute, or data.bin in RUN); data.sums its CRC32C per MiB
 * in hex; data.text what it was made from eval.path ...     the same of --eval-data layout the set
 * of devices that the run was moved to (offload/reshard.h); absent: those it was made with spares
 * 1: the devices have slots for --speculate, which the run was made with; absent: they have not
 *     reshard.remove    device files that are not the run's (offload/reshard.h)
 *     command created version host system cpu engine */
#ifndef CMD_RUN_SESSION_H
#define CMD_RUN_SESSION_H

#include "cmd/run/events.h"
#include "cmd/run/train_opts.h"
#include "data/text/tokens.h"
#include "model/gpt.h"
#include "model/hf.h"
#include "offload/run.h"
#include "offload/store.h"

enum { SESSION_PATH = 4096 };

struct session {
    char              dir[SESSION_PATH];
    char              id[33];
    char              layout[STORE_LAYOUT]; // as in struct run_config
    int               spares;       // as in struct run_config
    int               read_only;    // opened by session_open_reading or session_open_past
    int               past;         // by the latter, and it is not the last commit
    struct gpt_config gpt;
    struct train_opts o;            // as stored
    int               has_opts;
    struct runlog    *log;
    const struct events *events;    // borrowed; NULL: nobody is told
    size_t           *block_params; // (gpt_blocks)
    struct run_config run; // borrows from this; frames and grad_buffers are set by memory.c
};

/* Open RUN for writing (the lock is taken), load what is stored. Closed by
 * session_close also after a failure. Where run.db is damaged, the sentence says what is whole. */
int  session_open(struct session *s, const char *dir, const struct events *events, struct err *err);
void session_close(struct session *s);

/* The same for looking at a run that cannot be written to; a process that writes is kept away
 * where run.lock can be read. */
int  session_open_reading(struct session *s, const char *dir, const struct events *events,
                          struct err *err);

/* The same of a run whose log (run.db-wal) is damaged, as far as it is whole (runlog_open_past). */
int  session_open_past(struct session *s, const char *dir, const struct events *events,
                       struct err *err);

/* session_open where that is allowed and the disk is not full, else session_open_reading
 * (s->read_only): for commands that read, and write only what a kill left. */
int  session_open_either(struct session *s, const char *dir, const struct events *events,
                         struct err *err);

/* Does rc say that nothing can be written there: read-only, another user's, full? */
int  session_cannot_write(int rc);

/* Derive s->block_params and s->run from s->gpt, s->o, s->id, s->dir and s->log. Used by
 * session_open, and by who makes a run. */
int  session_config(struct session *s, struct err *err);

/* A value of the database, malloced; NULL if there is none. */
char *session_get(const struct session *s, const char *key);
int   session_set(struct session *s, const char *key, const char *value, struct err *err);
/* Told, and kept in the database. */
int   session_notice(struct session *s, const char *text, struct err *err);

/* Options that were given on cmd's line (whose train_opts part is *o) over the stored ones: those
 * that may change replace them and are stored; another one that differs is refused by name.
 * `first`: the run has not been trained yet, so that only what its layout depends on is fixed. */
int session_overlay(struct session *s, const struct opt_command *cmd, const struct opt_given *given,
                    const void *opts, int first, struct err *err);
int session_store_options(struct session *s, struct err *err);

/* Other devices, in the caller's transaction: s->o.device (absolute paths; none: folders in RUN),
 * s->o.devices, s->o.csd_mem, s->layout. */
int session_store_devices(struct session *s, struct err *err);
int session_store_config(struct session *s, struct err *err);
int session_load_config(struct session *s, struct err *err);

/* A classifier's labels by name, as many as s->gpt.n_labels. Reading gives n 0 where none are
 * stored: a language model, or labels without names; what it gives is the caller's to
 * hf_labels_free. */
int session_store_labels(struct session *s, const struct hf_labels *labels, struct err *err);
int session_labels(struct session *s, struct hf_labels *out, struct err *err);

/* Write where the tokens of "data" or "eval" are and their checksums; open them and expect those.
 * *out NULL if none was stored. */
int session_store_tokens(struct session *s, const char *what, const char *path, struct err *err);
/* The same tokens are at another path now: that is stored. -ENOENT, without a sentence,
 * if they are not the same. */
int session_found_tokens(struct session *s, const char *what, const char *path, struct err *err);
int session_open_tokens(struct session *s, const char *what, struct tokens **out, struct err *err);

/* Finish the step of the last commit, so that the parameters can be read. Refused where
 * the run may not be written. */
int session_recover(struct session *s, struct err *err);

/* The threads to compute with: `asked`, or as many as this process may run on. */
uint64_t session_threads(uint64_t asked);

/* RUN/run.db there? */
int session_is_run(const char *dir);

#endif
