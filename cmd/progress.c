/* progress.c: lines and bars. Rates are of the steps since the last line, time left is at
 * the rate since the start. */
#include "cmd/progress.h"

#include "cmd/opt.h"
#include "data/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };

void progress_begin(struct progress *p, uint64_t first, uint64_t steps, uint64_t log_every, int quiet)
{
    *p = (struct progress){ .first = first, .steps = steps, .log_every = log_every ? log_every : 1,
                            .quiet = quiet, .terminal = isatty(STDOUT_FILENO),
                            .start_ns = clock_ns(), .last_step = first };
    p->last_ns = p->start_ns;
}

/* "1:02:03" or "2:03". */
static const char *time_text(char *buf, size_t size, double seconds)
{
    unsigned long s = seconds > 0 ? (unsigned long)seconds : 0;

    if (s >= 3600)
        snprintf(buf, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%lu:%02lu", s / 60, s % 60);
    return buf;
}

static void describe(char *buf, size_t size, const struct progress *p, uint64_t step,
                     const struct step_result *r, double hidden, uint64_t rss)
{
    uint64_t now = clock_ns(), done = step + 1 - p->first;
    double   seconds = (double)(now - p->last_ns) / 1e9;
    double   each = (double)(now - p->start_ns) / 1e9 / (double)done;
    double   rate = seconds > 0 ? (double)r->tokens * (double)(step + 1 - p->last_step) / seconds : 0;
    char     left[32], ram[32], io[32] = "";

    if (hidden >= 0)
        snprintf(io, sizeof io, "  I/O hidden %.0f%%", 100 * hidden);
    snprintf(buf, size, "loss %.6f  lr %.3e  norm %.4f%s%s  %.0f tok/s%s  RSS %s  left %s",
             fabs(r->loss), r->lr, fabs(r->grad_norm), // neither is negative, and a NaN has no sign
             r->clipped ? " clipped" : "", r->skipped ? " SKIPPED" : "", rate, io,
             opt_size_text(ram, sizeof ram, (double)rss),
             time_text(left, sizeof left, each * (double)(p->steps - step - 1)));
}

static void clear_bar(struct progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stdout);
    p->drawn = 0;
}

/* One terminal line: what does not fit is cut, so that the next one can be drawn over it. */
static void draw_bar(struct progress *p, uint64_t step, const char *text)
{
    struct winsize w = { 0 };
    char           line[512], cells[BAR_CELLS + 1];
    int            full = (int)((step + 1) * BAR_CELLS / p->steps), width;

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    width = w.ws_col > 1 ? w.ws_col - 1 : 79;
    for (int i = 0; i < BAR_CELLS; i++)
        cells[i] = i < full ? '#' : '.';
    cells[BAR_CELLS] = '\0';
    snprintf(line, sizeof line, "[%s] %llu/%llu  %s", cells, (unsigned long long)step + 1,
             (unsigned long long)p->steps, text);
    clear_bar(p);
    printf("%.*s", width, line);
    fflush(stdout);
    p->drawn = 1;
}

void progress_step(struct progress *p, uint64_t step, const struct step_result *r, double hidden,
                   uint64_t rss)
{
    char text[256];
    int  due = (step + 1) % p->log_every == 0 || step + 1 == p->steps;

    if (p->quiet || (!due && !p->terminal))
        return;
    describe(text, sizeof text, p, step, r, hidden, rss);
    if (p->terminal) {
        draw_bar(p, step, text);
    } else {
        printf("step %llu/%llu  %s\n", (unsigned long long)step + 1, (unsigned long long)p->steps, text);
        fflush(stdout);
    }
    progress_pause(p, step);
}

void progress_pause(struct progress *p, uint64_t step)
{
    p->last_ns = clock_ns();
    p->last_step = step + 1;
}

void progress_line(struct progress *p, const char *fmt, ...)
{
    va_list ap;

    if (p->drawn) // the bar's last state stays as a line
        putchar('\n');
    p->drawn = 0;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        putchar('\n');
    p->drawn = 0;
    fflush(stdout);
}
