/* charts.c: draws the pictures of a page: bars and curves. A curve over many steps is drawn from
 * pieces (question `curve`): a line through their means, and a band from minimum to maximum, or a
 * smoothed line with that of the means behind it. Curves that lie on each other are dashed, each in
 * the gaps of the others, and the legend says so. So are curves that share a colour. */
#include "report/charts.h"

#include "data/base/text_made.h"
#include "report/svg.h"
#include "report/table.h"

enum { WIDTH = 540, ROW = 24, PIECES = 512, TIP = 512, FIGURE = 32, HEIGHT = 260, LETTER = 8 };

const char *chart_colour(size_t i)
{
    static const char *const colours[CHART_COLOURS] = {
        "forward", "backward", "update", "write", "wait", "read", "act", "loss", "wine", "forest",
        "olive", "indigo"
    };

    return colours[i % CHART_COLOURS];
}

void chart_legend(FILE *out, const json_t *parts)
{
    const json_t *p;
    size_t        i;

    if (json_array_size(parts) < 2)
        return;
    fputs("<ul class=\"legend\">", out);
    json_array_foreach(parts, i, p) {
        fprintf(out, "<li><span class=\"%s\"></span>", json_str(p, "colour"));
        svg_escape(out, json_str(p, "name"));
        fputs("</li>", out);
    }
    fputs("</ul>\n", out);
}

/* ---- bars ---- */

/* A row's texts up to its first figure, joined. *figure: that figure. */
static char *row_label(const json_t *row, const json_t *heads, const char **figure)
{
    char         *label = NULL;
    size_t        bytes, i;
    FILE         *into = open_memstream(&label, &bytes);
    const json_t *head;

    *figure = "";
    json_array_foreach(heads, i, head) {
        *figure = json_string_value(json_array_get(json_object_get(row, "cells"), i));
        if (*json_string_value(head) == '#')
            break;
        if (into && **figure)
            fprintf(into, "%s%s", i ? " " : "", *figure);
    }
    return text_made(into, &label, 0);
}

static void draw_row(struct svg *s, double y, const json_t *row, figure_of *axis)
{
    const json_t *p;
    size_t        i;
    double        at = 0, all = table_bar(row);
    char          tip[TIP], a[FIGURE];

    json_array_foreach(json_object_get(row, "parts"), i, p) {
        double v = json_num(p, "value"), from = svg_x(s, at), to = svg_x(s, at + v);

        axis(a, sizeof a, v);
        snprintf(tip, sizeof tip, "%s%s%s, %.1f %%", json_str(p, "name"),
                 *json_str(p, "name") ? ": " : "", a, 100 * v / all);
        svg_box(s, json_str(p, "colour"), from, y + 3, to - from, ROW - 6,
                v < all ? tip : *json_str(p, "name") ? json_str(p, "name") : a);
        at += v;
    }
    double mark = svg_x(s, json_num(row, "mark"));
    if (json_num(row, "mark") > 0)
        svg_line(s, "mark", mark, y + 1, mark, y + ROW - 1);
}

void chart_bars(FILE *out, const char *name, const json_t *table, figure_of *axis)
{
    const json_t *rows = json_object_get(table, "rows"), *heads = json_object_get(table, "heads");
    const json_t *row;
    const char   *figure;
    size_t        i, most = 0;
    struct svg    s = { .out = out, .width = WIDTH, .right = 78, .bottom = 26,
                        .height = (double)json_array_size(rows) * ROW + 30,
                        .x1 = table_longest(table) };

    json_array_foreach(rows, i, row) {
        char *label = row_label(row, heads, &figure);

        most = label && strlen(label) > most ? strlen(label) : most;
        free(label);
    }
    s.left = fmax(60, fmin(284, 16 + LETTER * (double)most));
    svg_open(&s, name);
    json_array_foreach(rows, i, row) {
        char  *label = row_label(row, heads, &figure);
        double y = (double)i * ROW;

        svg_text(&s, "row", s.left - 8, y + 16, "end", label ? label : "");
        draw_row(&s, y, row, axis);
        svg_text(&s, "tick", svg_x(&s, table_bar(row)) + 6, y + 16, "start", figure);
        free(label);
    }
    s.bottom = 24;
    svg_axis_x(&s, "", axis);
    svg_close(&s);
}

/* ---- curves ---- */

/* A value that is missing is NaN. */
struct curve {
    const char *name, *colour;
    double      x[PIECES], y[PIECES], low[PIECES], high[PIECES], raw[PIECES];
    double      at[PIECES], point[PIECES]; // points on it, or near it
    size_t      n, points;
    int         bands, smooth;   // has low and high; has raw
    size_t      with, place, of; // first that it lies on; its place; their number
};

