/* progress.c: prints a line per step, and draws bars and lines of progress. Rates are of the steps
 * since the last line. The time left follows from the rate since the start. */
#include "cmd/terminal/progress.h"

#include "cmd/terminal/job.h"
#include "cmd/terminal/stop.h"
#include "data/base/clock.h"
#include "data/base/number.h"
#include "data/base/visible.h"
#include "data/opt/opt.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_CELLS = 24, LEAST_CELLS = 4, LINE_BYTES = 512, REST_BYTES = 24 };

#define WORK_SHOWN_NS 2000000000u // before this, nothing is shown
#define WORK_DRAWN_NS 200000000u  // time between two drawings

/* ---- the last line of the terminal ---- */

static enum { LINE_FREE, LINE_BAR, LINE_WORK } line; // what is drawn there
static int silent;

void progress_quiet(int quiet) { silent = quiet; }

int progress_is_quiet(void) { return silent; }

void progress_make_way(void)
{
    if (line == LINE_BAR) {
        putchar('\n');
        fflush(stdout);
    } else if (line == LINE_WORK) {
        fputs("\r\033[K", stderr);
    }
    line = LINE_FREE;
}

/* Columns of the terminal minus one: text that fits into one line can be drawn over. */
static int columns(int fd)
{
    struct winsize w = { 0 };

    ioctl(fd, TIOCGWINSZ, &w);
    return w.ws_col > 1 ? w.ws_col - 1 : 79;
}

/* Writes "[####....]", as long as `room` allows, or nothing if it would be too short. */
static void cells_text(char *buf, size_t size, int room, double part)
{
    int cells = room - 2 < BAR_CELLS ? room - 2 : BAR_CELLS, full = (int)(part * cells);

    *buf = '\0';
    if (cells < LEAST_CELLS || (size_t)cells + 3 > size)
        return;
    *buf++ = '[';
    for (int i = 0; i < cells; i++)
        *buf++ = i < full ? '#' : '.';
    *buf++ = ']';
    *buf = '\0';
}

/* ---- training ---- */

static struct {
    uint64_t first, steps, every; // this command's steps are [first, steps)
    int      terminal;
    uint64_t start_ns, last_ns;
    uint64_t tokens; // of the steps since last_ns, without padding
} bar;

void progress_begin(uint64_t first, uint64_t steps, uint64_t every)
{
    bar.first = first;
    bar.tokens = 0;
    bar.steps = steps;
    bar.every = every ? every : 1;
    bar.terminal = job_terminal(STDOUT_FILENO);
    bar.start_ns = bar.last_ns = clock_ns();
}

/* The texts about a step, in the order of a line. */
enum { LOSS, REWARDS, LR, NORM, RATE, HIDDEN, RSS, LEFT, FIELDS };
typedef char fields[FIELDS][64];

static void describe(fields f, const struct training_step *s)
{
    const struct step_result *r = s->result;
    uint64_t                  now = clock_ns();
    double seconds = (double)(now - bar.last_ns) / 1e9;
    double each = (double)(now - bar.start_ns) / 1e9 / (double)(s->step + 1 - bar.first);
    double rate = seconds > 0 ? (double)bar.tokens / seconds : 0;

    snprintf(f[LOSS], sizeof f[LOSS], "loss %.4f", nan_plain(r->loss));
    *f[REWARDS] = '\0';
    if (r->rewards.pairs)
        snprintf(f[REWARDS], sizeof f[REWARDS], "accuracy %.3f  margin %.4f",
                 nan_plain(r->rewards.accuracy),
                 nan_plain(r->rewards.chosen - r->rewards.rejected));
    snprintf(f[LR], sizeof f[LR], "lr %.3e", r->lr);
    snprintf(f[NORM], sizeof f[NORM], "norm %.4f%s%s", nan_plain(r->grad_norm),
             r->clipped ? " clipped" : "", r->skipped ? " SKIPPED" : "");
    snprintf(f[RATE], sizeof f[RATE], "%.0f tok/s", rate);
    *f[HIDDEN] = '\0';
    if (s->hidden >= 0)
        snprintf(f[HIDDEN], sizeof f[HIDDEN], "I/O hidden %.0f%%", 100 * s->hidden);
    snprintf(f[RSS], sizeof f[RSS], "RSS %s", SIZE_TEXT(s->rss_peak));
    snprintf(f[LEFT], sizeof f[LEFT], "left %s",
             TIME_TEXT(each * (double)(bar.steps - s->step - 1)));
}

/* Draws one line of the terminal, most important fields first. Fields that do not fit are left out
 * from the end, and the cells take the rest. Fields after the rate are less important than cells;
 * otherwise cells would come and go with the length of the norm. */
