/* draw.c: draws the page of `siTrain watch`, most important lines first: a low terminal cuts the
 * end. */
#include "cmd/terminal/draw.h"

#include "data/opt/opt.h"

#include <math.h>

enum { BAR_COLUMNS = 30, LABEL_COLUMNS = 12, LEAST_CURVE = 4, MOST_CURVE = 12, OTHER_ROWS = 9,
       DEVICE_COLUMNS = 16, LINK_COLUMNS = 30 };

static const char *const state_words[] = { [LOOK_WAITING] = "waiting",
                                           [LOOK_AT_WORK] = "at work",
                                           [LOOK_FINISHED] = "finished",
                                           [LOOK_EARLY] = "ended early",
                                           [LOOK_STOPPED] = "stopped",
                                           [LOOK_KILLED] = "killed" };
static const enum lines_color state_colors[] = { [LOOK_WAITING] = LINES_YELLOW,
                                                [LOOK_AT_WORK] = LINES_GREEN,
                                                [LOOK_FINISHED] = LINES_GREEN,
                                                [LOOK_EARLY] = LINES_GREEN,
                                                [LOOK_STOPPED] = LINES_YELLOW,
                                                [LOOK_KILLED] = LINES_RED };

static void head(struct lines *p, const struct look *f, const char *run)
{
    lines_color(p, LINES_BOLD);
    lines_put(p, run);
    lines_color(p, LINES_PLAIN);
    lines_print(p, *f->mode ? "  mode %s  " : "  ", f->mode);
    lines_color(p, state_colors[f->state]);
    lines_put(p, state_words[f->state]);
    lines_color(p, LINES_PLAIN);
    if (f->state == LOOK_AT_WORK && *f->who)
        lines_print(p, " (%s)", f->who);
    if (f->state == LOOK_STOPPED || f->state == LOOK_KILLED)
        lines_put(p, "; --resume goes on");
    lines_end(p);
}

static void progress(struct lines *p, const struct look *f)
{
    double part = f->planned ? (double)f->done / (double)f->planned : 0;

    lines_print(p, "step %" PRIu64 " of %" PRIu64 "  ", f->done, f->planned);
    if (p->columns > p->column + BAR_COLUMNS + 24)
        lines_bar(p, BAR_COLUMNS, part);
    lines_print(p, " %.0f %%", 100 * part);
    if (f->state == LOOK_AT_WORK && isfinite(f->median) && f->planned > f->done)
        lines_print(p, "  left %s", TIME_TEXT(f->median * (double)(f->planned - f->done)));
    lines_end(p);
}

/* The blanks before the line's next figure. */
static const char *gap(const struct lines *p) { return p->column ? "  " : ""; }

static void last_step(struct lines *p, const struct look *f)
{
    lines_print(p, "loss %.4f  lr %.3e  norm %.4f%s", f->loss, f->lr, f->norm,
                f->clipped > 0 ? " clipped" : "");
    if (f->skipped > 0)
        lines_print(p, "%s%.0f of the last %d skipped", gap(p), f->skipped, LOOK_SKIPPED);
    lines_end(p);
    if (!(f->median > 0))
        return;
    lines_print(p, "%.4g s a step (median of the last ones)  %.0f tok/s", f->median,
                f->step_tokens / f->median);
    lines_end(p);
}

static void memory(struct lines *p, const struct look *f)
{
    char   beside[48] = "";
    double own = fmax(f->rss - f->arenas, 0); // what --host-mem limits

    if (!isfinite(f->rss) || !(f->rss > 0))
        return;
    lines_put(p, "memory");
    lines_to(p, LABEL_COLUMNS);
    if (f->host_mem > 0) {
        lines_bar(p, BAR_COLUMNS, own / f->host_mem);
        lines_put(p, "  ");
    }
    if (f->arenas > 0)
        snprintf(beside, sizeof beside, " + %s devices", SIZE_TEXT(f->arenas));
    lines_print(p, f->host_mem > 0 ? "%s of %s%s" : "%s%.0s%s at most", SIZE_TEXT(own),
                SIZE_TEXT(f->host_mem), beside);
    lines_end(p);
}

static void parts(struct lines *p, const struct look *f)
{
    if (!(f->whole > 0) || !(f->seconds > 0))
        return;
    for (int i = 0; i < 4; i++) {
        lines_put(p, look_parts[i]);
        lines_to(p, LABEL_COLUMNS);
        lines_bar(p, BAR_COLUMNS, f->part[i] / f->seconds);
        lines_print(p, " %5.1f %%  %.4f s", 100 * f->part[i] / f->seconds, f->part[i]);
        if (!i)
            lines_print(p, "  mean of %.0f step%s", f->whole, f->whole > 1 ? "s" : "");
        lines_end(p);
    }
}

static void devices(struct lines *p, const struct look *f)
{
    static const char *const ways[] = { "read", "write" };

    for (size_t d = 0; d < f->devices && lines_left(p); d++) {
        lines_print(p, "device %zu MB/s", d);
        for (int link = 0; link < 2; link++)
            for (int way = 0, told = 0; way < 2; way++) {
                double rate = f->device[d].rate[link][way];

                if (!(rate > 0))
                    continue;
                if (!told) {
                    lines_put(p, p->column > DEVICE_COLUMNS ? gap(p) : "");
                    lines_to(p, DEVICE_COLUMNS + (link ? LINK_COLUMNS : 0));
                }
                lines_print(p, told++ ? ", %s %.4g" : link ? "internal %s %.4g" : "host %s %.4g",
                           ways[way], rate / 1e6);
            }
        lines_end(p);
    }
}

static void evaluation(struct lines *p, const struct look *f)
{
    if (!f->evals)
        return;
    lines_print(p, "evaluation after step %" PRIu64, f->eval[0].step);
    for (size_t i = 0; i < f->evals; i++) {
        lines_put(p, "  ");
        lines_put(p, f->eval[i].name);
        lines_print(p, " %.4f", f->eval[i].value);
    }
    lines_end(p);
}

static void notice(struct lines *p, const struct look *f)
{
    if (!*f->notice)
        return;
    lines_color(p, LINES_YELLOW);
    lines_print(p, "%.16s  ", f->notice_time);
    lines_put(p, f->notice);
    lines_color(p, LINES_PLAIN);
    lines_end(p);
}

void draw_look(struct lines *p, const struct look *f, const char *run)
{
    size_t others = OTHER_ROWS + (f->devices < 4 ? f->devices : 4);
    size_t curve = p->rows > others + LEAST_CURVE ? p->rows - others : LEAST_CURVE;

    head(p, f, run);
    if (f->state == LOOK_WAITING) {
        lines_put(p, f->why.text);
        lines_end(p);
        return;
    }
    progress(p, f);
    if (f->done)
        last_step(p, f);
    lines_curve(p, f->curve, f->points, curve < MOST_CURVE ? curve : MOST_CURVE, DRAW_MARGIN);
    evaluation(p, f);
    parts(p, f);
    memory(p, f);
    devices(p, f);
    notice(p, f);
}
