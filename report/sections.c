/* sections.c: makes the rows of each section of a report on one run, and lists the sections in
 * their order. sections_many.c has those of several runs. */
#include "report/sections.h"

#include "report/svg.h"
#include "run/folder/train_opts.h"

#include <stdarg.h>

enum { FIGURE = 64 };
#define FIGURE_TEXT(f, value) f((char[FIGURE]){ 0 }, FIGURE, value)

json_t *section_made(const struct section *s, const json_t *report)
{
    if (s->list || s->table)
        return s->list ? s->list(report) : s->table(report);
    json_t *items = s->make_rows ? s->make_rows(report)
                                 : json_incref(json_object_get(report, s->rows ? s->rows : ""));
    json_t *made = json_array_size(items) ? table_made(s->columns, s->bars, items) : NULL;

    json_decref(items);
    return made;
}

/* ---- lists ---- */

/* Adds a line to a list. fmt: its value and, behind a |, what else there is to say. */
__attribute__((format(printf, 3, 4)))
static void say(json_t *list, const char *what, const char *fmt, ...)
{
    char    text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *more = text + strcspn(text, "|");
    int   n = (int)(more - text);
    json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "what", what, "value",
                                          json_sprintf("%.*s", n, text), "more",
                                          more + (*more == '|')));
}

/* Adds the measures of the evaluation that counts and, if it is another, of the last. */
static void say_evals(json_t *list, const json_t *report)
{
    enum { MOST = 6 };
    int           best = *report_setting_text(report, "best.step") != 0;
    const json_t *r;
    size_t        i, shown = 0;

    json_array_foreach(json_object_get(report, "results"), i, r) {
        const char *measure = json_str(r, "measure");
        char        what[128], later[FIGURE] = "";

        if (!json_is_number(json_object_get(r, "step")) || shown++ >= MOST)
            continue;
        if (json_num(r, "step") != json_num(r, "last_step"))
            snprintf(later, sizeof later, "; %.4f after step %.0f", json_figure(r, "last_value"),
                     json_num(r, "last_step") + 1);
        snprintf(what, sizeof what, "%.100s%s", measure,
                 strncmp(measure, "loss", 4) ? "" : " evaluated");
        say(list, what, "%.4f|after step %.0f%s%s", json_figure(r, "value"),
            json_num(r, "step") + 1, best ? ", the best" : "", later);
    }
}

static void say_loss(json_t *list, const json_t *s)
{
    double finite = json_num(s, "finite_steps");
    char   numbers[128] = "", ends[96] = "";

    if (!(json_num(s, "steps") > 0))
        return;
    if (finite > 0)
        snprintf(ends, sizeof ends, ": %.4f at step %.0f, %.4f at step %.0f",
                 json_figure(s, "finite_first_loss"), json_num(s, "finite_first") + 1,
                 json_figure(s, "finite_last_loss"), json_num(s, "finite_last") + 1);
    if (finite < json_num(s, "steps"))
        snprintf(numbers, sizeof numbers, "; a number in %.0f of %.0f steps%s", finite,
                 json_num(s, "steps"), ends);
    say(list, "Loss", "%.4f|at step %.0f; %.4f at step %.0f%s", json_figure(s, "last_loss"),
        json_num(s, "last") + 1, json_figure(s, "first_loss"), json_num(s, "first") + 1, numbers);
}

static void say_snapshots(json_t *list, const json_t *s)
{
    double shared = json_num(s, "shared_bytes");
    char   text[96] = "";

    if (!s)
        return;
    if (shared > 0)
        snprintf(text, sizeof text, ", %s shared with the run",
                 FIGURE_TEXT(figure_bytes, shared));
    say(list, "Snapshots",
        "%.0f|the last after step %.0f; %s copied%s, in %s; training waited for %s",
        json_num(s, "taken"), json_num(s, "last_step"),
        FIGURE_TEXT(figure_bytes, json_num(s, "bytes") - shared), text,
        FIGURE_TEXT(figure_seconds, json_num(s, "seconds")),
        FIGURE_TEXT(figure_seconds, json_num(s, "waited_seconds")));
}

