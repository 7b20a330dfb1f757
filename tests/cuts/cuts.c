/* cuts.c: power cuts of siTrain's own commands while they take snapshots, remove them, go back to
 * them and restore from them. It does with whole commands what tests/crash/crash.c does with
 * trainings: the same simulated machine is cut at each operation that changes a file; what was not
 * durable is kept, lost or torn by seed; then the command is typed again, and perhaps cut a second
 * time. Each time
 *
 *     - right after the cut there are as many whole snapshots as ever, and each, read to the
 *       last byte, is the run at its step, bit for bit; so are RUN/best and RUN/checkpoint-STEP;
 *     - any of them can be gone back to, and training goes on to the bits of a run left alone;
 *     - in the end the run and its snapshots are those of a run that was never cut, and no file of
 *       what was begun is left.
 *
 *     cuts                      the short form: some points of some stories, as TAP
 *     cuts --all [--story PATTERN] [--points N] [--seeds N] [--schedules N]
 *                               every point of each story, or N, as a table; of each, N ways in
 *                               which changes may be lost (4), in N schedules (1)
 *     ... --part I --parts N    each Nth of these, for several processes (all.sh)
 *     cuts --story NAME --schedule S --point K --seed T [--verbose]
 *                               one point again, and what became of it */
#include "tests/cuts/command.h"
#include "tests/cuts/doing.h"
#include "tests/cuts/models.h"
#include "tests/cuts/paths.h"
#include "tests/cuts/story.h"
#include "kernels/rng.h"
#include "tests/crash/posix.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"
#include "tests/crash/vfs_sim.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <omp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20 }; // failures are enough

struct point {
    const struct story *story;
    uint64_t            schedule, at, seed;
};
static struct point current; // for whoever has to say where it ended
static int           verbose;
static FILE        *said;    // the program's own stdout and stderr lead nowhere

struct tally { uint64_t points, cuts, second, back, doing[DOINGS], bad; };

/* What the story is if nothing cuts it. */
struct reference {
    struct storage *begin;
    struct picture  end;
    struct album    all;   // the run after each of its steps, on each branch
    size_t          whole; // snapshots at the end
    struct paths    paths; // then
    struct models   models, end_models; // of all steps; at the end
    uint64_t        ops;
};

static void say_point(FILE *to)
{
    fprintf(to, "cuts --story '%s' --schedule %llu --point %llu --seed %llu", current.story->name,
            (unsigned long long)current.schedule, (unsigned long long)current.at,
            (unsigned long long)current.seed);
}

static void aborted(int sig)
{
    (void)sig;
    say_point(said);
    fprintf(said, ": aborted\n");
    fflush(said);
    _exit(1);
}

/* A machine starts. */
static void boot(uint64_t seed)
{
    threads_seed(seed);
    vfs_sim_restart(seed);
    doing_reset();
}

/* ---- without a cut ---- */

static void must(int rc, const char *what, const struct err *err)
{
    if (!rc)
        return;
    fprintf(said, "%s: %s: %s\n", current.story->name, what, err->text);
    fflush(said);
    abort();
}

static void machine_begin(const struct story *t, int all)
{
    struct err err = { 0 };

    storage_load(NULL);
    boot(1);
    must(story_begin(t, all, &err), "before the story", &err);
    storage_power_on(1);
}

static void go_through(const struct story *t, int all, uint64_t schedule, uint64_t *ops)
{
    struct err err = { 0 };
    size_t     at = 0;

    boot(schedule);
    power_arm(UINT64_MAX);
    must(story_go_on(t, all, 0, &at, &err), "without a cut", &err);
    *ops = power_ops();
}

/* The story in this schedule, from its beginning. */
static void reference_run(struct reference *r, const struct story *t, uint64_t schedule)
{
    storage_load(r->begin);
    go_through(t, 0, schedule, &r->ops);
}