static int widen(const double *v, size_t n, double *low, double *high, int any)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        *low = any ? fmin(*low, v[i]) : v[i];
        *high = any ? fmax(*high, v[i]) : v[i];
        any = 1;
    }
    return any;
}

/* Whether one curve is drawn over the other, as far as both go. */
static int lies_on(const struct svg *s, const struct curve *a, const struct curve *b)
{
    size_t n = a->n < b->n ? a->n : b->n, alike = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a->y[i]) && !isfinite(b->y[i]))
            continue;
        if (!(fabs(svg_x(s, a->x[i]) - svg_x(s, b->x[i])) < 1 &&
              fabs(svg_y(s, a->y[i]) - svg_y(s, b->y[i])) < 1))
            return 0;
        alike++;
    }
    return alike > 1;
}

static void draw_curve(const struct svg *s, struct curve *all, size_t at)
{
    enum { DASH = 7 };
    struct curve *c = &all[at];
    size_t        of = all[c->with].of;
    char          style[96] = "", tip[TIP];

    if (at >= CHART_COLOURS)
        strcpy(style, "stroke-dasharray:8 3");
    if (of > 1)
        snprintf(style, sizeof style, "stroke-dasharray:%d %zu;stroke-dashoffset:-%zu", DASH,
                 DASH * (of - 1), DASH * c->place);
    svg_curve(s, c->colour, style, c->x, c->y, c->n);
    for (size_t i = 0; i < c->points; i++) {
        snprintf(tip, sizeof tip, "%s, %.0f: %.6g", c->name, c->at[i], c->point[i]);
        if (isfinite(c->point[i]))
            svg_dot(s, c->colour, c->at[i], c->point[i], tip);
    }
}

/* Draws what lies behind all curves; of equal curves it is drawn once. */
static void draw_behind(const struct svg *s, const struct curve *all, size_t at)
{
    const struct curve *c = &all[at];
    char                faint[FIGURE];

    if (c->with != at)
        return;
    if (c->bands)
        svg_band(s, c->colour, c->x, c->low, c->high, c->n);
    snprintf(faint, sizeof faint, "faint %s", c->colour);
    if (c->smooth)
        svg_curve(s, faint, "", c->x, c->raw, c->n);
}

/* Length of what a legend calls a curve: a run's number ("3" of "3 lr 0.1"), or the whole name. */
static int called(const char *name)
{
    size_t digits = strspn(name, "0123456789");

    return (int)(digits ? digits : strlen(name));
}

/* Of a curve that lies on another, the name says on which: "4 lr 0.2, lies on 3". */
static void legend_of(FILE *out, const struct curve *c, size_t n)
{
    json_t *parts = json_array();

    for (size_t i = 0; i < n; i++) {
        const char *other = c[i].with < i ? c[c[i].with].name : "";

        json_array_append_new(parts, json_pack("{s:o, s:o}", "colour",
                                               json_sprintf("%s%s", c[i].colour,
                                                            i < CHART_COLOURS ? "" : " dashed"),
                                               "name",
                                               json_sprintf("%s%s%.*s", c[i].name,
                                                            *other ? ", lies on " : "",
                                                            called(other), other)));
    }
    chart_legend(out, parts);
    json_decref(parts);
}

/* Finds for each curve the first that it lies on, or itself. */
static void find_equal(const struct svg *s, struct curve *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (c[i].with = 0; c[i].with < i; c[i].with++)
            if (c[c[i].with].with == c[i].with && lies_on(s, &c[c[i].with], &c[i]))
                break;
        c[i].place = c[c[i].with].of++;
    }
}

/* Draws curves in one picture, whose axes are as `a` says; along: what is counted below. */
static int draw(FILE *out, const char *name, const char *along, const struct along *a,
                struct curve *c, size_t n)
{
    struct svg s = { .out = out, .width = WIDTH, .height = a->height, .left = 62, .right = 16,
                     .top = 28, .bottom = 38, .counts = 1 };
    int        x = 0, y = 0;

    for (size_t i = 0; i < n; i++) {
        x = widen(c[i].x, c[i].n, &s.x0, &s.x1, x);
        y = widen(c[i].bands ? c[i].low : c[i].y, c[i].n, &s.y0, &s.y1, y);
        y = widen(c[i].bands ? c[i].high : c[i].y, c[i].n, &s.y0, &s.y1, y);
        y = widen(c[i].raw, c[i].smooth ? c[i].n : 0, &s.y0, &s.y1, y);
        x = widen(c[i].at, c[i].points, &s.x0, &s.x1, x);
        y = widen(c[i].point, c[i].points, &s.y0, &s.y1, y);
    }
    if (!y || !(s.x1 > s.x0))
        return 0;
    s.y0 = a->from_zero ? 0 : s.y0;
    svg_round_range(&s.y0, &s.y1);
    find_equal(&s, c, n);
    legend_of(out, c, n);
    svg_open(&s, name);
    svg_axis_y(&s, a->label, a->figure);
    svg_axis_x(&s, along, figure_count);
    for (size_t i = 0; i < n; i++)
        draw_behind(&s, c, i);
    for (size_t i = 0; i < n; i++)
        draw_curve(&s, c, i);
    svg_close(&s);
    return 1;
}

