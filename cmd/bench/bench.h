/* bench.h: `siTrain bench`, private to cmd/bench*.c: the machine is measured, then the program
 * against it, in one run.
 *
 * A section measures, puts its figures into the report (one JSON object) under its own name, and is
 * printed from there alone: tables and JSON cannot disagree. A section that goes by another's
 * figures reads them from the report.
 *
 * All of it happens in a process of its own (bench.c): whatever ends that process, its folders are
 * removed.
 */
#ifndef CMD_BENCH_BENCH_H
#define CMD_BENCH_BENCH_H

#include "cmd/opt/opt.h"
#include "cmd/run/session.h"
#include "data/base/json.h"

struct bench_opts {
    const char       *dir, *json;
    uint64_t          only; // sections, as bits
    int               quick, probe;
    uint64_t          rounds;
    struct model_opts model;
    struct train_opts train;
};

/* In the environment beside an OPENBLAS_CORETYPE that main.c set, not the user. */
#define BENCH_CORE_IS_OURS "SITRAIN_CORE_IS_OURS"

struct bench {
    struct bench_opts *o; // --batch, --seq, --threads and so on are filled in
    struct gpt_config  gpt;
    const char        *scratch; // a folder in --dir that is removed at the end
    const char *const *devices; // (n_devices) folders in --device's, or block devices; NULL: none
                                // was given
    size_t             n_devices;
    int                print; // tables on stdout
    json_t            *report;
};

/* Sections: 0 or -errno and a sentence. What cannot be measured here but leaves the rest standing
 * is a `note` in the section. */
int bench_products(struct bench *b, struct err *err);
int bench_memory(struct bench *b, struct err *err);
int bench_kernels(struct bench *b, struct err *err);
int bench_disk(struct bench *b, struct err *err);
int bench_update(struct bench *b, struct err *err);
int bench_topk(struct bench *b, struct err *err);
int bench_steps(struct bench *b, struct err *err);
int bench_probe(struct bench *b, struct err *err);  // --probe

/* Their tables, from the report. */
void bench_products_print(const json_t *report);
void bench_memory_print(const json_t *report);
void bench_kernels_print(const json_t *report);
void bench_disk_print(const json_t *report);
void bench_update_print(const json_t *report);
void bench_topk_print(const json_t *report);
void bench_steps_print(const json_t *report);
void bench_probe_print(const json_t *report);

/* ---- what sections go by ---- */

/* The most that any engine reached in one product, FLOP/s: in fp32; in the run's --dtype. 0: not
 * measured. */
double bench_peak(const json_t *report, int dtype);
/* What the best engine makes of all products of a step, FLOP/s (bf16: that of fp32 too, if it is
 * more). */
double bench_best(const json_t *report, int dtype);
/* Bytes/s of memory, on one thread or all: of a loop that only reads, or that writes too. */
double bench_bandwidth(const json_t *report, int all, int writes);
/* FLOPs of a step's forward and backward: products and attention. */
double bench_flops(const struct bench *b);

/* Seconds of one core that an emulated device's update takes a parameter, beside its disk. */
int bench_update_arithmetic(struct bench *b, double *seconds, struct err *err);

/* A step's parts, in seconds; the letters are explained in bench_steps.c. */
struct bench_figures { double F, B, h, U, u0, w0, W, A; };
/* The least time that a step of them takes. */
double bench_bound(const struct bench_figures *f, int speculate);

/* ---- bench_rounds.c: medians of interleaved repetitions ---- */

struct bench_item {
    void (*run)(void *ctx, size_t call); // call: 0, 1, 2, ...
    void  *ctx;
    double seconds; // of one call: the median
};

/* One call of each unmeasured, then `rounds` times each in turn, as often as `least` seconds take.
 * -ENOMEM and a sentence. */
int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double least,
                 struct err *err);
/* The median of v[0..n), which is sorted; 0 of none. */
double bench_median(double *v, size_t n);
/* As long as a repetition is at least. */
double bench_least(const struct bench *b);

/* ---- bench_table.c: rows of JSON as a table ---- */

struct bench_column {
    const char *key, *title;
    const char *format; // of a number times scale; NULL: text. A value that is not there is "-"
    double      scale;
};
/* columns end with { 0 }. */
void        bench_table(const json_t *rows, const struct bench_column *columns);
double      bench_number(const json_t *object, const char *key); // 0 if there is none
const char *bench_text(const json_t *object, const char *key);   // "" if there is none
/* The row whose text under `key` is `text`; NULL if there is none. */
json_t *bench_row(const json_t *rows, const char *key, const char *text);

/* ---- bench_child.c: another program ---- */

/* Run argv (found in PATH), setting (NAME=VALUE, or NULL) added to its environment, and take what
 * it prints as JSON. -ENOENT, without a sentence, if there is no such program. */
int bench_child(json_t **out, char *const *argv, const char *setting, struct err *err);

/* ---- bench_core.c: OpenBLAS's kernels ---- */

/* Other core types that this CPU can run, each in a process of its own, beside the one in use: rows
 * of { core, gflops, in_use }. */
int bench_cores(struct bench *b, json_t **rows, struct err *err);

/* ---- bench_place.c: the disk under the devices, and fio on the same file ---- */

struct bench_place; // a file or block device, written once

/* How it is used: reads and writes in parts of the update's mix; burst 0: both at once, else in
 * turn so many bytes at a time. */
struct bench_pattern {
    const char *name, *fio;
    unsigned    reads, writes;
    size_t      burst;
};
extern const struct bench_pattern bench_patterns[]; // read, write, mixed, bursts; ends with { 0 }
enum { BENCH_READ, BENCH_WRITE, BENCH_MIXED, BENCH_BURSTS, BENCH_PATTERNS };

int         bench_is_block(const struct bench *b, size_t device); // was a block device given?
int         bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                             struct err *err);
void        bench_place_close(struct bench_place *p); // removes the file; NULL is fine
const char *bench_place_path(const struct bench_place *p);
const char *bench_place_disk(const struct bench_place *p); // "uring" or "sync"
/* Bytes/s of one run of the pattern. */
int bench_place_run(struct bench_place *p, const struct bench_pattern *pattern, double *rate,
                    struct err *err);
/* The same by fio; -ENOENT without a sentence if there is none. */
int bench_place_fio(struct bench_place *p, const struct bench_pattern *pattern, double *rate,
                    struct err *err);
/* Seconds from a flush's submission after a write of 4 KiB. */
int bench_place_flush(struct bench_place *p, double *seconds, struct err *err);

enum { BENCH_STEPS = 64 }; // of one kind of run, at most

/* ---- bench_runs.c: runs of the program, as pretrain makes and drives them ---- */

/* A new run in scratch/folder, on random parameters and random tokens: --mode `mode`; fake: on
 * devices that answer at once and store nothing; speculate: with --speculate. */
int bench_run_make(const struct bench *b, const char *folder, int mode, int fake, int speculate,
                   struct err *err);
/* Go on with it for one step and then `steps` more, for each of which an object is added to `out`:
 * seconds, and those of its parts (the table in bench_runs.c). */
int bench_run_train(const struct bench *b, const char *folder, uint64_t steps, json_t *out,
                    struct err *err);
/* The same without the model: what the stream moves, gradients of zeros. apart: a step's reads
 * begin when the update before is over. */
int bench_run_drive(const struct bench *b, const char *folder, uint64_t steps, int apart,
                    json_t *out, struct err *err);
/* The medians of every part (moved: bytes over the host link in `moving`). */
json_t *bench_run_medians(const json_t *steps);

#endif
