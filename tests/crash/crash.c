/* crash.c: power cuts, every one of them. A small run on a simulated machine (storage.h, threads.h)
 * is cut at each operation that changes a file; what was not durable is kept, lost or torn by seed;
 * then the run is opened again and trained to its end, perhaps cut a second time on the way. In the
 * end everything there is, losses, rows, states, versions, residuals, has to be that of a run that
 * was never cut, bit for bit, and no step that was reported as committed may have been lost.
 *
 *     crash                                          the short form: a part of the points, as TAP
 *     crash --all [--config PATTERN] [--schedules N] [--points N]
 *                         every point, or N of each schedule, in N schedules (1), as a table
 *     crash --config NAME --schedule S --point K --seed T    one point again, and what became of it
 *
 * A schedule is a seed of threads.h, an order in which threads and requests happened to run. */
#include "kernels/rng.h"
#include "tests/crash/life.h"
#include "tests/crash/posix.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"
#include "tests/crash/vfs_sim.h"

#include <fnmatch.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20 };    // failures are enough
enum { PAIRS = 1000 }; // seeds from here on: recovery is cut, too, at operation seed - PAIRS

static const struct plan plans[] = {
    { .name = "base", .mode = RUN_BASE, .skip = NEVER },
    { .name = "su", .mode = RUN_SU, .checkpoint = 16, .skip = NEVER },
    { .name = "su+o", .mode = RUN_SUO, .skip = 1 },
    { .name = "su+o sync", .mode = RUN_SUO, .sync = 1, .skip = NEVER },
    { .name = "su+o pieces", .mode = RUN_SUO, .sync = 1, .pieces = 10, .skip = 2 },
    { .name = "su+o+c", .mode = RUN_SUO, .compress = 0.05, .skip = NEVER },
    { .name = "su+o+c feedback", .mode = RUN_SUO, .compress = 0.05, .feedback = 1, .skip = 2 },
    { .name = "su+o+c feedback ram",
      .mode = RUN_SUO,
      .compress = 0.05,
      .feedback = 1,
      .in_ram = 1,
      .skip = NEVER },
    { .name = "su+o cards", .mode = RUN_SUO, .cards = 1, .skip = 2 },
    { .name = "su+o+c cards",
      .mode = RUN_SUO,
      .cards = 1,
      .compress = 0.05,
      .feedback = 1,
      .reshard = 1,
      .skip = NEVER },
    { .name = "base speculate", .mode = RUN_BASE, .speculate = 1, .spares = 1, .skip = NEVER },
    { .name = "su+o speculate",
      .mode = RUN_SUO,
      .speculate = 1,
      .spares = 1,
      .checkpoint = 16,
      .skip = 3 },
    { .name = "su+o speculate few", .mode = RUN_SUO, .speculate = 1, .sync = 1, .skip = NEVER },
    { .name = "su+o words", .mode = RUN_SUO, .words = 1, .skip = 2 },
    { .name = "su+o words own head", .mode = RUN_SUO, .words = 2, .sync = 1, .skip = NEVER },
    { .name = "base speculate words",
      .mode = RUN_BASE,
      .speculate = 1,
      .spares = 1,
      .words = 2,
      .skip = 1 },
    { .name = "su+o frozen", .mode = RUN_SUO, .frozen = 1, .skip = 2 },
    { .name = "base speculate frozen reshard",
      .mode = RUN_BASE,
      .frozen = 1,
      .compress = 0.05,
      .feedback = 1,
      .speculate = 1,
      .spares = 1,
      .reshard = 1,
      .skip = NEVER },
    { .name = "mem frozen",
      .mode = RUN_MEM,
      .frozen = 1,
      .commit_every = 1,
      .skip = NEVER },
    { .name = "2 ranks", .mode = RUN_SUO, .ranks = 2, .sync = 1, .skip = NEVER },
    { .name = "2 ranks skip", .mode = RUN_SU, .ranks = 2, .checkpoint = 16, .skip = 2 },
    { .name = "3 ranks", .mode = RUN_SUO, .ranks = 3, .skip = 1 },
    { .name = "3 ranks speculate",
      .mode = RUN_BASE,
      .ranks = 3,
      .speculate = 1,
      .spares = 1,
      .skip = NEVER },
    { .name = "2 processes su+o", .mode = RUN_SUO, .sync = 1, .rival = 1, .skip = NEVER },
    { .name = "2 processes base",
      .mode = RUN_BASE,
      .sync = 1,
      .rival = 1,
      .checkpoint = 16,
      .skip = 2 },
    { .name = "2 processes mem",
      .mode = RUN_MEM,
      .commit_every = 1,
      .rival = 1,
      .checkpoint = 4,
      .skip = NEVER },
    { .name = "su+o few", .mode = RUN_SUO, .spares = RUN_SPARES_FEW, .skip = 2 },
    { .name = "su+o+c speculate feedback",
      .mode = RUN_SUO,
      .compress = 0.05,
      .feedback = 1,
      .speculate = 1,
      .spares = 1,
      .skip = NEVER },
    { .name = "mem", .mode = RUN_MEM, .commit_every = 1, .skip = 1 },
    { .name = "mem every 2 feedback",
      .mode = RUN_MEM,
      .commit_every = 2,
      .checkpoint = 4,
      .compress = 0.05,
      .feedback = 1,
      .skip = NEVER },
    { .name = "reshard su+o", .mode = RUN_SUO, .sync = 1, .reshard = 1, .skip = NEVER },
    { .name = "reshard feedback",
      .mode = RUN_SUO,
      .compress = 0.05,
      .feedback = 1,
      .reshard = 1,
      .skip = NEVER },
    { .name = "create su+o", .mode = RUN_SUO, .sync = 1, .create = 1, .skip = NEVER },
    { .name = "create mem", .mode = RUN_MEM, .create = 1, .skip = NEVER },
    { .name = "2 makers su+o", .mode = RUN_SUO, .sync = 1, .makers = 1, .create = 1,
      .skip = NEVER },
    { .name = "2 makers folders", .mode = RUN_SUO, .sync = 1, .makers = 1, .create = 1,
      .outside = FOLDERS, .skip = NEVER },
    { .name = "2 makers files", .mode = RUN_BASE, .sync = 1, .makers = 1, .create = 1,
      .outside = FILES, .skip = NEVER },
    { .name = "2 makers mem", .mode = RUN_MEM, .commit_every = 1, .makers = 1, .create = 1,
      .skip = NEVER },
    { .name = "named su+o", .mode = RUN_SUO, .sync = 1, .named = 1, .outside = FILES,
      .skip = NEVER },
    { .name = "named base", .mode = RUN_BASE, .named = 1, .outside = FILES, .skip = NEVER },
    { .name = "2 processes named", .mode = RUN_SUO, .sync = 1, .named = 1, .outside = FILES,
      .rival = 1, .skip = NEVER },
    { .name = "su+o lying", .mode = RUN_SUO, .checkpoint = 16, .skip = NEVER, .storage = LYING },
    { .name = "mem lying", .mode = RUN_MEM, .commit_every = 1, .skip = NEVER, .storage = LYING },
    { .name = "su+o none",
      .mode = RUN_SUO,
      .checkpoint = 16,
      .skip = NEVER,
      .storage = NO_FLUSHES },
    { .name = "mem none",
      .mode = RUN_MEM,
      .commit_every = 1,
      .skip = NEVER,
      .storage = NO_FLUSHES },
};
enum { PLANS = sizeof plans / sizeof *plans };

