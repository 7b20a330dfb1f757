/* past_steps.c: asks run.db about steps that are done. */
#include "run/loop/past_steps.h"

#include "run/sources/source.h"

static int number_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(double *)ctx = values[0] ? strtod(values[0], NULL) : 0;
    return 0;
}

/* Run a query with a number as its result. `next` replaces the conversion in the query. */
static int ask(struct session *s, double *out, const char *query, uint64_t next, struct err *err)
{
    char sql[256];

    snprintf(sql, sizeof sql, query, (unsigned long long)next);
    return runlog_query(s->log, sql, number_row, out, err);
}

int past_eval_due(const struct session *s, uint64_t step)
{
    return step + 1 == s->o.steps || (s->o.eval_every && (step + 1) % s->o.eval_every == 0);
}

int past_eval_missing(struct session *s, uint64_t next, int *missing, struct err *err)
{
    double found = 0;

    *missing = 0;
    if (next == 0 || !past_eval_due(s, next - 1) || !source_has_eval(s))
        return 0;
    int rc = ask(s, &found, "SELECT count(*) FROM evals WHERE step = %llu - 1", next, err);
    *missing = !(found > 0);
    return rc;
}

int past_skipped(struct session *s, uint64_t next, uint64_t *n, struct err *err)
{
    double found = 0;
    int    rc = ask(s, &found,
                    "SELECT count(*) FROM (SELECT %llu AS next), steps WHERE step < next AND "
                    "step > coalesce((SELECT max(step) FROM steps WHERE step < next AND NOT "
                    "skipped), -1)",
                    next, err);

    *n = (uint64_t)found;
    return rc;
}

int past_seconds(struct session *s, uint64_t next, double *seconds, struct err *err)
{
    *seconds = 0;
    return ask(s, seconds,
               "SELECT avg(seconds) FROM steps WHERE seconds > 0 AND step + 100 >= %llu", next,
               err);
}
