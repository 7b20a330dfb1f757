/* journal.h: the rows of commits. The journal's tables in run.db say, for each subgroup, which slot
 * holds its newest committed state, and at which version; and they say what the last commit A
 * decided. Every row has a checksum. docs/design.md (Storage and commits) states the protocol; the
 * caller follows it (flush before commit), this file reads and writes the rows.
 *
 * Commit A of step t: all gradients of t are durable, and `optim` has the numbers with which every
 * subgroup is to be updated. Commit B: these subgroups are now at version `applied`. A skipped step
 * is an A that leaves nothing to update. With error feedback an A also names the residuals: their
 * area follows from `applied` (store.h), their checksums have a table of their own. */
#pragma once

#include "data/db/runlog.h"
#include "kernels/update/optim.h"

/* The committed state of one subgroup. */
struct journal_sub { uint32_t slot, states_crc, wire_crc; uint64_t version; };
/* A subgroup's gradient of the last commit A. pairs: their number, with compression. */
struct journal_grad { uint32_t crc; uint64_t pairs; };

struct journal_state {
    uint64_t next_step;      // the step after the last A
    uint64_t applied;        // updates up to the last A; subgroups of a lower version are still to
                             // be updated
    struct optim_step optim; // with these numbers
};

struct journal {
    struct journal_state state;
    struct journal_sub  *subs;      // (n_subs)
    struct journal_grad *grads;     // (n_subs)
    uint32_t            *residuals; // (n_subs); NULL without error feedback
};

/* Inside the caller's transaction: make the tables, and the first rows from j->subs and
 * j->residuals, with no update pending. again: replace all rows, since the run was moved to another
 * layout. */
int journal_format(struct runlog *log, const struct journal *j, size_t n_subs, int again,
                   struct err *err);

/* Read all rows. A damaged or missing row is an error that names it. residuals: true if the run has
 * that table. The caller calls journal_close, which accepts the zero state. */
int  journal_open(struct journal *j, struct runlog *log, size_t n_subs, int residuals,
                  struct err *err);
void journal_close(struct journal *j);
/* Read only the position. */
int  journal_position(struct runlog *log, uint64_t *next_step, uint64_t *applied, struct err *err);

/* Read what one commit says of one subgroup, of a run that another process may train. residuals:
 * true if the run has that table. */
struct journal_look { struct journal_sub sub; uint64_t applied; uint32_t residual; };
int journal_look(struct journal_look *out, struct runlog *log, size_t sub, int residuals,
                 struct err *err);

/* Inside the caller's transaction: replace one row. */
int journal_put_state(struct runlog *log, const struct journal_state *state, struct err *err);
int journal_put_grad(struct runlog *log, size_t sub, const struct journal_grad *g, struct err *err);
int journal_put_residual(struct runlog *log, size_t sub, uint32_t crc, struct err *err);
int journal_put_sub(struct runlog *log, size_t sub, const struct journal_sub *s, struct err *err);
