/* charts.c: curves along the run, and bars. A curve of many steps is drawn from pieces (question
 * `curve`): a line through their means, and a band from the least to the most in each. */
#include "report/charts.h"

#include "report/figures.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TIP = 256, FIGURE = 32 };

/* ---- figures of axes ---- */

static const char *mib_on_axis(char *buf, size_t size, double v)
{
    return figure_memory(buf, size, v * (1 << 20));
}

static const char *gib_on_axis(char *buf, size_t size, double v)
{
    return figure_memory(buf, size, v * (1 << 30));
}

const char *chart_colour(size_t i)
{
    static const char *const colours[CHART_COLOURS] = {
        "forward", "backward", "update", "write", "wait", "read", "act", "loss", "wine", "forest",
        "olive", "indigo"
    };

    return colours[i % CHART_COLOURS];
}

/* ---- along the run ---- */

size_t chart_column(const json_t *pieces, const char *field, double out[CHART_PIECES])
{
    size_t n = json_array_size(pieces) < CHART_PIECES ? json_array_size(pieces) : CHART_PIECES;

    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(json_array_get(pieces, i), field);

        out[i] = json_is_number(v) ? json_number_value(v) : (double)NAN;
    }
    return n;
}

size_t chart_steps(const json_t *pieces, double out[CHART_PIECES])
{
    double last[CHART_PIECES];
    size_t n = chart_column(pieces, "first", out);

    chart_column(pieces, "last", last);
    for (size_t i = 0; i < n; i++)
        out[i] = (out[i] + last[i]) / 2 + 1;
    return n;
}

int chart_range(const double *v, size_t n, double *low, double *high)
{
    int any = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        *low = any ? fmin(*low, v[i]) : v[i];
        *high = any ? fmax(*high, v[i]) : v[i];
        any = 1;
    }
    return any;
}

/* What a curve along the run is of: fields of the pieces; least and most may be NULL. */
struct along {
    const char *name, *label, *field, *least, *most, *colour;
    double      height;
    int         from_zero;
    svg_figure *figure;
};

static int chart_along(FILE *out, const json_t *pieces, const struct along *a)
{
    double     x[CHART_PIECES], y[CHART_PIECES], low[CHART_PIECES], high[CHART_PIECES];
    size_t     n = chart_steps(pieces, x);
    struct svg s = { .out = out, .width = CHART_WIDTH, .height = a->height, .left = 62, .right = 12,
                     .top = 28, .bottom = 38 };

    chart_column(pieces, a->field, y);
    chart_column(pieces, a->least ? a->least : a->field, low);
    chart_column(pieces, a->most ? a->most : a->field, high);
    if (n < 2 || !chart_range(x, n, &s.x0, &s.x1))
        return 0;
    double none, least;
    if (!chart_range(low, n, &least, &none) || !chart_range(high, n, &none, &s.y1))
        return 0;
    s.y0 = a->from_zero ? 0 : least;
    svg_round_range(&s.y0, &s.y1);
    svg_open(&s, a->name);
    svg_axis_y(&s, a->label, a->figure);
    svg_axis_x(&s, "step", figure_count);
    if (a->least)
        svg_band(&s, a->colour, x, low, high, n);
    svg_curve(&s, a->colour, "", x, y, n);
    svg_close(&s);
    return 1;
}

int chart_loss(FILE *out, const json_t *report)
{
    return chart_along(out, json_object_get(report, "curve"), &(struct along){
        "loss along the run", "loss", "loss", "loss_least", "loss_most", "forward", 260, 0,
        svg_plain });
}

int chart_rate(FILE *out, const json_t *report)
{
    return chart_along(out, json_object_get(report, "curve"), &(struct along){
        "learning rate along the run", "learning rate", "lr", NULL, NULL, "backward", 140, 1,
        svg_plain });
}

int chart_seconds(FILE *out, const json_t *report)
{
    return chart_along(out, json_object_get(report, "curve"), &(struct along){
        "seconds of a step along the run", "time of a step", "seconds", "seconds_least",
        "seconds_most", "update", 260, 1, figure_seconds });
}

