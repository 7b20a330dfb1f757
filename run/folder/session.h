/* session.h: an open run: its folder, its database, its stored options and model (settings.h), and
 * the run_config derived from them. */
#pragma once

#include "model/arch/arch.h"
#include "model/layer/pairs.h"
#include "offload/layout/store.h"
#include "offload/run.h"
#include "run/folder/events.h"
#include "run/folder/moved.h"
#include "run/folder/train_opts.h"

enum { SESSION_PATH = 4096 };

/* The rows that a language model is trained on: whole ones of a token file; or, of conversations,
 * one example in each, padded; or several in each; or, of preferences, one answer in each, padded,
 * of which two are a pair. (A classifier's are padded in any case.) */
enum session_rows { SESSION_WHOLE, SESSION_PADDED, SESSION_PACKED, SESSION_PAIRS };

struct session {
    char              dir[SESSION_PATH];
    char              id[33];
    char              layout[SUPERBLOCK_WORD]; // as in struct run_config
    char              owner[SUPERBLOCK_WORD], owner_next[SUPERBLOCK_WORD];
    enum run_spares   spares;       // as in struct run_config
    int               read_only;    // opened by READ, PAST or LIVE, or by EITHER as READ
    enum moved        moved;        // set if opened for writing
    int               renames;      // a resume names its devices anew (session_overlay)
    int               past;         // opened by PAST, before the last commit
    struct model_config config;
    enum session_rows rows;
    struct pairs_options pairs;     // of SESSION_PAIRS
    struct train_opts o;            // as stored
    int               has_opts;
    struct runlog    *log;
    const struct events *events;    // borrowed; may be NULL
    struct run_ranks  ranks;        // this folder's rank; comm: set during training
    struct session   *others;       // (ranks.size - 1) the other ranks' folders, if one
                                    // process reads all (job_run_see); closed with this one
    size_t           *block_params; // (5 * arch_blocks) parameters of each block, then
                                    // those of this rank's portions; then those
                                    // of each block in memory (run_config.unpacked);
                                    // then what run_config says of a base in place
    char              data_dir[SESSION_PATH]; // of a snapshot: RUN, which has the data; else ""
    size_t            kept_by;      // 1 + the rank in whose folder parts of this rank's snapshots
                                    // are looked for (run/ranks/rank_parts.h); 0: its own
    int               linked;       // of a rank's folder that is trained: its name is a link
    int               held, holds;  // of a snapshot: its open folder, locked so that nobody removes
                                    // it meanwhile; and whether it is
    struct hf_base   *base;         // the open base, if it is in place (base_folder.h)
    const char       *base_dir;     // where the user says that it is; borrowed; or NULL
    struct run_config run; // borrows from this struct; memory.c sets frames and grad_buffers
};

/* How to open a run. WRITE locks it and removes leftovers of killed processes. NAMED is WRITE when
 * the user names the run's devices (session_take_devices checks them). READ is for a run that
 * cannot be written; if run.lock is readable, a lock keeps writers out. EITHER tries WRITE, then
 * READ if writing is not possible (session_cannot_write). PAST opens a run with a damaged log
 * (run.db-wal) at its last intact commit (runlog_open_past). LIVE reads the settings of a run that
 * another process trains; its states cannot be read. BACK is WRITE, for going_back.h: only it opens
 * a run that was killed on its way back to a snapshot. RESTORE is BACK and NAMED: for lost.h. LOOK
 * is LIVE, of such a run, too. */
enum session_how { SESSION_RESTORE, SESSION_BACK, SESSION_WRITE, SESSION_NAMED, SESSION_READ,
                   SESSION_EITHER, SESSION_PAST, SESSION_LIVE, SESSION_LOOK };

/* Open RUN and load its settings. Must be closed by session_close, also after a failure. If
 * something is damaged, the sentence says what is intact (except with PAST). events: used until the
 * session is closed; may be NULL. */
int  session_open(struct session *s, const char *dir, enum session_how how,
                  const struct events *events, struct err *err);
void session_close(struct session *s);

/* If rc is -EBADMSG (damaged data), append advice to the sentence. Returns rc. The second function
 * is for a run whose run.db or log cannot be opened. */
int session_explain(struct session *s, int rc, struct err *err);
int session_explain_closed(const char *dir, int rc, const struct events *events, struct err *err);

/* The command line that resumes the run, such as "siTrain pretrain --resume RUN", and that of
 * another command, such as "restore", quoted for a shell. Of several ranks with mpirun, and with
 * rank 0's folder. Of a snapshot, RUN is the run that it was taken of. Returns out. */
enum { SESSION_LINE = RANKS_COMMAND };
const char *session_resume_line(char out[SESSION_LINE], const struct session *s);
const char *session_ranks_line(char out[SESSION_LINE], const struct session *s,
                               const char *command);

/* Of a run that is on its way back to the snapshot after so many steps, the command line that
 * finishes it, with the options that it was given: "siTrain pretrain --resume RUN --from STEP --lr
 * 0.001". Returns out. */
const char *session_back_line(char out[SESSION_LINE], const struct session *s, uint64_t step);

