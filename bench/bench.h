/* bench.h: `siTrain bench`, private to bench/. One run measures the machine, then the program
 * against it.
 *
 * A section (struct bench_section) puts its figures under its name into the report, which is one
 * JSON object, and is printed from there. Tables and JSON therefore cannot disagree. A section that
 * needs another's figures reads them from the report.
 *
 * A child process measures (bench.c). Whatever ends the child, its folders are removed. */
#pragma once

#include "data/base/arena.h"
#include "data/file/file.h"
#include "data/json/json.h"
#include "data/base/watch.h"
#include "data/opt/opt.h"
#include "run/folder/output.h"
#include "run/folder/session.h"
#include "run/model_opts.h"

struct bench_opts {
    const char       *what, *dir, *json, *save;
    uint64_t          only; // bits of sections
    int               quick, probe;
    uint64_t          rounds;
    uint64_t          layer_us; // of network: microseconds of a layer's forward
    struct model_opts model;
    struct train_opts train;
};

struct bench {
    struct bench_opts *o; // with --batch, --seq, --threads and so on
    struct model_config  config;  // without adapters
    struct model_config  adapted; // of a probe: with them; rank 0: there are none
    const char        *scratch; // a temporary folder in --dir
    const char *const *devices; // (n_devices): folders or block devices; NULL: none
    size_t             n_devices;
    struct comm       *comm;    // the ranks of a job that measure together, or NULL
    int                print;   // whether tables are printed on stdout
    double             seconds; // least time of a turn
    json_t            *report;
};

enum { // sections as bits, in their order; without options, bench runs those before SAVE
    BENCH_PRODUCTS = 1, BENCH_MEMORY = 2, BENCH_KERNELS = 4, BENCH_DISK = 8, BENCH_STEPS = 16,
    BENCH_SAVE = 32, BENCH_NETWORK = 64
};

struct bench_section {
    const char *name;    // in --only and in the report
    int         is_rows; // 1: the report has an array of it; 0: an object
    unsigned    needs;   // bits of the sections whose figures it reads
    /* 0, or -errno and a sentence. If a part cannot be measured, its "note" says why. */
    int  (*run)(struct bench *b, json_t *section, struct err *err);
    void (*print)(const json_t *section);
};
extern const struct bench_section bench_products, bench_memory, bench_kernels, bench_disk,
    bench_steps, bench_save, bench_network;
/* The defaults of options in `bench network`, which all ranks of a job measure together and the
 * first one reports. Ends with { 0 }. */
extern const struct opt_default bench_network_defaults[];

/* ---- bench_places.c: the folders and drives that are measured ---- */

/* The folders for files: --dir, then a folder in each --device, or the block device itself. */
struct bench_places {
    size_t           n;
    const char     **path;
    struct file_new *made;
};
/* Makes them for b, and names them in it. They are to be removed also after a failure. */
int  bench_places_make(struct bench_places *p, struct bench *b, struct err *err);
void bench_places_remove(struct bench_places *p);

int bench_is_block(const struct bench *b, size_t device); // whether a block device was given
/* Returns where a device is measured (malloced): file `name` in its folder, or the drive. */
char *bench_file(const struct bench *b, size_t device, const char *name);

/* Refuses a block device that holds somebody else's data by now. Each part of bench opens the
 * device anew and then asks, because nobody else can open it from then on. Bench's own data may be
 * overwritten. */
int bench_device_ask(const struct bench *b, size_t device, struct err *err);
/* Erases a run of bench's own on this block device, so that the next one needs no force. */
void bench_device_clear(const struct bench *b, size_t device);

/* Calls `measures` in a child process, which ends with this one, and returns its exit code, or
 * -errno and a sentence. A signal that asks this process to end has then ended the child. watch
 * hears that it goes on; it may be NULL. */
int bench_apart(struct bench *b, int (*measures)(struct bench *b, void *ctx), void *ctx,
                const struct watch *watch, struct err *err);

/* If the options name a file of this kind, calls output_check, or with a text output_put. */
int bench_output(const struct bench_opts *o, enum output_kind kind, const char *text,
                 struct err *err);

/* ---- figures of other sections ---- */

/* The best engine's FLOP/s over a step's products. DT_F32: only in fp32. 0: not measured. */
#define BENCH_BEST "step_flops_per_second" // its key
double bench_best(const json_t *report, int dtype);
/* FLOP/s of the CPU's instructions for this dtype, with operands in L2. 0: not measured. */
double bench_unit(const json_t *report, int dtype);
/* A plain loop over one step's products by the best engine, which takes turns with steps and gives
 * FLOP/s. It needs the section of products. The caller closes *out also after an error. */
