/* text.c: a run as it is read in a terminal: at most 80 columns, bars and a curve of characters,
 * which say all that colours say. */
#include "report/text.h"

#include "report/report.h"

#include "report/figures.h"

#include <math.h>

enum { BAR = TEXT_BAR, CURVE_WIDTH = 64, CURVE_HEIGHT = 6, PATH_WIDTH = 30, FIGURE = 32 };

/* ---- pieces ---- */

static void colour(const struct text *t, const char *code)
{
    if (t->colour)
        fprintf(t->out, "\033[%sm", code);
}

void text_heading(const struct text *t, const char *words)
{
    fputc('\n', t->out);
    colour(t, "1");
    fputs(words, t->out);
    colour(t, "0");
    fputc('\n', t->out);
}

static const char *code_of(char letter)
{
    switch (letter) {
    case 'F': return "34";
    case 'B': return "33";
    case 'U': return "32";
    case '.': return "90";
    default: return "36";
    }
}

void text_letters(const struct text *t, char letter, int n)
{
    colour(t, code_of(letter));
    for (int i = 0; i < n; i++)
        fputc(letter, t->out);
    colour(t, "0");
}

void text_bar(const struct text *t, char letter, double share, int width)
{
    int n = share > 0 ? (int)lround(fmin(share, 1) * width) : 0;

    text_letters(t, letter, n);
}

const char *text_path_end(const char *path, size_t *cut)
{
    size_t n = strlen(path);

    *cut = n > PATH_WIDTH;
    if (!*cut)
        return path;
    path += n - PATH_WIDTH + 3;
    while ((*path & 0xC0) == 0x80) // not within a character
        path++;
    return path;
}

static void put_path(const struct text *t, const char *path)
{
    size_t      cut;
    const char *end = text_path_end(path, &cut);

    fprintf(t->out, "  %s%s\n", cut ? "..." : "", end);
}

/* ---- the run, its loss, its pace ---- */

static void text_run(const struct text *t, const json_t *report)
{
    const json_t *s = json_object_get(report, "steps");
    char          model[128], rows[96] = "", sent[64] = "";
    size_t        devices = json_array_size(json_object_get(report, "devices"));

    colour(t, "1");
    fprintf(t->out, "%s", json_str(report, "run"));
    colour(t, "0");
    fprintf(t->out, "%s%s\n", *figure_model(model, sizeof model, report) ? ": " : "", model);
    if (json_num(report, "compress") > 0)
        snprintf(sent, sizeof sent, ", gradients compressed to %g %%",
                 100 * json_num(report, "compress"));
    if (report_setting(report, "option.batch") > 0)
        snprintf(rows, sizeof rows, ", batch %.0f x %.0f tokens",
                 report_setting(report, "option.batch"), report_setting(report, "option.seq"));
    fprintf(t->out, "mode %s", json_str(report, "mode"));
    if (devices)
        fprintf(t->out, " on %zu device%s", devices, devices > 1 ? "s" : "");
    if (report_setting(report, "ranks") > 1)
        fprintf(t->out, ", rank %.0f of %.0f", report_setting(report, "rank"),
                report_setting(report, "ranks"));
    fprintf(t->out, "%s%s\n%.0f steps (%.0f skipped, %.0f clipped), %.0f tokens\n", sent, rows,
            json_num(s, "steps"), json_num(s, "skipped"), json_num(s, "clipped"),
            json_num(s, "tokens"));
}

/* The lowest and highest loss of each column, as far as they are figures. */
static void curve_columns(const json_t *curve, double least[], double most[])
{
    size_t n = json_array_size(curve);

    for (int i = 0; i < CURVE_WIDTH; i++) {
        least[i] = (double)INFINITY;
        most[i] = -(double)INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *piece = json_array_get(curve, i);
        size_t        column = n > CURVE_WIDTH ? i * CURVE_WIDTH / n : i;

        if (!json_is_number(json_object_get(piece, "loss")))
            continue;
        least[column] = fmin(least[column], json_num(piece, "loss_least"));
        most[column] = fmax(most[column], json_num(piece, "loss_most"));
    }
}