/* ---- a point ---- */

static void must(int rc, const struct err *err)
{
    if (rc) {
        fprintf(stderr, "reading the state: %s\n", err->text);
        abort();
    }
}

enum outcome { IDENTICAL, REFUSED, WRONG, OUTCOMES };

struct point {
    const struct plan *plan;
    uint64_t           schedule, at, seed;
};

static struct point current; // for whoever has to say where it ended

static void say_point(FILE *to)
{
    fprintf(to, "crash --config '%s' --schedule %llu --point %llu --seed %llu", current.plan->name,
            (unsigned long long)current.schedule, (unsigned long long)current.at,
            (unsigned long long)current.seed);
}

static void aborted(int sig)
{
    (void)sig;
    say_point(stderr);
    fprintf(stderr, ": aborted\n");
    _exit(1);
}

/* Counts of a configuration. */
struct tally {
    uint64_t points, cuts, outcomes[OUTCOMES], second, went_back;
    unsigned most_loose;
};

/* What the run has to be, and how it begins. */
struct reference {
    struct storage *begin;
    struct state    state;
    struct witness  witness;
    uint64_t        ops;
};

/* A machine starts. */
static void boot(uint64_t seed)
{
    threads_seed(seed);
    vfs_sim_restart(seed);
}

/* Of one life that nothing cuts, from the beginning. */
static void reference_run(struct reference *r, const struct plan *p, uint64_t schedule)
{
    struct err err;
    int        rc;

    storage_load(r->begin);
    boot(schedule);
    r->witness = (struct witness){ 0 };
    rc = life(p, &r->witness, &err);
    r->ops = power_ops();
    must(rc, &err);
    if (p->storage == HONEST)
        storage_power_on(0);
    must(life_state(p, &r->state, &err), &err);
}