static void reference_open(struct reference *r, const struct story *t)
{
    struct err   err = { 0 };
    struct album end;

    machine_begin(t, 1); // each step is looked at
    must(album_take(&r->all, RUN, &err), "looking at what is before the story", &err);
    must(models_take(&r->models, RUN, &err), "looking at its models", &err);
    struct album before = r->all;
    go_through(t, 1, 0, &r->ops);
    must(album_take(&r->all, RUN, &err), "looking at each step", &err);
    must(models_take(&r->models, RUN, &err), "looking at the model of each step", &err);
    for (size_t i = 0; i < before.n && r->all.n < PICTURES; i++)
        if (!album_has(&r->all, &before.at[i]))
            r->all.at[r->all.n++] = before.at[i];
    machine_begin(t, 0);
    r->begin = storage_save();
    reference_run(r, t, 0);
    boot(1);
    must(picture_take(&r->end, RUN, &err), "reading the run", &err);
    must(album_take(&end, RUN, &err), "reading its snapshots", &err);
    must(models_take(&r->end_models, RUN, &err), "reading its models", &err);
    paths_list(&r->paths, "/sim");
    r->whole = end.n;
    for (size_t i = 0; i < end.n; i++)
        if (!album_has(&r->all, &end.at[i]))
            must(-1, "a snapshot differs from that of the same step", &err);
    if (!album_has(&r->all, &r->end))
        must(-1, "the run differs from its snapshot", &err);
}

/* ---- what is there ---- */

/* Each model that has its name is that of its step, on one of the branches. */
static int look_models(const struct reference *r, const struct story *t, struct err *err)
{
    struct models found = { 0 };
    int           rc = models_take(&found, RUN, err);

    for (size_t i = 0; i < found.n && !rc; i++)
        if (!models_has(&r->models, &found.at[i]))
            rc = err_set(err, -1, "the model of step %llu (0: the best) is another one",
                         (unsigned long long)found.at[i].step);
    if (!rc && t->models && (models_count(&found, 0) < t->models || !models_count(&found, 1)))
        rc = err_set(err, -1, "%zu models of steps are there, and %s best one",
                     models_count(&found, 0), models_count(&found, 1) ? "a" : "no");
    return rc;
}

/* Right after the cut, before anybody writes. */
static int look(const struct reference *r, const struct story *t, struct album *found,
                struct err *err)
{
    boot(current.schedule + 500);
    int rc = album_take(found, RUN, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < found->n; i++)
        if (!album_has(&r->all, &found->at[i]))
            return err_set(err, -1, "the snapshot of step %llu is not the run at that step",
                           (unsigned long long)found->at[i].steps);
    if (found->n + (t->parity ? found->by_parity : 0) < t->kept)
        return err_set(err, -1, "%zu snapshots are whole, and %zu were", found->n, t->kept);
    return look_models(r, t, err);
}

/* Refuses a file that is not there if nothing is cut: of a snapshot that was begun or removed. */
static int rest_check(const struct reference *r, struct err *err)
{
    struct paths now = { 0 };
    int          rc = 0;

    paths_list(&now, "/sim");
    for (size_t i = 0; i < now.n && !rc; i++)
        if (paths_count(&now, now.at[i]) > paths_count(&r->paths, now.at[i]))
            rc = err_set(err, -1, "%s is left", now.at[i]);
    for (size_t i = 0; verbose && i < now.n; i++)
        fprintf(said, "%s\n", now.at[i]);
    paths_free(&now);
    return rc;
}

/* What a removal has done need not be durable, so it is looked at before what is not is lost. */
static int judge_end(const struct reference *r, const struct story *t, struct err *err)
{
    struct picture end;
    struct album   found;
    struct models  models = { 0 };
    int            rc;

    rc = look(r, t, &found, err);
    if (!rc && (found.n != r->whole || found.lacking))
        rc = err_set(err, -1, "%zu snapshots are whole and %zu are not; there should be %zu",
                     found.n, found.lacking, r->whole);
    rc = rc ? rc : rest_check(r, err);
    if (rc)
        return rc;
    storage_power_on(0);
    rc = look(r, t, &found, err);
    rc = rc ? rc : picture_take(&end, RUN, err);
    if (!rc && !picture_same(&end, &r->end))
        rc = err_set(err, -1, "the run is another one, after %llu steps",
                     (unsigned long long)end.steps);
    rc = rc ? rc : models_take(&models, RUN, err);
    if (!rc && !models_same(&models, &r->end_models))
        rc = err_set(err, -1, "the run's models are others");
    return rc;
}