static void text_curve(const struct text *t, const json_t *curve)
{
    double least[CURVE_WIDTH], most[CURVE_WIDTH], low = (double)INFINITY, high = -low;

    curve_columns(curve, least, most);
    for (int i = 0; i < CURVE_WIDTH; i++) {
        low = fmin(low, least[i]);
        high = fmax(high, most[i]);
    }
    if (json_array_size(curve) < 3 || !(high > low))
        return;
    for (int row = 0; row < CURVE_HEIGHT; row++) {
        double below = high - (high - low) * (row + 1) / CURVE_HEIGHT;
        double above = high - (high - low) * row / CURVE_HEIGHT;

        char   line[CURVE_WIDTH + 1] = "";
        int    n = 0;

        for (int i = 0; i < CURVE_WIDTH; i++) { // the lowest row has the lowest loss in it
            int in = least[i] <= above && (most[i] > below || row == CURVE_HEIGHT - 1);

            line[i] = in ? '*' : ' ';
            n = in ? i + 1 : n;
        }
        fprintf(t->out, "  %8.4g |", row == CURVE_HEIGHT - 1 ? low : above);
        colour(t, "36");
        fprintf(t->out, "%.*s", n, line);
        colour(t, "0");
        fputc('\n', t->out);
    }
}

static void text_loss(const struct text *t, const json_t *report)
{
    const json_t *s = json_object_get(report, "steps");

    if (!(json_num(s, "steps") > 0))
        return;
    // run.db counts from 0
    fprintf(t->out, "loss %.4f at step %.0f, %.4f at step %.0f\n", json_figure(s, "first_loss"),
            json_num(s, "first") + 1, json_figure(s, "last_loss"), json_num(s, "last") + 1);
    double finite = json_num(s, "finite_steps");
    if (finite < json_num(s, "steps")) {
        fprintf(t->out, "a number in %.0f of %.0f steps", finite, json_num(s, "steps"));
        if (finite > 0)
            fprintf(t->out, ": %.4f at step %.0f, %.4f at step %.0f",
                    json_figure(s, "finite_first_loss"), json_num(s, "finite_first") + 1,
                    json_figure(s, "finite_last_loss"), json_num(s, "finite_last") + 1);
        fputc('\n', t->out);
    }
    text_curve(t, json_object_get(report, "curve"));
}

static void text_pace(const struct text *t, const json_t *report)
{
    const json_t *s = json_object_get(report, "steps"), *q = json_object_get(report, "times");
    char          a[FIGURE], b[FIGURE], c[FIGURE], d[FIGURE], peak[2 * FIGURE];

    if (q)
        fprintf(t->out, "%s a step: median of %.0f steady ones, quartiles %s and %s\n"
                "%.1f tokens/s at the median\n",
                figure_seconds(a, sizeof a, json_num(q, "median")), json_num(q, "steady"),
                figure_seconds(b, sizeof b, json_num(q, "lower_quartile")),
                figure_seconds(c, sizeof c, json_num(q, "upper_quartile")),
                json_num(q, "tokens_per_second"));
    if (json_num(s, "seconds_per_step") > 0)
        fprintf(t->out, "%s a step: mean of all, %.1f tokens/s\npeak resident memory %s\n",
                figure_seconds(d, sizeof d, json_num(s, "seconds_per_step")),
                json_num(s, "tokens_per_second"), figure_peak(peak, sizeof peak, report));
}

/* ---- where the time goes ---- */

static void text_parts(const struct text *t, const json_t *b, double whole, const char *title)
{
    char a[FIGURE];

    text_heading(t, title);
    for (int i = 0; i < PARTS; i++) {
        const struct part *p = &breakdown_parts[i];
        double             v = json_num(b, p->field);

        if (!json_object_get(b, p->field))
            continue;
        fprintf(t->out, "  %-28s %9s %5.1f %%  ", p->words, figure_seconds(a, sizeof a, v),
                100 * v / whole);
        text_bar(t, p->letter, v / whole, BAR);
        fputc('\n', t->out);
    }
    fprintf(t->out, "  %-28s %9s\n", "all", figure_seconds(a, sizeof a, whole));
}

