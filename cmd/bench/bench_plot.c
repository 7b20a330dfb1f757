/* bench_plot.c: the curves of `bench rok` as a picture of its own (SVG), light
 * or dark as who looks at them has it. */
#include "cmd/bench/bench.h"

#include "cmd/report/svg.h"

#include <math.h>

enum { WIDTH = 640, HEIGHT = 400, MOST_POINTS = 1024 };

/* w1, w2, ...: of curves beside each other (colours that the colour-blind can tell apart). */
static const char style[] =
    "<style>svg{background:#fff;--ink:#1c1f23;--soft:#5c6570;--rule:#e3e5e8;--c:#0072b2}"
    "text{font:12px system-ui,sans-serif;fill:var(--ink)}.tick,.label{fill:var(--soft)}"
    ".grid{stroke:var(--rule)}.axis,.range{stroke:var(--soft)}.mark{stroke:#d55e00;"
    "stroke-dasharray:4 3}.curve{fill:none;stroke:var(--c);stroke-width:2}.wait{--c:#d55e00}"
    ".w1{--c:#d55e00}.w2{--c:#009e73}.w3{--c:#cc79a7}.w4{--c:#e69f00}.w5{--c:#56b4e9}"
    "rect{fill:var(--c)}@media(prefers-color-scheme:dark){svg{background:#14171a;--ink:#e6e8ea;"
    "--soft:#a0a8b1;--rule:#32383e;--c:#3d9fdc}}</style>\n";

static void begin(const struct svg *s, const char *name)
{
    fprintf(s->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
            "aria-label=\"%s\">\n<!-- Made by siTrain bench -->\n%s", WIDTH, HEIGHT, name, style);
}

/* ---- rok: a curve a way, a point a batch ---- */

enum { LEGEND_WIDTH = 92 };

/* The points of one way, with their batches, and the way's name in the legend. */
static void way_draw(const struct svg *s, const json_t *rows, const char *way, size_t number)
{
    double  x[MOST_POINTS], y[MOST_POINTS], at = s->left + LEGEND_WIDTH * (double)number;
    char    colour[8], text[128];
    size_t  n = 0, i;
    json_t *row;

    snprintf(colour, sizeof colour, "w%zu", number);
    json_array_foreach(rows, i, row) {
        if (strcmp(json_str(row, "way"), way) || n == MOST_POINTS)
            continue;
        x[n] = 1e-6 * json_num(row, "activation_bytes");
        y[n] = 1e-9 * json_num(row, "flops_per_second");
        snprintf(text, sizeof text, "%s, batch %.0f: %.0f MB, %.1f GFLOP/s", way,
                 json_num(row, "batch"), x[n], y[n]);
        svg_box(s, colour, svg_x(s, x[n]) - 3.5, svg_y(s, y[n]) - 3.5, 7, 7, text);
        snprintf(text, sizeof text, "%.0f", json_num(row, "batch"));
        svg_text(s, "label", svg_x(s, x[n]), svg_y(s, y[n]) - 7, "middle", text);
        n++;
    }
    svg_curve(s, colour, "", x, y, n);
    svg_box(s, colour, at, 28, 16, 3, NULL);
    svg_text(s, "label", at + 21, 33, "start", way);
}

int bench_plot_rok(FILE *out, void *section, struct err *err)
{
    const json_t *rows = json_object_get(section, "rows"), *ways = json_object_get(section, "ways");
    double        low = 0;
    json_t       *row, *way;
    size_t        i;
    struct svg    s = { .out = out, .width = WIDTH, .height = HEIGHT, .left = 60, .right = 20,
                        .top = 48, .bottom = 44 };

    (void)err;
    json_array_foreach(rows, i, row) {
        s.x1 = fmax(s.x1, 1.05e-6 * json_num(row, "activation_bytes"));
        s.y1 = fmax(s.y1, 1.05e-9 * json_num(row, "flops_per_second"));
    }
    svg_round_range(&low, &s.y1);
    begin(&s, "rate of a step's arithmetic against the activations' peak, by way and batch");
    svg_axis_y(&s, "GFLOP/s of the model's own arithmetic", svg_plain);
    svg_axis_x(&s, "activations' peak, MB", svg_plain);
    json_array_foreach(ways, i, way)
        way_draw(&s, rows, json_string_value(way), i);
    svg_close(&s);
    return 0;
}
