/* bench_network.c: measures for `mpirun ... siTrain bench network` what the ranks of a job move
 * between them: how long a small message to all takes, and how fast parts of a block are gathered
 * from all ranks, or exchanged like parts of its gradient, by size. With --layer-us it also runs
 * steps: all that a step asks of the stream, with computing that takes a given time. So ranks that
 * share a few cores show the effect of the network alone on a step.
 *
 * All ranks measure together, and the slowest one's time counts, because each waits for all. The
 * first time, which ranks share, decides how often all repeat. */
#include "bench/bench.h"

#include "comm/comm.h"
#include "data/base/clock.h"

static const size_t sizes[] = { 4096, 65536, 1048576, 16777216, 67108864 };
enum { SIZES = sizeof sizes / sizeof *sizes, KINDS = 3, MOST_CALLS = 1000 };
#define PATIENCE 60.0 // seconds for one transfer

struct network {
    struct bench     *b;
    struct comm      *comm;
    char             *in, *out; // as large as the largest size
    size_t           *at;       // (ranks + 1): parts of the current size
    struct comm_peer *peers;    // (ranks): an exchange of it
    double           *all;      // (ranks): the time that each took
};

/* ---- the kinds of transfer ---- */

static int share(struct network *n, struct err *err)
{
    return comm_share(n->comm, NULL, 0, NULL, err);
}

static int gather(struct network *n, struct err *err)
{
    struct comm_request r = { 0 };
    int                 rc = comm_gather(n->comm, COMM_PARAMS, n->in, n->at, &r, err);

    return rc ? rc : comm_wait(n->comm, &r, PATIENCE, err);
}

static int exchange(struct network *n, struct err *err)
{
    struct comm_request r = { 0 };
    int                 rc = comm_exchange(n->comm, COMM_GRADIENTS, n->peers, &r, err);

    return rc ? rc : comm_wait(n->comm, &r, PATIENCE, err);
}

static const struct kind {
    const char *seconds, *rate; // keys in the report
    int (*run)(struct network *n, struct err *err);
} kinds[KINDS] = { { "share_seconds", NULL, share },
                   { "gather_seconds", "gather", gather },
                   { "exchange_seconds", "exchange", exchange } };

/* ---- measuring ---- */

/* Measures the seconds of one call among so many, on the slowest rank. */
static int timed(struct network *n, const struct kind *k, size_t calls, double *seconds,
                 struct err *err)
{
    int rc = share(n, err); // so that all begin together
    uint64_t start_ns = clock_ns();

    for (size_t i = 0; i < calls && !rc; i++)
        rc = k->run(n, err);
    double mine = (double)(clock_ns() - start_ns) * 1e-9 / (double)calls;
    rc = rc ? rc : comm_share(n->comm, &mine, sizeof mine, n->all, err);
    *seconds = 0;
    for (size_t p = 0; p < n->comm->size; p++)
        *seconds = n->all[p] > *seconds ? n->all[p] : *seconds;
    return rc;
}

/* Sets the parts of `bytes`, equal except for the last, and their exchange. */
static void parts_set(struct network *n, size_t bytes)
{
    size_t ranks = n->comm->size, mine;

    for (size_t p = 0; p <= ranks; p++)
        n->at[p] = p * bytes / ranks;
    mine = n->at[n->comm->rank + 1] - n->at[n->comm->rank];
    for (size_t p = 0; p < ranks; p++)
        n->peers[p] = (struct comm_peer){ n->out + n->at[p], n->at[p + 1] - n->at[p],
                                          n->in + p * mine, mine };
}

static int measure_one(struct network *n, const struct kind *k, size_t bytes, json_t *row,
                       struct err *err)
{
    double figure[BENCH_MOST_ROUNDS], once = 0, seconds;
    size_t rounds = (size_t)n->b->o->rounds, ranks = n->comm->size;
    int    rc = timed(n, k, 1, &once, err);

    rc = rc ? rc : timed(n, k, 1, &once, err); // without what only the first call does
    double calls = n->b->seconds / (once > 1e-7 ? once : 1e-7) + 1;
    calls = calls < MOST_CALLS ? calls : MOST_CALLS;
    for (size_t i = 0; i < rounds && !rc; i++)
        rc = timed(n, k, (size_t)calls, &figure[i], err);
    if (rc)
        return rc;
    seconds = bench_median(figure, rounds);
    bench_put(row, k->seconds, seconds);
    if (k->rate)
        bench_put(row, k->rate, (double)bytes * (double)(ranks - 1) / (double)ranks / seconds);
    return 0;
}

