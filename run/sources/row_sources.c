/* row_sources.c: the settings source.N.* and mix of a run, and the order of a mixture's rows. */
#include "run/sources/row_sources.h"

#include "data/base/round.h"
#include "data/file/unpack.h"
#include "data/file/stdin_spool.h"
#include "run/folder/settings.h"
#include "run/sources/mix_weights.h"

static size_t inputs_of(const struct tune_opts *o)
{
    return text_list_inputs(o->train_file.item, o->train_file.n) +
           text_list_inputs(o->eval_file.item, o->eval_file.n) +
           text_list_inputs(&o->test_file, !!o->test_file);
}

int row_sources_check(const struct tune_opts *o, struct err *err)
{
    uint64_t parts[MIX_MOST];

    if (inputs_of(o) > 1)
        return err_misuse(err, "- (standard input) was given twice: it can be read once");
    return o->mix ? mix_weights_read(parts, o->mix, o->train_file.n, "train-file", err) : 0;
}

int row_sources_spool(const struct tune_opts *o, const char *run, size_t ranks,
                      const struct events *events, struct err *err)
{
    if (!inputs_of(o))
        return 0;
    if (ranks > 1)
        return err_misuse(err, "- (standard input) reaches one process alone, and %zu train: give "
                          "a file", ranks);
    struct watch w = work_begin(events, "reading standard input");
    int          rc = stdin_spool(run, &w, err);

    work_end(events);
    return rc;
}

/* ---- storing ---- */

int row_counts_open(struct row_counts *c, const struct text_list *list, struct err *err)
{
    *c = (struct row_counts){ calloc(list->n_names + 1, sizeof *c->of), list->n_names };
    return c->of ? 0 : err_set(err, -ENOMEM, "out of memory for the sources of rows");
}

void row_counts_close(struct row_counts *c)
{
    free(c->of);
    *c = (struct row_counts){ 0 };
}

static int store_one(struct session *s, const struct row_count *c, size_t i, const char *name,
                     struct err *err)
{
    char *full = strcmp(name, "-") ? file_real(name) : NULL;
    int   rc = settings_set(s->log, err, "source.%zu.file=%s", i,
                            full ? full : unpack_shown(name));

    free(full);
    return rc ? rc
              : settings_set(s->log, err, "source.%zu.rows=%" PRIu64 "\nsource.%zu.tokens=%" PRIu64,
                             i, c->rows, i, c->tokens);
}

int row_sources_store(struct session *s, const struct row_counts *c, const struct text_list *list,
                      const char *mix, struct err *err)
{
    char *parts = NULL;
    int   rc = 0;

    for (size_t i = 0; i < c->n && !rc; i++) {
        if (mix && !c->of[i].rows)
            rc = err_misuse(err, "--mix: not one row of %s is trained on: leave the file out, or "
                            "give a larger --max-train-samples or another --eval-split",
                            unpack_shown(list->name[i]));
        rc = rc ? rc : store_one(s, &c->of[i], i, list->name[i], err);
    }
    if (!rc && (mix || (c->n > 1 && s->rows == SESSION_PACKED))) // older programs misread these
        rc = runlog_raise(s->log, FORMAT_ARITHMETIC, err);
    rc = rc || !mix ? rc : mix_weights_text(&parts, mix, c->n, "train-file", err);
    if (!rc && parts)
        rc = settings_set(s->log, err, "source.mix=%s", parts);
    free(parts);
    return rc;
}

int row_sources_store_packed(struct session *s, size_t i, uint64_t rows, struct err *err)
{
    return settings_set(s->log, err, "source.%zu.packed=%" PRIu64, i, rows);
}

/* ---- the order ---- */

