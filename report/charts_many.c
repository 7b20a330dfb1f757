/* charts_many.c: pictures of several runs. A run has its number, and a label that tells it from the
 * others: its mode, its devices, its name. Curves that are drawn over each other are dashed, each
 * in the gaps of the others, so that all of them are seen; so is a colour that comes again. */
#include "report/charts.h"

#include "report/figures.h"

#include <math.h>

enum { TIP = 256, FIGURE = 32, LABEL = 30 };

/* ---- rows ---- */

/* "2 su+o 4 devices run-b", cut to the room before a bar: of a long name its end is what tells. */
const char *chart_label(char buf[CHART_LABEL], size_t i, const json_t *report)
{
    char        mode[FIGURE];
    const char *name = figure_run(report);
    size_t      devices = json_array_size(json_object_get(report, "devices"));
    int         n = snprintf(buf, CHART_LABEL, "%zu %s", i + 1,
                             figure_mode(mode, sizeof mode, report));

    if (devices)
        n += snprintf(buf + n, CHART_LABEL - (size_t)n, ", %zu device%s", devices,
                      devices > 1 ? "s" : "");
    int room = LABEL - n - 2, cut = room < (int)strlen(name);
    if (room < 4)
        return buf;
    name += cut ? strlen(name) - (size_t)room + 1 : 0;
    while (cut && (*name & 0xC0) == 0x80) // not within a character
        name++;
    snprintf(buf + n, CHART_LABEL - (size_t)n, ", %s%.200s", cut ? "…" : "", name);
    return buf;
}

int chart_stacks(FILE *out, const json_t *reports, const char *section)
{
    const json_t *r;
    struct bars   b;
    size_t        i;
    double        most = 0;

    json_array_foreach(reports, i, r)
        most = fmax(most, breakdown_sum(json_object_get(r, section)));
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "breakdown of a step of each run", BARS_LONG_LABELS,
              json_array_size(reports), most);
    json_array_foreach(reports, i, r) {
        char label[CHART_LABEL];

        chart_label(label, i, r);
        chart_stack(&b, json_object_get(r, section), label);
    }
    bars_close(&b, figure_seconds);
    return 1;
}

int chart_speedup(FILE *out, const json_t *reports)
{
    const json_t *r;
    struct bars   b;
    size_t        i;
    double        most = 0;
    char          text[CHART_LABEL], tip[TIP], a[FIGURE];

    json_array_foreach(reports, i, r)
        most = fmax(most, json_num(json_object_get(r, "comparison"), "speedup"));
    if (!(most > 0))
        return 0;
    bars_open(&b, out, "speed-up over the first run", BARS_LONG_LABELS,
              json_array_size(reports), most);
    json_array_foreach(reports, i, r) {
        double v = json_num(json_object_get(r, "comparison"), "speedup");
        double median = json_num(json_object_get(r, "times"), "median");

        chart_label(text, i, r);
        bars_row(&b, text);
        snprintf(tip, sizeof tip, "%.180s: %s a step", json_str(r, "run"),
                 figure_seconds(a, sizeof a, median));
        bars_part(&b, chart_colour(i), v, tip);
        snprintf(text, sizeof text, "%.2f x", v);
        bars_figure(&b, v > 0 ? text : "no steady step");
    }
    bars_close(&b, svg_plain);
    return 1;
}

/* ---- losses ---- */

struct curve {
    double x[CHART_PIECES], y[CHART_PIECES];
    size_t n;
    size_t with, place, of; // the first that it lies on, its place among those that do, how many
};

static int ranges(struct svg *s, const struct curve *c, size_t n)
{
    double low, high;
    int    any = 0;

    s->x0 = 1;
    for (size_t i = 0; i < n; i++) {
        if (!chart_range(c[i].y, c[i].n, &low, &high))
            continue;
        s->y0 = any ? fmin(s->y0, low) : low;
        s->y1 = any ? fmax(s->y1, high) : high;
        any = 1;
        chart_range(c[i].x, c[i].n, &low, &high);
        s->x1 = fmax(s->x1, high);
    }
    svg_round_range(&s->y0, &s->y1);
    return any && s->x1 > s->x0;
}

/* Is one drawn over the other, as far as both go? */
static int lies_on(const struct svg *s, const struct curve *a, const struct curve *b)
{
    size_t n = a->n < b->n ? a->n : b->n, alike = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a->y[i]) && !isfinite(b->y[i]))
            continue;
        if (!(fabs(svg_x(s, a->x[i]) - svg_x(s, b->x[i])) < 1 &&
              fabs(svg_y(s, a->y[i]) - svg_y(s, b->y[i])) < 1) ||
            !isfinite(a->y[i]) || !isfinite(b->y[i]))
            return 0;
        alike++;
    }
    return alike > 1;
}

static void find_groups(const struct svg *s, struct curve *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (c[i].with = 0; c[i].with < i; c[i].with++)
            if (c[c[i].with].with == c[i].with && lies_on(s, &c[c[i].with], &c[i]))
                break;
        c[i].place = c[c[i].with].of++;
    }
}

