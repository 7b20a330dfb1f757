/* machine_rows.h: the option rows of what a command takes of the machine, which commands that train
 * and commands that read a model share. at: the offset of the value; how: what a run keeps of it.
 * */
#pragma once

#include "csd/disk/disk.h"
#include "data/base/dtype.h"
#include "data/opt/opt.h"
#include "kernels/product/matmul.h"

/* The words of --dtype. fp16 is a format of files only. */
static inline const char *opt_dtype_word(size_t dtype)
{
    return dtype <= DT_BF16 ? dtype_name(dtype) : NULL;
}

#define OPT_HOST_MEM_ROW(at, how)                                                                  \
    { "host-mem", OPT_SIZE, at,                                                                    \
      .help = "RAM limit of the whole process, without the arenas of emulated devices (default: "  \
              "0, no limit)",                                                                      \
      .kept = how }
enum { OPT_THREADS_MOST = 4096 };
#define OPT_BLAS_ROW(at, how)                                                                      \
    { "blas", OPT_WORD, at, "auto", matmul_engine_name,                                            \
      .help = "Engine of matrix products\n"                                                        \
              "auto: sitrain for bf16 with AMX, 2 threads and micro-batches of 128 tokens; "       \
              "otherwise onednn, if it is built in and the CPU has AVX-512 (for bf16: bf16 "       \
              "instructions); otherwise openblas\n"                                                \
              "sitrain: siTrain's own; results do not depend on the number of threads",            \
      .kept = how, .ranks = OPT_OWN }
#define OPT_THREADS_ROW(at, how)                                                                   \
    { "threads", OPT_UINT, at, .max = OPT_THREADS_MOST,                                            \
      .help = "Number of compute threads (default: 0, all cores that the process may use). mpirun "\
              "without --bind-to none may leave one or two cores. Except with --blas sitrain, "    \
              "the last bits of results depend on the number.",                                    \
      .kept = how, .ranks = OPT_OWN }
#define OPT_DISK_ROW(at, how)                                                                      \
    { "disk", OPT_WORD, at, "uring", disk_name,                                                    \
      .help = "How devices are read and written. null stores nothing.", .kept = how }