static int measure(struct network *n, json_t *section, struct err *err)
{
    json_t *rows = json_array();
    int     rc = measure_one(n, &kinds[0], 0, section, err);

    json_object_set_new(section, "ranks", json_integer((json_int_t)n->comm->size));
    json_object_set_new(section, "sizes", rows);
    for (size_t i = 0; i < SIZES && !rc; i++) {
        json_t *row = json_pack("{s:I}", "bytes", (json_int_t)sizes[i]);

        json_array_append_new(rows, row);
        parts_set(n, sizes[i]);
        for (size_t k = 1; k < KINDS && !rc; k++)
            rc = measure_one(n, &kinds[k], sizes[i], row, err);
    }
    return rc;
}

/* ---- whole steps ---- */

/* --grad-accum is each rank's: a rank's work does not depend on their number. */
static int measure_steps(struct bench *b, json_t *section, struct err *err)
{
    struct train_opts *o = &b->o->train;
    uint64_t           micros = o->grad_accum, layer_us = b->o->layer_us;
    size_t             ranks = b->comm->size;
    json_t            *steps = json_array(), *medians = NULL;
    double            *all = calloc(ranks, sizeof *all), most = 0;

    o->grad_accum = micros * ranks;
    o->groups = ranks;
    b->o->layer_us = layer_us * micros; // a layer computes its micro-batches in turn
    int rc = all ? bench_run_make(b, "ranks", RUN_SUO, 1, 0, err)
                 : err_set(err, -ENOMEM, "out of memory");
    rc = rc ? rc : bench_run(b, "ranks", BENCH_DRIVE, o->steps, steps, err);
    if (!rc) {
        medians = bench_run_medians(steps);
        double mine = json_num(medians, "seconds");
        rc = comm_share(b->comm, &mine, sizeof mine, all, err);
    }
    for (size_t p = 0; p < ranks && !rc; p++)
        most = all[p] > most ? all[p] : most;
    double computing = 3e-6 * (double)(layer_us * micros) * (double)b->config.n_layer;
    if (!rc)
        json_object_set_new(section, "steps", json_pack("{s:f, s:f, s:I, s:I}", "seconds", most,
                                                        "computing", computing, "parameters",
                                                        (json_int_t)arch_total(&b->config),
                                                        "steps", (json_int_t)o->steps));
    o->grad_accum = micros;
    b->o->layer_us = layer_us;
    json_decref(medians);
    json_decref(steps);
    free(all);
    return rc;
}

static int run(struct bench *b, json_t *section, struct err *err)
{
    struct comm   *c = b->comm;
    size_t         ranks = c->size, most = sizes[SIZES - 1];
    struct network n = { .b = b, .comm = c, .in = calloc(most + ranks, 1),
                         .out = calloc(most, 1), .at = calloc(ranks + 1, sizeof *n.at),
                         .peers = calloc(ranks, sizeof *n.peers),
                         .all = calloc(ranks, sizeof *n.all) };
    int rc = n.in && n.out && n.at && n.peers && n.all ? 0 : err_set(err, -ENOMEM, "out of memory");

    if (!rc && ranks > 1)
        rc = measure(&n, section, err);
    if (!rc && b->o->layer_us)
        rc = measure_steps(b, section, err);
    free(n.in);
    free(n.out);
    free(n.at);
    free(n.peers);
    free(n.all);
    return rc;
}

static void print(const json_t *section)
{
    static const struct bench_column columns[] = {
        { "bytes", "KiB", "%.0f", 1.0 / 1024 }, { "gather_seconds", "gather, ms", "%.3f", 1e3 },
        { "gather", "GB/s", "%.3f", 1e-9 }, { "exchange_seconds", "exchange, ms", "%.3f", 1e3 },
        { "exchange", "GB/s", "%.3f", 1e-9 }, { 0 } };
    const json_t *rows = json_object_get(section, "sizes"),
                 *steps = json_object_get(section, "steps");

    if (rows) {
        printf("Network: %.0f ranks (seconds of the slowest; GB/s that come into each rank)\n",
               json_num(section, "ranks"));
        bench_table(rows, columns, NULL);
        printf("  all ranks come together within %.3g ms\n",
               json_num(section, "share_seconds") * 1e3);
    }
    if (steps)
        printf("  a step of %.4g million parameters takes %.4g s, of which %.4g s are given to "
               "computing\n", json_num(steps, "parameters") / 1e6, json_num(steps, "seconds"),
               json_num(steps, "computing"));
}

/* For the steps: a small model, so that many ranks fit on one machine. */
const struct opt_default bench_network_defaults[] = {
    { "n-layer", "8" }, { "n-head", "4" }, { "n-embd", "256" }, { "vocab", "1024" },
    { "seq", "128" }, { "batch", "1" }, { 0 }
};

const struct bench_section bench_network = {
    .name = "network", .run = run, .print = print,
};
