/* feed.c: which feed a run has. */
#include "cmd/run/feed.h"

#include "cmd/run/settings.h"

int feed_has_eval(struct session *s)
{
    return settings_has(s->log, "eval.path") || settings_has(s->log, "dev.sum");
}

int feed_store_seconds(struct session *s, const struct feed_values *v, struct err *err)
{
    int rc = settings_set(s->log, err, "dev.seconds=%.17g", v->seconds[0]);

    return rc ? rc : settings_set(s->log, err, "dev_mm.seconds=%.17g", v->seconds[1]);
}

int feed_open(struct feed **out, struct session *s, struct err *err)
{
    *out = NULL;
    return settings_has(s->log, "task") ? feed_examples_open(out, s, err)
                                        : feed_lm_open(out, s, err);
}

void feed_close(struct feed *f)
{
    if (f)
        f->ops->close(f);
}