/* ---- along a run ---- */

static void column(const json_t *pieces, const char *field, double out[PIECES])
{
    const json_t *p;
    size_t        i;

    json_array_foreach(pieces, i, p)
        if (i < PIECES)
            out[i] = json_figure(p, field);
}

/* Fills the points of a curve with the evaluations of a measure. If there are too many, only every
 * second is taken, or every third, and so on, up to the last. */
static void add_points(struct curve *c, const json_t *evals, const char *measure)
{
    const json_t *e;
    size_t        i, all = 0, at = 0;

    json_array_foreach(evals, i, e)
        all += !strcmp(json_str(e, "measure"), measure);
    json_array_foreach(evals, i, e) {
        if (strcmp(json_str(e, "measure"), measure) || (all - ++at) % (all / PIECES + 1))
            continue;
        c->at[c->points] = json_num(e, "step") + 1;
        c->point[c->points++] = json_figure(e, "value");
    }
}

static void line_through_points(struct curve *c)
{
    c->n = c->points;
    memcpy(c->x, c->at, sizeof c->x);
    memcpy(c->y, c->point, sizeof c->y);
}

/* Fills a curve along a run, at the middle of each piece. Steps are counted from 1. */
static void curve_along(struct curve *c, const json_t *report, const struct along *a)
{
    const json_t *pieces = json_object_get(report, "curve");
    char          name[FIGURE];
    double        last[PIECES];

    c->n = json_array_size(pieces) < PIECES ? json_array_size(pieces) : PIECES;
    c->bands = a->band;
    column(pieces, "first", c->x);
    column(pieces, "last", last);
    for (size_t i = 0; i < c->n; i++)
        c->x[i] = (c->x[i] + last[i]) / 2 + 1;
    column(pieces, a->smooth ? a->smooth : a->field, c->y);
    column(pieces, a->field, c->raw);
    for (size_t i = 0; i < c->n; i++) // a short run is not smoothed
        c->smooth |= isfinite(c->raw[i]) && c->raw[i] != c->y[i];
    snprintf(name, sizeof name, "%s_least", a->field);
    column(pieces, name, c->low);
    snprintf(name, sizeof name, "%s_most", a->field);
    column(pieces, name, c->high);
    if (a->points)
        add_points(c, json_object_get(report, "evals"), a->points);
}

/* Fills the curve of a branch that the run has left: a thin line. 0: it does not have the field. */
static int curve_left(struct curve *c, const json_t *report, const json_t *branch,
                      const struct along *a)
{
    const json_t *p;
    size_t        i;

    json_array_foreach(json_object_get(report, "branch_curves"), i, p) {
        if (json_num(p, "branch") < json_num(branch, "branch") ||
            json_num(p, "branch") > json_num(branch, "branch") || c->n >= PIECES)
            continue;
        c->x[c->n] = (json_num(p, "first") + json_num(p, "last")) / 2 + 1;
        c->y[c->n++] = json_figure(p, a->field);
    }
    return c->n && json_object_get(json_array_get(json_object_get(report, "branch_curves"), 0),
                                   a->field);
}

int chart_along(FILE *out, const json_t *report, const struct along *a)
{
    enum { MOST = 8 }; // branches, the newest
    const json_t *branches = json_object_get(report, "branches");
    size_t        all = json_array_size(branches), first = all > MOST ? all - MOST : 0, n = 1;
    struct curve *c = calloc(1 + all - first, sizeof *c);
    char          names[MOST][FIGURE];
    int           drawn = 0;

    for (size_t i = first; c && i < all; i++) {
        const json_t *branch = json_array_get(branches, i);

        if (!curve_left(&c[n], report, branch, a))
            continue;
        snprintf(names[n - 1], FIGURE, "left: branch %.0f", json_num(branch, "branch"));
        c[n].name = names[n - 1];
        c[n++].colour = "left other";
    }
    if (c) {
        curve_along(c, report, a);
        c->colour = a->colour;
        c->name = n > 1 ? "the run" : a->label;
        drawn = draw(out, a->label, "step", a, c, n);
    }
    free(c);
    return drawn;
}

