/* session.h: a run as a command holds it: its folder, its database, its options and model as they
 * were stored (settings.h), and the run_config that follows from them. */
#pragma once

#include "model/arch.h"
#include "offload/layout/store.h"
#include "offload/run.h"
#include "run/folder/events.h"
#include "run/folder/moved.h"
#include "run/folder/train_opts.h"

enum { SESSION_PATH = 4096 };

struct session {
    char              dir[SESSION_PATH];
    char              id[33];
    char              layout[STORE_LAYOUT]; // as in struct run_config
    char              owner[STORE_LAYOUT], owner_next[STORE_LAYOUT];
    enum run_spares   spares;       // as in struct run_config
    int               read_only;    // opened by READ, PAST, or EITHER
    enum moved        moved;        // of one that is opened for writing
    int               past;         // by PAST, and it is not the last commit
    struct model_config config;
    struct train_opts o;            // as stored
    int               has_opts;
    struct runlog    *log;
    const struct events *events;    // borrowed; NULL: nobody is told
    struct run_ranks  ranks;        // which of how many this folder is; comm: while it trains
    struct session   *others;       // (ranks.size - 1) the other ranks' folders, where they are
                                    // read together (ranked_see); closed with this one
    size_t           *block_params; // (arch_blocks) of the model; as many behind them, of this
                                    // rank's portions, where there are others
    struct run_config run; // borrows from this; frames and grad_buffers are set by memory.c
};

/* How a run is opened. WRITE takes its lock, and removes what a killed process left. NAMED is WRITE
 * by a user who names the run's devices: session_overlay looks at them. READ is for
 * one that cannot be written to; a process that writes is kept away where run.lock can be read.
 * EITHER is WRITE where that is allowed and the disk is not full, else READ: for commands that
 * read, and write only what a kill left. PAST is for one whose log (run.db-wal) is damaged, as far
 * as it is whole (runlog_open_past). */
enum session_how { SESSION_WRITE, SESSION_NAMED, SESSION_READ, SESSION_EITHER, SESSION_PAST };

/* Open RUN and load what is stored. Closed by session_close also after a failure. Where something
 * is damaged, the sentence says what is whole (but for PAST). events: told until it is closed;
 * NULL: nobody is. */
int  session_open(struct session *s, const char *dir, enum session_how how,
                  const struct events *events, struct err *err);
void session_close(struct session *s);

/* If rc says that something stored is damaged (-EBADMSG), add to the sentence what helps. Returns
 * rc. The second: of a run that is not open, since its log or run.db itself is damaged. */
int session_explain(struct session *s, int rc, struct err *err);
int session_explain_closed(const char *dir, int rc, const struct events *events, struct err *err);

/* "siTrain pretrain --resume RUN": what goes on with it, to be typed as it is. Returns out. */
enum { SESSION_LINE = SESSION_PATH + 64 };
const char *session_resume_line(char out[SESSION_LINE], const struct session *s);

/* Does rc say that nothing can be written there: read-only, another user's, full, or maybe another
 * run's devices (moved_check)? */
int  session_cannot_write(int rc);

/* Model, options and what follows from them, by the database s->log alone. */
int  session_load(struct session *s, struct err *err);

/* Derive s->block_params and s->run from s->config, s->o, s->id, s->dir and s->log. Used by
 * session_open, and by who makes a run. */
int  session_config(struct session *s, struct err *err);

/* A classifier's labels by name, as they are stored (config.labels), for a model of as many. n is 0
 * where none are: a language model's, or labels without names. Freed by hf_labels_free. */
struct hf_labels;
int session_store_labels(struct session *s, const struct hf_labels *labels, struct err *err);
int session_labels(struct hf_labels *out, const struct session *s, struct err *err);

/* What the folder that the run was made from says of texts that are generated (config.generation,
 * hf.h), the caller's; NULL: there was none. */
int session_generation(json_t **out, const struct session *s, struct err *err);
/* The pad_token_id of the folder that it came from; where there was none, a classifier's is
 * `endoftext` and a language model's -1. */
long session_pad(const struct session *s, long endoftext);

/* Keep what the run's tokenizer is (tokenizer_sum), and refuse another one in its place. A run of
 * an older siTrain does not know. */
struct tokenizer;
int session_keep_tokenizer(struct session *s, const struct tokenizer *t, struct err *err);
int session_same_tokenizer(const struct session *s, const struct tokenizer *t, struct err *err);

/* Told, and kept in the database. */
int session_notice(struct session *s, const char *text, struct err *err);

/* Options that were given on the line over the stored ones: those that may change (enum opt_kept)
 * replace them; another one that differs is refused by name.
 * `first`: the run has not been trained yet, so that only what its layout depends on is fixed. */
int session_overlay(struct session *s, const struct opt_line *line, int first, struct err *err);

/* All of s->o; or with `places`, in the caller's transaction, what says where the devices are:
 * s->o.device (absolute paths; none: folders in RUN), s->o.devices, s->o.csd_mem, s->layout. */
int session_store_options(struct session *s, int places, struct err *err);
/* The model: s->config from the database and into it, and a checksum of what is stored. */
int session_load_config(struct session *s, struct err *err);
int session_store_config(struct session *s, struct err *err);
uint32_t session_config_sum(const struct session *s);

/* Finish the step of the last commit, so that the parameters can be read. Refused where
 * the run may not be written. */
int session_recover(struct session *s, struct err *err);

/* RUN/run.db there? */
int session_is_run(const char *dir);

