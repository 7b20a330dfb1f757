/* schedule_end.c: checks, reports and records where a learning-rate schedule ends if the run
 * continues beyond it. */
#include "run/loop/schedule_end.h"

#include "run/folder/settings.h"

int schedule_end_check(const struct session *s, const struct opt_line *line, uint64_t was,
                  struct err *err)
{
    const struct train_opts *o = &s->o;
    unsigned long long       end = o->schedule_steps, steps = o->steps;

    if (o->schedule == SCHEDULE_CONSTANT || steps <= was || steps <= end ||
        opt_given(line, "schedule-steps"))
        return 0;
    return err_misuse(err, "the %s schedule of %s ends at step %llu, so the learning rate of the "
                      "steps up to %llu would be --min-lr, %g: give --steps %llu --schedule-steps "
                      "%llu to extend the schedule, or --schedule-steps %llu to train on at "
                      "--min-lr", schedule_name((size_t)o->schedule), s->dir, end, steps, o->min_lr,
                      steps, steps, end);
}

void schedule_end_tell(const struct session *s)
{
    const struct train_opts *o = &s->o;

    if (o->schedule != SCHEDULE_CONSTANT && o->steps > o->schedule_steps && !o->quiet)
        events_notice(s->events, "the schedule ends at step %llu: from there to step %llu the "
                      "learning rate is --min-lr, %g", (unsigned long long)o->schedule_steps,
                      (unsigned long long)o->steps, o->min_lr);
}

int schedule_end_record(struct session *s, uint64_t next, struct err *err)
{
    uint64_t was;
    char     text[224];

    if (!settings_scan(s->log, "%" SCNu64, &was, "option.schedule-steps") ||
        was == s->o.schedule_steps || s->o.schedule == SCHEDULE_CONSTANT)
        return 0;
    struct train_opts before = s->o;

    before.schedule_steps = was;
    int rises = s->o.schedule == SCHEDULE_WSD && s->o.schedule_steps > was &&
                next + train_opts_schedule(&before).decay > was + 1;

    snprintf(text, sizeof text, "from step %" PRIu64 " on the schedule ends at step %" PRIu64 ", "
             "not %" PRIu64 "%s", next + 1, s->o.schedule_steps, was,
             rises ? "; its decay had begun, and the learning rate rises to --lr again: lengthen a "
                     "copy from before the decay to avoid that" : "");
    int rc = settings_set(s->log, err, "schedule.step=%" PRIu64 "\nschedule.was=%" PRIu64, next,
                          was);
    return rc ? rc : session_notice(s, text, err);
}