/* True if rc means that the run cannot be written: read-only, no permission, disk full, or its
 * devices may be another run's (moved_check). */
int  session_cannot_write(int rc);

/* Load model and options from s->log, and derive the rest. */
int  session_load(struct session *s, struct err *err);

/* Derive s->block_params and s->run from s->config, s->o, s->id, s->dir and s->log. session_open
 * calls it, and so does the maker of a run. */
int  session_config(struct session *s, struct err *err);

/* Store and load a classifier's class names (config.labels). n is 0 if none are stored, as for a
 * language model. Free by hf_labels_free. */
struct hf_labels;
int session_store_labels(struct session *s, const struct hf_labels *labels, struct err *err);
int session_labels(struct hf_labels *out, const struct session *s, struct err *err);

/* The generation_config.json of the folder that the run was created from (config.generation, hf.h).
 * The caller owns *out; NULL: there was none. */
int session_generation(json_t **out, const struct session *s, struct err *err);
/* The pad_token_id of the folder that the run was created from. If none is stored: `endoftext` for
 * a classifier, -1 for a language model. */
long session_pad(const struct session *s, long endoftext);

/* Store the checksum of the run's tokenizer, and of each of its files, and check them later:
 * -EBADMSG if the tokenizer was replaced or a file was changed. Runs of an older version have no
 * such checksums, and any tokenizer passes. */
struct tokenizer;
int session_keep_tokenizer(struct session *s, const struct tokenizer *t, struct err *err);
int session_keep_files(struct session *s, struct err *err);
int session_same_tokenizer(const struct session *s, const struct tokenizer *t, struct err *err);
/* What session_keep_tokenizer does, for the chat template in RUN/tokenizer. There may be none, or
 * one that siTrain does not know. */
int session_keep_template(struct session *s, struct err *err);
/* Check all of RUN/tokenizer, its files alone if it is of a class that siTrain does not know. t: it
 * is open already; NULL: it is there, and of such a class. Or check the files alone, which takes
 * less. */
int session_check_tokenizer(const struct session *s, struct err *err);
int session_check_opened(const struct session *s, const struct tokenizer *t, struct err *err);
int session_same_files(const struct session *s, struct err *err);

/* Send a notice, formatted as by printf, and store it in the database. */
int session_notice(struct session *s, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Apply the options given on the line to the stored ones. An option that may change (enum opt_kept)
 * changes s->o. Another one is misuse if its value differs. `first`: the run has not
 * been trained yet, so only options that define its layout are fixed. */
int session_overlay(struct session *s, const struct opt_line *line, int first, struct err *err);
/* After session_overlay, and before session_config: if --device names the devices anew, look
 * whether they are the run's, and take them (owner_take). All ranks call this, unless they fail,
 * and none takes its devices before all have looked. */
int session_take_devices(struct session *s, struct err *err);
/* For a command other than a resume, in its transaction: from now on the run counts as no copy and
 * as not renamed. If its TensorBoard folder is the original's, it has none any more, with a
 * notice. */
int session_settle(struct session *s, struct err *err);

/* Of a run that goes back to a snapshot, which is open: take from there the options that decide
 * what is computed, then apply those given on the line. They are misuse if a branch may not change
 * them (OPT_BRANCH). A new number of steps is left to the resume that follows. line NULL: the run
 * keeps its own options. *changed, malloced: what differs from the snapshot, one option a line:
 * "lr: 0.001 instead of 0.0003". Only s->o changes. */
int session_branch_options(char **changed, struct session *s, const struct session *snapshot,
                           const struct opt_line *line, struct err *err);
/* The options given on the line that a run keeps, as a command line: " --lr 0.001 --steps 9",
 * quoted for a shell, with absolute paths; malloced. NULL: out of memory. */
char *session_given_options(const struct opt_line *line);

/* Store all of s->o. With `places`, in the caller's transaction, store only the location of the
 * devices: s->o.device (absolute paths; none: folders in RUN), s->o.devices, s->o.csd_mem,
 * s->layout. session_load_options loads all of them. */
int session_store_options(struct session *s, int places, struct err *err);
int session_load_options(struct session *s, struct err *err);
/* Forget changes of s->o that were not stored. */
int session_reload_options(struct session *s, struct err *err);
/* Load and store s->config. session_config_sum is a checksum of what is stored. */
int session_load_config(struct session *s, struct err *err);
int session_store_config(struct session *s, struct err *err);
uint32_t session_config_sum(const struct session *s);

/* The folder in which the run's tokens and rows are. */
static inline const char *session_data_dir(const struct session *s)
{
    return *s->data_dir ? s->data_dir : s->dir;
}

/* Complete the step of the last commit, so that the parameters can be read. -EROFS if the run may
 * not be written; misuse if it needs several ranks. */
int session_recover(struct session *s, struct err *err);

/* Give up the hold on a snapshot that is open: from now on it may be removed while it is read. */
void session_let_go(struct session *s);

/* True if dir/run.db exists; otherwise errno says why not. */
int session_is_run(const char *dir);
/* True also if nobody could look: opening the run says why. */
int session_may_be_run(const char *dir);

