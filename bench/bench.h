/* bench.h: `siTrain bench`, private to bench/: the machine is measured, then the program against
 * it, in one run.
 *
 * A section (struct bench_section) measures, puts its figures into the report, one JSON object,
 * under its own name, and is printed from there alone: tables and JSON cannot disagree. A section
 * that goes by another's figures reads them from the report.
 *
 * All of it happens in a process of its own (bench.c): whatever ends that process, its folders are
 * removed. */
#pragma once

#include "data/base/arena.h"
#include "data/base/json.h"
#include "data/opt/opt.h"
#include "offload/estimate/budget.h"
#include "run/folder/output.h"
#include "run/folder/session.h"

struct bench_opts {
    const char       *what, *dir, *json, *save;
    uint64_t          only; // sections, as bits
    int               quick, probe;
    uint64_t          rounds;
    uint64_t          layer_us; // of network: what a layer's forward is given
    struct model_opts model;
    struct train_opts train;
};

struct bench {
    struct bench_opts *o; // --batch, --seq, --threads and so on are filled in
    struct model_config  config;
    const char        *scratch; // a folder in --dir that is removed at the end
    const char *const *devices; // (n_devices) folders in --device's, or block devices; NULL: none
    size_t             n_devices;
    struct comm       *comm; // the ranks of a job, where a section is measured by them; or NULL
    int                print; // tables on stdout
    double             seconds; // as long as a turn takes at least
    json_t            *report;
};

enum { // sections as bits, in their order; all before SAVE are what bench does unasked
    BENCH_PRODUCTS = 1, BENCH_MEMORY = 2, BENCH_KERNELS = 4, BENCH_DISK = 8, BENCH_STEPS = 16,
    BENCH_SAVE = 32, BENCH_NETWORK = 64
};

struct bench_section {
    const char *name; // in --only and in the report
    int         is_rows; // in the report it is an array; else an object
    unsigned    needs; // bits of those whose figures it goes by
    /* 0 or -errno and a sentence. What cannot be measured here but leaves the rest standing is a
     * "note" in the section. */
    int  (*run)(struct bench *b, json_t *section, struct err *err);
    void (*print)(const json_t *section);
};
extern const struct bench_section bench_products, bench_memory, bench_kernels, bench_disk,
    bench_steps, bench_save, bench_network;
/* bench network is measured by all ranks of a job together, and the first one reports. Its options
 * where the command line does not say otherwise; ends with { 0 }. */
extern const struct opt_default bench_network_defaults[];

int bench_is_block(const struct bench *b, size_t device); // was a block device given?
/* Where a device is measured: a file called `name` in its folder, or the block device; malloced. */
char *bench_file(const struct bench *b, size_t device, const char *name);

/* Refuse a block device on which somebody else's is by now: each part of bench opens it anew, and
 * asks when it is open, from where on nobody else has it. What bench itself has put there may be
 * written over. */
int bench_device_ask(const struct bench *b, size_t device, struct err *err);
/* A run of bench's own that is on this block device goes, so that the next one needs no force. */
void bench_device_clear(const struct bench *b, size_t device);

/* output_check of the file of this kind, if the options name one; or, of a text, output_put. */
int bench_output(const struct bench_opts *o, enum output_kind kind, const char *text,
                 struct err *err);

/* ---- what sections go by ---- */

/* Of all engines the largest figure called `key`, FLOP/s; of fp32 alone, or with bf16 where dtype
 * says so; 0: not measured. BENCH_PEAK: reached in one product; BENCH_BEST: in all of a step's. */
#define BENCH_PEAK "peak_flops_per_second"
#define BENCH_BEST "step_flops_per_second"
double bench_engines(const json_t *report, const char *key, int dtype);
/* A plain loop over one step's products by the best engine of them, to be run in turns with steps:
 * FLOP/s. Opened behind the section of products; *out is to be closed also after an error; NULL is
 * fine. */
struct bench_loop;
int    bench_loop_open(struct bench_loop **out, const struct bench *b, struct err *err);
double bench_loop_rate(struct bench_loop *l);
void   bench_loop_close(struct bench_loop *l);
/* Bytes/s of memory, by that section's rows, on one thread or all: of a loop that only reads, or
 * that writes too. */
double bench_bandwidth(const json_t *rows, int all, int writes);
/* Measures the seconds that an update on an emulated device takes a parameter: on the first
 * device's place, or on disk_null, which leaves the seconds of one core. */
struct disk_ops;
int bench_update_path(struct bench *b, const struct disk_ops *disk, double *seconds,
                      struct err *err);

/* Updates on the first device's disk, over and over from start to stop, while the caller computes.
 * bench_beside_stop returns the parameters that were updated a second, or 0 and the failure in
 * *err. */