/* One of the whole snapshots is gone back to, and training goes on to the same end. */
static int try_back(const struct reference *r, const struct album *found, struct err *err)
{
    struct picture end;
    char           line[128];
    uint64_t       i = rng_bits(current.seed, 5, current.at) % found->n;

    boot(current.schedule + 3000);
    snprintf(line, sizeof line, "pretrain --resume " RUN " --from %llu --quiet --steps %llu",
             (unsigned long long)found->at[i].steps, (unsigned long long)r->end.steps);
    int rc = command_do(line, err);
    rc = rc ? rc : picture_take(&end, RUN, err);
    if (!rc && !picture_same(&end, &r->end))
        rc = err_set(err, -1, "after going back to step %llu the run is another one",
                     (unsigned long long)found->at[i].steps);
    return rc;
}

/* ---- a point ---- */

static int fails(int rc, const char *when, const struct err *err)
{
    if (!rc)
        return 0;
    say_point(said);
    fprintf(said, ": %s: %s\n", when, *err->text ? err->text : "failed without a sentence");
    fflush(said);
    return 1;
}

/* Looks at what a cut left, and leaves it as it is; but a log whose first bytes never arrived is
 * taken away, as the user does who reads that it is none. */
static int look_left(const struct reference *r, struct album *found, struct err *err)
{
    static const char sentence[] = RUN "/run.db-wal is not of siTrain";
    struct storage   *left = storage_save();
    int               rc = look(r, current.story, found, err);

    storage_load(left);
    if (rc && !strncmp(err->text, sentence, strlen(sentence)) && !unlink(RUN "/run.db-wal")) {
        *err = (struct err){ 0 };
        storage_free(left);
        left = storage_save();
        rc = look(r, current.story, found, err);
        storage_load(left);
    }
    storage_free(left);
    return rc;
}

/* A second cut, while the commands from the line *at on are typed again. 1: they were complete
 * before. Otherwise 0, or what is wrong. */
static int cut_again(const struct reference *r, struct tally *y, size_t *at, struct err *err)
{
    struct album found;
    uint64_t     seed = current.seed;
    int          rc;

    boot(current.schedule + 1000);
    power_arm(rng_bits(seed, 2, current.at) % (rng_bits(seed, 1, current.at) % 4 ? 120 : r->ops));
    rc = story_go_on(current.story, 0, 1, at, err);
    if (!power_was_cut()) {
        power_arm(UINT64_MAX);
        return rc ? -1 : 1;
    }
    y->second++;
    storage_power_on(rng_bits(seed, 3, current.at));
    return rc < 0 && !*err->text ? rc : look_left(r, &found, err);
}

/* The machine as a cut left it, from the line `at` on: perhaps a second cut, then to the end. */
static int recover(const struct reference *r, struct tally *y, size_t at, struct err *err)
{
    int rc = current.seed % 2 ? cut_again(r, y, &at, err) : 0;

    if (rc < 0)
        return fails(rc, "after the second cut", err);
    boot(current.schedule + 2000);
    if ((rc = rc ? 0 : story_go_on(current.story, 0, 1, &at, err)))
        return fails(rc, "it does not go on", err);
    return fails(judge_end(r, current.story, err), "in the end", err);
}