int row_sources_open(struct row_sources *out, struct session *s, struct err *err)
{
    struct mixture *m = &out->order;
    char            where[SESSION_PATH + 32], *mix = NULL;
    size_t          n = 0;
    int             rc;

    while (n < MIX_MOST && settings_has(s->log, "source.%zu.rows", n))
        n++;
    *m = (struct mixture){ .source = calloc(n + 1, sizeof *m->source), .seed = s->o.seed,
                           .pool = ROWS_EPOCH, .shuffled = s->o.order == TRAIN_SHUFFLED };
    out->examples = calloc(n + 1, sizeof *out->examples);
    if (!m->source || !out->examples)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    m->n = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t *rows = &m->source[i].rows;

        settings_scan(s->log, "%" SCNu64, &out->examples[i], "source.%zu.rows", i);
        *rows = out->examples[i];
        settings_scan(s->log, "%" SCNu64, rows, "source.%zu.packed", i);
        m->rows += *rows;
    }
    snprintf(where, sizeof where, "%s/run.db: source.mix", s->dir);
    rc = settings_find(&mix, s->log, err, "source.mix");
    rc = rc ? rc : mix_weights_apply(m, mix, where, err);
    for (size_t i = 0; i < n && !rc && mix; i++)
        if (!m->source[i].rows)
            rc = err_set(err, -EBADMSG, "%s/run.db: source.%zu.rows is damaged", s->dir, i);
    free(mix);
    return rc;
}

void row_sources_close(struct row_sources *r)
{
    mixture_close(&r->order);
    free(r->examples);
    r->examples = NULL;
}

uint64_t row_sources_row(const struct row_sources *r, uint64_t number)
{
    size_t   source;
    uint64_t row;

    mixture_find(&r->order, number, &source, &row);
    for (size_t i = 0; i < source; i++)
        row += r->order.source[i].rows;
    return row;
}

/* ---- what was read ---- */

/* Rows of each source that a number of steps has read. An epoch of the pool ends with a step, which
 * may have fewer rows. Of a begun epoch of rows by length only the proportion is known. */
static void count_taken(const struct mixture *m, struct session *s, uint64_t steps,
                        uint64_t *taken)
{
    uint64_t rows = s->o.grad_accum * s->o.batch / (s->rows == SESSION_PAIRS ? 2 : 1); // of a step
    uint64_t each = div_up(m->rows, rows), whole = steps / each;
    uint64_t begun = size_min(steps % each * rows, m->rows);
    int      by_length = !m->weighted && settings_has(s->log, "chat.by_length");

    mixture_taken(m, m->weighted ? steps * rows : whole * m->rows + (by_length ? 0 : begun), taken);
    for (size_t k = 0; k < m->n && by_length; k++)
        taken[k] += (uint64_t)((double)begun * (double)m->source[k].rows / (double)m->rows + 0.5);
}

static int tell(struct training_source *all, const struct mixture *m, struct session *s,
                const uint64_t *taken, struct err *err)
{
    for (size_t i = 0; i < m->n; i++) {
        struct training_source *c = &all[i];

        c->name = settings_get(s->log, "source.%zu.file", i);
        if (!c->name)
            return err_set(err, -EBADMSG, "%s/run.db has no source.%zu.file", s->dir, i);
        settings_scan(s->log, "%" SCNu64, &c->tokens, "source.%zu.tokens", i);
        c->rows = m->source[i].rows;
        c->share = m->weighted ? (double)m->source[i].part / MIXTURE_BLOCK
                               : (double)c->rows / (double)m->rows;
        c->taken = taken[i];
        c->tokens_taken = c->rows ? (uint64_t)((double)c->tokens * (double)c->taken /
                                               (double)c->rows + 0.5) : 0;
        c->weighted = m->weighted;
    }
    return 0;
}

int row_sources_told(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                     struct err *err)
{
    struct row_sources r;
    uint64_t          *taken = NULL;
    int                rc = row_sources_open(&r, s, err);

    *n = rc || !r.order.rows || r.order.rows >= UINT64_C(1) << 48 ? 0 : r.order.n;
    *out = calloc(*n + 1, sizeof **out);
    taken = calloc(*n + 1, sizeof *taken);
    if (!rc && (!*out || !taken))
        rc = err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    if (!rc && *n) {
        count_taken(&r.order, s, steps, taken);
        rc = tell(*out, &r.order, s, taken, err);
    }
    free(taken);
    row_sources_close(&r);
    return rc;
}
