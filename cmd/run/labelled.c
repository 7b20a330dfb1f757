/* labelled.c: the task and the examples of a run, stored and found again. */
#include "cmd/run/labelled.h"

#include "cmd/run/labels.h"
#include "cmd/run/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_SEQ = 128 };

/* One's own labels are what the run calls its classes. */
static int load_custom(struct labelled *l, struct session *s, struct err *err)
{
    int rc = labels_load(&l->labels, s->log, s->dir, s->gpt.n_labels, err);

    l->task = task_custom((const char *const *)l->labels.name, s->gpt.n_labels);
    return rc;
}

int labelled_load(struct labelled *l, struct session *s, struct err *err)
{
    char              *name = settings_get(s->log, "task");
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
    int rc = settings_set(s->log, err, "%s.sum=%08" PRIx32, e->name, sum);

    if (!rc)
        rc = settings_set(s->log, err, "%s.rows=%" PRIu64, e->name, e->rows);
    return rc ? rc : settings_set(s->log, err, "%s.file=%s", e->name, e->path);
}

int labelled_open_file(struct examples **out, const char *path, uint32_t sum,
                       const struct gpt_config *gpt, struct err *err)
{
    int rc = examples_open(out, path, err);

    if (!rc && (*out)->h.crc != sum)
        rc = err_set(err, -EBADMSG, "%s is not what this run was made with (checksum differs)",
                     path);
    if (!rc && ((size_t)(*out)->h.max_id >= gpt->vocab ||
                (gpt->n_labels > 1 && (*out)->h.max_label >= (int32_t)gpt->n_labels)))
        rc = err_set(err, -EBADMSG, "%s holds ids or labels that the model does not have", path);
    if (rc) {
        examples_close(*out);
        *out = NULL;
    }
    return rc;
}

int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err)
{
    char     path[SESSION_PATH + 32];
    uint32_t sum;

    *out = NULL;
    snprintf(path, sizeof path, "%s/%s.ex", s->dir, name);
    if (!settings_scan(s->log, "%" SCNx32, &sum, "%s.sum", name))
        return 0;
    return labelled_open_file(out, path, sum, &s->gpt, err);
}

uint64_t labelled_rows(struct session *s, const char *name)
{
    uint64_t n = 0;

    settings_scan(s->log, "%" SCNu64, &n, "%s.rows", name);
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