/* What may be left of this cut, as the present seed draws it. */
static int try_left(const struct reference *r, struct tally *y, const struct storage *left,
                    size_t at)
{
    const struct story *t = current.story;
    struct storage     *landed;
    struct album        found;
    struct err          err = { 0 };
    int                 bad;

    storage_load(left);
    storage_power_on(current.seed);
    bad = fails(look_left(r, &found, &err), "right after the cut", &err);
    landed = storage_save();
    if (!bad && t->tries_back) {
        storage_load(landed);
        bad = fails(try_back(r, &found, &err), "going back", &err);
        y->back++;
    }
    storage_load(landed);
    bad += recover(r, y, at, &err);
    storage_free(landed);
    y->cuts++;
    return bad;
}

/* Cut the story at `at`, and try what may be left with the seeds [first, first + n). */
static int try_point(const struct reference *r, const struct story *t, struct tally *y,
                     uint64_t schedule, uint64_t at, uint64_t first, uint64_t n)
{
    struct storage *left;
    struct err      err = { 0 };
    size_t          line = 0;
    int             bad = 0, rc;

    current = (struct point){ t, schedule, at, first };
    storage_load(r->begin);
    boot(schedule);
    power_arm(at);
    rc = story_go_on(t, 0, 0, &line, &err);
    y->points++;
    if (!power_was_cut())
        return fails(-1, "the power was not cut", rc ? &err : &(struct err){ .text = "the end" });
    y->doing[doing_at_cut()] += n;
    if (posix_open_files() > 0)
        bad = fails(-1, "after the cut", &(struct err){ .text = "a file stays open" });
    if (rc < 0 && !*err.text)
        bad += fails(rc, "after the cut", &err);
    left = storage_save();
    for (uint64_t seed = first; seed < first + n; seed++) {
        current.seed = seed;
        bad += try_left(r, y, left, line);
    }
    storage_free(left);
    return bad;
}

/* ---- all of it ---- */

struct effort { uint64_t schedules, points, seeds, part, parts; };

static void try_story(const struct story *t, const struct effort *e, struct tally *y)
{
    struct reference r = { 0 };

    current = (struct point){ t, 0, 0, 0 };
    reference_open(&r, t);
    for (uint64_t schedule = 0; schedule < e->schedules; schedule++) {
        if (schedule) // the first is the reference's
            reference_run(&r, t, schedule);
        uint64_t stride = e->points ? r.ops / e->points + 1 : 1;
        for (uint64_t at = stride / 2 + stride * e->part; at < r.ops && y->bad < MANY;
             at += stride * e->parts)
            y->bad += (uint64_t)try_point(&r, t, y, schedule, at, 0, e->seeds);
    }
    storage_free(r.begin);
    paths_free(&r.paths);
}

static void say_row(const char *name, const struct tally *y)
{
    const uint64_t *d = y->doing;

    fprintf(said, "%-22s %6" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64
            " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %5" PRIu64 "\n",
            name, y->points, y->cuts, y->second, y->back, d[DOING_SNAPSHOT], d[DOING_PARITY],
            d[DOING_ROTATION], d[DOING_BACK], d[DOING_RESTORE], d[DOING_MODELS], d[DOING_ELSE],
            y->bad);
}

static int is_told(const struct story *t, int table, const char *only)
{
    return table ? !only || !fnmatch(only, t->name, 0) : t->brief;
}

static int try_all(const struct effort *e, int table, const char *only)
{
    struct tally all = { 0 };
    size_t       n = 0;

    for (size_t i = 0; i < n_stories; i++)
        n += (size_t)is_told(&stories[i], table, only);
    if (!n) {
        fprintf(said, "no story matches '%s'\n", only ? only : "*");
        return 2;
    }
    if (table)
        fprintf(said, "%-22s %6s %7s %7s %7s %7s %7s %7s %7s %7s %7s %7s %5s\n", "story", "points",
                "cuts", "second", "gone to", "taking", "parity", "rotat.", "back", "restor.",
                "models", "else", "wrong");
    else
        fprintf(said, "1..%zu\n", n);
    n = 0;
    for (size_t i = 0; i < n_stories; i++) {
        struct tally y = { 0 };

        if (!is_told(&stories[i], table, only))
            continue;
        try_story(&stories[i], e, &y);
        if (table)
            say_row(stories[i].name, &y);
        else
            fprintf(said, "%s %zu - %s: %llu power cuts\n", y.bad ? "not ok" : "ok", ++n,
                    stories[i].name, (unsigned long long)y.cuts);
        fflush(said);
        for (size_t k = 0; k < sizeof y / sizeof(uint64_t); k++)
            ((uint64_t *)&all)[k] += ((uint64_t *)&y)[k];
    }
    if (table)
        say_row("all", &all);
    return all.bad != 0;
}