/* Evaluations as pieces: each is one of its own. */
int chart_eval(FILE *out, const json_t *report, const char *measure)
{
    json_t *pieces = json_array(), *e;
    size_t  i, n = 0, all = 0;

    json_array_foreach(json_object_get(report, "evals"), i, e)
        all += !strcmp(json_str(e, "measure"), measure);
    json_array_foreach(json_object_get(report, "evals"), i, e) {
        if (strcmp(json_str(e, "measure"), measure))
            continue;
        if (n++ % (all / CHART_PIECES + 1) == 0) // every one, or every second ...
            json_array_append_new(pieces, json_pack("{s:O, s:O, s:O}", "first",
                                                    json_object_get(e, "step"), "last",
                                                    json_object_get(e, "step"), "value",
                                                    json_object_get(e, "value")));
    }
    int drawn = chart_along(out, pieces, &(struct along){ measure, measure, "value", NULL, NULL,
                                                          "write", 180, 0, svg_plain });
    json_decref(pieces);
    return drawn;
}

/* ---- where time goes ---- */

void chart_stack(struct bars *b, const json_t *parts, const char *label)
{
    double sum = breakdown_sum(parts);
    char   a[FIGURE], tip[TIP];

    bars_row(b, label);
    for (int i = 0; i < PARTS; i++) {
        double v = json_num(parts, breakdown_parts[i].field);

        snprintf(tip, sizeof tip, "%s: %s, %.1f %%", breakdown_parts[i].words,
                 figure_seconds(a, sizeof a, v), sum > 0 ? 100 * v / sum : 0);
        if (v > 0)
            bars_part(b, breakdown_parts[i].colour, v, tip);
    }
    bars_figure(b, figure_seconds(a, sizeof a, sum));
}

int chart_breakdown(FILE *out, const json_t *report)
{
    const json_t *lived = json_object_get(report, "breakdown");
    const json_t *serial = json_object_get(report, "breakdown_serial");
    struct bars   b;

    if (!(breakdown_sum(lived) > 0))
        return 0;
    bars_open(&b, out, "breakdown of a step", BARS_LABELS, 2,
              fmax(breakdown_sum(lived), breakdown_sum(serial)));
    chart_stack(&b, lived, "as it was lived");
    chart_stack(&b, serial, "serialised");
    bars_close(&b, figure_seconds);
    return 1;
}

/* A bar a piece, as wide as the others: the steps between the first and last hundred are few of
 * many. */
int chart_breakdown_steps(FILE *out, const json_t *report)
{
    const json_t *pieces = json_object_get(report, "breakdown_steps"), *p;
    size_t        i, n = json_array_size(pieces);
    struct svg    s = { .out = out, .width = CHART_WIDTH, .height = 260, .left = 62, .right = 12,
                        .top = 28, .bottom = 38, .x1 = (double)n };
    char          tip[TIP], a[FIGURE];

    json_array_foreach(pieces, i, p)
        s.y1 = fmax(s.y1, breakdown_sum(p));
    if (n < 2 || !(s.y1 > 0))
        return 0;
    svg_round_range(&s.y0, &s.y1);
    svg_open(&s, "breakdown of steps along the run");
    svg_axis_y(&s, "time of a step", figure_seconds);
    double wide = svg_x(&s, 1) - svg_x(&s, 0), gap = wide > 5 ? 1 : 0;
    json_array_foreach(pieces, i, p) {
        double base = 0, first = json_num(p, "first") + 1, last = json_num(p, "last") + 1;

        for (int k = 0; k < PARTS; k++) {
            double v = json_num(p, breakdown_parts[k].field);

            snprintf(tip, sizeof tip, "%s %.0f%s%.0f: %s %s", first < last ? "steps" : "step",
                     first, first < last ? " to " : ", of ", first < last ? last : 1,
                     breakdown_parts[k].words, figure_seconds(a, sizeof a, v));
            if (v > 0)
                svg_box(&s, breakdown_parts[k].colour, svg_x(&s, (double)i), svg_y(&s, base + v),
                        wide - gap, svg_y(&s, base) - svg_y(&s, base + v), tip);
            base += v;
        }
        if (i % (n / 6 + 1) == 0)
            svg_text(&s, "tick", svg_x(&s, (double)i + 0.5), s.height - s.bottom + 17, "middle",
                     figure_count(a, sizeof a, first));
    }
    svg_text(&s, "label", s.width - s.right, s.height - 5, "end", "step (of those kept whole)");
    svg_close(&s);
    return 1;
}

