/* metrics.c: prints a run's figures as OpenMetrics text (openmetrics.io, version 1.0.0), for
 * monitoring. A family is a name, a type and a query, whose first column is the value; other
 * columns are labels. Each sample names the run, so several runs can go to one place. Only types
 * are used that Prometheus' older text format has, because node_exporter's textfile collector reads
 * that. */
#include "report/report.h"

#include <math.h>

enum type { GAUGE, COUNTER, FIGURE }; // FIGURE: a gauge whose NULL means NaN, as SQLite stores it

static const struct family {
    const char *name; // samples of a counter append _total
    enum type   type;
    const char *unit; // the end of the name; NULL: it has none
    const char *help, *sql;
} families[] = {
    { "sitrain_run_info", GAUGE, NULL, "What the run is.",
      "SELECT 1, (SELECT value FROM runs WHERE key = 'option.mode') AS mode,"
      " (SELECT value FROM runs WHERE key = 'engine') AS engine" },
    { "sitrain_device_info", GAUGE, NULL, "Where a device's states are.",
      "SELECT 1, device, path, backend FROM devices ORDER BY device" },
    { "sitrain_steps", COUNTER, NULL, "Steps done.", "SELECT count(*) FROM steps" },
    { "sitrain_steps_planned", GAUGE, NULL, "Steps of the run.",
      "SELECT value FROM runs WHERE key = 'option.steps'" },
    { "sitrain_skipped_steps", COUNTER, NULL, "Steps that changed nothing.",
      "SELECT coalesce(sum(skipped), 0) FROM steps" },
    { "sitrain_clipped_steps", COUNTER, NULL, "Steps whose gradient was clipped.",
      "SELECT coalesce(sum(clipped), 0) FROM steps" },
    { "sitrain_tokens", COUNTER, NULL, "Tokens trained on.",
      "SELECT coalesce(sum(tokens), 0) FROM steps" },
    { "sitrain_training_seconds", COUNTER, "seconds", "Time of all steps, evaluations apart.",
      "SELECT coalesce(sum(seconds), 0) FROM steps" },
    { "sitrain_notices", COUNTER, NULL, "Notices in the run's log.",
      "SELECT count(*) FROM notices" },
    { "sitrain_loss", FIGURE, NULL, "Mean loss of the last step.",
      "SELECT loss FROM steps ORDER BY step DESC LIMIT 1" },
    { "sitrain_learning_rate", GAUGE, NULL, "Learning rate of the last step.",
      "SELECT lr FROM steps ORDER BY step DESC LIMIT 1" },
    { "sitrain_gradient_norm", FIGURE, NULL, "Norm of the last step's gradient before clipping.",
      "SELECT grad_norm FROM steps ORDER BY step DESC LIMIT 1" },
    { "sitrain_step_seconds", GAUGE, "seconds", "Time of the last step that is timed.",
      "SELECT seconds FROM steps WHERE seconds > 0 ORDER BY step DESC LIMIT 1" },
    { "sitrain_step_tokens", GAUGE, "tokens", "Tokens of the last step that is timed.",
      "SELECT tokens FROM steps WHERE seconds > 0 ORDER BY step DESC LIMIT 1" },
    { "sitrain_resident_memory_peak_bytes", GAUGE, "bytes",
      "Most memory that the training process had resident.", "SELECT max(peak_rss) FROM steps" },
    { "sitrain_evaluation", FIGURE, NULL, "Values of the last evaluation.",
      "SELECT value, name FROM evals WHERE step = (SELECT max(step) FROM evals) ORDER BY name" },
    { "sitrain_evaluation_step", GAUGE, NULL, "Steps done at the last evaluation.",
      "SELECT max(step) + 1 FROM evals" },
    { "sitrain_step_part_seconds", GAUGE, "seconds",
      "Mean time of a step's parts as the training thread lived them, of the steps kept whole.",
      "WITH b AS (SELECT avg(fw) AS f, avg(bw_grad) AS b, avg(\"update\") AS u, avg(other) AS o"
      " FROM breakdown) SELECT f, 'forward' AS part FROM b UNION ALL SELECT b, 'backward' FROM b"
      " UNION ALL SELECT u, 'update' FROM b UNION ALL SELECT o, 'other' FROM b" },
    { "sitrain_devices_busy_seconds", COUNTER, "seconds",
      "Time in which any device was at work for training, of the steps kept whole.",
      "SELECT sum(busy_seconds) FROM overlap" },
    { "sitrain_devices_hidden_seconds", COUNTER, "seconds",
      "How much of that the training thread did not wait.",
      "SELECT sum(hidden_seconds) FROM overlap" },
    { "sitrain_link_bytes", COUNTER, "bytes", "Bytes that crossed a link, without padding.",
      "SELECT sum(bytes), link, class, direction FROM traffic"
      " GROUP BY link, class, direction ORDER BY link, class, direction" },
    { "sitrain_device_bytes_per_second", GAUGE, NULL,
      "Bandwidth while a transfer of the kind was under way, of the steps kept whole.",
      "SELECT bytes_per_second, device, link, phase, direction FROM device_rate"
      " ORDER BY device, link, phase, direction" },
};

struct sampling { FILE *out; const struct family *family; const char *run; };

static void print_label(FILE *out, const char *name, const char *value)
{
    char *text = report_tamed(value);

    fprintf(out, "%s=\"", name);
    for (const char *p = text ? text : ""; *p; p++)
        fprintf(out, "%s%c", *p == '\\' || *p == '"' ? "\\" : "", *p);
    fputc('"', out);
    free(text);
}

/* Prints a sample. A missing value has none. */
static int sample(void *ctx, int n, const char **values, const char **names)
{
    const struct sampling *s = ctx;
    const char            *value = values[0] || s->family->type != FIGURE ? values[0] : "nan";
    char                  *end;
    double                 v = value ? strtod(value, &end) : 0;

    if (!value || *end || end == value)
        return 0;
    fprintf(s->out, "%s%s{", s->family->name, s->family->type == COUNTER ? "_total" : "");
    print_label(s->out, "run", s->run);
    for (int i = 1; i < n; i++)
        if (values[i]) {
            fputc(',', s->out);
            print_label(s->out, names[i], values[i]);
        }
    if (!value[strspn(value, "0123456789")])
        fprintf(s->out, "} %s\n", value); // with all its digits
    else if (isfinite(v))
        fprintf(s->out, "} %.15g\n", v);
    else
        fprintf(s->out, "} %s\n", isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
    return 0;
}

int report_metrics(FILE *out, struct runlog *log, const char *run, struct err *err)
{
    char *full = realpath(run, NULL); // one name for one run, however it was given
    int   rc = 0;

    for (size_t i = 0; i < sizeof families / sizeof *families && !rc; i++) {
        const struct family *f = &families[i];
        struct sampling      s = { out, f, full ? full : run };

        fprintf(out, "# TYPE %s %s\n", f->name, f->type == COUNTER ? "counter" : "gauge");
        if (f->unit)
            fprintf(out, "# UNIT %s %s\n", f->name, f->unit);
        fprintf(out, "# HELP %s %s\n", f->name, f->help);
        rc = runlog_query(log, f->sql, sample, &s, err);
    }
    if (!rc)
        fputs("# EOF\n", out);
    free(full);
    return rc;
}