static void say_scrubs(json_t *list, const json_t *s, const json_t *damages)
{
    const char *oldest = json_string_value(json_object_get(s, "oldest"));
    char        since[96] = "", damaged[48] = "";

    if (!s)
        return;
    if (oldest)
        snprintf(since, sizeof since, ", the oldest reading of which is of %s UTC", oldest);
    if (json_array_size(damages))
        snprintf(damaged, sizeof damaged, "; %zu damaged", json_array_size(damages));
    say(list, "Read in the background", "%s|%.0f of %.0f parts were read whole%s%s",
        FIGURE_TEXT(figure_bytes, json_num(s, "bytes")), json_num(s, "whole"),
        json_num(s, "portions"), since, damaged);
}

static json_t *list_lead(const json_t *report)
{
    const json_t *s = json_object_get(report, "steps"), *q = json_object_get(report, "times");
    json_t       *list = json_array();
    double        busy, hidden;

    say_evals(list, report);
    say_loss(list, s);
    if (q) {
        say(list, "Steady step, median", "%s|of %.0f; quartiles %s and %s",
            FIGURE_TEXT(figure_seconds, json_num(q, "median")), json_num(q, "steady"),
            FIGURE_TEXT(figure_seconds, json_num(q, "lower_quartile")),
            FIGURE_TEXT(figure_seconds, json_num(q, "upper_quartile")));
        say(list, "Tokens", "%.1f/s|at the median", json_num(q, "tokens_per_second"));
    }
    if (json_num(s, "seconds_per_step") > 0)
        say(list, "Mean of all steps", "%s|%.1f tokens/s",
            FIGURE_TEXT(figure_seconds, json_num(s, "seconds_per_step")),
            json_num(s, "tokens_per_second"));
    if (overlap_sum(report, &busy, &hidden))
        say(list, "Overlap", "%.1f %% hidden|devices were busy for %s, nobody waited for %s of it",
            100 * hidden / busy, FIGURE_TEXT(figure_seconds, busy),
            FIGURE_TEXT(figure_seconds, hidden));
    if (json_num(s, "peak_rss") > 0)
        say(list, "Peak resident memory", "%s", FIGURE_TEXT(figure_peak, report));
    say(list, "Steps", "%.0f|%.0f skipped, %.0f clipped, %.0f tokens", json_num(s, "steps"),
        json_num(s, "skipped"), json_num(s, "clipped"), json_num(s, "tokens"));
    say_snapshots(list, json_object_get(report, "snapshots"));
    say_scrubs(list, json_object_get(report, "scrubs"), json_object_get(report, "damages"));
    return list;
}

static void say_setting(json_t *list, const char *name, const char *text)
{
    if (*text)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "what", name, "value", text,
                                              "more", ""));
}

static json_t *list_settings(const json_t *report)
{
    static const char given[] = "given.";
    json_t     *list = json_array(), *v;
    const char *key;
    char        name[64];
    const struct opt_row *row;

    json_object_foreach((json_t *)(uintptr_t)json_object_get(report, "settings"), key, v)
        if (!strncmp(key, given, sizeof given - 1))
            say_setting(list, key + sizeof given - 1, report_setting_text(report, key));
    for (size_t i = 0; (row = train_opts_row(i)); i++) {
        snprintf(name, sizeof name, "option.%s", row->name);
        if (row->kept != OPT_PASSING)
            say_setting(list, row->name, figure_option((char[FIGURE]){ 0 }, FIGURE, row,
                                                       report_setting_text(report, name)));
    }
    return list;
}

static json_t *list_machine(const json_t *report)
{
    static const char *const facts[][2] = {
        { "Processor", "cpu" }, { "System", "system" }, { "Host", "host" },
        { "Engine of products", "engine" }, { "siTrain", "version" }, { "Made", "created" },
        { "Command", "command" },
    };
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        say_setting(list, facts[i][0], report_setting_text(report, facts[i][1]));
    return list;
}

/* ---- rows, and their bars ---- */

static void bar(json_t *row, const char *colour, double value)
{
    table_part(row, "", colour, "#", value);
}

