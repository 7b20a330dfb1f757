/* feed.c: which feed a run has. */
#include "cmd/run/feed.h"

#include <stdio.h>
#include <stdlib.h>

int feed_has_eval(struct session *s)
{
    char *file = session_get(s, "eval.path"), *examples = session_get(s, "dev.sum");
    int   has = file || examples;

    free(file);
    free(examples);
    return has;
}

int feed_store_seconds(struct session *s, const struct feed_values *v, struct err *err)
{
    static const char *const keys[TASK_SPLITS] = { "dev.seconds", "dev_mm.seconds" };
    int                      rc = 0;

    for (size_t i = 0; i < TASK_SPLITS && !rc; i++) {
        char text[48];

        snprintf(text, sizeof text, "%.17g", v->seconds[i]);
        rc = session_set(s, keys[i], text, err);
    }
    return rc;
}

int feed_open(struct feed **out, struct session *s, struct err *err)
{
    char *task = session_get(s, "task");
    int   rc;

    *out = NULL;
    rc = task ? feed_examples_open(out, s, err) : feed_lm_open(out, s, err);
    free(task);
    return rc;
}

void feed_close(struct feed *f)
{
    if (f)
        f->ops->close(f);
}