struct bench_loop;
int    bench_loop_open(struct bench_loop **out, const struct bench *b, struct err *err);
double bench_loop_rate(struct bench_loop *l);
void   bench_loop_close(struct bench_loop *l);
/* Memory's bytes/s in these rows, on one thread or all: reading alone, or also writing. */
double bench_bandwidth(const json_t *rows, int all, int writes);
/* Measures the seconds that an update on an emulated device takes a parameter: on the first
 * device's place, or on disk_null, which leaves the seconds of one core. */
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

/* ---- bench_save.c: the figures of a machine file; bench_save_moves.c: of which no model computes
 * these ---- */

struct machine_file;
int bench_save_machine(struct machine_file *m, struct bench *b, struct err *err);
int bench_save_passes(struct machine_file *m, const struct bench *b, struct err *err);
int bench_save_drives(struct machine_file *m, const struct bench *b, struct err *err);

/* ---- probe.c: this machine, for plan ---- */

/* Measures the figures that a prediction of this run needs. s is a session whose plan is made,
 * `dir` the folder that will contain RUN. It takes seconds. Its files are removed again. `watch`
 * hears that it goes on. */
int probe_machine(struct machine_file *out, const struct session *s, const char *dir,
                  const struct watch *watch, struct err *err);

/* ---- bench_rounds.c: medians of interleaved repetitions ---- */

enum { BENCH_MOST_ROUNDS = 64 };

/* One thing that is measured. Either `run` is timed (call: 0, 1, 2, ..), or `measure` gives the
 * figure and returns 0, or -errno and a sentence. */
struct bench_item {
    void (*run)(void *ctx, size_t call);
    int  (*measure)(void *ctx, double *figure, struct err *err);
    void  *ctx;
    int    threads; // 0: as set now
    // results
    double median;              // seconds of one call, or figure
    size_t calls, done;         // private to bench_rounds: calls in a turn, and so far
    double figure[BENCH_MOST_ROUNDS];
};

/* Takes `rounds` turns. A `run` is first called once unmeasured, then in each turn as often as
 * `seconds` allow. Returns 0, or the failure of a measure. */
int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double seconds,
                 struct err *err);
double bench_median(double *v, size_t n); // sorts v; 0 if n is 0
/* Fills memory with numbers that overflow in no kernel. As bf16, and nearly all as float, they are
 * between 2^-5 and 2^-4. With `sign` they have either sign. */
void bench_fill(void *bytes, size_t n, int sign);

/* ---- bench_table.c: rows of JSON as a table ---- */

struct bench_column {
    const char *key, *title;
    const char *format; // of a number times scale; NULL: text. A missing value is "-"
    double      scale;
};
/* Prints a table; columns end with { 0 }. A row's "note" is printed below, after its `name`. */
void bench_table(const json_t *rows, const struct bench_column *columns, const char *name);
void bench_put(json_t *object, const char *key, double value);
/* Returns the row whose figure is the largest, or NULL. */
const json_t *bench_largest(const json_t *rows, const char *key);

/* ---- bench_disk.c: the disk under the devices ---- */

struct bench_place; // a file or block device that was written once

enum { BENCH_READ, BENCH_WRITE, BENCH_MIXED, BENCH_PATTERNS };

/* The caller closes *out also after a failure, which removes the file; NULL is fine. */
int  bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                      struct err *err);
void bench_place_close(struct bench_place *p);
/* Returns the item that measures a pattern in bytes/s. */
struct bench_item bench_place_item(struct bench_place *p, int pattern);

/* ---- bench_runs.c: runs of the program, as pretrain makes and drives them ---- */

enum { BENCH_MOST_STEPS = 64 }; // of one kind of run

/* TRAIN trains. DRIVE leaves the model out: the stream moves its bytes, and gradients are zeros.
 * DRIVE_APART does so too, but a step's reads begin only when the update before has ended. */
enum bench_way { BENCH_TRAIN, BENCH_DRIVE, BENCH_DRIVE_APART };

/* Makes a run in scratch/folder, with random parameters and tokens. mode: that of --mode. fake: its
 * devices answer at once and store nothing. speculate: with --speculate. */
int bench_run_make(const struct bench *b, const char *folder, int mode, int fake, int speculate,
                   struct err *err);
/* Runs one step, and then `steps` more. For each of these, `out` gets an object with the seconds of
 * the step and of its parts (the table in bench_runs.c). */
int bench_run(const struct bench *b, const char *folder, enum bench_way way, uint64_t steps,
              json_t *out, struct err *err);
/* Returns the medians of all parts (moved: bytes over the host link during `moving`). */
json_t *bench_run_medians(const json_t *steps);
