/* labelled.c: the task and the examples of a run, stored and found again. */
#include "cmd/run/labelled.h"

#include "cmd/run/settings.h"

enum { USUAL_SEQ = 128 };

static int add_file(struct session *s, const struct encode *e, struct tokenizer *tok,
                    struct err *err)
{
    struct examples *made = NULL;
    char             path[SESSION_PATH + 32];

    snprintf(path, sizeof path, "%s/%s.ex", s->dir, e->name);
    int rc = encode_file(&made, e, tok, s->o.seq, tokenizer_endoftext(tok), path, err);
    rc = rc ? rc
            : settings_set(s->log, err, "%s.sum=%08" PRIx32 "\n%s.rows=%" PRIu64, e->name,
                           made->h.crc, e->name, e->rows);
    examples_close(made);
    return rc ? rc : settings_set(s->log, err, "%s.file=%s", e->name, e->path);
}

int labelled_add(struct session *s, const struct encode *e, size_t n, uint64_t epochs,
                 struct tokenizer *tok, struct err *err)
{
    const struct task_names *c = &e->read;
    int rc = settings_set(s->log, err, "task=%s\nepochs=%" PRIu64, e->task->name, epochs);

    if (!rc && c->text)
        rc = settings_set(s->log, err, "column.text=%s", c->text);
    if (!rc && c->pair)
        rc = settings_set(s->log, err, "column.pair=%s", c->pair);
    if (!rc && c->label)
        rc = settings_set(s->log, err, "column.label=%s", c->label);
    for (size_t i = 0; i < n && !rc; i++)
        rc = add_file(s, &e[i], tok, err);
    return rc;
}

void labelled_columns(struct task_names *out, const struct session *s)
{
    *out = (struct task_names){ .text = settings_get(s->log, "column.text"),
                                .pair = settings_get(s->log, "column.pair"),
                                .label = settings_get(s->log, "column.label") };
}

int labelled_load(struct labelled *l, struct session *s, struct err *err)
{
    char              *name = settings_get(s->log, "task");
    const struct task *known = name ? task_find(name) : NULL;
    int                rc = 0;

    *l = (struct labelled){ 0 };
    if (known) {
        l->task = *known;
    } else if (name && !strcmp(name, "custom")) { // its labels are what the run calls its classes
        rc = session_labels(&l->labels, s, err);
        l->task = task_custom((const char *const *)l->labels.name, s->gpt.n_labels);
    } else {
        rc = err_set(err, -EBADMSG, "%s/run.db has the task %s, which is not known", s->dir,
                     name ? name : "of no name");
    }
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

int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err)
{
    const struct gpt_config *gpt = &s->gpt;
    char                     path[SESSION_PATH + 32];
    uint32_t                 sum;

    *out = NULL;
    snprintf(path, sizeof path, "%s/%s.ex", s->dir, name);
    if (!settings_scan(s->log, "%" SCNx32, &sum, "%s.sum", name))
        return 0;
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

uint64_t labelled_rows(struct session *s, const char *name)
{
    uint64_t n = 0;

    settings_scan(s->log, "%" SCNu64, &n, "%s.rows", name);
    return n;
}

uint64_t labelled_most_rows(struct session *s, const char *name)
{
    char     other[32];
    uint64_t n = labelled_rows(s, name);

    snprintf(other, sizeof other, "%s_mm", name);
    uint64_t n_other = labelled_rows(s, other);
    return n > n_other ? n : n_other;
}

int labelled_seq(uint64_t *seq, uint64_t asked, size_t positions, struct err *err)
{
    *seq = asked ? asked : positions < USUAL_SEQ ? positions : USUAL_SEQ;
    if (*seq <= positions)
        return 0;
    return err_misuse(err, "--max-seq %" PRIu64 ": the model has %zu positions", *seq, positions);
}

uint64_t labelled_epoch_steps(uint64_t rows, const struct train_opts *o)
{
    uint64_t each = o->batch * o->grad_accum;

    return rows / each + (rows % each != 0);
}
