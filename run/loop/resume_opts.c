/* resume_opts.c: what a resume makes of its options, before the run is opened for training. */
#include "run/loop/resume_opts.h"

#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/ranks/job_run.h"

/* Misuse: the resume asks for steps beyond the horizon, and --schedule-steps is not given. was: the
 * run's steps before. */
static int schedule_end_check(const struct session *s, const struct opt_line *line, uint64_t was,
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

    if (!settings_scan(s->log, "%" SCNu64, &was, "option.schedule-steps") ||
        was == s->o.schedule_steps || s->o.schedule == SCHEDULE_CONSTANT)
        return 0;
    struct train_opts before = s->o;

    before.schedule_steps = was;
    int rises = s->o.schedule == SCHEDULE_WSD && s->o.schedule_steps > was &&
                next + train_opts_schedule(&before).decay > was + 1;
    int rc = settings_set(s->log, err, "schedule.step=%" PRIu64 "\nschedule.was=%" PRIu64, next,
                          was);
    if (rc)
        return rc;
    return session_notice(s, err, "from step %" PRIu64 " on the schedule ends at step %" PRIu64
                          ", not %" PRIu64 "%s", next + 1, s->o.schedule_steps, was,
                          rises ? "; its decay had begun, and the learning rate rises to --lr "
                                  "again: lengthen a copy from before the decay to avoid that"
                                : "");
}

/* The cards that a run knows are those of earlier devices if its devices have none now. */
static int forget_cards(struct session *s, const struct opt_line *given, struct err *err)
{
    static const char *const cards[] = { "fpga", "xclbin" };
    struct opt_line          line = train_opts_line(&s->o);
    int                      rc = 0;

    for (size_t i = 0; strcmp(csd_name((size_t)s->o.csd), "xrt") && i < 2 && !rc; i++)
        if (!opt_given(given, cards[i]))
            rc = opt_set(&line, cards[i], "", err);
    return rc;
}

int resume_overlay(struct session *s, struct opt_line *line, struct train_opts *train, int first,
                   struct err *err)
{
    int      rc = job_run_level(s, line, first, err);
    uint64_t was = s->o.steps;

    if (rc)
        return rc;
    if (!first && !s->o.schedule_steps) // a run of the first version
        s->o.schedule_steps = was;
    if (train->mode == TRAIN_SU_O_C) {
        train->mode = RUN_SUO;
        if (!opt_given(line, "compress"))
            train->compress = s->o.compress > 0 ? s->o.compress : TRAIN_COMPRESS;
        opt_mark_given(line, "compress");
    }
    s->o.quiet = train->quiet; // both belong to the command, not to the run
    s->o.force_device = train->force_device;
    rc = session_overlay(s, line, first, err);
    if (!s->o.export_every && !opt_given(line, "export-limit"))
        s->o.export_limit = 0;
    if (rc || first)
        return rc;
    if (!s->o.schedule_steps) // --schedule-steps 0
        s->o.schedule_steps = s->o.steps;
    for (size_t i = 0; i < train_opts_acts(&s->o) && !rc; i++)
        rc = output_check_name("--act-device", s->o.act_device.item[i], err);
    rc = rc ? rc : forget_cards(s, line, err);
    return rc ? rc : schedule_end_check(s, line, was, err);
}
