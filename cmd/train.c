/* train.c: opens the job, then the run; trains; says where and why it ended, and how it goes on. */
#include "cmd/train.h"

#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "cmd/terminal/stop.h"
#include "data/base/machine.h"
#include "data/file/file.h"
#include "model/together.h"
#include "plan/memory.h"
#include "run/folder/output.h"
#include "run/loop/going_back.h"
#include "run/loop/training.h"
#include "run/ranks/job_run.h"
#include "run/snapshots/lost.h"

#include <sys/stat.h>

/* A folder that is missing now is a wrong name. Later, as where a drive is away, it is a notice. */
static int snapshot_dirs_check(const struct opt_strings *dirs, struct err *err)
{
    struct stat st;
    int         rc = 0;

    for (size_t i = 0; i < dirs->n && !rc; i++) {
        int why = stat(dirs->item[i], &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

        rc = !why ? output_check_snapshots(dirs->item[i], err)
                  : err_name(err, why, "--snapshot-dir %s: an existing folder is expected%s%s",
                             dirs->item[i], file_is_absent(why) ? "" : ": ",
                             file_is_absent(why) ? "" : strerror(why));
    }
    return rc;
}

int train_begin(char dir[SESSION_PATH], struct comm **comm, const char *run, const char *resume,
                struct train_opts *o, struct err *err)
{
    if (!run == !resume)
        return err_misuse(err, "give --run RUN for a new run or --resume RUN to go on with one");
    int rc = snapshot_dirs_check(&o->snapshot_dir, err);
    rc = rc ? rc : job_open(comm, err);
    if (rc)
        return rc;
    o->quiet |= !job_speaks();
    progress_quiet(o->quiet);
    memory_baseline();
    return job_run_own_dir(dir, run ? run : resume, *comm, err);
}

/* Refuses another --from than rank 0's. */
static int from_alike(const struct opt_line *line, uint64_t from, struct comm *comm,
                      struct err *err)
{
    uint64_t own[] = { (uint64_t)opt_given(line, "from"), from };
    int      rc;
    uint64_t (*all)[2] = comm_collect(comm, own, sizeof own, &rc, err);

    if (all && memcmp(own, all[0], sizeof own))
        rc = err_misuse(err, "--from is not what rank 0 was given: give all ranks the same");
    free(all);
    return rc;
}

int train_check_from(const struct opt_line *line, const char *resume, uint64_t from,
                     struct comm *comm, struct err *err)
{
    if (opt_given(line, "from") && !resume)
        return err_misuse(err, "--from STEP goes back to a snapshot of a run: give --resume RUN "
                          "too, or leave it out");
    if (opt_given(line, "from") && opt_given(line, "device"))
        return err_misuse(err, "--device and --from are two changes of a run: give one of them, "
                          "and the other one with the next --resume");
    return comm ? from_alike(line, from, comm, err) : 0;
}

/* Of several ranks, some may have lost their folders. Those say how they are made again. */
static int folder_check(const char *dir, struct comm *comm, struct err *err)
{
    uint64_t has = (uint64_t)session_may_be_run(dir), all = has;
    int      rc = together_add(comm, &all, NULL, err);
    char     line[RANKS_COMMAND];

    if (rc || has || !all || !comm)
        return rc;
    struct run_ranks r = { .rank = comm->rank, .size = comm->size };
    return err_misuse(err, "%s is not there, or not a run, though other ranks have their folders: "
                      "mount its drive if it is away; if it is lost, %s makes it again from a "
                      "snapshot", dir, ranks_command(line, dir, &r, "restore"));
}

int train_open(struct session *s, const char *dir, int resumes, const struct opt_line *line,
               struct comm *comm, struct err *err)
{
    int rc = resumes ? job_run_finish(dir, comm, err) : 0;

    rc = rc || !resumes ? rc : folder_check(dir, comm, err);

    enum session_how how = opt_given(line, "from")     ? SESSION_BACK
                           : opt_given(line, "device") ? SESSION_NAMED
                                                       : SESSION_WRITE;

    rc = rc ? rc : job_run_open(s, dir, how, say_events_of_job(), comm, err);
    rc = rc ? rc : job_run_join(s, comm, err);
    return rc || !resumes ? rc : session_check_tokenizer(s, err);
}

struct resuming {
    struct opt_line *line;
    int            (*check)(struct session *s, struct opt_line *line, struct err *err);
};

static int check_resume(void *ctx, struct session *s, struct err *err)
{
    const struct resuming *r = ctx;

    return r->check(s, r->line, err);
}

int train_go_back(struct session *s, const char *dir, uint64_t from, struct opt_line *line,
                  int (*check)(struct session *s, struct opt_line *line, struct err *err),
                  struct comm *comm, struct err *err)
{
    struct resuming         r = { line, check };
    struct going_back_check all = { check_resume, &r };

    if (!opt_given(line, "from"))
        return 0;
    int rc = lost_explain(s, going_back(s, from, line, &all, err), err);

    session_close(s);
    rc = rc ? rc : job_run_open(s, dir, SESSION_WRITE, say_events_of_job(), comm, err);
    return rc ? rc : job_run_join(s, comm, err);
}

int train_without_head(struct model_config *g, const char *init, const struct events *events,
                       struct err *err)
{
    if (!arch_classifies(g))
        return 0;
    if (g->untied)
        return err_misuse(err, "%s is a classifier: it has no language model's head to go on from, "
                          "and no embeddings that are tied to one", init);
    events_notice(events, "%s is a classifier: its head is left out, its body is trained as a "
                  "language model", init);
    g->n_labels = 0;
    return 0;
}

/* ---- training, and its end ---- */

static void say_early(const struct session *s, const struct training_end *end)
{
    const struct ending *e = &end->ending;
    char                 best[160] = "no value was a number";

    if (e->any)
        snprintf(best, sizeof best, "the best was %.4f after step %" PRIu64, e->best,
                 e->best_step + 1);
    say_line(stdout, "%s ended early, after step %" PRIu64 " of %" PRIu64 ": %" PRIu64
             " evaluation%s without a better %s; %s; --early-stopping N with a larger N, or 0, "
             "goes further", s->dir, end->step, end->steps, e->since, e->since == 1 ? "" : "s",
             e->name, best);
}

static void say_time(const struct session *s, const struct training_end *end)
{
    char        line[SESSION_LINE];
    const char *text = TIME_TEXT(ending_needs(&end->ending, end->evaluates, end->exports));
    int         below = *text == '<'; // "<1s"

    if (!s->o.time_limit) // another rank's
        say_line(stderr, "siTrain: stopped after step %" PRIu64 " of %" PRIu64 ", by the time "
                 "limit of another rank; go on with: %s", end->step, end->steps,
                 session_resume_line(line, s));
    else
        say_line(stderr, "siTrain: stopped after step %" PRIu64 " of %" PRIu64 ": the next step%s "
                 "would take %s %s, and not end within --time-limit %s; go on with: %s "
                 "--time-limit %" PRIu64 "s", end->step, end->steps,
                 end->evaluates ? " and its evaluation" : "", below ? "less than" : "about",
                 text + below, TIME_TEXT(end->ending.limit),
                 session_resume_line(line, s), s->o.time_limit);
}

int train_to_end(struct session *s, int *finished, struct err *err)
{
    struct training_end end;
    char                line[SESSION_LINE];

    *finished = 0;
    progress_quiet(s->o.quiet);
    stop_catch_pipe();
    int rc = training_run(s, &end, err);
    if (rc)
        return rc;
    *finished = end.how != TRAINING_STOPPED && end.how != TRAINING_TIME;
    progress_make_way();
    if (!job_speaks())
        return end.how == TRAINING_STOPPED ? 130 : 0;
    if (end.how == TRAINING_NOTHING_LEFT)
        say_line(stdout, "%s is finished: its %" PRIu64 " step%s done; --steps N %sgoes further",
                 s->dir, end.step, end.step == 1 ? " is" : "s are",
                 s->o.schedule == SCHEDULE_CONSTANT ? "" : "--schedule-steps N ");
    if (end.how == TRAINING_EARLY)
        say_early(s, &end);
    if (end.how == TRAINING_TIME)
        say_time(s, &end);
    if (end.how != TRAINING_STOPPED)
        return 0;
    say_line(stderr, "siTrain: stopped after step %" PRIu64 " of %" PRIu64 "%s; go on with: %s",
             end.step, end.steps, end.within_evaluation ? ", within its evaluation" : "",
             session_resume_line(line, s));
    return 130;
}