int chart_losses(FILE *out, const json_t *reports)
{
    enum { DASH = 7 };
    struct svg    s = { .out = out, .width = CHART_WIDTH, .height = 260, .left = 62, .right = 12,
                        .top = 28, .bottom = 38 };
    size_t        n = json_array_size(reports), i;
    struct curve *c = calloc(n + 1, sizeof *c);
    const json_t *r;
    char          style[96];

    if (!c)
        return 0;
    json_array_foreach(reports, i, r) {
        c[i].n = chart_steps(json_object_get(r, "curve"), c[i].x);
        chart_column(json_object_get(r, "curve"), "loss", c[i].y);
    }
    int any = ranges(&s, c, n);
    if (any) {
        find_groups(&s, c, n);
        svg_open(&s, "losses of the runs");
        svg_axis_y(&s, "loss", svg_plain);
        svg_axis_x(&s, "step", figure_count);
    }
    for (i = 0; i < n && any; i++) {
        size_t of = c[c[i].with].of;

        snprintf(style, sizeof style, "%s", i < CHART_COLOURS ? "" : "stroke-dasharray:8 3");
        if (of > 1)
            snprintf(style, sizeof style, "stroke-dasharray:%d %zu;stroke-dashoffset:-%zu", DASH,
                     DASH * (of - 1), DASH * c[i].place);
        svg_curve(&s, chart_colour(i), style, c[i].x, c[i].y, c[i].n);
    }
    if (any)
        svg_close(&s);
    free(c);
    return any;
}

/* ---- speed against devices ---- */

/* Do the runs differ in nothing but their mode and how many devices there are? */
static int only_devices(const json_t *reports)
{
    static const char *const may[] = { "mode", "compress", "error-feedback", "devices", "drives" };
    const json_t *r, *d;
    size_t        i, k, at;

    json_array_foreach(reports, i, r)
        json_array_foreach(json_object_get(r, "differs"), k, d) {
            for (at = 0; at < sizeof may / sizeof *may; at++)
                if (!strcmp(json_str(d, "setting"), may[at]))
                    break;
            if (at == sizeof may / sizeof *may)
                return 0;
        }
    return 1;
}

/* How many devices a run has that was fast enough to be timed; 0: mem, which has none, or no steady
 * step. */
static double devices_of(const json_t *report)
{
    return strcmp(json_str(report, "mode"), "mem") && json_object_get(report, "times")
               ? report_setting(report, "option.devices")
               : 0;
}

static double speed_of(const json_t *report)
{
    return json_num(json_object_get(report, "times"), "tokens_per_second");
}

size_t chart_modes(const json_t *reports, char modes[][CHART_MODE], size_t most)
{
    const json_t *r;
    size_t        i, at, n = 0;
    char          mode[CHART_MODE];

    json_array_foreach(reports, i, r) {
        figure_mode(mode, sizeof mode, r);
        for (at = 0; at < n && strcmp(modes[at], mode); at++)
            ;
        if (at == n && n < most && devices_of(r) > 0)
            snprintf(modes[n++], CHART_MODE, "%s", mode);
    }
    return n;
}

/* The points of a mode, from few devices to many; of several runs with as many the fastest. */
static size_t points_of(const json_t *reports, const char *mode, double x[], double y[])
{
    const json_t *r;
    size_t        i, n = 0;
    char          its[CHART_MODE];

    json_array_foreach(reports, i, r) {
        double devices = devices_of(r);
        size_t at = 0;

        if (!(devices > 0) || strcmp(figure_mode(its, sizeof its, r), mode))
            continue;
        while (at < n && x[at] < devices)
            at++;
        if (at < n && x[at] == devices) {
            y[at] = fmax(y[at], speed_of(r));
            continue;
        }
        memmove(x + at + 1, x + at, (n - at) * sizeof *x);
        memmove(y + at + 1, y + at, (n - at) * sizeof *y);
        x[at] = devices;
        y[at] = speed_of(r);
        n++;
    }
    return n;
}

int chart_devices(FILE *out, const json_t *reports)
{
    struct svg s = { .out = out, .width = CHART_WIDTH, .height = 300, .left = 62, .right = 16,
                     .top = 28, .bottom = 38 };
    char       modes[CHART_COLOURS][CHART_MODE], tip[TIP];
    size_t     n = chart_modes(reports, modes, CHART_COLOURS), all = json_array_size(reports);
    size_t     most = 0;
    double    *x = calloc(2 * all + 2, sizeof *x), *y = x ? x + all + 1 : NULL;

    for (size_t m = 0; m < n && x; m++) {
        size_t points = points_of(reports, modes[m], x, y);

        most = points > most ? points : most;
        for (size_t i = 0; i < points; i++) {
            s.x1 = fmax(s.x1, x[i]);
            s.y1 = fmax(s.y1, y[i]);
        }
    }
    int any = x && most > 1 && only_devices(reports);
    if (any) {
        svg_round_range(&s.y0, &s.y1);
        svg_open(&s, "speed against devices");
        svg_axis_y(&s, "tokens a second", svg_plain);
        svg_axis_x(&s, "devices", svg_plain);
    }
    for (size_t m = 0; m < n && any; m++) {
        size_t points = points_of(reports, modes[m], x, y);

        svg_curve(&s, chart_colour(m), "", x, y, points);
        for (size_t i = 0; i < points; i++) {
            snprintf(tip, sizeof tip, "%s, %.0f device%s: %.1f tokens a second", modes[m], x[i],
                     x[i] > 1 ? "s" : "", y[i]);
            svg_dot(&s, chart_colour(m), x[i], y[i], tip);
        }
    }
    if (any)
        svg_close(&s);
    free(x);
    return any;
}
