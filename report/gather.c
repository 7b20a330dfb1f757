/* gather.c: reads a run's database into one JSON value: the answers to all questions of
 * data/db/sql, and what follows from them, namely the model's size, the traffic that the run's
 * settings require (offload/estimate/traffic.h) and the life of the drives. A figure that is not in
 * the database is missing in it. */
#include "report/report.h"

#include "data/base/visible.h"
#include "data/db/questions.h"
#include "model/lora/lora.h"
#include "offload/estimate/traffic.h"
#include "plan/wear.h"
#include "report/format.h"
#include "run/folder/session.h"
#include "run/folder/settings.h"
#include "run/sources/corpus_open.h"
#include "run/sources/source.h"

#include <stdarg.h>

/* ---- queries as JSON ---- */

json_t *report_string(const char *text)
{
    json_t *s = json_string(text);

    return s ? s : json_string("?");
}

/* Columns that are text even if they look like a figure. */
static const char texts[] = " path text key part measure host cpu system version backend disk time "
                            "begun drive devices ";

static json_t *value_json(const char *name, const char *text)
{
    char *end;

    if (!text)
        return json_null();
    double v = strtod(text, &end);
    if (*end || !*text || is_word_of(name, texts))
        return report_string(text);
    if (!isfinite(v))
        return json_null();
    return strpbrk(text, ".eExX") ? json_real(v) : json_integer(strtoll(text, NULL, 10));
}

static int row_json(void *ctx, int n, const char **values, const char **names)
{
    json_t *row = json_object();

    for (int i = 0; i < n && row; i++)
        json_object_set_new(row, names[i], value_json(names[i], values[i]));
    return json_array_append_new(ctx, row) ? -ENOMEM : 0;
}

static int no_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory while gathering the report");
}

int report_rows(json_t **rows, struct runlog *log, struct err *err, const char *fmt, ...)
{
    char   *sql = NULL;
    va_list ap;

    va_start(ap, fmt);
    int n = vasprintf(&sql, fmt, ap), rc = n < 0 || !(*rows = json_array()) ? no_memory(err) : 0;
    va_end(ap);
    rc = rc ? rc : runlog_query(log, sql, row_json, *rows, err);
    free(n < 0 ? NULL : sql);
    return rc;
}

char *report_tamed(const char *text)
{
    size_t n = strlen(text), most = 4 * n + 1; // room for each byte as \xNN
    char  *out = malloc(most);

    if (out)
        visible_text(out, most, text, n);
    return out;
}

void report_tame(json_t *v)
{
    const char *key;
    json_t     *part;
    char       *text;
    size_t      i;

    json_object_foreach(v, key, part)
        report_tame(part);
    json_array_foreach(v, i, part)
        report_tame(part);
    if (!json_is_string(v) || !(text = report_tamed(json_string_value(v))))
        return;
    json_string_set(v, text);
    free(text);
}

/* ---- what follows from the settings ---- */

static void add_model(json_t *report, const struct model_config *g)
{
    const struct model_config base = lora_base(g);
    struct err                unsaid;
    json_t                   *model;

    if (!g->arch || arch_check(g, &unsaid))
        return;
    model = json_pack("{s:I, s:I, s:I}", "layers", (json_int_t)g->n_layer, "width",
                      (json_int_t)g->n_embd, "parameters", (json_int_t)arch_total(&base));
    if (g->lora.rank)
        json_object_set_new(model, "trained", json_integer((json_int_t)lora_trained(g)));
    json_object_set_new(report, "model", model);
}

/* Adds the folder of a base in place, and the bytes of its files that hold this rank's portion. */
static void add_base(json_t *report, const struct session *s)
{
    double bytes = 0;
    char  *dir = s->run.base_end ? settings_get(s->log, "lora.base") : NULL;

    for (size_t b = 0; dir && b < run_blocks(&s->run); b++)
        bytes += (double)s->run.base_bytes[b];
    if (dir)
        json_object_set_new(report, "base", json_pack("{s:o, s:I}", "folder", report_string(dir),
                                                      "bytes", (json_int_t)bytes));
    free(dir);
}

