/* format.c: formats numbers, phases and settings, and picks figures out of a report. */
#include "report/format.h"

#include "data/base/table.h"

#include <math.h>

/* Three digits of value / base^k, followed by the k-th unit. */
static const char *scaled(char *buf, size_t size, double value, double base,
                          const char *const *units)
{
    while (units[1] && fabs(value) >= 999.5 * (base > 1000 ? 1.024 : 1)) {
        value /= base;
        units++;
    }
    int whole = fabs(value - round(value)) < 1e-9 * fabs(value) || value == 0;

    snprintf(buf, size, "%.*f %s", whole || fabs(value) >= 99.95 ? 0 : fabs(value) >= 9.995 ? 1 : 2,
             value, *units);
    return buf;
}

const char *figure_bytes(char *buf, size_t size, double bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", NULL };

    return scaled(buf, size, bytes, 1000, units);
}

const char *figure_memory(char *buf, size_t size, double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", NULL };

    return scaled(buf, size, bytes, 1024, units);
}

const char *figure_count(char *buf, size_t size, double n)
{
    static const char *const units[] = { "", "k", "M", "G", "T", NULL };

    scaled(buf, size, n, 1000, units);
    if (*buf && buf[strlen(buf) - 1] == ' ')
        buf[strlen(buf) - 1] = '\0';
    return buf;
}

const char *figure_seconds(char *buf, size_t size, double seconds)
{
    static const char *const units[] = { "ns", "us", "ms", "s", NULL };

    if (seconds == 0)
        snprintf(buf, size, "0 s");
    else if (fabs(seconds) >= 1)
        snprintf(buf, size, "%.*f s", fabs(seconds) >= 100 ? 0 : fabs(seconds) >= 10 ? 1 : 2,
                 seconds);
    else
        scaled(buf, size, seconds * 1e9, 1000, units);
    return buf;
}

#define PRINTED(name, fmt, value)                                                                  \
    const char *name(char *buf, size_t size, double v)                                             \
    {                                                                                              \
        snprintf(buf, size, fmt, value);                                                           \
        return buf;                                                                                \
    }
PRINTED(figure_mib, "%.6g MiB", v)
PRINTED(figure_years, "%.3g years", v)
PRINTED(figure_whole, "%.0f", v)
PRINTED(figure_step, "%.0f", v + 1)
PRINTED(figure_exact, "%.4f", v)
PRINTED(figure_tenths, "%.1f", v)
PRINTED(figure_share, "%.1f %%", 100 * v)
PRINTED(figure_times, "%.2f x", v)

const char *figure_rate(char *buf, size_t size, double v)
{
    char bytes[32];

    snprintf(buf, size, "%s/s", figure_bytes(bytes, sizeof bytes, v));
    return buf;
}

int is_word_of(const char *text, const char *words)
{
    char looked[66];

    return snprintf(looked, sizeof looked, " %s ", text) < (int)sizeof looked &&
           strstr(words, looked);
}

int figure_of_model(const char *name)
{
    return is_word_of(name, " loss first_loss last_loss loss_least loss_most finite_first_loss "
                            "finite_last_loss loss_smooth grad_norm value first_value last_value "
                            "best_value last_mean best_mean ");
}

const struct part breakdown_parts[PARTS] = {
    { "forward", "forward", "forward", "F" },
    { "backward_and_gradient_offload", "backward + gradient offload", "backward", "B" },
    { "update_and_optimizer_transfers", "update + optimizer traffic", "update", "U" },
    { "other", "other", "other", "." },
};

double breakdown_sum(const json_t *breakdown)
{
    double sum = 0;

    for (int i = 0; i < PARTS; i++)
        sum += json_num(breakdown, breakdown_parts[i].field);
    return sum;
}

int overlap_sum(const json_t *report, double *busy_seconds, double *hidden_seconds)
{
    const json_t *process;
    size_t        i;

    *busy_seconds = *hidden_seconds = 0;
    json_array_foreach(json_object_get(report, "overlap"), i, process) {
        *busy_seconds += json_num(process, "busy_seconds");
        *hidden_seconds += json_num(process, "hidden_seconds");
    }
    return *busy_seconds > 0;
}

static const struct named { const char *phase, *words, *colour; } phases[] = {
    { "step", "step", "other" },
    { "data", "getting the batch", "other" },
    { "forward", "forward", "forward" },
    { "loss", "loss", "loss" },
    { "backward", "backward", "backward" },
    { "grad_norm", "norm of gradients", "norm" },
    { "grad_compress", "compressing gradients", "norm" },
    { "update", "update", "update" },
    { "update_read", "update: reads", "read" },
    { "update_compute", "update: computes", "update" },
    { "update_write", "update: writes", "write" },
    { "update_params", "update: writes parameters", "write" },
    { "commit", "commit", "commit" },
    { "eval", "evaluation", "other" },
    { "snapshot", "taking a snapshot", "other" },
    { "scrub", "reads in the background (scrub)", "other" },
    { "setup", "set-up", "other" },
    { "redo", "updates done again", "wait" },
    { "param_read", "reads of parameters", "read" },
    { "act_read", "reads of activations", "act" },
    { "act_write", "writes of activations", "act" },
    { "grad_write", "writes of gradients", "write" },
    { "wait_params", "for parameters to be read", "wait" },
    { "wait_update", "for an update", "wait" },
    { "wait_commit", "for the commit before", "wait" },
    { "wait_gradient", "for a gradient to be written", "wait" },
    { "wait_residual", "for a residual to be read", "wait" },
    { "wait_act_read", "for activations to be read", "wait" },
    { "wait_act_write", "for activations to be written", "wait" },
    { "wait_eval", "in an evaluation", "wait" },
    { "wait_drain", "for all that is under way", "wait" },
};

