/* resume_opts.c: what a resume makes of its options, before the run is opened for training. */
#include "run/loop/resume_opts.h"

#include "run/folder/output.h"
#include "run/loop/schedule_end.h"

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
    uint64_t was = s->o.steps;

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
    int rc = session_overlay(s, line, first, err);
    if (!s->o.export_every && !opt_given(line, "export-limit"))
        s->o.export_limit = 0;
    if (rc || first)
        return rc;
    if (!s->o.schedule_steps) // --schedule-steps 0
        s->o.schedule_steps = s->o.steps;
    for (size_t i = 0; i < train_opts_acts(&s->o) && opt_given(line, "act-device") && !rc; i++)
        rc = output_check_name("--act-device", s->o.act_device.item[i], err);
    rc = rc ? rc : forget_cards(s, line, err);
    return rc ? rc : schedule_end_check(s, line, was, err);
}