static int add_sources(json_t *report, struct session *s, struct err *err)
{
    struct training_source *all = NULL;
    struct err              unsaid = { 0 };
    const json_t           *steps = json_object_get(report, "steps");
    size_t                  n = 0;
    json_t                 *rows = json_array();
    int                     rc = 0;

    if (json_num(steps, "steps") > 0 &&
        source_told(&all, &n, s, (uint64_t)json_num(steps, "last") + 1, &unsaid) == -ENOMEM)
        rc = no_memory(err);
    for (const struct training_source *one = all; one < all + n && !rc; one++)
        json_array_append_new(rows, json_pack("{s:o, s:I, s:I, s:f, s:I, s:I, s:f}", "source",
                                              report_string(one->name), "tokens",
                                              (json_int_t)one->tokens, "rows",
                                              (json_int_t)one->rows, "share", one->share,
                                              "rows_read", (json_int_t)one->taken, "tokens_read",
                                              (json_int_t)one->tokens_taken, "epochs",
                                              (double)one->taken / (double)one->rows));
    if (n)
        json_object_set(report, "sources", rows);
    json_decref(rows);
    corpus_sources_free(all, n);
    return rc;
}

/* Reads how many bytes of activations cross links. Runs of older versions have offloaded none, or
 * all records except as many as there are buffers. */
static void acts_moved(struct runlog *log, struct run_acts *a)
{
    settings_scan(log, "%zu", &a->n, "records");
    settings_scan(log, "%zu", &a->bytes, "record_bytes");
    settings_scan(log, "%zu", &a->buffers, "record_buffers");
    if (settings_scan(log, "%" SCNu64, &a->written, "acts_written") &&
        settings_scan(log, "%" SCNu64, &a->read, "acts_read"))
        return;
    a->written = a->read = a->n > a->buffers ? (uint64_t)(a->n - a->buffers) * a->bytes : 0;
}

static json_t *traffic_row(json_t *all, const char *link, const char *cls, const char *dir)
{
    json_t *row;
    size_t  i;

    json_array_foreach(all, i, row)
        if (!strcmp(json_str(row, "link"), link) && !strcmp(json_str(row, "class"), cls) &&
            !strcmp(json_str(row, "direction"), dir))
            return row;
    row = json_pack("{s:s, s:s, s:s, s:f, s:i, s:i, s:f}",
                    "link", link, "class", cls, "direction", dir, "bytes_per_step", 0.0,
                    "least", 0, "most", 0, "padding_bytes_per_step", 0.0);
    json_array_append_new(all, row);
    return row;
}

/* Adds to the measured rows the traffic that the settings require. Reads of parameters may not be
 * known, and of gradients that are summed in pairs only the most. */
static void add_computed(json_t *all, struct session *s)
{
    struct link_meter m;
    int reads = settings_scan(s->log, "%zu", &s->run.frames, "frames") || s->run.mode == RUN_MEM;

    settings_scan(s->log, "%d", &s->run.residual_in_ram, "residual_in_ram");
    acts_moved(s->log, &s->run.acts);
    traffic_computed(&m, &s->run);
    for (int k = 0; k < LINK_KINDS; k++)
        for (int c = 0; c < LINK_CLASSES; c++)
            for (int d = 0; d < LINK_DIRS; d++) {
                int by_frames = k == LINK_HOST && d == LINK_READ &&
                                (c == CLASS_WIRE || c == CLASS_RESIDUAL);

                if (!m.bytes[k][c][d] || (by_frames && !reads) ||
                    (c == CLASS_GRADIENT && run_pair_sums(&s->run)))
                    continue;
                json_t *row =
                    traffic_row(all, link_kind_names[k], link_class_names[c], link_dir_names[d]);
                // activations depend on the last choice: if steps differ, it is not that of all
                if (c != CLASS_ACTIVATION || json_num(row, "least") == json_num(row, "most"))
                    json_object_set_new(row, "computed",
                                        json_integer((json_int_t)m.bytes[k][c][d]));
            }
}

