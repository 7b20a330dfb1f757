/* journal.h: the commits. The journal's tables in run.db say, for each subgroup, which slot holds
 * its newest committed state and at which version, and what the last commit A decided. Every row
 * carries a checksum of its own. docs/design.md, Storage and commits, states the protocol; the
 * caller keeps it (flush before commit), this file keeps the rows.
 *
 * Commit A of step t: all gradients of t are durable; `pending` is what every subgroup is to be
 * updated with. Commit B: these subgroups are at version `applied` now. A step that is skipped is
 * one A that leaves nothing pending. With error feedback an A also says what the residuals are from
 * now on: their area is that of `applied` (store.h), their checksums are rows of a table that other
 * runs do not have. */
#pragma once

#include "data/db/runlog.h"
#include "kernels/optim.h"

/* The committed state of one subgroup. */
struct journal_sub { uint32_t slot, states_crc, wire_crc; uint64_t version; };
/* Its gradient of the last A. pairs: with compression. */
struct journal_grad { uint32_t crc; uint64_t pairs; };

struct journal_state {
    uint64_t next_step;      // the step after the last A
    uint64_t applied; // updates that A has decided on; subgroups below it are still to be updated
    struct optim_step optim; // with these numbers
};

struct journal {
    struct journal_state state;
    struct journal_sub  *subs;      // (n_subs)
    struct journal_grad *grads;     // (n_subs)
    uint32_t            *residuals; // (n_subs); NULL without error feedback
};

/* Make the tables and the first rows, those of j->subs and j->residuals, with nothing to be updated
 * from a gradient; again: of other subgroups instead of all there are, since the run was moved to
 * another layout (inside the caller's transaction). */
int journal_format(struct runlog *log, const struct journal *j, size_t n_subs, int again,
                   struct err *err);

/* Read everything; a damaged or missing row is named. residuals: whether there is their table. */
int  journal_open(struct journal *j, struct runlog *log, size_t n_subs, int residuals,
                  struct err *err);
void journal_close(struct journal *j); // accepts the zero state
/* The position alone. */
int  journal_position(struct runlog *log, uint64_t *next_step, uint64_t *applied, struct err *err);

/* Inside the caller's transaction. */
int journal_put_state(struct runlog *log, const struct journal_state *state, struct err *err);
int journal_put_grad(struct runlog *log, size_t sub, const struct journal_grad *g, struct err *err);
int journal_put_residual(struct runlog *log, size_t sub, uint32_t crc, struct err *err);
int journal_put_sub(struct runlog *log, size_t sub, const struct journal_sub *s, struct err *err);
