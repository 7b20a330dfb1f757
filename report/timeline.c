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
    return (json_num(span, "device") >= 0) == l->device &&
           is_word_of(json_str(span, "phase"), l->phases);
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

static void draw_lane(struct timeline *t, const struct lane *l, int device)
{
    const json_t *span;
    size_t        i;
    double        drawn = -1;
    char          tip[TIP], label[64];
    int           any = 0;

    json_array_foreach(t->spans, i, span) {
        if (!lane_has(l, span) || device_of(span, "device") != device)
            continue;
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
}

static void draw_lanes(struct timeline *t, int devices)
{
    for (int d = -1; d < devices; d++) {
        t->top[d + 1] = t->y;
        for (int k = 0; k < LANES; k++)
            if (lanes[k].device == (d >= 0))
                draw_lane(t, &lanes[k], d);
        t->y += t->y > t->top[d + 1] ? GAP : 0;
    }
}

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
    static const char *const kinds[][2] = {
        { "forward", "forward" }, { "loss", "loss" }, { "backward", "backward" },
        { "norm", "norms and compression" }, { "wait", "waits" }, { "commit", "commit" },
        { "read", "reads" }, { "act", "activations" }, { "update", "update computes" },
    };
    json_t *all = json_array();

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        json_array_append_new(all, json_pack("{s:s, s:s}", "colour", kinds[i][0], "name",
                                             kinds[i][1]));
    chart_legend(out, all);
    json_decref(all);
}

int chart_timeline(FILE *out, const json_t *report)
{
    struct timeline t = { .spans = json_object_get(report, "timeline"), .y = 6 };
    const json_t   *span;
    size_t          i, bytes;
    int             devices = 0;
    char            label[64] = "since the step began", *lanes_drawn = NULL;

    json_array_foreach(t.spans, i, span) {
        int device = device_of(span, "device");

        devices = device >= devices ? device + 1 : devices;
        if (device < 0 && !strcmp(json_str(span, "phase"), "step") &&
            json_num(span, "start") == 0)
            t.length = json_num(span, "end");
    }
    t.s = (struct svg){ .width = WIDTH, .left = LEFT, .right = 16, .top = 6, .bottom = 38,
                        .x1 = t.length, .out = open_memstream(&lanes_drawn, &bytes) };
    if (devices > SHOWN) {
        devices = SHOWN;
        snprintf(label, sizeof label, "since the step began, the first %d devices", SHOWN);
    }
    if (t.s.out && t.length > 0) {
        draw_lanes(&t, devices);
        draw_flows(&t, devices);
    }
    if (t.s.out)
        fclose(t.s.out);
    if (t.length > 0 && lanes_drawn) {
        t.s.out = out;
        t.s.height = t.y + t.s.bottom; // known once the lanes are drawn
        legend(out);
        svg_open(&t.s, "one step: the host and the devices over time");
        fputs(lanes_drawn, out);
        svg_axis_x(&t.s, label, figure_seconds);
        svg_close(&t.s);
    }
    free(lanes_drawn);
    return t.length > 0;
}