json_t *breakdown_row(const json_t *breakdown, const char *label)
{
    json_t *row = json_copy((json_t *)(uintptr_t)breakdown);

    json_object_set_new(row, "label", json_string(label));
    json_object_set_new(row, "sum", json_real(breakdown_sum(breakdown)));
    json_object_set_new(row, "of", json_sprintf("%.0f %ssteps", json_num(breakdown, "steps"),
                                                json_num(breakdown, "steady") > 0 ? "steady "
                                                                                  : ""));
    return row;
}

static json_t *breakdown_rows(const json_t *report)
{
    const json_t *lived = json_object_get(report, "breakdown");
    const json_t *serial = json_object_get(report, "breakdown_serial");
    json_t       *rows = json_array();

    if (breakdown_sum(lived) > 0)
        json_array_append_new(rows, breakdown_row(lived, "as it was lived"));
    if (breakdown_sum(lived) > 0 && breakdown_sum(serial) > 0)
        json_array_append_new(rows, breakdown_row(serial, "serialised"));
    return rows;
}

void breakdown_bar(json_t *row, const json_t *item)
{
    for (int i = 0; i < PARTS; i++)
        table_part(row, breakdown_parts[i].words, breakdown_parts[i].colour,
                 breakdown_parts[i].letter, json_num(item, breakdown_parts[i].field));
}