static void text_breakdown(const struct text *t, const json_t *report)
{
    const json_t *b = json_object_get(report, "breakdown");
    const json_t *serial = json_object_get(report, "breakdown_serial");
    char          title[96];

    if (json_num(b, "steps") <= 0)
        return;
    snprintf(title, sizeof title, "Breakdown of a step, as it was lived (mean of %.0f %ssteps)",
             json_num(b, "steps"), json_num(b, "steady") > 0 ? "steady " : "");
    text_parts(t, b, json_num(b, "seconds"), title);
    snprintf(title, sizeof title, "Serialised: as if nothing overlapped (mean of %.0f steps)",
             json_num(serial, "steps"));
    if (breakdown_sum(serial) > 0)
        text_parts(t, serial, breakdown_sum(serial), title);
}

static void text_waits(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "waits"), *w, *before = NULL;
    char          a[FIGURE], b[FIGURE];
    double        seconds = 0, share = 0, longest = 0;
    size_t        n = json_array_size(all);

    if (n)
        text_heading(t, "The training thread waited, a step");
    for (size_t i = 0; i <= n; i++) { // of all devices together
        w = json_array_get(all, i);
        if (before && (!w || strcmp(json_str(w, "phase"), json_str(before, "phase")))) {
            fprintf(t->out, "  %-28s %9s %5.1f %%  ", phase_words(json_str(before, "phase")),
                    figure_seconds(a, sizeof a, seconds), 100 * share);
            fprintf(t->out, "at most %9s  ", figure_seconds(b, sizeof b, longest));
            text_bar(t, 'w', share, BAR - 12);
            fputc('\n', t->out);
            seconds = share = longest = 0;
        }
        seconds += json_num(w, "seconds_per_step");
        share += json_num(w, "share");
        longest = fmax(longest, json_num(w, "longest"));
        before = w;
    }
}

static void text_update(const struct text *t, const json_t *report)
{
    static const char *const parts[] = { "read", "compute", "write" };
    const json_t            *u;
    size_t                   i;
    char                     name[FIGURE], a[FIGURE];

    if (json_array_size(json_object_get(report, "update")))
        text_heading(t, "Updates, a step: at work (#) and waiting (.) within a part");
    json_array_foreach(json_object_get(report, "update"), i, u) {
        double all = json_num(u, "seconds");

        fprintf(t->out, "  device %-3.0f %9s", json_num(u, "device"),
                figure_seconds(a, sizeof a, all));
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            snprintf(name, sizeof name, "%s_busy", parts[k]);
            double busy = json_num(u, name);
            snprintf(name, sizeof name, "%s_wait", parts[k]);
            double wait = json_num(u, name);
            int    n = all > 0 ? (int)lround(fmin(busy / all, 1) * 8) : 0;
            int    m = all > 0 ? (int)lround(fmin(wait / all, 1 - n / 8.0) * 8) : 0;

            fprintf(t->out, " %s ", parts[k]);
            text_letters(t, '#', n);
            text_letters(t, '.', m);
            fprintf(t->out, "%*s", 8 - n - m, "");
        }
        fputc('\n', t->out);
    }
}

static void text_overlap(const struct text *t, const json_t *report)
{
    double busy, hidden;
    char   a[FIGURE], b[FIGURE];

    if (overlap_sum(report, &busy, &hidden))
        fprintf(t->out, "\nOverlap: devices were busy for %s, nobody waited for %s of it:\n"
                "         %.1f %% was hidden\n", figure_seconds(a, sizeof a, busy),
                figure_seconds(b, sizeof b, hidden), 100 * hidden / busy);
}

/* ---- what moved ---- */