int chart_waits(FILE *out, const json_t *report)
{
    const json_t *all = json_object_get(report, "waits"), *w;
    struct bars   b;
    size_t        i, n = json_array_size(all), rows = 0;
    double        most = 0, sum = 0;
    char          a[FIGURE], c[FIGURE], tip[TIP];

    for (i = 0; i < n; i++) {
        w = json_array_get(all, i);
        int same = i && !strcmp(json_str(w, "phase"),
                                json_str(json_array_get(all, i - 1), "phase"));

        rows += !same;
        sum = (same ? sum : 0) + json_num(w, "seconds_per_step");
        most = fmax(most, sum);
    }
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "what the training thread waited for", BARS_LABELS, rows, most);
    for (i = 0; i < n; i++) {
        const json_t *before = i ? json_array_get(all, i - 1) : NULL;
        int           device = json_is_number(json_object_get(w = json_array_get(all, i),
                                                              "device"));

        if (!before || strcmp(json_str(w, "phase"), json_str(before, "phase")))
            bars_row(&b, phase_words(json_str(w, "phase")));
        snprintf(tip, sizeof tip, "%s: device %.0f was the last, %s a step in %.2f waits, at most "
                 "%s", phase_words(json_str(w, "phase")), device ? json_num(w, "device") : -1,
                 figure_seconds(a, sizeof a, json_num(w, "seconds_per_step")),
                 json_num(w, "waits_per_step"), figure_seconds(c, sizeof c, json_num(w,
                                                                                     "longest")));
        if (!device)
            snprintf(tip, sizeof tip, "%s: no one device's, %s a step",
                     phase_words(json_str(w, "phase")),
                     figure_seconds(a, sizeof a, json_num(w, "seconds_per_step")));
        bars_part(&b, device ? chart_colour((size_t)json_num(w, "device")) : "other",
                  json_num(w, "seconds_per_step"), tip);
        const json_t *next = json_array_get(all, i + 1);
        if (!next || strcmp(json_str(w, "phase"), json_str(next, "phase")))
            bars_figure(&b, figure_seconds(a, sizeof a, b.at));
    }
    bars_close(&b, figure_seconds);
    return 1;
}

int chart_update(FILE *out, const json_t *report)
{
    static const struct { const char *busy, *wait, *words, *colour; } parts[] = {
        { "read_busy", "read_wait", "reads", "read" },
        { "compute_busy", "compute_wait", "computes", "update" },
        { "write_busy", "write_wait", "writes", "write" },
    };
    const json_t *all = json_object_get(report, "update"), *u;
    struct bars   b;
    size_t        i;
    double        most = 0;
    char          a[FIGURE], label[64], tip[TIP], faint[32];

    json_array_foreach(all, i, u)
        for (int k = 0; k < 3; k++)
            most = fmax(most, json_num(u, parts[k].busy) + json_num(u, parts[k].wait));
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "inside the updates", BARS_LABELS, 3 * json_array_size(all), most);
    json_array_foreach(all, i, u)
        for (int k = 0; k < 3; k++) {
            double busy = json_num(u, parts[k].busy), wait = json_num(u, parts[k].wait);

            snprintf(label, sizeof label, "device %.0f %s", json_num(u, "device"), parts[k].words);
            bars_row(&b, label);
            snprintf(tip, sizeof tip, "%s for %s a step", parts[k].words,
                     figure_seconds(a, sizeof a, busy));
            bars_part(&b, parts[k].colour, busy, tip);
            snprintf(tip, sizeof tip, "waits for %s a step", figure_seconds(a, sizeof a, wait));
            snprintf(faint, sizeof faint, "faint %s", parts[k].colour);
            bars_part(&b, faint, wait, tip);
            bars_figure(&b, figure_seconds(a, sizeof a, busy));
        }
    bars_close(&b, figure_seconds);
    return 1;
}

/* ---- what moved, what it held ---- */