static void reference_open(struct reference *r, const struct plan *p)
{
    struct plan honest = *p;
    struct err  err = { 0 };

    honest.storage = HONEST;
    storage_load(NULL);
    boot(1);
    storage_create("/sim", 1);
    for (size_t rank = 0; rank < life_ranks(p) && !p->makers; rank++)
        storage_create(life_dir(rank), 1);
    storage_create("/sim/drive0", 1);
    storage_create("/sim/drive1", 1);
    storage_sync_folder("");
    storage_sync_folder("/sim");
    if (!p->create)
        must(life_make(&honest, &err), &err);
    storage_power_on(0);
    r->begin = storage_save();
}

static enum outcome judge(const struct reference *r, const struct plan *p, struct witness *w,
                          int rc, struct err *err)
{
    struct state s;

    if (rc)
        return err->text[0] ? REFUSED : WRONG;
    if (p->storage == HONEST) // what is not durable is thrown away
        storage_power_on(0);
    if (life_state(p, &s, err))
        return p->storage == HONEST ? WRONG : REFUSED;
    if (w->differs) {
        err_set(err, 0, "a step was computed twice with different losses");
        return WRONG;
    }
    for (int i = 0; i < STEPS; i++)
        if ((w->seen >> i & 1) && memcmp(&w->loss[i], &r->witness.loss[i], sizeof w->loss[i])) {
            err_set(err, 0, "the loss of step %d is another one", i);
            return WRONG;
        }
    return life_compare(&s, &r->state, err) ? WRONG : IDENTICAL;
}

/* Where recovery is cut: as told, or anywhere in what is left to do, most often soon. */
static uint64_t second_cut(const struct reference *r, const struct point *at)
{
    if (at->seed >= PAIRS)
        return at->seed - PAIRS;
    return rng_bits(at->seed, 2, at->at) % (rng_bits(at->seed, 1, at->at) % 4 ? 80 : r->ops);
}

/* The machine as the cut left it: power on, perhaps a second cut during recovery, then to the end.
 */
static enum outcome recover(const struct reference *r, struct tally *t, const struct storage *left,
                            struct witness w, struct err *err)
{
    const struct point *at = &current;
    enum outcome        o;
    int                 rc;

    storage_load(left);
    storage_power_on(at->seed);
    t->most_loose = storage_loose() > t->most_loose ? storage_loose() : t->most_loose;
    if (at->seed % 2 || at->seed >= PAIRS) {
        boot(at->schedule + 1000);
        power_arm(second_cut(r, at));
        rc = life(at->plan, &w, err);
        t->second += (uint64_t)power_was_cut();
        if (rc && !power_was_cut())
            return judge(r, at->plan, &w, rc, err);
        storage_power_on(rng_bits(at->seed, 3, at->at));
    }
    boot(at->schedule + 2000);
    rc = life(at->plan, &w, err);
    o = judge(r, at->plan, &w, rc, err);
    t->went_back += w.went_back;
    if (o == IDENTICAL && w.went_back && at->plan->storage == HONEST) {
        err_set(err, 0, "a step that was reported as committed was lost");
        o = WRONG;
    }
    return o;
}

/* Whether the outcome is one that may be. */
static int fine(const struct plan *p, enum outcome o)
{
    return o == IDENTICAL || (o == REFUSED && p->storage != HONEST);
}

/* Cut the run at `at` and try what may be left with the seeds [first, first + n). The number of
 * outcomes that may not be. */
static int try_point(const struct reference *r, const struct plan *p, struct tally *t,
                     uint64_t schedule, uint64_t at, uint64_t first, uint64_t n, int verbose)
{
    struct witness  w = { 0 };
    struct storage *left;
    struct err      err;
    int             bad = 0, rc;

    current = (struct point){ p, schedule, at, first };
    storage_load(r->begin);
    boot(schedule);
    power_arm(at);
    rc = life(p, &w, &err);
    t->points++;
    if (posix_open_files() > 0 || (rc && !err.text[0])) {
        say_point(stdout);
        printf(": the process left a file open, or failed without a sentence\n");
        bad++;
    }
    if (verbose)
        printf("cut: %s\n", rc ? err.text : "after the end");
    left = storage_save();
    for (uint64_t seed = first; seed < first + n; seed++) {
        enum outcome o;

        current.seed = seed;
        o = recover(r, t, left, w, &err);
        t->cuts++;
        t->outcomes[o]++;
        if (!fine(p, o) || verbose) {
            say_point(stdout);
            printf(": %s: %s\n",
                   o == IDENTICAL ? "identical"
                   : o == REFUSED ? "refused"
                                  : "WRONG",
                   err.text);
        }
        bad += !fine(p, o);
    }
    storage_free(left);
    return bad;
}

/* ---- all of it ---- */

/* points: of each schedule; 0: all. pairs: at one point in so many, recovery is cut at each of its
 * first `recovery` operations; 0: nowhere. */
struct effort {
    uint64_t schedules, points, seeds, pairs, recovery;
};