static void draw_bar(uint64_t step, fields f)
{
    static const int order[FIELDS] = { LOSS, LEFT, RATE, REWARDS, LR, NORM, HIDDEN, RSS };
    char             text[LINE_BYTES], cells[BAR_CELLS + 3];
    int              width = columns(STDOUT_FILENO);
    int n = snprintf(text, sizeof text, "%llu/%llu", (unsigned long long)step + 1,
                     (unsigned long long)bar.steps);

    for (int i = 0; i < FIELDS; i++) {
        int bytes = (int)strlen(f[order[i]]), most = i > 2 ? width - LEAST_CELLS - 3 : width;

        if (n + 2 + bytes > most)
            break;
        if (bytes)
            n += snprintf(text + n, sizeof text - (size_t)n, "  %s", f[order[i]]);
    }
    cells_text(cells, sizeof cells, width - n - 1, (double)(step + 1) / (double)bar.steps);
    if (line == LINE_BAR)
        fputs("\r\033[K", stdout);
    else
        progress_make_way();
    printf("%s%s%.*s", cells, *cells ? " " : "", width, text);
    fflush(stdout);
    line = LINE_BAR;
}

static void print_line(uint64_t step, fields f)
{
    printf("step %llu/%llu", (unsigned long long)step + 1, (unsigned long long)bar.steps);
    for (int i = 0; i < FIELDS; i++)
        if (*f[i])
            printf("  %s", f[i]);
    putchar('\n');
    fflush(stdout);
}

void progress_step(const struct training_step *s)
{
    fields f;
    int    due = (s->step + 1) % bar.every == 0 || s->step + 1 == bar.steps;

    bar.tokens += s->result->tokens;
    if (silent || (!due && !bar.terminal))
        return;
    describe(f, s);
    if (bar.terminal)
        draw_bar(s->step, f);
    else
        print_line(s->step, f);
    if (due && bar.every > 1)
        progress_make_way(); // leaves the bar of this step
    progress_pause();
}

void progress_pause(void)
{
    bar.last_ns = clock_ns();
    bar.tokens = 0;
}

void progress_line(const char *fmt, ...)
{
    va_list ap;

    progress_make_way();
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* ---- other work that takes long ---- */

static struct {
    char     what[256];
    uint64_t start_ns, drawn_ns, looked_ns;
    uint64_t first_ns, first; // of the first look: when, and what was done by then
} work;

/* The seconds that the rest takes if it goes on as it has since the first look: what was done by
 * then may be an earlier process's. */
static double work_left(uint64_t now, uint64_t done, uint64_t total)
{
    int    later = done > work.first;
    double seconds = (double)(now - (later ? work.first_ns : work.start_ns)) * 1e-9;

    return seconds / (double)(later ? done - work.first : done) * (double)(total - done);
}

static void work_draw(uint64_t now, uint64_t done, uint64_t total)
{
    double part = total ? (double)done / (double)total : 0;
    int    width = columns(STDERR_FILENO), n;
    int    room = width > REST_BYTES ? width - REST_BYTES : 0;
    char   text[LINE_BYTES], cells[BAR_CELLS + 3] = "";

    part = part < 1 ? part : 1;
    if (part > 0)
        n = snprintf(text, sizeof text, "%.*s  %.0f%%  left %s", room, work.what, 100 * part,
                     TIME_TEXT(part < 1 ? work_left(now, done, total) : 0));
    else
        n = snprintf(text, sizeof text, "%.*s  for %s", room, work.what,
                     TIME_TEXT((double)(now - work.start_ns) * 1e-9));
    if (part > 0)
        cells_text(cells, sizeof cells, width - n - 2, part);
    if (line == LINE_WORK)
        fputs("\r\033[K", stderr);
    else
        progress_make_way();
    fprintf(stderr, "%.*s%s%s", width, text, *cells ? "  " : "", cells);
    fflush(stderr);
    line = LINE_WORK;
}

void progress_work_begins(void *ctx, const char *what)
{
    char until[sizeof work.what + 64];

    (void)ctx;
    visible_text(work.what, sizeof work.what, what, strlen(what)); // it may have names of files
    work.start_ns = work.looked_ns = clock_ns();
    work.drawn_ns = work.first_ns = 0;
    snprintf(until, sizeof until, "in the middle of %s, after the piece under way", work.what);
    stop_waits(NULL, until, 0);
}

void progress_work_goes_on(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t now = clock_ns();

    (void)ctx;
    stop_expects((double)(now - work.looked_ns) * 1e-9); // as long as the piece before
    work.looked_ns = now;
    if (!work.first_ns) {
        work.first_ns = now;
        work.first = done;
    }
    if (!silent && now - work.start_ns > WORK_SHOWN_NS && now - work.drawn_ns > WORK_DRAWN_NS &&
        job_terminal(STDERR_FILENO)) {
        work_draw(now, done, total);
        work.drawn_ns = now;
    }
}

void progress_work_ends(void *ctx)
{
    (void)ctx;
    if (work.drawn_ns && line == LINE_WORK)
        progress_make_way();
    stop_waits(NULL, NULL, 0);
}