int chart_traffic(FILE *out, const json_t *report)
{
    const json_t *all = json_object_get(report, "traffic"), *row;
    struct bars   b;
    size_t        i;
    double        most = 0;
    char          a[FIGURE], label[TIP], tip[TIP];

    json_array_foreach(all, i, row)
        most = fmax(most, fmax(json_num(row, "bytes_per_step"), json_num(row, "computed")));
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "bytes that crossed the links in a step", BARS_LABELS, json_array_size(all),
              most);
    json_array_foreach(all, i, row) {
        double v = json_num(row, "bytes_per_step"), computed = json_num(row, "computed");

        snprintf(label, sizeof label, "%.10s: %.12s %.6s", json_str(row, "link"),
                 json_str(row, "class"), json_str(row, "direction"));
        snprintf(tip, sizeof tip, "measured %.0f bytes a step, computed %.0f", v, computed);
        bars_row(&b, label);
        bars_part(&b, strcmp(json_str(row, "link"), "host") ? "update" : "forward", v, tip);
        bars_figure(&b, figure_bytes(a, sizeof a, v));
        double x = svg_x(&b.s, computed);
        if (computed > 0)
            svg_line(&b.s, "mark", x, b.y + 1, x, b.y + BARS_ROW - 1);
    }
    bars_close(&b, figure_bytes);
    return 1;
}

int chart_bandwidth(FILE *out, const json_t *report)
{
    const json_t *all = json_object_get(report, "bandwidth"), *r;
    struct bars   b;
    size_t        i;
    double        most = 0;
    char          a[FIGURE], c[FIGURE], label[TIP], tip[TIP];

    json_array_foreach(all, i, r)
        most = fmax(most, json_num(r, "bytes_per_second"));
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "bandwidth of each device", BARS_LABELS, json_array_size(all), most);
    json_array_foreach(all, i, r) {
        double v = json_num(r, "bytes_per_second");

        snprintf(label, sizeof label, "%.0f  %.9s: %.14s", json_num(r, "device"),
                 json_str(r, "link"), json_str(r, "phase"));
        snprintf(tip, sizeof tip, "%s: %s in %s, %s", phase_words(json_str(r, "phase")),
                 figure_bytes(a, sizeof a, json_num(r, "bytes")),
                 figure_seconds(c, sizeof c, json_num(r, "busy_seconds")), json_str(r,
                                                                                    "direction"));
        bars_row(&b, label);
        bars_part(&b, phase_colour(json_str(r, "phase")), v, tip);
        strcat(strcpy(label, figure_bytes(a, sizeof a, v)), "/s");
        bars_figure(&b, label);
    }
    bars_close(&b, figure_bytes);
    return 1;
}

/* The parts of the plan in one bar, what was held in another, and a mark at the limit; all in MiB,
 * or GiB, so that the axis has round figures. */
int chart_memory(FILE *out, const json_t *report)
{
    const json_t *all = json_object_get(report, "memory"), *m;
    double        peak = json_num(json_object_get(report, "steps"), "peak_rss");
    struct bars   b;
    size_t        i, n = json_array_size(all);
    char          a[FIGURE], tip[TIP];

    if (n < 4) // its last three are the total, the limit and the arenas
        return 0;
    double total = json_num(json_array_get(all, n - 3), "bytes");
    double limit = json_num(json_array_get(all, n - 2), "bytes");
    double arenas = json_num(json_array_get(all, n - 1), "bytes"), most = fmax(total + arenas,
                                                                               peak);
    int    shown = limit <= 2 * most; // else it would be all that one sees
    most = shown ? fmax(most, limit) : most;
    double unit = most < 4.0 * (1 << 30) ? 1 << 20 : 1 << 30;

    bars_open(&b, out, "memory as planned and as it was", BARS_LABELS, 2, most / unit);
    bars_row(&b, "plan");
    for (i = 0; i + 3 < n; i++) {
        m = json_array_get(all, i);
        snprintf(tip, sizeof tip, "%.200s: %s", json_str(m, "part"),
                 figure_memory(a, sizeof a, json_num(m, "bytes")));
        bars_part(&b, chart_colour(i), json_num(m, "bytes") / unit, tip);
    }
    bars_part(&b, "plan", arenas / unit, "arenas of emulated devices, on top of it");
    bars_figure(&b, figure_memory(a, sizeof a, total + arenas));
    bars_row(&b, "peak resident set");
    bars_part(&b, "other", fmax(peak - arenas, 0) / unit, "the most that the process held");
    bars_part(&b, "plan", fmin(arenas, peak) / unit, "of it, arenas of emulated devices");
    bars_figure(&b, figure_memory(a, sizeof a, peak));
    if (shown)
        svg_line(&b.s, "mark", svg_x(&b.s, limit / unit), 0, svg_x(&b.s, limit / unit),
                 2 * BARS_ROW);
    bars_close(&b, unit > (1 << 20) ? gib_on_axis : mib_on_axis);
    return 1;
}
