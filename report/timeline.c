/* timeline.c: draws one step as a picture: what the host computed, waited for and committed, and
 * below it what each device read, wrote and updated. A broken line leads from the end of a longer
 * wait down to the device that it was for.
 *
 * Spans that are too narrow to be seen next to the one before are left out, so that the picture of
 * a hundred thousand spans is only as large as its pixels. */
#include "report/charts.h"

#include "report/format.h"
#include "report/svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1080, LEFT = 170, HIGH = 15, GAP = 4, SHOWN = 12, TIP = 256, FIGURE = 32 };

/* A lane of the host or of a device, and the phases drawn in it. */
static const struct lane { int device; const char *words, *phases; } lanes[] = {
    { 0, "computes", " data forward loss backward grad_norm grad_compress update eval " },
    { 0, "waits", " wait_params wait_update wait_commit wait_gradient wait_residual wait_act_read"
                  " wait_act_write wait_eval wait_drain " },
    { 0, "commits", " commit " },
    { 1, "sends to the host", " param_read act_read eval " },
    { 1, "gets from the host", " grad_write act_write " },
    { 1, "update: reads", " update_read " },
    { 1, "update: computes", " update_compute " },
    { 1, "update: writes", " update_write " },
};
enum { LANES = sizeof lanes / sizeof *lanes };

/* The device of a span. All devices that are not shown count as one. */
static int device_of(const json_t *span, const char *field)
{
    return (int)fmax(-1, fmin(json_num(span, field), SHOWN));
}

static int lane_has(const struct lane *l, const json_t *span)
{
    char   word[64];
    size_t n = (size_t)snprintf(word, sizeof word, " %.50s ", json_str(span, "phase"));

    return n < sizeof word && (json_num(span, "device") >= 0) == l->device &&
           strstr(l->phases, word);
}

static void span_tip(char *tip, size_t size, const json_t *span)
{
    double from = json_num(span, "start"), to = json_num(span, "end");
    double busy = json_num(span, "busy");
    char   a[FIGURE], b[FIGURE], c[FIGURE];
    int    n = snprintf(tip, size, "%s%.60s", strncmp(json_str(span, "phase"), "wait_", 5) ? ""
                        : "waits ", phase_words(json_str(span, "phase")));

    if (json_num(span, "block") >= 0 && json_is_number(json_object_get(span, "block")))
        n += snprintf(tip + n, size - (size_t)n, ", block %.0f", json_num(span, "block"));
    n += snprintf(tip + n, size - (size_t)n, ", step %.0f: %s from %s on",
                  json_num(span, "of_step") + 1, figure_seconds(a, sizeof a, to - from),
                  figure_seconds(b, sizeof b, from));
    if (json_num(span, "bytes") > 0)
        n += snprintf(tip + n, size - (size_t)n, ", %s",
                      figure_bytes(a, sizeof a, json_num(span, "bytes")));
    if (json_num(span, "device") >= 0 && busy > 0 && busy < 0.995 * (to - from))
        n += snprintf(tip + n, size - (size_t)n, ", at work for %s",
                      figure_seconds(c, sizeof c, busy));
    if (json_is_number(json_object_get(span, "for_device")))
        snprintf(tip + n, size - (size_t)n, ", for device %.0f", json_num(span, "for_device"));
}

struct timeline {
    struct svg    s;
    const json_t *spans;
    double        y, length;           // of the next lane; of the step
    double        top[SHOWN + 1];      // of each device's first lane
};

