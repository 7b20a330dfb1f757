/* report.c: what happened in a run, from its database alone. Everything is gathered into one JSON
 * value (gather_all), and printed from it as text, CSV or JSON: the three cannot disagree. Times
 * come from the steps kept whole; traffic from all steps that were applied and not done again,
 * beside what model and mode say it must be (offload/traffic.h). A figure that is not in the
 * database is not printed. */
#include "cmd/cmd.h"
#include "cmd/run/session.h"
#include "cmd/run/settings.h"
#include "cmd/run/wear.h"
#include "cmd/say/say.h"
#include "data/base/file.h"
#include "data/base/json.h"
#include "data/db/runlog.h"
#include "offload/traffic.h"

#include <math.h>

struct report_opts { const char *run; int json, csv, config; };

#define AT(field) offsetof(struct report_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "the run's folder" },
    { "json", OPT_FLAG, AT(json), .help = "print one JSON object" },
    { "csv", OPT_FLAG, AT(csv), .help = "print lines of section,row,field,value" },
    { "config", OPT_FLAG, AT(config),
      .help = "print the run's options as a file that pretrain's or finetune's --config takes" },
    { 0 },
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* ---- queries as JSON ---- */

/* What is no text in a damaged database is "?". */
static json_t *text_json(const char *text)
{
    json_t *s = json_string(text);

    return s ? s : json_string("?");
}

