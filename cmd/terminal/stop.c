/* stop.c: handles the signals that ask a command to stop, and answers the first at once. The answer
 * is prepared before a signal comes, because a handler may only call write. It is kept in two
 * places in turn, so that one of them is always whole.
 *
 * One wish to stop often arrives as several signals: timeout(1) signals its child and then its
 * group, a closed terminal its foreground and then what the shell knows, mpirun and srun forward
 * what ranks got already. So signals within ONE_WISH_NS of the first count as the first. */
#include "cmd/terminal/stop.h"

#include "cmd/terminal/job.h"
#include "data/base/clock.h"
#include "data/base/visible.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { TEXT_BYTES = 512 };
#define ONE_WISH_NS 1000000000u

static _Atomic uint64_t      asked_ns; // when the first signal came, in clock_ns; 0: none
static volatile sig_atomic_t reader_gone;      // of what is printed
static volatile sig_atomic_t terminal;         // a bar may be drawn there: wipe it first
static _Atomic uint64_t      due_ns;           // in clock_ns; 0: unknown

/* A text in two copies. The one shown does not change while the other is written. */
static struct said { char text[2][TEXT_BYTES]; volatile sig_atomic_t shown; } waits, then;

/* ---- allowed in a handler ---- */

struct line { size_t n; char text[2 * TEXT_BYTES + 128]; };

static void add(struct line *l, const char *text)
{
    while (*text && l->n < sizeof l->text)
        l->text[l->n++] = *text++;
}

static void add_number(struct line *l, uint64_t n)
{
    char text[24], *at = text + sizeof text;

    *--at = '\0';
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    add(l, at);
}

/* Adds a time as opt_time_text writes it. */
static void add_time(struct line *l, uint64_t s)
{
    if (s >= 3600)
        add_number(l, s / 3600);
    if (s >= 60) {
        add(l, s >= 3600 ? s / 60 % 60 < 10 ? "h0" : "h" : "");
        add_number(l, s / 60 % 60);
    }
    if (s < 3600) {
        add(l, s >= 60 ? s % 60 < 10 ? "m0" : "m" : "");
        add_number(l, s % 60);
    }
    add(l, s < 3600 ? "s" : "m");
}

static const char *said(const struct said *s) { return s->text[s->shown]; }

static void add_expected(struct line *l)
{
    uint64_t due = due_ns, now = clock_ns();

    if (due < now + 1000000000u) // or it is late, and no estimate holds
        return;
    add(l, " (about ");
    add_time(l, (due - now + 500000000u) / 1000000000u);
    add(l, ")");
}

static void on_stop(int signal)
{
    int         kept = errno;
    uint64_t    first = 0, now = clock_ns();
    struct line l = { 0 };

    (void)signal;
    // two threads may be here: one of them is the first
    if (!atomic_compare_exchange_strong(&asked_ns, &first, now)) {
        if (now > first && now - first > ONE_WISH_NS)
            _exit(130);
        return;
    }
    add(&l, terminal ? "\r\033[K" : "");
    add(&l, "siTrain: stopping ");
    add(&l, *said(&waits) ? said(&waits) : "as soon as it can");
    add_expected(&l);
    add(&l, "; Ctrl-C again after a second ends it at once");
    add(&l, *said(&then) ? ", and " : "");
    add(&l, said(&then));
    add(&l, "\n");
    ssize_t n = write(STDERR_FILENO, l.text, l.n);
    (void)n; // nobody could be told
    errno = kept;
}

/* The reader of stdout has gone. Every further line calls this again. */
static void on_pipe(int signal)
{
    (void)signal;
    reader_gone = 1;
}

/* ---- for commands ---- */

void stop_catch(void)
{
    struct sigaction a = { .sa_handler = on_stop }, was;

    terminal = job_terminal(STDERR_FILENO);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGUSR1, &a, NULL); // a batch system's warning, such as sbatch --signal=USR1@120
    if (!sigaction(SIGHUP, NULL, &was) && was.sa_handler != SIG_IGN) // nohup ignores it
        sigaction(SIGHUP, &a, NULL);
}

void stop_catch_pipe(void)
{
    sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = on_pipe }, NULL);
}

void stop_expects(double seconds)
{
    due_ns = seconds > 0 ? clock_ns() + (uint64_t)(seconds * 1e9) : 0;
}

/* ---- calls of struct events ---- */

int stop_asked(void *ctx)
{
    (void)ctx;
    return asked_ns || reader_gone;
}

static void set(struct said *said, const char *text)
{
    int next = !said->shown;

    text = text ? text : "";
    visible_text(said->text[next], TEXT_BYTES, text, strlen(text)); // it may name files
    said->shown = next;
}

void stop_waits(void *ctx, const char *until, double seconds)
{
    (void)ctx;
    due_ns = 0;
    set(&waits, until);
    stop_expects(seconds);
}

void stop_then(void *ctx, const char *what)
{
    (void)ctx;
    set(&then, what);
}