int chart_evals(FILE *out, const json_t *report)
{
    enum { MOST = 8 };
    struct curve *c = calloc(1, sizeof *c);
    const json_t *r;
    size_t        i;
    int           drawn = 0;

    json_array_foreach(json_object_get(report, "results"), i, r) {
        if (!c || i >= MOST)
            break;
        const char *measure = json_str(r, "measure");

        *c = (struct curve){ .name = measure, .colour = "write" };
        add_points(c, json_object_get(report, "evals"), measure);
        line_through_points(c);
        drawn |= draw(out, measure, "step", &(struct along){ .label = measure,
                                                             .figure = svg_plain, .height = 180 },
                      c, 1);
    }
    free(c);
    return drawn;
}

/* Draws bars of one width. Otherwise the first and the last hundred steps would be too narrow. */
int chart_breakdown_steps(FILE *out, const json_t *report)
{
    const json_t *pieces = json_object_get(report, "breakdown_steps"), *p;
    size_t        i, n = json_array_size(pieces);
    struct svg    s = { .out = out, .width = WIDTH, .height = HEIGHT, .left = 62, .right = 12,
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
        double base = 0, first = json_num(p, "first") + 1;

        for (int k = 0; k < PARTS; k++) {
            double v = json_num(p, breakdown_parts[k].field);

            snprintf(tip, sizeof tip, "steps %.0f to %.0f: %s %s", first, json_num(p, "last") + 1,
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

/* ---- of several runs ---- */

int chart_losses(FILE *out, const json_t *reports)
{
    size_t        n = json_array_size(reports), i;
    struct curve *c = calloc(n + 1, sizeof *c);
    const json_t *r;
    int           drawn = 0;
    static const struct along loss = { "loss", "loss", NULL, svg_plain, HEIGHT,
                                       .smooth = "loss_smooth", .points = "loss" };

    json_array_foreach(reports, i, r)
        if (c) {
            c[i].colour = chart_colour(i);
            c[i].name = report_label(r);
            curve_along(&c[i], r, &loss);
        }
    if (c)
        drawn = draw(out, "losses of the runs", "step", &loss, c, n);
    free(c);
    return drawn;
}

/* Whether the runs differ only in mode and number of devices. */
static int only_devices(const json_t *reports)
{
    const json_t *r, *d;
    size_t        i, k;

    json_array_foreach(reports, i, r)
        json_array_foreach(json_object_get(r, "differs"), k, d)
            if (!is_word_of(json_str(d, "setting"),
                            " mode compress error-feedback devices drives "))
                return 0;
    return 1;
}

/* A run's speed; 0 if it is of another mode (figure_mode), or has another number of devices. */
static double speed_of(const json_t *report, const char *mode, double devices)
{
    char its[FIGURE];

    return !strcmp(figure_mode(its, sizeof its, report), mode) &&
                   report_setting(report, "option.devices") == devices
               ? json_num(json_object_get(report, "times"), "tokens_per_second") : 0;
}

/* Of several runs with the same number of devices, the fastest counts. */
static void curve_of_mode(struct curve *c, const json_t *reports)
{
    const json_t *r;
    size_t        i;

    for (double devices = 1; c->points < PIECES && devices <= PIECES; devices++) {
        double most = 0;

        json_array_foreach(reports, i, r)
            most = fmax(most, speed_of(r, c->name, devices));
        c->at[c->points] = devices;
        c->point[c->points] = most;
        c->points += most > 0;
    }
    line_through_points(c);
}

/* Runs in mode mem have no devices. Runs without a steady step have no speed. */
int chart_devices(FILE *out, const json_t *reports)
{
    static const struct along speed = { .label = "tokens a second", .figure = svg_plain,
                                        .height = 300, .from_zero = 1 };
    struct curve *c = calloc(CHART_COLOURS, sizeof *c);
    char          modes[CHART_COLOURS][FIGURE];
    const json_t *r;
    size_t        i, at, n = 0;
    int           drawn = 0;

    json_array_foreach(reports, i, r) {
        if (!c || n == CHART_COLOURS || !strcmp(json_str(r, "mode"), "mem"))
            continue;
        figure_mode(modes[n], FIGURE, r);
        for (at = 0; strcmp(modes[at], modes[n]); at++)
            ;
        if (at < n || !(speed_of(r, modes[n], report_setting(r, "option.devices")) > 0))
            continue;
        c[n] = (struct curve){ .name = modes[n], .colour = chart_colour(n) };
        curve_of_mode(&c[n++], reports);
    }
    if (c && only_devices(reports))
        drawn = draw(out, "speed against devices", "devices", &speed, c, n);
    free(c);
    return drawn;
}
