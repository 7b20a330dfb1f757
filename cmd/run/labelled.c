/* labelled.c: the task and the examples of a run, stored and found again. */
#include "cmd/run/labelled.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_SEQ = 128 };

/* One's own labels are what the run calls its classes. */
static int load_custom(struct labelled *l, struct session *s, struct err *err)
{
    int rc = session_labels(s, &l->labels, err);

    l->task = task_custom((const char *const *)l->labels.name, s->gpt.n_labels);
    return rc;
}

int labelled_load(struct labelled *l, struct session *s, struct err *err)
{
    char              *name = session_get(s, "task");
    const struct task *known = name ? task_find(name) : NULL;
    int                rc = 0;

    *l = (struct labelled){ 0 };
    if (known)
        l->task = *known;
    else if (name && !strcmp(name, "custom"))
        rc = load_custom(l, s, err);
    else
        rc = err_set(err, -EBADMSG, "%s/run.db has the task %s, which is not known", s->dir,
                     name ? name : "of no name");
    if (!rc && l->task.n_labels != s->gpt.n_labels)
        rc = err_set(err, -EBADMSG, "%s: the task %s has %zu labels, the model %zu", s->dir,
                     l->task.name, l->task.n_labels, s->gpt.n_labels);
    free(name);
    return rc;
}

void labelled_release(struct labelled *l)
{
    hf_labels_free(&l->labels);
    *l = (struct labelled){ 0 };
}

int labelled_store(struct session *s, const struct encode *e, uint32_t sum, struct err *err)
{
    char key[32], text[32];
    int  rc;

    snprintf(key, sizeof key, "%s.sum", e->name);
    snprintf(text, sizeof text, "%08" PRIx32, sum);
    rc = session_set(s, key, text, err);
    snprintf(key, sizeof key, "%s.rows", e->name);
    snprintf(text, sizeof text, "%" PRIu64, e->rows);
    if (!rc)
        rc = session_set(s, key, text, err);
    snprintf(key, sizeof key, "%s.file", e->name);
    return rc ? rc : session_set(s, key, e->path, err);
}

int labelled_open_file(struct examples **out, const char *path, uint32_t sum,
                       const struct gpt_config *gpt, struct err *err)
{
    int rc = examples_open(out, path, err);

    if (!rc && examples_sum(*out) != sum)
        rc = err_set(err, -EBADMSG, "%s is not what this run was made with (checksum differs)",
                     path);
    if (!rc && ((size_t)examples_max_id(*out) >= gpt->vocab ||
                (gpt->n_labels > 1 && examples_max_label(*out) >= (int32_t)gpt->n_labels)))
        rc = err_set(err, -EBADMSG, "%s holds ids or labels that the model does not have", path);
    if (rc) {
        examples_close(*out);
        *out = NULL;
    }
    return rc;
}

int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err)
{
    char key[32], path[SESSION_PATH + 32], *sum;
    int  rc = 0;

    *out = NULL;
    snprintf(key, sizeof key, "%s.sum", name);
    snprintf(path, sizeof path, "%s/%s.ex", s->dir, name);
    sum = session_get(s, key);
    if (sum)
        rc = labelled_open_file(out, path, (uint32_t)strtoul(sum, NULL, 16), &s->gpt, err);
    free(sum);
    return rc;
}

uint64_t labelled_rows(struct session *s, const char *name)
{
    char     key[48], *text;
    uint64_t n;

    snprintf(key, sizeof key, "%s.rows", name);
    text = session_get(s, key);
    n = text ? strtoull(text, NULL, 10) : 0;
    free(text);
    return n;
}

uint64_t labelled_most_rows(struct session *s, const char *name)
{
    char     other[32];
    uint64_t n = labelled_rows(s, name), n_other;

    snprintf(other, sizeof other, "%s_mm", name);
    n_other = labelled_rows(s, other);
    return n > n_other ? n : n_other;
}

uint64_t labelled_seq(uint64_t asked, size_t positions)
{
    return asked ? asked : positions < USUAL_SEQ ? positions : USUAL_SEQ;
}

uint64_t labelled_epoch_steps(uint64_t rows, const struct train_opts *o)
{
    uint64_t each = o->batch * o->grad_accum;

    return rows / each + (rows % each != 0);
}