/* The points of a configuration; the number of outcomes that may not be. */
static int try_plan(const struct plan *p, const struct effort *e, struct tally *t)
{
    struct reference r = { 0 };
    struct state     first;
    struct err       err;
    int              bad = 0;

    current = (struct point){ p, 0, 0, 0 };
    reference_open(&r, p);
    for (uint64_t schedule = 0; schedule < e->schedules; schedule++) {
        uint64_t stride;

        reference_run(&r, p, schedule);
        if (schedule == 0)
            first = r.state;
        if (life_compare(&r.state, &first, &err)) {
            printf("%s: schedule %llu: %s\n", p->name, (unsigned long long)schedule, err.text);
            bad++;
        }
        stride = e->points ? r.ops / e->points + 1 : 1;
        for (uint64_t at = stride / 2; at < r.ops && bad < MANY; at += stride)
            bad += try_point(&r, p, t, schedule, at, 0, e->seeds, 0);
        for (uint64_t at = schedule; e->pairs && at < r.ops && bad < MANY; at += e->pairs)
            bad += try_point(&r, p, t, schedule, at, PAIRS, e->recovery, 0);
    }
    if (p->storage != HONEST && t->outcomes[REFUSED] + t->went_back == 0) {
        printf("%s: nothing was lost by storage that keeps nothing: this proof proves nothing\n",
               p->name);
        bad++;
    }
    storage_free(r.begin);
    return bad;
}

static int try_all(const struct effort *e, int table, const char *only)
{
    int bad = 0;

    if (table)
        printf("%-26s %7s %8s %8s %9s %8s %6s %6s %6s\n", "configuration", "points", "cuts",
               "second", "identical", "refused", "wrong", "back", "loose");
    else
        printf("1..%d\n", PLANS);
    for (int i = 0; i < PLANS; i++) {
        struct tally t = { 0 };
        int          wrong;

        if (only && fnmatch(only, plans[i].name, 0))
            continue;
        if (!life_has(&plans[i])) {
            printf("%s %d - %s # SKIP no software SmartSSD here\n", table ? "#" : "ok", i + 1,
                   plans[i].name);
            continue;
        }
        bad += wrong = try_plan(&plans[i], e, &t);
        if (table)
            printf("%-26s %7llu %8llu %8llu %9llu %8llu %6llu %6llu %6u\n", plans[i].name,
                   (unsigned long long)t.points, (unsigned long long)t.cuts,
                   (unsigned long long)t.second, (unsigned long long)t.outcomes[IDENTICAL],
                   (unsigned long long)t.outcomes[REFUSED], (unsigned long long)t.outcomes[WRONG],
                   (unsigned long long)t.went_back, t.most_loose);
        else
            printf("%s %d - %s: %llu power cuts\n", wrong ? "not ok" : "ok", i + 1, plans[i].name,
                   (unsigned long long)t.cuts);
        fflush(stdout);
    }
    return bad != 0;
}

static int try_one(const char *name, uint64_t schedule, uint64_t at, uint64_t seed)
{
    const struct plan *p = NULL;
    struct reference   r = { 0 };
    struct tally       t = { 0 };
    int                bad;

    for (int i = 0; i < PLANS; i++)
        p = strcmp(plans[i].name, name) ? p : &plans[i];
    if (!p) {
        fprintf(stderr, "no configuration is called %s\n", name);
        return 2;
    }
    current = (struct point){ p, schedule, at, seed };
    reference_open(&r, p);
    reference_run(&r, p, schedule);
    printf("a run of %llu operations\n", (unsigned long long)r.ops);
    bad = try_point(&r, p, &t, schedule, at, seed, 1, 1);
    storage_free(r.begin);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct effort brief = { .schedules = 1, .points = 5, .seeds = 2 };
    struct effort              full = { .seeds = 4, .pairs = 80, .recovery = 100 };
    const char                *name = NULL;
    uint64_t                   number[5] = { 0 };
    int                        all = 0, rc;

    for (int i = 1; i < argc; i++) {
        static const char *const options[] = { "--schedule", "--point", "--seed", "--schedules",
                                               "--points" };

        all |= !strcmp(argv[i], "--all");
        if (i + 1 < argc && !strcmp(argv[i], "--config"))
            name = argv[i + 1];
        for (int k = 0; k < 5; k++)
            if (i + 1 < argc && !strcmp(argv[i], options[k]))
                number[k] = strtoull(argv[i + 1], NULL, 10);
    }
    full.schedules = number[3] ? number[3] : 1;
    full.points = number[4];
    omp_set_num_threads(1);
    signal(SIGABRT, aborted);
    life_init();
    vfs_sim_register();
    rc = name && !all ? try_one(name, number[0], number[1], number[2])
                      : try_all(all ? &full : &brief, all, name);
    storage_load(NULL);
    return rc;
}
