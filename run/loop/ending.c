/* ending.c: counts evaluations without a better value, and predicts whether the next step ends in
 * time. */
#include "run/loop/ending.h"

#include "data/base/machine.h"
#include "run/folder/settings.h"
#include "run/sources/source.h"

#include <math.h>

/* ---- early stopping ---- */

static int take_best(void *ctx, int n, const char **values, const char **names)
{
    struct ending *e = ctx;

    (void)n, (void)names;
    e->any = values[0] != NULL;
    e->best_step = values[0] ? strtoull(values[0], NULL, 10) : 0;
    e->best = values[1] ? strtod(values[1], NULL) : 0;
    e->since = strtoull(values[2], NULL, 10);
    return 0;
}

/* Find the first evaluation with the best value, and count those after it. A value that is not
 * finite is never better. */
static int look(struct ending *e, struct session *s, uint64_t next, struct err *err)
{
    char sql[640];

    if (!*e->name)
        return 0;
    snprintf(sql, sizeof sql,
             "WITH found AS (SELECT step, value FROM evals WHERE name = '%s' AND step < %" PRIu64
             "), best AS (SELECT step, value FROM found WHERE abs(value) < 9e999"
             " ORDER BY value %s, step LIMIT 1)"
             " SELECT (SELECT step FROM best), (SELECT printf('%%!.17g', value) FROM best),"
             " count(*) FROM found WHERE step > coalesce((SELECT step FROM best), -1)",
             e->name, next, e->larger ? "DESC" : "ASC");
    int rc = runlog_query(s->log, sql, take_best, e, err);
    e->over = !rc && e->since >= s->o.early_stopping;
    return rc;
}

/* ---- both ---- */

int ending_open(struct ending *e, struct session *s, uint64_t next, struct err *err)
{
    enum { SLOW = 200000000 }; // bytes/s at which an image is written, until one was
    const struct train_opts *o = &s->o;
    double                   seconds[2] = { 0 };
    struct run_memory        memory;
    int                      rc = 0;

    *e = (struct ending){ .limit = (double)o->time_limit };
    if (o->early_stopping && !source_has_eval(s))
        return err_misuse(err, "--early-stopping needs something to evaluate on, and %s has "
                          "nothing", s->dir);
    if (o->early_stopping && !o->eval_every)
        return err_misuse(err, "--early-stopping counts evaluations, and %s has one at its end "
                          "alone: give --eval-every N too", s->dir);
    if (o->early_stopping)
        rc = source_compares(e->name, sizeof e->name, &e->larger, s, err);
    settings_scan(s->log, "%lf", &seconds[0], "dev.seconds"); // of an earlier process
    settings_scan(s->log, "%lf", &seconds[1], "dev_mm.seconds");
    e->evaluation = seconds[0] + seconds[1];
    e->passes = ceil((double)source_eval_rows(s) / (double)(o->batch * o->grad_accum));
    if (!rc && s->run.mode == RUN_MEM && !(rc = run_memory(&s->run, &memory, err)))
        e->commit = (double)memory.image / SLOW;
    return rc ? rc : look(e, s, next, err);
}

int ending_evaluated(struct ending *e, struct session *s, uint64_t next, double seconds,
                     struct err *err)
{
    e->evaluation = seconds;
    return look(e, s, next, err);
}

/* ---- the time limit ---- */

void ending_step(struct ending *e, const struct session *s, double seconds, int commits)
{
    enum { FORGETS = 10 }; // a slow step counts a tenth less in each step after it

    if (commits && e->step > 0)
        e->commit = fmax(seconds - e->step, 0);
    else
        e->step = fmax(seconds, e->step * (1 - 1.0 / FORGETS));
    if (s->run.mode != RUN_MEM) // the devices' part of the last step, which nothing hides
        e->commit = e->step;
}

void ending_exported(struct ending *e, double seconds) { e->export = seconds; }

double ending_needs(const struct ending *e, int evaluates, int exports)
{
    double evaluation = e->evaluation > 0 ? e->evaluation : e->passes * e->step;

    return e->step > 0 ? e->step + e->commit + (evaluates ? evaluation : 0) +
                             (exports ? e->export : 0)
                       : 0;
}

int ending_is_time(const struct ending *e, int evaluates, int exports)
{
    return e->limit > 0 && e->step > 0 &&
           machine_age() + ending_needs(e, evaluates, exports) > e->limit;
}

int ending_record(struct runlog *log, enum ending_how how, struct err *err)
{
    return how == ENDING_OPEN ? runlog_unset(log, "finished", err)
                              : settings_set(log, err, "finished=%s",
                                             how == ENDING_EARLY ? "early" : "steps");
}
