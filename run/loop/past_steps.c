/* past_steps.c: asks run.db about steps that are done. */
#include "run/loop/past_steps.h"

#include "run/sources/source.h"

int past_eval_due(const struct session *s, uint64_t step)
{
    return step + 1 == s->o.steps || (s->o.eval_every && (step + 1) % s->o.eval_every == 0);
}

int past_eval_missing(struct session *s, uint64_t next, int *missing, struct err *err)
{
    char found[32];

    *missing = 0;
    if (next == 0 || !past_eval_due(s, next - 1) || !source_has_eval(s))
        return 0;
    int rc = runlog_value(s->log, found, sizeof found, err,
                          "SELECT count(*) FROM evals WHERE step = %" PRIu64, next - 1);
    *missing = !runlog_count(found);
    return rc;
}

int past_skipped(struct session *s, uint64_t next, uint64_t *n, struct err *err)
{
    char found[32];
    int  rc = runlog_value(s->log, found, sizeof found, err,
                           "SELECT count(*) FROM (SELECT %" PRIu64 " AS next), steps WHERE step <"
                           " next AND step > coalesce((SELECT max(step) FROM steps WHERE step <"
                           " next AND NOT skipped), -1)", next);

    *n = runlog_count(found);
    return rc;
}

int past_seconds(struct session *s, uint64_t next, double *seconds, struct err *err)
{
    char found[32];
    int  rc = runlog_value(s->log, found, sizeof found, err, "SELECT avg(seconds) FROM steps WHERE "
                           "seconds > 0 AND step + 100 >= %" PRIu64, next);

    *seconds = strtod(found, NULL);
    return rc;
}