static json_t *parts_rows(const json_t *report)
{
    const json_t *lived = json_object_get(report, "breakdown");
    const json_t *serial = json_object_get(report, "breakdown_serial");
    double        all = breakdown_sum(lived), all_serial = breakdown_sum(serial);
    json_t       *rows = json_array();

    for (int i = 0; i < PARTS && all > 0; i++) {
        const char *field = breakdown_parts[i].field;
        json_t     *row = json_pack("{s:s, s:f, s:f}", "part", breakdown_parts[i].words, "lived",
                                    json_num(lived, field), "share",
                                    json_num(lived, field) / all);

        if (json_object_get(serial, field) && all_serial > 0) {
            json_object_set_new(row, "serial", json_real(json_num(serial, field)));
            json_object_set_new(row, "serial_share",
                                json_real(json_num(serial, field) / all_serial));
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Waits for all devices together. The bar shows for which device. */
static json_t *waits_rows(const json_t *report)
{
    json_t *rows = json_array(), *row = NULL, *w;
    size_t  i;

    json_array_foreach(json_object_get(report, "waits"), i, w) {
        const char *words = phase_words(json_str(w, "phase"));

        if (!row || strcmp(json_str(row, "words"), words))
            json_array_append_new(rows, row = json_pack("{s:s, s:f, s:f, s:f, s:[]}", "words",
                                                        words, "seconds", 0.0, "share", 0.0,
                                                        "longest", 0.0, "by"));
        json_real_set(json_object_get(row, "seconds"),
                      json_num(row, "seconds") + json_num(w, "seconds_per_step"));
        json_real_set(json_object_get(row, "share"), json_num(row, "share") + json_num(w, "share"));
        json_real_set(json_object_get(row, "longest"),
                      fmax(json_num(row, "longest"), json_num(w, "longest")));
        json_array_append(json_object_get(row, "by"), w);
    }
    return rows;
}

static void waits_bar(json_t *row, const json_t *item)
{
    const json_t *w;
    size_t        i;
    char          name[FIGURE], letter[2] = "-";

    json_array_foreach(json_object_get(item, "by"), i, w) {
        int    any = json_is_number(json_object_get(w, "device"));
        size_t device = (size_t)fmin(1e9, fmax(0, json_num(w, "device")));

        snprintf(name, sizeof name, any ? "for device %zu" : "for no one device", device);
        *letter = any ? (char)('0' + device % 10) : '-';
        table_part(row, name, any ? chart_colour(device) : "other", letter,
                   json_num(w, "seconds_per_step"));
    }
}

static json_t *update_rows(const json_t *report)
{
    static const char *const parts[][3] = {
        { "read_busy", "read_wait", "reads" }, { "compute_busy", "compute_wait", "computes" },
        { "write_busy", "write_wait", "writes" },
    };
    json_t *rows = json_array();
    const json_t *u;
    size_t  i;

    json_array_foreach(json_object_get(report, "update"), i, u)
        for (int k = 0; k < 3; k++)
            json_array_append_new(rows, json_pack("{s:o, s:f, s:f, s:f}", "part",
                                                  json_sprintf("device %.0f %s",
                                                               json_num(u, "device"), parts[k][2]),
                                                  "busy", json_num(u, parts[k][0]), "wait",
                                                  json_num(u, parts[k][1]), "seconds",
                                                  json_num(u, "seconds")));
    return rows;
}

static void update_bar(json_t *row, const json_t *item)
{
    table_part(row, "at work", "update", "#", json_num(item, "busy"));
    table_part(row, "waits for the others", "faint update", ".", json_num(item, "wait"));
}

/* Rows of traffic: whether it is as computed, and the range of figures that vary. */
static json_t *traffic_rows(const json_t *report)
{
    json_t *rows = json_array(), *row;
    size_t  i;

    json_array_foreach(json_object_get(report, "traffic"), i, row) {
        json_array_append_new(rows, json_copy(row));
        json_t *own = json_array_get(rows, json_array_size(rows) - 1);
        if (json_object_get(row, "computed"))
            json_object_set_new(own, "same", json_string(json_num(row, "bytes_per_step") ==
                                                         json_num(row, "computed") ? "the same"
                                                                                   : "differs"));
        if (json_num(row, "least") < json_num(row, "most"))
            json_array_append_new(rows, json_pack("{s:o}", "bytes_per_step",
                                                  json_sprintf("%.0f to %.0f",
                                                               json_num(row, "least"),
                                                               json_num(row, "most"))));
    }
    return rows;
}

static void traffic_bar(json_t *row, const json_t *item)
{
    bar(row, strcmp(json_str(item, "link"), "host") ? "update" : "forward",
        json_num(item, "bytes_per_step"));
    json_object_set_new(row, "mark", json_real(json_num(item, "computed")));
}

static void bandwidth_bar(json_t *row, const json_t *item)
{
    bar(row, phase_colour(json_str(item, "phase")), json_num(item, "bytes_per_second"));
}

/* The plan's parts, then the memory used. A limit gets no bar: it may be the machine's memory. */
static json_t *memory_rows(const json_t *report)
{
    json_t *rows = json_array(), *m, *row;
    double  arenas = report_arenas(report);
    double  own = fmax(json_num(json_object_get(report, "steps"), "peak_rss") - arenas, 0);
    size_t  i;

    json_array_foreach(json_object_get(report, "memory"), i, m)
        if (json_num(m, "bytes") > 0) {
            json_array_append_new(rows, row = json_copy(m));
            if (!strcmp(json_str(m, "part"), "limit"))
                json_object_set_new(row, "without", json_true());
        }
    if (own > 0 && json_array_size(rows))
        json_array_append_new(rows, json_pack("{s:s, s:f}", "part", arenas > 0
                                              ? "peak of the process, these apart"
                                              : "peak of the process", "bytes", own));
    return rows;
}

static void memory_bar(json_t *row, const json_t *item)
{
    if (!json_object_get(item, "without"))
        bar(row, strncmp(json_str(item, "part"), "peak", 4) ? "forward" : "other",
            json_num(item, "bytes") / (1 << 20));
}

/* ---- the sections ---- */

const struct section sections_of_one[] = {
    { "", .list = list_lead },
    { "Evaluations: the first, the last and the best", .rows = "results", .chart = chart_evals,
      .columns = { { "measure", "measure", .as = NULL },
                   { "#first", "first_value", .as = figure_exact },
                   { "#step", "first_step", .as = figure_step },
                   { "#last", "last_value", .as = figure_exact },
                   { "#step", "last_step", .as = figure_step },
                   { "#best", "best_value", .as = figure_exact },
                   { "#step", "best_step", .as = figure_step } } },
    { "Loss along the run",
      WORDS_LOSS " Band: the least and the most in each piece.", .drawn = text_curve,
      .curves = { { "loss", "loss", "forward", svg_plain, 260, .band = 1,
                    .smooth = "loss_smooth", .points = "loss" },
                  { "lr", "learning rate", "backward", svg_plain, 140, .from_zero = 1 } } },
    { "Damage", "What reading in the background (--scrub-bw) has found, and has not found whole "
      "since.", SECTION_WIDE, .rows = "damages",
      .columns = { { "~time", "time", .as = NULL }, { "damage", "text", .as = NULL } } },
    { "Branches that were left", "Where the run went back to a snapshot (--from), what it had done "
      "beyond it, and the options with which it went on. The plots above have a thin line for each "
      "branch.", SECTION_WIDE, .rows = "branches",
      .columns = { { "#branch", "branch", .as = figure_whole },
                   { "#from step", "first_step", .as = figure_step },
                   { "#to step", "last_step", .as = figure_step },
                   { "#loss there", "loss", .as = figure_exact },
                   { "#back to", "to_step", .as = figure_whole },
                   { "~time", "time", .as = NULL }, { "went on with", "text", .as = NULL } } },
    { "Rewards along the run", "Means of each piece of the run, over the pairs of its steps.",
      SECTION_PAGE,
      .curves = { { "rewards_margins", "margin", "write", svg_plain, .height = 180 },
                  { "rewards_accuracies", "accuracy", "update", svg_plain, .height = 140,
                    .from_zero = 1 } } },
    { "Sources", "What the run was trained on until its last step: rows and tokens of each source, "
      "and how often it was read.", .rows = "sources",
      .columns = { { "source", "source", .most = 24 }, { "#tokens", "tokens", .as = figure_count },
                   { "#share", "share", .as = figure_share },
                   { "#rows read", "rows_read", .as = figure_whole },
                   { "#tokens read", "tokens_read", .as = figure_count },
                   { "#epochs", "epochs", .as = figure_exact } } },
    { "Settings", "What the run was made from, and every option that it has now: typed, from a "
      "file, or by default.", SECTION_WIDE | SECTION_PAGE, .list = list_settings },
    { "Time of a step", "Line: the mean of each piece of the run, evaluations apart. Band: the "
      "least and the most in each.", SECTION_PAGE,
      .curves = { { "seconds", "time of a step", "update", figure_seconds, .height = 260,
                    .band = 1, .from_zero = 1 } } },
    { "Breakdown of a step",
      "As it was lived: where the training thread was; what ran beside it is not counted. "
      "Serialised: as if nothing overlapped. Of steps that are kept whole.",
      .make_rows = breakdown_rows, .bars = breakdown_bar, .axis = figure_seconds,
      .columns = { { "", "label", .as = NULL }, { "#a step", "sum", .as = figure_seconds },
                   { "#mean of", "of", .as = NULL } } },
    { "Parts of a step", .make_rows = parts_rows,
      .columns = { { "part", "part", .as = NULL }, { "#as lived", "lived", .as = figure_seconds },
                   { "#", "share", .as = figure_share },
                   { "#serialised", "serial", .as = figure_seconds },
                   { "#", "serial_share", .as = figure_share } } },
    { "Breakdown, step by step", "Of the steps that are kept whole; bars of the same width, a "
      "hundred at most.", SECTION_PAGE, .chart = chart_breakdown_steps },
    { "One step over time", "The step whose time is nearest to the median. A broken line goes from "
      "the end of a wait to the device that it was for.", SECTION_WIDE | SECTION_PAGE,
      .chart = chart_timeline },
    { "The training thread waited, a step", "The bar says for which device: the one whose request "
      "ended last.", .make_rows = waits_rows, .bars = waits_bar, .axis = figure_seconds,
      .columns = { { "", "words", .as = NULL }, { "#a step", "seconds", .as = figure_seconds },
                   { "#share", "share", .as = figure_share },
                   { "#at most", "longest", .as = figure_seconds } } },
    { "Updates, a step", "How long each part of a device's updates was at work, and waited for the "
      "other parts.", .make_rows = update_rows, .bars = update_bar, .axis = figure_seconds,
      .columns = { { "", "part", .as = NULL }, { "#at work", "busy", .as = figure_seconds },
                   { "#waits", "wait", .as = figure_seconds },
                   { "#the update", "seconds", .as = figure_seconds } } },
    { "Traffic, bytes a step (all devices)", "The broken mark of a bar is what mode and model say "
      "it must be.", SECTION_WIDE, .make_rows = traffic_rows, .bars = traffic_bar,
      .axis = figure_bytes,
      .columns = { { "link", "link", .as = NULL }, { "class", "class", .as = NULL },
                   { "", "direction", .as = NULL },
                   { "#measured", "bytes_per_step", .as = figure_whole },
                   { "#computed", "computed", .as = figure_whole },
                   { "#padding", "padding_bytes_per_step", .as = figure_whole },
                   { "~", "same", .as = NULL } } },
    { "Written to each device, with padding", "In a step, and in a day at the run's pace.",
      .rows = "written",
      .columns = { { "#device", "device", .as = figure_whole },
                   { "#a step", "bytes_per_step", .as = figure_bytes },
                   { "#a day", "bytes_per_day", .as = figure_bytes },
                   { "#worn out in", "years", .as = figure_years },
                   { "path", "path", .as = NULL } } },
    { "Bandwidth per device, while a transfer of the kind was under way", .rows = "bandwidth",
      .bars = bandwidth_bar, .axis = figure_rate,
      .columns = { { "device", "device", .as = figure_whole }, { "link", "link", .as = NULL },
                   { "phase", "phase", .as = NULL }, { "", "direction", .as = NULL },
                   { "#bandwidth", "bytes_per_second", .as = figure_rate } } },
    { "Real drives while updates were under way, read and written",
      .rows = "drives",
      .columns = { { "drive", "drive", .as = NULL },
                   { "#bandwidth", "bytes_per_second", .as = figure_rate },
                   { "#for", "seconds", .as = figure_seconds },
                   { "#not of updates", "other_bytes", .as = figure_bytes },
                   { "devices", "devices", .as = NULL } } },
    { "Memory, as planned", "Before anything was allocated, part by part; and what the process "
      "held at most. The limit is --host-mem, or what the machine had. Arenas of emulated devices "
      "are not part of the total.", .make_rows = memory_rows, .bars = memory_bar,
      .axis = figure_mib,
      .columns = { { "part", "part", .as = NULL }, { "#bytes", "bytes", .as = figure_memory } } },
    { "Activations, kept + offloaded", "Of how many layers each part was kept and offloaded; what "
      "a step took when that was chosen, what was expected, and the median since.",
      .rows = "choices",
      .columns = { { "#from step", "step", .as = figure_step },
                   { "#layers", "layers", .as = figure_whole },
                   { "#inputs", "inputs_kept", .as = figure_whole, .and = "inputs_offloaded" },
                   { "#attentions", "attentions_kept", .as = figure_whole,
                     .and = "attentions_offloaded" },
                   { "#MLPs", "mlps_kept", .as = figure_whole, .and = "mlps_offloaded" },
                   { "#a step took", "step_seconds", .as = figure_seconds },
                   { "#expected", "expected_seconds", .as = figure_seconds },
                   { "#since", "after_seconds", .as = figure_seconds } } },
    { "Skipped steps, whose gradient was not finite", .rows = "skipped",
      .columns = { { "#step", "step", .as = figure_step }, { "#loss", "loss", .as = figure_exact },
                   { "#norm of the gradient", "grad_norm", .as = figure_exact } } },
    { "Notices", NULL, SECTION_WIDE, .rows = "notices",
      .columns = { { "time", "time", .as = NULL }, { "notice", "text", .as = NULL } } },
    { "The machine and the command", NULL, SECTION_WIDE | SECTION_PAGE, .list = list_machine },
    { "Devices", NULL, SECTION_WIDE | SECTION_PAGE, .rows = "devices",
      .columns = { { "#device", "device", .as = figure_whole }, { "kind", "backend", .as = NULL },
                   { "disk", "disk", .as = NULL }, { "#bytes", "bytes", .as = figure_bytes },
                   { "path", "path", .as = NULL } } },
    { "Processes that trained it", NULL, SECTION_WIDE | SECTION_PAGE, .rows = "processes",
      .columns = { { "#from step", "first_step", .as = figure_step },
                   { "begun", "begun", .as = NULL }, { "#process", "pid", .as = figure_whole },
                   { "host", "host", .as = NULL }, { "#threads", "threads", .as = figure_whole },
                   { "#memory", "memory_bytes", .as = figure_memory },
                   { "command", "text", .as = NULL } } },
    { 0 },
};