static int try_one(const char *name, uint64_t schedule, uint64_t at, uint64_t seed)
{
    struct reference r = { 0 };
    struct tally     y = { 0 };
    int              bad = 2;

    for (size_t i = 0; i < n_stories; i++)
        if (!strcmp(stories[i].name, name)) {
            current = (struct point){ &stories[i], schedule, at, seed };
            reference_open(&r, &stories[i]);
            reference_run(&r, &stories[i], schedule);
            fprintf(said, "a story of %llu operations\n", (unsigned long long)r.ops);
            bad = try_point(&r, &stories[i], &y, schedule, at, seed, 1) != 0;
            fprintf(said, "%s\n", bad ? "wrong" : "as it has to be");
            storage_free(r.begin);
            paths_free(&r.paths);
        }
    if (bad == 2)
        fprintf(said, "no story is called %s\n", name);
    return bad;
}

/* What the commands say goes nowhere; verbose: it stays. */
static void streams_take(void)
{
    int out = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY);

    said = fdopen(out, "w");
    if (!said || none < 0)
        abort();
    if (!verbose) {
        dup2(none, STDOUT_FILENO);
        dup2(none, STDERR_FILENO);
    }
    close(none);
}

enum { NUMBERS = 8, OF_ONE = 3 }; // options with a number: the first are of one point

/* The command line. -1: nobody knows this word, or not here. */
static int words_take(int argc, char **argv, uint64_t number[NUMBERS], const char **name, int *all)
{
    static const char *const options[NUMBERS] = { "--schedule", "--point", "--seed", "--schedules",
                                                  "--points",   "--part",  "--parts", "--seeds" };
    int of_one = 0, of_all = 0;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        char       *end;
        int         k = 0;

        if (!strcmp(word, "--all") || !strcmp(word, "--verbose")) {
            *(word[2] == 'a' ? all : &verbose) = 1;
            continue;
        }
        if (++i == argc)
            return -1;
        if (!strcmp(word, "--story")) {
            *name = argv[i];
            continue;
        }
        while (k < NUMBERS && strcmp(word, options[k]))
            k++;
        if (k == NUMBERS)
            return -1;
        number[k] = strtoull(argv[i], &end, 10);
        if (end == argv[i] || *end)
            return -1;
        *(k < OF_ONE ? &of_one : &of_all) = 1;
    }
    return (of_all && !*all) || (of_one && (*all || !*name)) ? -1 : 0;
}

int main(int argc, char **argv)
{
    uint64_t      number[NUMBERS] = { 0 };
    struct effort e = { .schedules = 1, .points = 3, .seeds = 2, .parts = 1 };
    const char   *name = NULL;
    int           all = 0, rc;

    if (words_take(argc, argv, number, &name, &all)) {
        fprintf(stderr, "cuts: these options are not known, or not together; see cuts.c\n");
        return 2;
    }
    if (all)
        e = (struct effort){ .schedules = number[3] ? number[3] : 1, .points = number[4],
                             .part = number[5], .parts = number[6] ? number[6] : 1,
                             .seeds = number[7] ? number[7] : 4 };
    streams_take();
    omp_set_num_threads(1);
    signal(SIGABRT, aborted);
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD); // threads take turns, and never within a call of it
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    vfs_sim_register();
    rc = name && !all ? try_one(name, number[0], number[1], number[2]) : try_all(&e, all, name);
    storage_load(NULL);
    fclose(said);
    return rc;
}
