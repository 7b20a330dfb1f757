/* read_opts.h: the options of commands that read a model: eval, generate and export. */
#pragma once

#include "data/opt/opt.h"

/* How a model is read. */
struct read_opts {
    const char *base;     // the folder of an adapter's model; NULL: as the adapter says
    uint64_t seq, batch;  // seq 0: the model's positions
    int      dtype;       // enum dtype: DT_F32 or DT_BF16; -1: the model's own
    uint64_t host_mem;    // memory limit, bytes; 0: none
    int      blas;        // enum matmul_engine
    uint64_t threads;     // 0: all cores
    int      disk;        // as in disk_at
};

/* Which model of a run export, eval and generate read. step: of a snapshot. */
struct which_opts { int best, last; uint64_t step; };

extern const struct opt_row read_rows[], which_rows[]; // of struct read_opts, which_opts

/* Set the defaults that --help shows, but dtype to -1, for programs without a command line. */
int read_opts_default(struct read_opts *o, struct err *err);