static void text_traffic(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "traffic"), *row;
    size_t        i;

    if (!json_array_size(all))
        return;
    text_heading(t, "Traffic, bytes a step (all devices)");
    fprintf(t->out, "  %-9s %-11s %-6s %15s %15s %13s\n", "link", "class", "", "measured",
            "computed", "padding");
    json_array_foreach(all, i, row) {
        char computed[32] = "-";

        if (json_object_get(row, "computed"))
            snprintf(computed, sizeof computed, "%.0f", json_num(row, "computed"));
        fprintf(t->out, "  %-9s %-11s %-6s %15.0f %15s %13.0f\n", json_str(row, "link"),
                json_str(row, "class"), json_str(row, "direction"),
                json_num(row, "bytes_per_step"), computed,
                json_num(row, "padding_bytes_per_step"));
        if (json_num(row, "least") < json_num(row, "most"))
            fprintf(t->out, "  %39s%.0f to %.0f\n", "", json_num(row, "least"),
                    json_num(row, "most"));
    }
}

static void text_wear(const struct text *t, const json_t *report)
{
    const json_t *w;
    size_t        i;
    char          a[FIGURE], b[FIGURE], life[48];

    if (json_array_size(json_object_get(report, "written")) &&
        json_num(json_object_get(report, "steps"), "seconds_per_step") > 0)
        text_heading(t, "Written to each device, with padding");
    json_array_foreach(json_object_get(report, "written"), i, w) {
        if (!json_object_get(w, "bytes_per_day"))
            continue;
        *life = '\0';
        if (json_object_get(w, "years"))
            snprintf(life, sizeof life, "  worn out in %.3g years", json_num(w, "years"));
        fprintf(t->out, "  %-3.0f %9s a step  %9s a day%s", json_num(w, "device"),
                figure_bytes(a, sizeof a, json_num(w, "bytes_per_step")),
                figure_bytes(b, sizeof b, json_num(w, "bytes_per_day")), life);
        put_path(t, *life ? "" : json_str(w, "path"));
    }
}

static void text_bandwidth(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "bandwidth"), *r;
    size_t        i;
    double        most = 0;
    char          a[FIGURE];

    json_array_foreach(all, i, r)
        most = fmax(most, json_num(r, "bytes_per_second"));
    if (json_array_size(all))
        text_heading(t, "Bandwidth per device, while a transfer of the kind was under way");
    json_array_foreach(all, i, r) {
        fprintf(t->out, "  %-3.0f %-9s %-14s %-6s %9s/s  ", json_num(r, "device"),
                json_str(r, "link"), json_str(r, "phase"), json_str(r, "direction"),
                figure_bytes(a, sizeof a, json_num(r, "bytes_per_second")));
        text_bar(t, '#', json_num(r, "bytes_per_second") / most, BAR);
        fputc('\n', t->out);
    }
}

static void text_drives(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "drives"), *d;
    size_t        i;
    char          a[FIGURE], b[FIGURE], c[FIGURE];

    if (json_array_size(all))
        text_heading(t, "Real drives while updates were under way, read and written; devices");
    json_array_foreach(all, i, d)
        fprintf(t->out, "  %-10.10s %9s/s for %s, %s of it no updates'; %.24s\n",
                json_str(d, "drive"), figure_bytes(a, sizeof a, json_num(d, "bytes_per_second")),
                figure_seconds(b, sizeof b, json_num(d, "seconds")),
                figure_bytes(c, sizeof c, json_num(d, "other_bytes")), json_str(d, "devices"));
}

/* ---- memory, evaluations, choices, what was said ---- */

static void text_memory(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "memory"), *m;
    double        peak = json_num(json_object_get(report, "steps"), "peak_rss"),
                  arenas = report_arenas(report), own = fmax(peak - arenas, 0), most = own;
    size_t        i;
    char          a[FIGURE];

    if (!json_array_size(all))
        return;
    text_heading(t, "Memory, as planned");
    json_array_foreach(all, i, m)
        if (strcmp(json_str(m, "part"), "limit")) // which may be all that the machine has
            most = fmax(most, json_num(m, "bytes"));
    for (i = 0; i <= json_array_size(all); i++) {
        int    last = i == json_array_size(all);
        double bytes = last ? own : json_num(m = json_array_get(all, i), "bytes");

        if (!(bytes > 0))
            continue;
        fprintf(t->out, "  %-33.33s %9s  ", !last        ? json_str(m, "part")
                : arenas > 0 ? "peak of the process, these apart"
                             : "peak of the process",
                figure_memory(a, sizeof a, bytes));
        if (bytes <= most)
            text_bar(t, '#', bytes / most, BAR);
        fputc('\n', t->out);
    }
}