/* Draws one lane. 0 if it is empty. */
static int draw_lane(struct timeline *t, const struct lane *l, int device, int measure)
{
    const json_t *span;
    size_t        i;
    double        drawn = -1;
    char          tip[TIP], label[64];
    int           any = 0;

    json_array_foreach(t->spans, i, span) {
        if (!lane_has(l, span) || device_of(span, "device") != device)
            continue;
        if (measure)
            return 1;
        if (!any++) {
            if (device < 0)
                snprintf(label, sizeof label, "host %s", l->words);
            else
                snprintf(label, sizeof label, "%d %s", device, l->words);
            svg_text(&t->s, "", LEFT - 8, t->y + 12, "end", label);
            svg_box(&t->s, "lane", LEFT, t->y, t->s.width - LEFT - t->s.right, HIGH, NULL);
        }
        double from = svg_x(&t->s, fmax(json_num(span, "start"), 0));
        double to = svg_x(&t->s, fmin(json_num(span, "end"), t->length));
        if (to < drawn + 0.4)
            continue;
        span_tip(tip, sizeof tip, span);
        svg_box(&t->s, phase_colour(json_str(span, "phase")), from, t->y, fmax(to - from, 0.5),
                HIGH, tip);
        drawn = fmax(drawn, to);
    }
    t->y += any ? HIGH + GAP : 0;
    return any;
}

static int count_lanes(struct timeline *t, int devices, int *groups)
{
    int rows = 0;

    *groups = 0;
    for (int d = -1; d < devices; d++) {
        int before = rows;

        for (int i = 0; i < LANES; i++)
            rows += lanes[i].device == (d >= 0) && draw_lane(t, &lanes[i], d, 1);
        *groups += rows > before;
    }
    return rows;
}

/* Draws the broken lines of waits that last longer than a hundredth of the step. */
static void draw_flows(struct timeline *t, int devices)
{
    const json_t *span;
    size_t        i;

    json_array_foreach(t->spans, i, span) {
        double from = json_num(span, "start"), to = json_num(span, "end");
        int    device = device_of(span, "for_device");

        if (!lane_has(&lanes[1], span) || !json_is_number(json_object_get(span, "for_device")) ||
            to - from < t->length / 100 || to > t->length || device < 0 || device >= devices)
            continue;
        svg_line(&t->s, "flow", svg_x(&t->s, to), t->top[0] + 2 * HIGH + GAP, svg_x(&t->s, to),
                 t->top[device + 1]);
    }
}

static void legend(FILE *out)
{
    json_t *all = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s},"
                            " {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]",
        "colour", "forward", "name", "forward", "colour", "loss", "name", "loss",
        "colour", "backward", "name", "backward", "colour", "norm", "name", "norms and compression",
        "colour", "wait", "name", "waits", "colour", "commit", "name", "commit",
        "colour", "read", "name", "reads", "colour", "act", "name", "activations",
        "colour", "update", "name", "update computes");

    chart_legend(out, all);
    json_decref(all);
}

int chart_timeline(FILE *out, const json_t *report)
{
    struct timeline t = { .spans = json_object_get(report, "timeline") };
    const json_t   *span;
    size_t          i;
    int             devices = 0, groups;
    char            label[64] = "since the step began";

    json_array_foreach(t.spans, i, span) {
        int device = device_of(span, "device");

        devices = device >= devices ? device + 1 : devices;
        if (device < 0 && !strcmp(json_str(span, "phase"), "step") &&
            json_num(span, "start") == 0)
            t.length = json_num(span, "end");
    }
    if (!(t.length > 0))
        return 0;
    if (devices > SHOWN) {
        devices = SHOWN;
        snprintf(label, sizeof label, "since the step began, the first %d devices", SHOWN);
    }
    legend(out);
    int rows = count_lanes(&t, devices, &groups);
    t.s = (struct svg){ .out = out, .width = WIDTH, .left = LEFT, .right = 16, .top = 6,
                        .bottom = 38, .x1 = t.length,
                        .height = 6 + rows * (HIGH + GAP) + groups * GAP + 38 };
    svg_open(&t.s, "one step: the host and the devices over time");
    t.y = 6;
    for (int d = -1; d < devices; d++) {
        t.top[d + 1] = t.y;
        for (int k = 0; k < LANES; k++)
            if (lanes[k].device == (d >= 0))
                draw_lane(&t, &lanes[k], d, 0);
        t.y += t.y > t.top[d + 1] ? GAP : 0;
    }
    draw_flows(&t, devices);
    svg_axis_x(&t.s, label, figure_seconds);
    svg_close(&t.s);
    return 1;
}