const char *phase_words(const char *phase)
{
    const struct named *n = TABLE_FIND(phases, phase);

    return n ? n->words : phase;
}

const char *phase_colour(const char *phase)
{
    const struct named *n = TABLE_FIND(phases, phase);

    return n ? n->colour : "other";
}

const char *figure_option(char *buf, size_t size, const struct opt_row *row, const char *text)
{
    int is_size = row->type == OPT_SIZE || row->type == OPT_SIZES;

    return is_size && *text && !strchr(text, ',') ? opt_size_exact(buf, size, text) : text;
}

const char *report_setting_text(const json_t *report, const char *key)
{
    return json_str(json_object_get(report, "settings"), key);
}

double report_arenas(const json_t *report)
{
    const json_t *all = json_object_get(report, "memory");
    const json_t *last = json_array_get(all, json_array_size(all) - 1);

    return strcmp(json_str(last, "part"), "arenas of emulated devices") ? 0
                                                                        : json_num(last, "bytes");
}

const char *figure_peak(char *buf, size_t size, const json_t *report)
{
    double peak = json_num(json_object_get(report, "steps"), "peak_rss"),
           arenas = report_arenas(report);
    char   own[32], theirs[32];

    if (!(arenas > 0))
        return figure_memory(buf, size, peak);
    snprintf(buf, size, "%s + %s devices", figure_memory(own, sizeof own, fmax(peak - arenas, 0)),
             figure_memory(theirs, sizeof theirs, arenas));
    return buf;
}

double report_setting(const json_t *report, const char *key)
{
    return strtod(report_setting_text(report, key), NULL);
}

const char *figure_model(char *buf, size_t size, const json_t *report)
{
    const json_t *model = json_object_get(report, "model");
    double        all = json_num(model, "parameters"), trained = json_num(model, "trained");
    char          count[32], some[32];

    *buf = '\0';
    if (trained > 0)
        snprintf(buf, size, "%.0f layers of width %.0f, trains %s of %s parameters (%.2f%%)",
                 json_num(model, "layers"), json_num(model, "width"),
                 figure_count(some, sizeof some, trained), figure_count(count, sizeof count, all),
                 100 * trained / all);
    else if (model)
        snprintf(buf, size, "%.0f layers of width %.0f, %s parameters", json_num(model, "layers"),
                 json_num(model, "width"),
                 figure_count(count, sizeof count, all));
    return buf;
}

const char *figure_run(const json_t *report)
{
    const char *path = json_str(report, "run"), *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

const char *figure_mode(char *buf, size_t size, const json_t *report)
{
    snprintf(buf, size, "%.24s%s", json_str(report, "mode"),
             json_num(report, "compress") > 0 ? "+c" : "");
    return buf;
}

const char *figure_way(char *buf, size_t size, const json_t *report)
{
    size_t n = (size_t)snprintf(buf, size, "mode %.24s", json_str(report, "mode"));
    size_t devices = json_array_size(json_object_get(report, "devices"));

    if (devices)
        n += (size_t)snprintf(buf + n, size - n, " on %zu device%s", devices,
                              devices > 1 ? "s" : "");
    if (json_object_get(report, "base"))
        n += (size_t)snprintf(buf + n, size - n, ", base in place");
    if (report_setting(report, "ranks") > 1)
        n += (size_t)snprintf(buf + n, size - n, ", rank %.6g of %.6g",
                              report_setting(report, "rank"), report_setting(report, "ranks"));
    if (json_num(report, "compress") > 0)
        n += (size_t)snprintf(buf + n, size - n, ", gradients compressed to %g %%",
                              100 * json_num(report, "compress"));
    if (report_setting(report, "option.batch") > 0)
        snprintf(buf + n, size - n, ", batch %.0f x %.0f tokens",
                 report_setting(report, "option.batch"), report_setting(report, "option.seq"));
    return buf;
}

const char *figure_end(char *buf, size_t size, const char *text, size_t most)
{
    size_t      n = strlen(text);
    const char *from = text + (n > most ? n - most + 3 : 0);

    while ((*from & 0xC0) == 0x80) // not within a character
        from++;
    snprintf(buf, size, "%s%s", n > most ? "..." : "", from);
    return buf;
}

const char *report_label(const json_t *report)
{
    return json_str(json_object_get(report, "comparison"), "label");
}

const char *report_by(const json_t *reports)
{
    return json_str(json_object_get(json_array_get(reports, 0), "comparison"), "by");
}
