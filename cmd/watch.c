/* watch.c: shows a run from another process, while it is trained or afterwards. */
#include "cmd/cmd.h"
#include "cmd/terminal/draw.h"
#include "cmd/terminal/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/resource.h>

enum { LOWER_PRIORITY = 10 };

struct watch_opts { const char *run; double interval; int once; };

#define AT(field) offsetof(struct watch_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Folder of the run" },
    { "interval", OPT_DOUBLE, AT(interval), "1", .min = 0.05, .max = 86400,
      .help = "Seconds between updates, 0.05 to 86400" },
    { "once", OPT_FLAG, AT(once), .help = "Print one view and exit" },
    { 0 },
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

static void take_look(struct lines *p, const char *run, struct look *f)
{
    p->n = p->lines = p->column = 0;
    look_read(f, run, lines_curve_points(p, DRAW_MARGIN));
    draw_look(p, f, run);
}

/* Prints one look. If stdout is no terminal, the page has 80 columns and no limit of lines. */
static int look_once(struct lines *p, const char *run, int terminal, struct err *err)
{
    struct look f = { 0 };

    terminal_size(&p->columns, &p->rows);
    if (!terminal)
        p->columns = 80;
    p->rows = terminal && p->rows > 24 ? p->rows : 24;
    p->rows += LOOK_DEVICES;
    take_look(p, run, &f);
    if (f.state == LOOK_WAITING)
        return f.why.misuse ? err_misuse(err, "%s", f.why.text)
                            : err_set(err, -EIO, "%s", f.why.text);
    if (p->failed)
        return err_set(err, -ENOMEM, "no memory for a page");
    fputs(p->text, stdout);
    return 0;
}

static int look_on(struct lines *p, const char *run, double interval, struct err *err)
{
    struct terminal *t;
    struct look      f = { 0 };
    int              rc = terminal_open(&t, err);

    setpriority(PRIO_PROCESS, 0, LOWER_PRIORITY); // the training's threads have priority

    while (!rc) {
        terminal_size(&p->columns, &p->rows);
        p->rows--; // the last line says how to leave
        take_look(p, run, &f);
        p->lines = p->lines < p->rows ? p->lines : p->rows; // those that had no room are lost
        p->rows++;
        while (p->lines + 1 < p->rows)
            lines_end(p);
        lines_color(p, LINES_DIM);
        lines_put(p, "q ends this; the run does not notice");
        lines_color(p, LINES_PLAIN);
        rc = p->failed ? err_set(err, -ENOMEM, "no memory for a page")
                       : terminal_draw(t, p->n ? p->text : "", err); // not the page before it
        if (!rc && terminal_wait(t, interval) == TERMINAL_END)
            break;
    }
    terminal_close(t);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    const struct watch_opts *o = line->options;
    int                      terminal = terminal_draws();
    struct lines             p = { .color = terminal_colors() };

    setlocale(LC_CTYPE, "");
    p.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    int rc = terminal && !o->once ? look_on(&p, o->run, o->interval, err)
                                  : look_once(&p, o->run, terminal, err);
    lines_release(&p);
    return rc;
}

const struct opt_command watch_command = {
    .name = "watch",
    .usage = "RUN [--interval SECONDS] [--once]",
    .summary = "show a run while it trains",
    .text = "Shows the training of another process from RUN/run.db. It takes no lock that "
            "training would wait for, and opens the database only for each update. On a "
            "terminal, it runs until q or Ctrl-C, even before the run exists and after it has "
            "ended. Elsewhere, it prints one view. Step parts and device bandwidths are of the "
            "last 10 steps. The time left follows from the median of the last steps. NO_COLOR "
            "turns colours off.",
    .parts = parts, .size = sizeof(struct watch_opts), .killed = 1, .run = run,
    .examples = { "siTrain watch first",
                  "siTrain watch first --once" },
};
