/* toy_run.c: see toy_run.h. */
#include "tests/toy_run.h"

#include "tests/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void must(const struct toy *t, int rc)
{
    if (rc)
        fail_msg("%d: %s", rc, t->err.text);
}

void toy_make(struct toy *t, const struct run_config *cfg)
{
    char path[4096];

    *t = (struct toy){ .cfg = *cfg, .dir = tempdir_new() };
    t->cfg.dir = t->dir;
    snprintf(path, sizeof path, "%s/run.db", t->dir);
    must(t, runlog_create(&t->cfg.log, path, 0, &t->err));
    must(t, run_format(&t->cfg, &toy_init, &t->err));
}

void toy_remove(struct toy *t)
{
    runlog_close(t->cfg.log);
    tempdir_remove(t->dir);
}

struct stream *toy_open(struct toy *t)
{
    struct stream *s = NULL;
    char           notice[512];

    must(t, run_train(&s, &t->cfg, notice, sizeof notice, &t->err));
    return s;
}

void toy_close(struct toy *t, struct stream *s)
{
    must(t, stream_drain(s, &t->err));
    stream_close(s);
}

double toy_train(struct toy *t, struct stream *s, uint64_t step)
{
    double loss;

    must(t, toy_step(&t->cfg, s, step, 0, 0, &loss, &t->err));
    return loss;
}

uint32_t toy_sum(struct toy *t)
{
    uint32_t sum = 0;

    must(t, toy_params_sum(&t->cfg, &sum, &t->err));
    return sum;
}