/* A figure, where it looks like one; but a path may, too. */
static json_t *value_json(const char *name, const char *text)
{
    char *end;

    if (!text)
        return json_null();
    double v = strtod(text, &end);
    if (*end || !*text || !strcmp(name, "path"))
        return text_json(text);
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

/* ---- what must have moved ---- */

/* The traffic of the run's settings. 0 if they are not all there, or no run's. *frames_known:
 * whether the reads of parameters are known, too. */
static int computed_traffic(struct runlog *log, struct link_meter *out, int *frames_known)
{
    struct session s = { .log = log };
    struct err     unsaid = { 0 };
    int            known = !session_load(&s, &unsaid);

    // the plan's choices
    *frames_known = settings_scan(log, "%zu", &s.run.frames, "frames") || s.run.mode == RUN_MEM;
    settings_scan(log, "%d", &s.run.residual_in_ram, "residual_in_ram");
    settings_scan(log, "%zu", &s.run.acts.n, "records"); // none in runs of before
    settings_scan(log, "%zu", &s.run.acts.bytes, "record_bytes");
    settings_scan(log, "%zu", &s.run.acts.buffers, "record_buffers");
    if (known)
        traffic_computed(out, &s.run);
    s.log = NULL; // the caller's
    session_close(&s);
    return known;
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

/* What was computed, beside what was measured. */
static void add_computed(json_t *all, struct runlog *log)
{
    struct link_meter m;
    int               frames_known = 0;

    if (!json_array_size(all) || !computed_traffic(log, &m, &frames_known))
        return;
    for (int k = 0; k < LINK_KINDS; k++)
        for (int c = 0; c < LINK_CLASSES; c++)
            for (int d = 0; d < LINK_DIRS; d++) {
                int     by_frames = k == LINK_HOST && d == LINK_READ &&
                                    (c == CLASS_WIRE || c == CLASS_RESIDUAL);

                if (!m.bytes[k][c][d] || (by_frames && !frames_known))
                    continue;
                json_t *row =
                    traffic_row(all, link_kind_names[k], link_class_names[c], link_dir_names[d]);
                // activations are by what was asked for last: where steps differ, not in all
                if (c != CLASS_ACTIVATION || json_num(row, "least") == json_num(row, "most"))
                    json_object_set_new(row, "computed",
                                        json_integer((json_int_t)m.bytes[k][c][d]));
            }
}

/* ---- sections ---- */

/* What a section has is the rows of a query, or, with `one`, its only row. */
static const struct section { const char *name; int one; const char *sql; } sections[] = {
    { "steps", 1,
      "SELECT count(*) AS steps, min(step) AS first, max(step) AS last, sum(skipped) AS skipped,"
      " sum(clipped) AS clipped, sum(tokens) AS tokens,"
      " avg(nullif(seconds, 0)) AS seconds_per_step,"
      " sum(tokens) FILTER (WHERE seconds > 0) / nullif(sum(seconds), 0) AS tokens_per_second,"
      " (SELECT loss FROM steps ORDER BY step LIMIT 1) AS first_loss,"
      " (SELECT loss FROM steps ORDER BY step DESC LIMIT 1) AS last_loss,"
      " max(peak_rss) AS peak_rss FROM steps" },
    { "breakdown", 1,
      "SELECT count(*) AS steps, avg(seconds) AS seconds, avg(fw) AS forward,"
      " avg(bw_grad) AS backward_and_gradient_offload,"
      " avg(\"update\") AS update_and_optimizer_transfers, avg(other) AS other FROM breakdown" },
    { "phases", 0,
      "WITH n AS (SELECT count(DISTINCT step) AS n,"
      "   (SELECT avg(seconds) FROM breakdown) AS step_seconds FROM whole_spans)"
      " SELECT iif(device < 0, 'host', 'devices') AS \"where\", phase,"
      " sum(seconds) / n / count(DISTINCT device) AS seconds_per_step,"
      " sum(seconds) / n / count(DISTINCT device) / step_seconds AS share"
      " FROM phase_wall, n WHERE phase NOT IN ('setup', 'redo')"
      " GROUP BY device < 0, phase ORDER BY device < 0 DESC, 3 DESC" },
    { "traffic", 0,
      "WITH s AS (SELECT DISTINCT step FROM traffic_per_step JOIN steps USING (step)"
      "   WHERE NOT skipped AND step NOT IN (SELECT step FROM traffic WHERE phase = 'redo')),"
      " n AS (SELECT count(*) AS n FROM s)"
      " SELECT link, class, direction, n AS steps, 1.0 * sum(bytes) / n AS bytes_per_step,"
      " iif(count(*) < n, 0, min(bytes)) AS least, max(bytes) AS most,"
      " 1.0 * sum(padding_bytes) / n AS padding_bytes_per_step"
      " FROM traffic_per_step JOIN s USING (step), n"
      " GROUP BY link, class, direction ORDER BY link, class, direction" },
    // of the steps that are kept device by device; padding is written, too
    { "written", 0,
      "WITH kept AS (SELECT DISTINCT step FROM traffic"
      "   WHERE device >= 0 AND phase IN ('update', 'grad_write'))"
      " SELECT t.device, d.path,"
      " 1.0 * sum(t.bytes + t.padding_bytes) / (SELECT count(*) FROM kept) AS bytes_per_step"
      " FROM kept JOIN traffic t USING (step) LEFT JOIN devices d USING (device)"
      " WHERE t.device >= 0 AND t.direction = 'write'"
      " AND t.phase NOT IN ('redo', 'setup', 'eval') GROUP BY t.device" },
    { "overlap", 0,
      "WITH io AS (SELECT sum(max(0, end_ns - max(start_ns, coalesce(before, 0)))) / 1e9 AS seconds"
      "   FROM (SELECT step, start_ns, end_ns, max(end_ns) OVER (PARTITION BY step"
      "     ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
      "     FROM whole_spans WHERE device >= 0"
      "     AND phase IN ('param_read', 'grad_write', 'update', 'act_read', 'act_write'))),"
      " w AS (SELECT coalesce(sum(seconds), 0) AS seconds FROM host_spans"
      "   WHERE phase IN ('optimizer_wait', 'param_read', 'grad_write', 'act_read', 'act_write')),"
      " n AS (SELECT count(DISTINCT step) AS n FROM whole_spans)"
      " SELECT io.seconds / n AS io_seconds_per_step, w.seconds / n AS wait_seconds_per_step,"
      " max(0, 1 - w.seconds / io.seconds) AS hidden FROM io, w, n WHERE io.seconds > 0" },
    { "bandwidth", 0,
      "SELECT r.device, d.path, r.link, r.phase, r.direction, r.bytes, r.busy_seconds,"
      " r.bytes_per_second FROM device_rate r LEFT JOIN devices d USING (device)"
      " ORDER BY r.device, r.link, r.phase, r.direction" },
    { "notices", 0, "SELECT time, text FROM notices ORDER BY id" },
};

static int gather_all(json_t *report, struct runlog *log, struct err *err)
{
    char   mode[64];
    double figure;
    int    rc = 0;

    if (settings_scan(log, "%63[^\n]", mode, "option.mode"))
        json_object_set_new(report, "mode", text_json(mode));
    if (settings_scan(log, "%lf", &figure, "option.compress"))
        json_object_set_new(report, "compress", json_real(figure));
    if (settings_scan(log, "%lf", &figure, "option.endurance"))
        json_object_set_new(report, "endurance", json_real(figure));
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !rc; i++) {
        json_t *found = json_array();

        rc = found ? runlog_query(log, sections[i].sql, row_json, found, err) : -ENOMEM;
        if (!rc && json_object_set(report, sections[i].name,
                                   sections[i].one ? json_array_get(found, 0) : found))
            rc = err_set(err, -ENOMEM, "out of memory while gathering the report");
        json_decref(found);
    }
    add_computed(json_object_get(report, "traffic"), log);
    return rc;
}

/* ---- text ---- */

static void text_steps(const json_t *report)
{
    const json_t *s = json_object_get(report, "steps");
    char          rss[32], sent[64] = "";

    if (json_num(report, "compress") > 0)
        snprintf(sent, sizeof sent, ", gradients compressed to %g %%",
                 100 * json_num(report, "compress"));
    printf("mode %s%s: %.0f steps (%.0f skipped, %.0f clipped), %.0f tokens\n",
           json_str(report, "mode"), sent, json_num(s, "steps"), json_num(s, "skipped"),
           json_num(s, "clipped"), json_num(s, "tokens"));
    if (json_is_number(json_object_get(s, "last_loss")))
        // run.db counts from 0
        printf("loss %.6f at step %.0f, %.6f at step %.0f\n", json_num(s, "first_loss"),
               json_num(s, "first") + 1, json_num(s, "last_loss"), json_num(s, "last") + 1);
    if (json_num(s, "seconds_per_step") > 0)
        printf("%.4f s a step, %.1f tokens/s, peak RSS %s\n", json_num(s, "seconds_per_step"),
               json_num(s, "tokens_per_second"),
               opt_size_text(rss, sizeof rss, json_num(s, "peak_rss")));
}

static void text_breakdown(const json_t *report)
{
    static const char *const lines[][2] = {
        { "forward", "forward" },
        { "backward_and_gradient_offload", "backward + gradient offload" },
        { "update_and_optimizer_transfers", "update + optimizer upload/offload" },
        { "other", "other" },
    };
    const json_t *b = json_object_get(report, "breakdown"), *p;
    size_t        i;

    if (json_num(b, "steps") <= 0)
        return;
    printf("\nBreakdown of a step, as the training thread saw it (mean of %.0f steps)\n",
           json_num(b, "steps"));
    for (i = 0; i < sizeof lines / sizeof *lines; i++)
        printf("  %-36s %10.4f s %6.1f %%\n", lines[i][1], json_num(b, lines[i][0]),
               100 * json_num(b, lines[i][0]) / json_num(b, "seconds"));
    printf("  %-36s %10.4f s\n", "step", json_num(b, "seconds"));
    printf("\nPhases (devices: mean of all; they run beside the host)\n");
    json_array_foreach(json_object_get(report, "phases"), i, p)
        printf("  %-8s %-27s %10.4f s %6.1f %%\n", json_str(p, "where"), json_str(p, "phase"),
               json_num(p, "seconds_per_step"), 100 * json_num(p, "share"));
}

static void text_traffic(const json_t *report)
{
    const json_t *all = json_object_get(report, "traffic"), *t;
    size_t        i;

    if (!json_array_size(all))
        return;
    printf("\nTraffic, bytes a step (all devices)\n  %-9s %-11s %-6s %18s %18s %14s\n",
           "link", "class", "", "measured", "computed", "padding");
    json_array_foreach(all, i, t)
    {
        char computed[32] = "-", note[80] = "";

        if (json_object_get(t, "computed"))
            snprintf(computed, sizeof computed, "%.0f", json_num(t, "computed"));
        if (json_num(t, "least") < json_num(t, "most"))
            snprintf(note, sizeof note, "  (%.0f to %.0f)", json_num(t, "least"),
                     json_num(t, "most"));
        printf("  %-9s %-11s %-6s %18.0f %18s %14.0f%s\n", json_str(t, "link"),
               json_str(t, "class"),
               json_str(t, "direction"), json_num(t, "bytes_per_step"), computed,
               json_num(t, "padding_bytes_per_step"), note);
    }
}

static void text_wear(const json_t *report)
{
    double        seconds = json_num(json_object_get(report, "steps"), "seconds_per_step");
    double        endurance = json_num(report, "endurance");
    const json_t *w;
    size_t        i;
    char          day[32];

    if (!json_array_size(json_object_get(report, "written")) || !(seconds > 0))
        return;
    printf("\nWritten to each device, with padding\n");
    json_array_foreach(json_object_get(report, "written"), i, w) {
        double bytes = json_num(w, "bytes_per_step");

        printf("  %-3.0f %18.0f bytes a step  %10s a day", json_num(w, "device"), bytes,
               opt_size_text(day, sizeof day, wear_day(bytes, seconds)));
        if (endurance > 0 && bytes > 0)
            printf("  worn out in %.3g years", wear_years(bytes, seconds, endurance));
        printf("  %s\n", json_str(w, "path"));
    }
}

static void text_rates(const json_t *report)
{
    const json_t *o = json_array_get(json_object_get(report, "overlap"), 0);
    const json_t *all = json_object_get(report, "bandwidth"), *r;
    size_t        i;

    if (o)
        printf("\nOverlap: devices were busy %.4f s a step, the training thread waited %.4f s for "
               "them: %.1f %% was hidden\n", json_num(o, "io_seconds_per_step"),
               json_num(o, "wait_seconds_per_step"), 100 * json_num(o, "hidden"));
    if (!json_array_size(all))
        return;
    printf("\nBandwidth per device, while a transfer of the kind was under way\n");
    json_array_foreach(all, i, r)
        printf("  %-3.0f %-9s %-14s %-6s %10.1f MB/s  %s\n", json_num(r, "device"),
               json_str(r, "link"), json_str(r, "phase"), json_str(r, "direction"),
               json_num(r, "bytes_per_second") / 1e6, json_str(r, "path"));
}

/* Control characters become question marks: what a stranger put into the database does not speak to
 * the terminal. */
static void tame(json_t *v)
{
    const char *key;
    json_t     *part;
    char       *text;
    size_t      i;

    json_object_foreach(v, key, part)
        tame(part);
    json_array_foreach(v, i, part)
        tame(part);
    if (!json_is_string(v) || !(text = strdup(json_string_value(v))))
        return;
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            *p = '?';
    json_string_set(v, text);
    free(text);
}

static void print_text(const json_t *report)
{
    const json_t *n;
    size_t        i;

    text_steps(report);
    text_breakdown(report);
    text_traffic(report);
    text_wear(report);
    text_rates(report);
    if (json_array_size(json_object_get(report, "notices")))
        printf("\nNotices\n");
    json_array_foreach(json_object_get(report, "notices"), i, n)
        printf("  %s  %s\n", json_str(n, "time"), json_str(n, "text"));
}

/* ---- CSV ---- */

static void csv_text(const char *s)
{
    if (!strpbrk(s, ",\"\n\r")) {
        fputs(s, stdout);
        return;
    }
    putchar('"');
    for (; *s; s++)
        printf(*s == '"' ? "\"\"" : "%c", *s);
    putchar('"');
}

static void csv_line(const char *section, size_t row, const char *field, const json_t *v)
{
    printf("%s,%zu,%s,", section, row, field);
    if (json_is_string(v))
        csv_text(json_string_value(v));
    else if (json_is_integer(v))
        printf("%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        printf("%.9g", json_real_value(v));
    putchar('\n');
}

/* A section that is one object is its row 0; what is none is a field of the run. */
static void print_csv(json_t *report)
{
    const char *section, *field;
    json_t     *v, *value;

    puts("section,row,field,value");
    json_object_foreach(report, section, v) {
        for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++)
            json_object_foreach(json_is_array(v) ? json_array_get(v, i) : v, field, value)
                csv_line(section, i, field, value);
        if (!json_is_object(v) && !json_is_array(v))
            csv_line("run", 0, section, v);
    }
}

/* ---- the command ---- */

static int run(struct opt_line *line, struct err *err)
{
    struct report_opts *o = line->options;
    struct runlog      *log = NULL;

    if (o->json + o->csv + o->config > 1)
        return err_misuse(err, "--json, --csv and --config exclude each other; give one of them");
    json_t *report = json_object();
    char   *path = file_path(err, "%s/run.db", o->run);
    int     rc = path ? runlog_open(&log, path, 1, 0, err) : -ENOMEM;
    if (rc == -ENOENT)
        rc = err_misuse(err, "%s is not a run: there is no %s", o->run, path);
    rc = session_explain_closed(o->run, rc, &say_events, err);
    if (!rc)
        rc = o->config ? report_config_print(log, o->run, err)
                       : gather_all(report, log, err);
    if (!rc && o->json) {
        json_dumpf(report, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (!rc && o->csv) {
        print_csv(report);
    } else if (!rc && !o->config) {
        tame(report);
        print_text(report);
    }
    json_decref(report);
    runlog_close(log);
    free(path);
    return rc;
}

const struct opt_command report_command = {
    .name = "report",
    .usage = "RUN [--json | --csv | --config]",
    .summary = "what happened in a run: times, traffic, overlap, bandwidth",
    .text = "Works while the run is under way. Times are of the steps whose spans are kept "
            "whole: the first and last 100 and every 1,000th. Everything printed comes from "
            "RUN/run.db, which sqlite3 opens.",
    .parts = parts, .size = sizeof(struct report_opts), .killed = 1, .run = run,
};