/* A run that is damaged or of an older version lacks settings, and then the report lacks these. */
static int add_computable(json_t *report, struct runlog *log, struct err *err)
{
    struct session s = { .log = log };
    struct err     unsaid = { 0 };
    json_t        *traffic = json_object_get(report, "traffic");
    int            known = !session_load(&s, &unsaid), rc = 0;

    add_model(report, &s.config);
    if (known) {
        add_base(report, &s);
        rc = add_sources(report, &s, err);
    }
    if (known && json_array_size(traffic))
        add_computed(traffic, &s);
    s.log = NULL; // it is the caller's
    session_close(&s);
    return rc;
}

/* ---- all of it ---- */

/* Adds the life of drives, from the pace of steps alone. With evaluations, which write nothing, a
 * day has fewer steps. */
static void add_wear(json_t *report)
{
    double  pace = json_num(json_object_get(report, "steps"), "seconds_per_step");
    double  endurance = json_num(report, "endurance");
    json_t *row;
    size_t  i;

    if (!(pace > 0))
        return;
    json_array_foreach(json_object_get(report, "written"), i, row) {
        double bytes = json_num(row, "bytes_per_step");

        json_object_set_new(row, "bytes_per_day", json_real(wear_day(bytes, pace)));
        if (endurance > 0 && bytes > 0)
            json_object_set_new(row, "years", json_real(wear_years(bytes, pace, endurance)));
    }
}

/* Turns the settings into one object, KEY to text. Keys may be a stranger's words, too. */
static int settings_object(json_t **rows, struct err *err)
{
    json_t *all = json_object(), *row;
    size_t  i;

    if (!all)
        return no_memory(err);
    json_array_foreach(*rows, i, row) {
        char *key = report_tamed(json_str(row, "key"));

        if (key)
            json_object_set(all, key, json_object_get(row, "text"));
        free(key);
    }
    json_decref(*rows);
    *rows = all;
    return 0;
}

static int add_answer(json_t *report, struct runlog *log, const struct question *q,
                      struct err *err)
{
    json_t *found;
    int     rc = report_rows(&found, log, err, "%s", q->sql);

    if (!rc && !strcmp(q->name, "settings"))
        rc = settings_object(&found, err);
    if (!rc && (!q->one || json_array_size(found)) &&
        json_object_set(report, q->name, q->one ? json_array_get(found, 0) : found))
        rc = no_memory(err);
    json_decref(found);
    return rc;
}

static int add_rewards(json_t *curve, struct runlog *log, struct err *err)
{
    json_t *found, *row;
    size_t  i, at = 0;
    int     rc = report_rows(&found, log, err,
                             "WITH bounds AS (SELECT min(step) AS begin, max(step) - min(step) + 1"
                             " AS n FROM steps) SELECT min(step) AS first, avg(chosen) AS"
                             " rewards_chosen, avg(rejected) AS rewards_rejected, avg(accuracy) AS"
                             " rewards_accuracies, avg(chosen - rejected) AS rewards_margins"
                             " FROM rewards, bounds"
                             " GROUP BY (step - begin) * min(400, n) / n ORDER BY first");

    json_array_foreach(found, i, row) {
        json_t *piece;

        while ((piece = json_array_get(curve, at)) &&
               json_num(piece, "first") < json_num(row, "first"))
            at++;
        if (!rc && piece && json_num(piece, "first") == json_num(row, "first") &&
            json_object_update_missing(piece, row))
            rc = no_memory(err);
    }
    json_decref(found);
    return rc;
}

