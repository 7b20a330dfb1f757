/* train_end.c: trains, and says why and where training ended and how it goes on. */
#include "cmd/train_end.h"

#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/stop.h"
#include "run/loop/training.h"

/* Says why training ended before its last step, and after which step the best value came. */
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
    char        line[SESSION_LINE], limit[32], needs[32];
    const char *text = opt_time_text(needs, sizeof needs,
                                     ending_needs(&end->ending, end->evaluates,
                                                  end->exports));
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
                 text + below,
                 opt_time_text(limit, sizeof limit, end->ending.limit),
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
