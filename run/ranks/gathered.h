/* gathered.h: the parameters of a run that several ranks train, as one source. Rank 0 reads it, and
 * each rank serves its portions of the blocks. One process alone reads its own source. */
#pragma once

#include "comm/comm.h"
#include "offload/layout/config.h"

struct gathered; // opaque

/* All ranks call both functions between the same two steps. own: this rank's portions. On rank 0,
 * *out is a source of whole blocks until gathered_end. The other ranks serve it, and return when
 * rank 0 has called gathered_end. A failure, of reading or of another rank, ends the training. */
int gathered_begin(struct gathered **g, const struct run_config *cfg,
                   const struct params_source *own, struct params_source *out, struct err *err);
int gathered_end(struct gathered *g, struct err *err);