struct bench_beside;
int    bench_beside_open(struct bench_beside **out, struct bench *b, struct err *err);
int    bench_beside_start(struct bench_beside *s, struct err *err);
double bench_beside_stop(struct bench_beside *s, struct err *err);
void   bench_beside_close(struct bench_beside *s);

/* ---- bench_save_moves.c: a machine file's figures beside a model's computing ---- */

struct machine_file;
int bench_save_passes(struct machine_file *m, const struct bench *b, struct err *err);
int bench_save_drives(struct machine_file *m, const struct bench *b, struct err *err);

/* ---- probe.c: this machine, for plan ---- */

/* What a prediction of this run goes by, measured here: s is a session with its plan made, of the
 * model that was chosen so, dir the folder that RUN will stand in. Takes seconds; files are made
 * beside RUN and in --device's folders and removed. watch hears that it goes on. A failure with a
 * sentence where it cannot be measured. */
int probe_machine(struct machine_file *out, const struct session *s,
                  const struct model_opts *model, const char *dir, const struct watch *watch,
                  struct err *err);

/* ---- bench_rounds.c: medians of interleaved repetitions ---- */

enum { BENCH_MOST_ROUNDS = 64, BENCH_MOST_WAYS = 8 };

/* One thing that is measured. Either `run` is timed (call: 0, 1, 2, ..), or `measure` says a figure
 * itself; that returns 0, or -errno and a sentence. */
struct bench_item {
    void (*run)(void *ctx, size_t call);
    int  (*measure)(void *ctx, double *figure, struct err *err);
    void  *ctx;
    int    threads; // 0: as they are set
    double bytes;   // of one call, for bench_ways
    // results
    double median, least, most; // seconds of one call, or figures
    size_t calls, done;         // bench_rounds's own: calls in each turn, and so far
    double figure[BENCH_MOST_ROUNDS];
};

/* Take `rounds` turns. Of a `run` one call unmeasured first, then in each turn as many as `seconds`
 * take. 0, or the failure of a measure. */
int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double seconds,
                 struct err *err);
/* Each of n runs (at most BENCH_MOST_WAYS) by one thread and by all: what of its bytes a second
 * goes into rows[i] as "one_thread" and "all_threads". */
int bench_ways(const struct bench *b, const struct bench_item *runs, size_t n, json_t *rows,
               struct err *err);
double bench_median(double *v, size_t n); // which it sorts; 0 of none
/* Fills memory with numbers that overflow in no kernel: as bf16, and nearly all as float, between
 * 2^-5 and 2^-4; with `sign` of either sign. */
void bench_fill(void *bytes, size_t n, int sign);

/* ---- bench_table.c: rows of JSON as a table ---- */

struct bench_column {
    const char *key, *title;
    const char *format; // of a number times scale; NULL: text. A value that is not there is "-"
    double      scale;
};
/* columns end with { 0 }. A row's "note" is a line below, after what stands under `name`. */
void bench_table(const json_t *rows, const struct bench_column *columns, const char *name);
void bench_put(json_t *object, const char *key, double value);
/* The row whose text under `key` is `text`, and the one whose figure is the largest; or NULL. */
json_t       *bench_row(const json_t *rows, const char *key, const char *text);
const json_t *bench_largest(const json_t *rows, const char *key);

/* ---- bench_disk.c: the disk under the devices ---- */

struct bench_place; // a file or block device, written once

enum { BENCH_READ, BENCH_WRITE, BENCH_MIXED, BENCH_PATTERNS };

/* In *out also after a failure, to be closed, which removes the file; NULL is fine. */
int  bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                      struct err *err);
void bench_place_close(struct bench_place *p);
/* What measures a pattern in bytes/s. */
struct bench_item bench_place_item(struct bench_place *p, int pattern);

/* ---- bench_runs.c: runs of the program, as pretrain makes and drives them ---- */

enum { BENCH_MOST_STEPS = 64 }; // of one kind of run, at most

/* Trained; or without the model: what the stream moves, gradients of zeros; or the same, but that a
 * step's reads begin when the update before is over. */
enum bench_way { BENCH_TRAIN, BENCH_DRIVE, BENCH_DRIVE_APART };

/* A new run in scratch/folder, on random parameters and random tokens: --mode `mode`; fake: on
 * devices that answer at once and store nothing; speculate: with --speculate. */
int bench_run_make(const struct bench *b, const char *folder, int mode, int fake, int speculate,
                   struct err *err);
/* Go on with it for one step and then `steps` more, for each of which an object is added to `out`:
 * seconds, and those of its parts (the table in bench_runs.c). */
int bench_run(const struct bench *b, const char *folder, enum bench_way way, uint64_t steps,
              json_t *out, struct err *err);
/* The medians of every part (moved: bytes over the host link in `moving`). */
json_t *bench_run_medians(const json_t *steps);
