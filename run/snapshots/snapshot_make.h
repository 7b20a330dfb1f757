/* snapshot_make.h: takes a snapshot of a run (snapshots.h). It has run.db as it is at that commit,
 * the states (offload/upkeep/snapshot.h), RUN/tokenizer, and the model in RUN/best. Data are not
 * copied: they are read where the run has them (session_data_dir).
 *
 * It is made under another name, flushed, read back and compared with its checksums. One rename
 * then makes it a snapshot. */
#pragma once

#include "offload/stream/stream.h"
#include "run/snapshots/snapshots.h"

/* 0, or misuse: no snapshot can be taken of this run. */
int snapshot_can(const struct session *s, struct err *err);

/* Take a snapshot of the run, of which `step` steps are done. s is open for writing, by a process
 * that keeps its states as they are meanwhile, and no step is half done (stream_drain,
 * session_recover). The snapshot directories take turns; one that fails is a notice, and the next
 * is tried. If all fail, RUN/snapshots is tried, even with --snapshot-dir: going back cannot do
 * without. A snapshot of this step that is there is exchanged for the new one. *out: the new one.
 * 0 or -errno; then there is no new snapshot in any of them, and `err` has the last sentence. */
int snapshot_make(struct snapshot *out, struct session *s, uint64_t step, struct err *err);

/* What snapshot_begin takes. */
struct snapshot_ask {
    uint64_t       step;   // steps done
    size_t         tried;  // directories that have failed already; it begins with the next
    int            in_run; // if all directories fail, RUN/snapshots is tried
    struct stream *beside; // stream of the training, drained; it must outlive the snapshot; NULL:
                           // nothing trains
};

/* Take a snapshot while a training goes on. snapshot_begin copies what the next step changes, and a
 * thread copies the rest, flushes it and reads it back, at the pace of --snapshot-bw. If nothing
 * trains, snapshot_begin does all.
 *
 * The thread that begins makes all these calls. Only snapshot_finish, like snapshot_begin, uses
 * run.db: the stream is drained. snapshot_finish and snapshot_drop end what was begun; if it was
 * not whole, nothing of it is left. */
struct snapshot_making;
int    snapshot_begin(struct snapshot_making **out, struct session *s,
                      const struct snapshot_ask *ask, struct err *err);
/* True if the copier has ended. Its result is snapshot_finish's. */
int    snapshot_over(struct snapshot_making *m);
/* Copy at full speed, and wait until the copier has ended. Its result, or -EINTR: the end was asked
 * for. */
int    snapshot_wait(struct snapshot_making *m, struct err *err);
int    snapshot_finish(struct snapshot *out, struct snapshot_making *m, struct err *err);
void   snapshot_drop(struct snapshot_making *m); // NULL is fine
size_t snapshot_tried(const struct snapshot_making *m); // directories, its own included
/* Add the bytes that it has moved since the last call. */
void   snapshot_moved(struct snapshot_making *m, struct link_meter *moved);

/* A snapshot that another process made, and whose files come here, as of another rank
 * (rank_parts.h). begin: an empty folder *folder for them, of the n-th snapshot of s, after `step`
 * steps. end: if rc is 0, it says in its run.db where it lies, is proved whole, and gets its name;
 * *out: where; *moved: what this has read is added. Otherwise it is removed. Frees m, which may be
 * NULL. Returns rc, or -errno. */
int snapshot_adopt_begin(struct snapshot_making **m, const char **folder, struct session *s,
                         uint64_t step, uint64_t n, struct err *err);
int snapshot_adopt_end(struct snapshot_making *m, int rc, struct snapshot *out,
                       struct link_meter *moved, struct err *err);