/* Questions to a table that older runs lack. An answer without rows is left out. */
static const struct more { const char *table, *key; int one; const char *sql; } more[] = {
    { "snapshots", "snapshots", 1, "SELECT count(*) AS taken, max(step) AS last_step,"
      " sum(bytes) AS bytes, sum(shared_bytes) AS shared_bytes, sum(seconds) AS seconds,"
      " (SELECT coalesce(sum(end_ns - start_ns), 0) * 1e-9 FROM spans WHERE phase = 'snapshot')"
      " AS waited_seconds FROM snapshots HAVING count(*) > 0" },
    // how much --scrub-bw has read in the background, and which damage it has found
    { "scrubs", "scrubs", 1, "SELECT sum(bytes) AS bytes, count(*) AS portions,"
      " sum(passes > 0) AS whole, strftime('%Y-%m-%d %H:%M',"
      " min(iif(passes, verified_ns, NULL)) / 1000000000, 'unixepoch') AS oldest"
      " FROM scrubs HAVING count(*) > 0" },
    { "scrubs", "damages", 0, "SELECT found AS time, text FROM damages ORDER BY found" },
    // the branches that the run has left, and their losses in pieces, at most 400 of each
    { "branches", "branches", 0, "SELECT branch, first_step, steps - 1 AS last_step, to_step,"
      " left AS time, replace(options, char(10), '; ') AS text, (SELECT loss FROM left_steps l"
      " WHERE l.branch = branches.branch ORDER BY step DESC LIMIT 1) AS loss"
      " FROM branches ORDER BY branch" },
    { "branches", "branch_curves", 0, "WITH bounds AS (SELECT branch, min(step) AS begin,"
      " max(step) - min(step) + 1 AS n FROM left_steps GROUP BY branch)"
      " SELECT branch, min(step) AS first, max(step) AS last,"
      " avg(iif(abs(loss) < 9e999, loss, NULL)) AS loss, avg(lr) AS lr"
      " FROM left_steps JOIN bounds USING (branch)"
      " GROUP BY branch, (step - begin) * min(400, n) / n ORDER BY branch, first" },
};

static int add_more(json_t *report, const struct more *m, struct runlog *log, struct err *err)
{
    json_t *table = NULL, *found = NULL;
    int     rc = report_rows(&table, log, err, "SELECT 1 FROM sqlite_schema WHERE type = 'table'"
                             " AND name = '%s'", m->table);

    if (!rc && json_array_size(table))
        rc = report_rows(&found, log, err, "%s", m->sql);
    if (!rc && json_array_size(found) &&
        json_object_set(report, m->key, m->one ? json_array_get(found, 0) : found))
        rc = no_memory(err);
    json_decref(table);
    json_decref(found);
    return rc;
}

int report_gather(json_t **out, struct runlog *log, const char *dir, struct err *err)
{
    static const char *const figures[] = { "compress", "endurance" };
    json_t                  *report = json_object();
    char                     mode[64];
    double                   figure;
    int                      rc = report ? 0 : no_memory(err);

    if (!rc)
        json_object_set_new(report, "run", report_string(dir));
    if (settings_scan(log, "%63[^\n]", mode, "option.mode"))
        json_object_set_new(report, "mode", report_string(mode));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (settings_scan(log, "%lf", &figure, "option.%s", figures[i]))
            json_object_set_new(report, figures[i], json_real(figure));
    const struct question *q;
    for (size_t i = 0; !rc && (q = question_at(i)); i++)
        rc = add_answer(report, log, q, err);
    if (!rc && settings_has(log, "pairs.loss"))
        rc = add_rewards(json_object_get(report, "curve"), log, err);
    for (size_t i = 0; i < sizeof more / sizeof *more && !rc; i++)
        rc = add_more(report, &more[i], log, err);
    rc = rc ? rc : add_computable(report, log, err);
    if (!rc)
        add_wear(report);
    *out = report;
    return rc ? rc : runlog_unread(log, err);
}