/* The last row with the measure of row `at`, which has one itself. */
static const json_t *eval_last(const json_t *all, size_t at)
{
    const char *measure = json_str(json_array_get(all, at), "measure");
    size_t      i = json_array_size(all);

    while (strcmp(json_str(json_array_get(all, --i), "measure"), measure))
        ;
    return json_array_get(all, i);
}

/* The first and the last of each measure. */
static void text_evals(const struct text *t, const json_t *report)
{
    const json_t *all = json_object_get(report, "evals"), *e;
    size_t        i;

    if (json_array_size(all))
        text_heading(t, "Evaluations, the first and the last");
    json_array_foreach(all, i, e) {
        if (eval_seen(all, i))
            continue;
        const json_t *last = eval_last(all, i);

        fprintf(t->out, "  %-28.28s %.4f after step %.0f", json_str(e, "measure"),
                json_figure(e, "value"), json_num(e, "step") + 1);
        if (last != e)
            fprintf(t->out, ", %.4f after step %.0f", json_figure(last, "value"),
                    json_num(last, "step") + 1);
        fputc('\n', t->out);
    }
}

static void text_choices(const struct text *t, const json_t *report)
{
    const json_t *c;
    size_t        i;
    char          a[FIGURE], b[FIGURE], d[FIGURE], ways[96];

    json_array_foreach(json_object_get(report, "choices"), i, c) {
        fprintf(t->out, "%sActivations, from step %.0f on, kept + offloaded of %.0f layers:\n"
                "  %s; a step took %s,\n  %s was expected", i ? "" : "\n",
                json_num(c, "step") + 1, json_num(c, "layers"),
                figure_ways(ways, sizeof ways, c),
                figure_seconds(a, sizeof a, json_num(c, "step_seconds")),
                figure_seconds(b, sizeof b, json_num(c, "expected_seconds")));
        if (json_is_number(json_object_get(c, "after_seconds")))
            fprintf(t->out, ", it took %s since (median)",
                    figure_seconds(d, sizeof d, json_num(c, "after_seconds")));
        fputc('\n', t->out);
    }
}

void text_wrapped(const struct text *t, const char *text, int indent)
{
    int column = indent;

    while (*text) {
        int n = (int)strcspn(text, " "), gap = (int)strspn(text + n, " ");

        if (column + n > 79 && column > indent) {
            fprintf(t->out, "\n%*s", indent, "");
            column = indent;
        }
        fprintf(t->out, "%.*s", n, text);
        column += n;
        text += n + gap;
        if (*text && column < 79) {
            fputc(' ', t->out);
            column++;
        }
    }
    fputc('\n', t->out);
}

static void text_said(const struct text *t, const json_t *report)
{
    const json_t *s, *n;
    size_t        i, skipped = json_array_size(json_object_get(report, "skipped"));

    if (skipped)
        text_heading(t, "Skipped steps, whose gradient was not finite");
    json_array_foreach(json_object_get(report, "skipped"), i, s)
        fprintf(t->out, "%s%.0f%s", i ? ", " : "  ", json_num(s, "step") + 1,
                i + 1 == skipped ? "\n" : i % 10 == 9 ? ",\n" : "");
    if (json_array_size(json_object_get(report, "notices")))
        text_heading(t, "Notices");
    json_array_foreach(json_object_get(report, "notices"), i, n) {
        fprintf(t->out, "  %.19s  ", json_str(n, "time"));
        text_wrapped(t, json_str(n, "text"), 23);
    }
}

void text_one(const struct text *t, const json_t *report)
{
    text_run(t, report);
    text_loss(t, report);
    text_pace(t, report);
    text_breakdown(t, report);
    text_waits(t, report);
    text_update(t, report);
    text_traffic(t, report);
    text_wear(t, report);
    text_overlap(t, report);
    text_bandwidth(t, report);
    text_drives(t, report);
    text_memory(t, report);
    text_evals(t, report);
    text_choices(t, report);
    text_said(t, report);
}
